"""Which code may run: a factory that a file names only if its user has named it too, a program in a file if told to."""

import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

from certcal.errors import InputError
from certcal.files import printable
from certcal.runs.switch import digest_of
from certcal.settings import LIBRARIES, ModelSettings, is_program


def check_factories(models: Iterable[ModelSettings], place: Path, *, named: str | None = None, trust: bool) -> None:
    """Refuse factories that nobody but a file names, and programs in files; remember what is trusted, for this run.

    A factory is code, and a file may come from a stranger. What is remembered is the user's own: run folder, working
    folder (where factories are looked for), factory and options, in a file that no run folder holds. A model's file
    that is a program (TorchScript, torch.export) has to be trusted even if it is named, and again if it changes.

    Raises: InputError if a factory is neither named nor trusted, or a program is not trusted.
    """
    for model in {json.dumps([one.name, one.options], default=str): one for one in models if _is_code(one)}.values():
        program = Path(model.name).expanduser() if is_program(model.name) else None
        content = [] if program is None else [digest_of(program) if program.is_file() else ""]
        entry = json.dumps([os.path.realpath(place), os.getcwd(), model.name, model.options, *content], default=str)
        if entry in _remembered():
            continue
        if program is not None:
            _check_program(program)
        if program is not None and not trust:
            raise InputError(
                f"The model {printable(model.name)} is a program in a file, which would run here. If you trust it, "
                "add --trust; for this run it is remembered then."
            )
        if not trust and named != model.name:
            raise InputError(
                f"The settings of {place} name the code {_told(model)}, which would run here. If you trust "
                "it, name it on the command line too or add --trust; for this run it is remembered then."
            )
        _remember(entry)


def _is_code(model: ModelSettings) -> bool:
    if model.name.startswith(LIBRARIES):  # their options can ask for code too, as weights_only = false does
        return bool(model.options)
    return is_program(model.name) or ":" in model.name


def _told(model: ModelSettings) -> str:
    options = f" with options {json.dumps(model.options, default=str)}" if model.name.startswith(LIBRARIES) else ""
    return printable(model.name + options)


def _check_program(path: Path) -> None:
    """Refuse a file that is none, or holds weights alone, before anybody is asked to trust it."""
    if not path.is_file():
        raise InputError.expected("model", "be a file that exists", repr(str(path)))
    if path.suffix == ".pt2":
        return
    held = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if not any("/code/" in name for name in held):
        wanted = "be a network's name, or a file with its program (TorchScript)"
        got = f"{printable(str(path))}, weights alone: give them as --weights, beside --model NAME or your factory"
        raise InputError.expected("model", wanted, got)


def _list() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "certcal" / "trusted.jsonl"


def _remembered() -> list[str]:
    try:
        return _list().read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, RuntimeError):
        return []


def _remember(entry: str) -> None:
    try:
        _list().parent.mkdir(parents=True, exist_ok=True)
        with _list().open("a", encoding="utf-8") as file:
            file.write(f"{entry}\n")
    except (OSError, RuntimeError):  # without a place to remember it, it has to be named again
        return
