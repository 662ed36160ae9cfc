"""Saving a map as JSON and loading it again: the same map to the last bit, and nothing but a map."""

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from certcal.errors import InputError
from certcal.recalibration.maps import BetaMap, IdentityMap, IsotonicMap, RecalibrationMap, TemperatureMap

FORMAT = "certcal recalibration map"
_KINDS: dict[str, Callable[..., RecalibrationMap]] = {
    kind.kind: kind for kind in (IdentityMap, IsotonicMap, TemperatureMap, BetaMap)
}


def save_map(recalibration: RecalibrationMap, path: str | PathLike[str]) -> None:
    """Write a map to a JSON file, with how it was fitted.

    Paper: —.
    """
    body = {"format": FORMAT, "version": 1, "kind": recalibration.kind, **recalibration.parameters()}
    # Python writes the shortest decimals that read back as the same float64.
    text = json.dumps(body | {"about": dict(recalibration.about)}, indent=1, ensure_ascii=False, allow_nan=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def load_map(path: str | PathLike[str]) -> RecalibrationMap:
    """The map that `save_map` wrote, bit for bit.

    Paper: —.
    Raises: InputError if the file is not such a map.
    """
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError.expected("path", "be a readable JSON file", f"{path}: {error}") from error
    if not isinstance(body, dict) or body.pop("format", None) != FORMAT:
        raise InputError.expected("path", f"hold a {FORMAT}", f"{path}, which holds something else")
    version, kind, about = body.pop("version", None), body.pop("kind", None), body.pop("about", {})
    if version != 1 or kind not in _KINDS or not isinstance(about, dict):
        found = f"version {version}, kind {kind!r}"
        raise InputError.expected("path", f"hold version 1 of one of {', '.join(_KINDS)}", found)
    try:
        return _KINDS[kind](**body, about=about)
    except TypeError as error:
        raise InputError.expected("path", f"hold the numbers of a map of kind {kind!r}", sorted(body)) from error
