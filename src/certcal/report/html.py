"""Pages that need nothing else, each one HTML file: style, script and data are inside, the network is shut out."""

import io
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any

from certcal.errors import InputError
from certcal.scalars import guarded

if TYPE_CHECKING:
    from jinja2 import Environment

# Parts that a page has if its data has them. Each has data under its name, a template page/NAME.html.j2 and, where it
# needs them, page/NAME.js and page/NAME.css. Some belong to the verdict; of the others the first come before the table
# over radii, the later ones at the end.
VERDICT = ("checks", "step", "preview")
FIRST = ("advice", "recalibration")
LATER = ("operating", "groups", "strip", "attack")
SECTIONS = (*VERDICT, *FIRST, *LATER)
# Joined in this order into one script; each file may use the names of those before it.
_SCRIPTS = ("numbers.js", "draw.js", "inspect.js", "verdict.js", "curves.js", "views.js", "inputs.js")
# Numbers shown large above the table: the joint one, which the sentence states, the certified and the clean one.
_TILES = (
    ("joint_ece", "certified_ece", "ece"),
    ("joint_brier", "certified_brier", "brier"),
    ("joint_accuracy", "certified_accuracy", "accuracy"),
    ("certified", None, None),
)


@guarded
def render_page(data: Mapping[str, Any]) -> str:
    """The HTML page of an evaluation, from what `page_data` gives.

    Names in the data are text, never markup. The page's own script and style are the only ones it may run, and it may
    load nothing: a browser holds it to that by the policy in its head.
    """
    if not {"columns", "rows", "cells", "views", "default_view"} <= data.keys():
        raise InputError.expected(
            "data", "be what `page_data` gives", f"a table of {', '.join(map(str, data)) or 'nothing'}"
        )
    own = [name for name in SECTIONS if data.get("advice" if name == "step" else name)]
    used = [name for name in SECTIONS if name in own or name == "operating"]  # which groups use
    style = _short_lines("".join(map(read_part, ("page.css", *_present(used, "css")))))
    script = _short_lines("".join(map(read_part, (*_SCRIPTS, *_present(used, "js"), "page.js"))))
    keys = [column["key"] for column in data["columns"]]
    radius = data["average_certified_radius"]
    doubted = bool((data.get("checks") or {}).get("at_chance"))  # then the doubts come before the verdict
    return fill_page(
        "page.html.j2",
        style=style,
        script=script,
        data=data,
        doubted=doubted,
        verdict=[name for name in own if name in VERDICT and not (doubted and name == "checks")],
        early=[name for name in own if name in FIRST],
        late=[name for name in own if name in LATER],
        place={key: keys.index(key) for key in keys},
        explanation=data["views"][data["default_view"]].get("explanation", ""),
        average_radius="—" if radius is None else str(Decimal(radius).quantize(Decimal("0.0001"), ROUND_DOWN)),
        tiles=_tiles(keys),
        hidden=_repeated(data),
        json=Verbatim(_as_json(data)),
    )


def fill_page(template: str, *, style: str, script: str = "", drawn: bool = False, **values: Any) -> str:
    """A page from its template: values are text, never markup, but for the style and the script, which may run.

    Figures that matplotlib has `drawn` have styles of their own.
    """
    own = "'unsafe-inline'" if drawn else _hash(style)
    allowed = f"style-src {own}" + (f"; script-src {_hash(script)}" if script else "")
    page = _environment().get_template(template)
    return page.render(
        **values,
        style=Verbatim(style),
        script=Verbatim(script),
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; {allowed}",
    )


@cache
def _environment() -> "Environment":
    """Made once: it keeps the compiled templates, which take longer than to fill them."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(read_part),
    )  # fmt: skip


def figure_row(draws: Sequence[Callable[..., Any]], *, size: tuple[float, float] = (3.8, 3.2)) -> "Verbatim":
    """Figures beside each other, each of this size in inches and drawn by a function that takes the axes as `ax`."""
    figures = "".join(f"<figure>{_svg(one, size)}</figure>" for one in draws)
    return Verbatim(f'<div class="figures">{figures}</div>\n')


def _svg(draw: Callable[..., Any], size: tuple[float, float]) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "certcal", "svg.fonttype": "none"}):
        figure = Figure(figsize=size, layout="constrained")
        draw(ax=figure.add_subplot())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


class Verbatim(str):
    """Text that is markup already: our own files, and JSON without an opening bracket."""

    def __html__(self) -> str:
        return self


def read_part(name: str) -> str:
    """A file of the pages: a template, a style or a script."""
    return resources.files("certcal.report").joinpath("page", name).read_text(encoding="utf-8")


def _present(names: Sequence[str], kind: str) -> list[str]:
    """The files of that kind that sections have."""
    folder = resources.files("certcal.report").joinpath("page")
    return [file for name in names if folder.joinpath(file := f"{name}.{kind}").is_file()]


def _tiles(keys: Sequence[str]) -> list[dict[str, Any]]:
    """The tiles that these columns fill; the certified value stands in front where there is no joint one."""
    tiles: list[dict[str, Any]] = []
    for joint, certified, clean in _TILES:
        if joint in keys:
            tiles.append({"key": joint, "certified": certified, "clean": clean, "share": joint == "certified"})
        elif certified in keys:
            tiles.append({"key": certified, "certified": None, "clean": clean, "share": False})
    return tiles


def _repeated(data: Mapping[str, Any]) -> str | None:
    """The column that the table leaves out: the errors' inputs, where they are the certified ones anyway."""
    keys = [column["key"] for column in data["columns"]]
    if data["population"] != "certified" or not {"inputs", "certified"} <= set(keys):
        return None
    inputs, certified = keys.index("inputs"), keys.index("certified")
    return "inputs" if all(cells[inputs] == cells[certified] for cells in data["cells"]) else None


def _as_json(data: Mapping[str, Any]) -> str:
    """JSON that no parser of HTML can take for the end of its element, whatever the names in it are."""
    try:
        text = json.dumps(_short(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError.expected(
            "data", "hold only text, finite numbers and None", f"something else: {error}"
        ) from error
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _short(value: Any) -> Any:
    """The same data with whole numbers as such: 1 for 1.0, of which there are many."""
    if isinstance(value, Mapping):
        return {key: _short(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_short(own) for own in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _short_lines(text: str) -> str:
    """A script or style without indents, and without the lines that are written for those who change it."""
    lines = (line.lstrip() for line in text.splitlines(keepends=True))
    return "".join(line for line in lines if not line.startswith("//"))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
