"""`certcal plan`: what a run would come to, before it is made."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from certcal.cli import options as o
from certcal.cli.declare import Part, takes
from certcal.cli.screen import in_percent, new_table, print_json, tell, wide_console
from certcal.errors import InputError, several
from certcal.progress import in_words
from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, Sections, load_settings

if TYPE_CHECKING:
    from certcal.runs import Plan


@takes(
    model=ModelSettings,
    data=DataSettings,
    certify=Part(CertifySettings, only=("sigma", "n", "outputs", "device", "precision", "seed"), words={
        "n": ("--n", "Draws per input to plan for; without it, 1,000, 10,000 and 100,000.")
    }),
    evaluate=Part(EvaluateSettings, only=("open_at", "alpha", "delta", "method", "population", "n_bins"), words={
        "open_at": ("--radius", "Radius to plan for.")
    }),
)  # fmt: skip
def plan(
    *,
    given: Sections,
    minutes: Annotated[float | None, o.option("--minutes", "Time that the run may take.", "X")] = None,
    trust: o.Trust = False,
    json: o.Json = False,
) -> None:
    """Foresee what a run will come to: for some minutes the draws and the error, for a radius the noise and the draws.

    Checks model and data, and tries 1,000 draws of 48 inputs; nothing is written. Without --sigma, with --radius,
    several noises are tried. Without --radius it is σ/2.

    [dim]Example:[/dim] certcal plan --model resnet110 --weights net.pt --data cifar10 --radius 0.25 --minutes 30
    """
    from certcal.runs import check_factories, plan_run

    radius = given["evaluate"].get("open_at")
    if minutes is not None and not minutes > 0:
        raise InputError.expected("--minutes", "be a number > 0", minutes)
    if radius is not None and not radius > 0 and "sigma" not in given["certify"]:
        raise InputError.expected("--radius", "be a number > 0, or come with --sigma", radius)
    wanted = [radius * factor for factor in (0.5, 1.0, 2.0)] if "sigma" not in given["certify"] and radius else []
    if wanted:
        given["certify"]["sigma"] = radius
    settings = load_settings(None, given)
    check_factories([settings.model], Path("plan"), named=given["model"].get("name"), trust=trust)
    sigmas, draws = wanted or [settings.certify.sigma], given["certify"].get("n")
    found = plan_run(settings, minutes=minutes, sigmas=sigmas, draws=draws, tell=tell)
    if json:
        rows = asdict(found)
        rows["checks"] = rows.pop("checkup")
        print_json(rows)
    else:
        _show(found)


def _show(found: "Plan") -> None:
    console = wide_console()
    best, inputs = found.best, several(sum(found.checkup.counts.values()))
    title = f"Foreseen at R = {found.options[0].radius:g} for {inputs} (estimates of a short run)"
    heads = ("σ", "draws", "time", "certified share", "mean width", "guaranteed ECE")
    table = new_table(numbers=heads, title=title, vertical="bottom")
    for one in found.options:
        texts = (f"{one.sigma:g}", f"{one.n:,}", in_words(one.seconds), in_percent(one.certified_share, "down"))
        errors = (
            f"{one.mean_width:.3f}" if one.mean_width == one.mean_width else "—",
            in_percent(one.guaranteed_ece, "up"),
        )
        table.add_row(*texts, *errors, style="bold" if one == best else None)
    console.print(table)
    why = f"{found.why[0].upper()}{found.why[1:]}"
    if best is None:
        console.print(Text(f"\n{why}.", style="bold"))
        return
    console.print(Text(f"\nTake: --sigma {best.sigma:g} --n {best.n} --radius {best.radius:g}", style="bold"))
    console.print(Text(f"{why}; about {in_words(best.seconds)}.", style="dim"))
