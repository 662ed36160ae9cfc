"""`certcal data`: which data sets are here, what is in them, and how to get the others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import Screen, new_table, print_json
from certcal.errors import several
from certcal.settings import DataSettings, Sections

if TYPE_CHECKING:
    from certcal.data import ImageData


@takes(
    data=Part(
        DataSettings,
        only=("split", "root", "download", "resize", "crop", "channels", "values", "scale"),
        panel="Which data",
    )
)
def data(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A known name or a path.", show_default=False)
    ] = None,
    *,
    given: Sections,
    json: o.Json = False,
) -> None:
    """List the known data sets, or describe one: a known name, a .npz file or a folder of class folders.

    [dim]Examples:[/dim] certcal data · certcal data fashion-mnist --split train · certcal data cifar10 --download
    """
    from certcal.data import load_dataset

    if name is None:
        found = _list(given["data"].get("root"))
        print_json(found) if json else _show_list(found)
        return
    described = describe(load_dataset(name, **given["data"]))
    print_json(described) if json else _show(described)


def describe(data: "ImageData") -> dict[str, Any]:
    """Name, size, shape, classes with counts, and the statistics that a model normalises with."""
    from certcal.data import channel_statistics

    mean, std = channel_statistics(data)
    return {
        "name": data.name,
        "source": data.source,
        "inputs": len(data),
        "shape": list(data.shape),
        "classes": data.counts(),
        "mean": list(mean),
        "std": list(std),
    }


def _list(root: str | None) -> list[dict[str, Any]]:
    from certcal.data import data_folders, dataset_names, dataset_splits

    return [
        {"name": name, "splits": dataset_splits(name, root=root), "looked_in": [str(one) for one in data_folders(root)]}
        for name in dataset_names()
    ]


def _show_list(found: list[dict[str, Any]]) -> None:
    table = new_table("name", "here", "missing")
    for one in found:
        here = [split for split, path in one["splits"].items() if path]
        missing = [split for split, path in one["splits"].items() if not path]
        table.add_row(one["name"], ", ".join(here) or "—", ", ".join(missing) or "—")
    console = Screen(highlight=False)
    console.print(table)
    console.print(Text(f"\nLooked in {', '.join(found[0]['looked_in'])}.", style="dim"), soft_wrap=True)
    console.print("Get one with: certcal data NAME --download", style="dim")


def _show(one: dict[str, Any]) -> None:
    console = Screen(highlight=False)
    size = "×".join(map(str, one["shape"]))
    told = f": {several(one['inputs'])} of {size}, {len(one['classes'])} classes"
    console.print(Text.assemble((one["name"], "bold"), told))
    console.print(Text(f"from {one['source']}", style="dim"), soft_wrap=True)
    for key in ("mean", "std"):
        console.print(f"--{key} {','.join(f'{value:.4f}' for value in one[key])}")
    alike = len(one["mean"]) == 3 and len({*one["mean"]}) == len({*one["std"]}) == 1
    if alike and Path(one["source"]).is_dir():  # a grey file has three channels if nothing else is asked for
        console.print("grey images, read with three channels: --channels 1 reads one", style="yellow")
    shown = list(one["classes"].items())
    text = ", ".join(f"{name} {count:,}" for name, count in shown[:20])
    console.print(Text(text + (f", and {len(shown) - 20} more" if len(shown) > 20 else ""), style="dim"))
