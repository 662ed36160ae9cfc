"""Under what circumstances results came about: versions, commits, device, time."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_OURS = Path(__file__).resolve().parents[1]  # src/certcal
_PACKAGES = ("certcal", "numpy", "scipy", "pyarrow", "torch")


def provenance(*, seconds: float, device: str | None = None) -> dict[str, Any]:
    """Versions, the commits of certcal and of the working folder, machine, device, wall time and date."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 2),
        "device": device,
        "commit": git_commit(Path(os.curdir)),
        **_of_process(),
    }


@cache
def _of_process() -> dict[str, Any]:
    """What stays the same while a process runs: its machine, and what it has loaded."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "certcal_commit": git_commit(_OURS, ours=True),  # as of when it is first asked for; three calls of git
    }


def git_commit(folder: Path, *, ours: bool = False) -> str | None:
    """The commit that a folder is at; None outside a repository. In our own checkout it is marked if files differ.

    Elsewhere it is not: to compare files git runs programs that the repository names, its filters and its monitor.
    """
    found = (_git(folder, "rev-parse", "--short=12", "HEAD") or "").strip() or None
    checkout = _git(folder, "rev-parse", "--show-toplevel") if ours and found else None
    if checkout is None or Path(checkout.strip()) != _OURS.parents[1]:
        return found
    return found and found + "-dirty" * bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))


def _git(folder: Path, *words: str) -> str | None:
    """What git answers, without hooks; None if it does not."""
    command = ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
