"""Saving a map as JSON and loading it again: the same map to the last bit, and nothing but a map."""

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.files import plain, replacing, sealed, unsealed
from certcal.recalibration.maps import AnyMap, BetaMap, IdentityMap, IsotonicMap, TemperatureMap
from certcal.recalibration.score_maps import FullMap, ScoreMap, TemperedMap
from certcal.recalibration.steps import StepsMap

FORMAT = "certcal recalibration map"
_KINDS: dict[str, Callable[..., AnyMap]] = {
    kind.kind: kind
    for kind in (IdentityMap, IsotonicMap, TemperatureMap, BetaMap, StepsMap, ScoreMap, FullMap, TemperedMap)
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))


# What certcal reads of a map's `about`, which is otherwise anybody's.
_FACTS: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("sigma", "temperature", "splits", "splits_without_map", "fitted_count"), _is_number),
    **dict.fromkeys(("radii", "certified", "wrong", "fitted_to", "fitted_inputs"), _are_numbers),
    **dict.fromkeys(("model", "units"), lambda value: isinstance(value, str)),
}


def save_map(recalibration: AnyMap, path: str | PathLike[str]) -> None:
    """Write a map to a JSON file, with how it was fitted.

    Paper: —.
    """
    if not isinstance(recalibration, AnyMap):
        raise InputError.expected("recalibration", "be a map from `recalibrate`", type(recalibration).__name__)
    body = {"format": FORMAT, "version": 1, **recalibration.as_dict()}
    # Python writes the shortest decimals that read back as the same float64.
    try:
        json.dumps(body, allow_nan=False)
        text = json.dumps(sealed(plain(body)), indent=1, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError.expected("recalibration", "have an `about` of plain, finite data", str(error)) from error
    try:
        with replacing(Path(path)) as part:
            part.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError.expected("path", "be a file that can be written", f"{path} ({error.strerror})") from error


def load_map(path: str | PathLike[str]) -> AnyMap:
    """The map that `save_map` wrote, bit for bit.

    Paper: —.
    Raises: InputError if the file is not such a map.
    """
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
        body = unsealed(read) if isinstance(read, dict) else None
    except OSError as error:
        raise InputError.expected("path", "be a readable JSON file", f"{path} ({error.strerror})") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError.expected("path", "be a readable JSON file", f"{path}: {error}") from error
    if not isinstance(body, dict) or body.pop("format", None) != FORMAT:
        raise InputError.expected("path", f"hold a {FORMAT}", f"{path}, which holds something else")
    version = body.pop("version", None)
    if version != 1 or isinstance(version, bool):
        raise InputError.expected("path", f"hold version 1 of one of {', '.join(_KINDS)}", f"version {version}")
    return _build(body)


def _build(body: dict[str, Any]) -> AnyMap:
    """The map of plain data, and the maps within it."""
    kind, about = body.get("kind"), body.get("about", {})
    if not isinstance(kind, str) or kind not in _KINDS or not isinstance(about, dict):
        raise InputError.expected("path", f"hold version 1 of one of {', '.join(_KINDS)}", f"kind {kind!r}")
    about = {name: value for name, value in about.items() if value is not None or name not in _FACTS}
    wrong = next((name for name, fits in _FACTS.items() if name in about and not fits(about[name])), None)
    if wrong is not None or len(about.get("certified", [])) != len(about.get("wrong", [])):
        name = wrong or "wrong"
        raise InputError.expected("path", f"hold {name} in `about` as save_map writes it", repr(about.get(name)))
    numbers = {name: value for name, value in body.items() if name not in ("kind", "about")}
    parts = {name: _build(value) if isinstance(value, dict) else value for name, value in numbers.items()}
    try:
        return _KINDS[kind](**parts, about=about)
    except TypeError as error:
        raise InputError.expected("path", f"hold the numbers of a map of kind {kind!r}", sorted(numbers)) from error
