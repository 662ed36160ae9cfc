"""Saving a map as JSON and loading it again: the same map to the last bit, and nothing but a map."""

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from certcal.errors import InputError
from certcal.files import replacing
from certcal.recalibration.maps import BetaMap, IdentityMap, IsotonicMap, RecalibrationMap, TemperatureMap

FORMAT = "certcal recalibration map"
_KINDS: dict[str, Callable[..., RecalibrationMap]] = {
    kind.kind: kind for kind in (IdentityMap, IsotonicMap, TemperatureMap, BetaMap)
}


def save_map(recalibration: RecalibrationMap, path: str | PathLike[str]) -> None:
    """Write a map to a JSON file, with how it was fitted.

    Paper: —.
    """
    if not isinstance(recalibration, RecalibrationMap):
        raise InputError.expected("recalibration", "be a map from `recalibrate`", type(recalibration).__name__)
    body = {"format": FORMAT, "version": 1, "kind": recalibration.kind, **recalibration.parameters()}
    # Python writes the shortest decimals that read back as the same float64.
    try:
        text = json.dumps(body | {"about": dict(recalibration.about)}, indent=1, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError.expected("recalibration", "have an `about` of plain, finite data", str(error)) from error
    try:
        with replacing(Path(path)) as part:
            part.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError.expected("path", "be a file that can be written", f"{path} ({error.strerror})") from error


def load_map(path: str | PathLike[str]) -> RecalibrationMap:
    """The map that `save_map` wrote, bit for bit.

    Paper: —.
    Raises: InputError if the file is not such a map.
    """
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError.expected("path", "be a readable JSON file", f"{path}: {error}") from error
    if not isinstance(body, dict) or body.pop("format", None) != FORMAT:
        raise InputError.expected("path", f"hold a {FORMAT}", f"{path}, which holds something else")
    version, kind, about = body.pop("version", None), body.pop("kind", None), body.pop("about", {})
    known = isinstance(kind, str) and kind in _KINDS
    if version != 1 or isinstance(version, bool) or not known or not isinstance(about, dict):
        found = f"version {version}, kind {kind!r}"
        raise InputError.expected("path", f"hold version 1 of one of {', '.join(_KINDS)}", found)
    try:
        return _KINDS[str(kind)](**body, about=about)
    except TypeError as error:
        raise InputError.expected("path", f"hold the numbers of a map of kind {kind!r}", sorted(body)) from error
