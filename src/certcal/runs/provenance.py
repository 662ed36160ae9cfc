"""Under what circumstances results came about: versions, commits, device, time."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("certcal", "numpy", "scipy", "pyarrow", "torch")


def provenance(*, seconds: float, device: str | None = None) -> dict[str, Any]:
    """Versions, the commits of certcal and of the working folder, machine, device, wall time and date."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(seconds, 2),
        "device": device,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "commit": git_commit(Path.cwd()),
        "certcal_commit": git_commit(Path(__file__).parent),
    }


def git_commit(folder: Path) -> str | None:
    """The commit that a folder is at, marked if files differ from it; None outside a repository."""
    try:
        command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


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
