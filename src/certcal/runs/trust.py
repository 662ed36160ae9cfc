"""Which code may run: a factory that a file names runs only if its user has named it too, now or before."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from certcal.errors import InputError
from certcal.files import printable
from certcal.settings import ModelSettings


def check_factories(models: Iterable[ModelSettings], place: Path, *, named: str | None = None, trust: bool) -> None:
    """Refuse factories that nobody but a file names; remember those that are named or trusted, for this run.

    A factory is code, and a file may come from a stranger. What is remembered is the user's own: run folder, working
    folder (where factories are looked for), factory and options, in a file that no run folder holds.

    Raises: InputError if a factory is neither named nor trusted.
    """
    for model in {json.dumps([one.name, one.options], default=str): one for one in models if ":" in one.name}.values():
        entry = json.dumps([os.path.realpath(place), os.getcwd(), model.name, model.options], default=str)
        if entry in _remembered():
            continue
        if not trust and named != model.name:
            raise InputError(
                f"The settings of {place} name the code {printable(model.name)}, which would run here. If you trust "
                "it, name it on the command line too or add --trust; for this run it is remembered then."
            )
        _remember(entry)


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
