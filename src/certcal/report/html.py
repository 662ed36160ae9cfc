"""The report as one HTML file that needs nothing else: style, script and data are inside, the network is shut out."""

import json
from base64 import b64encode
from collections.abc import Mapping
from decimal import ROUND_DOWN, Decimal
from hashlib import sha256
from importlib import resources
from typing import Any

from certcal.errors import InputError

# Joined in this order into one script; each file may use the names of those before it.
_SCRIPTS = ("numbers.js", "draw.js", "inspect.js", "curves.js", "views.js", "inputs.js", "page.js")
# Numbers shown large above the table, where the data has them, each with the clean value beside it.
_TILES = (
    ("joint_ece", "ece"),
    ("certified_ece", "ece"),
    ("certified_brier", "brier"),
    ("certified_accuracy", None),
    ("certified", None),
)


def render_page(data: Mapping[str, Any]) -> str:
    """The HTML page of an evaluation, from what `page_data` gives.

    Names in the data are text, never markup. The page's own script and style are the only ones it may run, and it may
    load nothing: a browser holds it to that by the policy in its head.

    Paper: —
    """
    from jinja2 import Environment, StrictUndefined

    style, script = _read("page.css"), "".join(map(_read, _SCRIPTS))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    keys = [column["key"] for column in data["columns"]]
    return environment.from_string(_read("page.html.j2")).render(
        data=data,
        place={key: keys.index(key) for key in keys},
        average_radius=_down(data["average_certified_radius"]),
        tiles=[(key, clean) for key, clean in _TILES if key in keys],
        style=_Verbatim(style),
        script=_Verbatim(script),
        json=_Verbatim(_as_json(data)),
        policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
    )


class _Verbatim(str):
    """Text that is markup already: our own files, and JSON without an opening bracket."""

    def __html__(self) -> str:
        return self


def _read(name: str) -> str:
    return resources.files("certcal.report").joinpath("page", name).read_text(encoding="utf-8")


def _down(radius: float | None) -> str:
    """Three decimals, never above the radius."""
    return "—" if radius is None else str(Decimal(radius).quantize(Decimal("0.001"), ROUND_DOWN))


def _as_json(data: Mapping[str, Any]) -> str:
    """JSON that no parser of HTML can take for the end of its element, whatever the names in it are."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError.expected(
            "data", "hold only text, finite numbers and None", f"something else: {error}"
        ) from error
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
