"""The command line: one thin verb per file, each a door to the public functions."""

from typing import TYPE_CHECKING

from certcal.later import later

if TYPE_CHECKING:
    from certcal.cli.app import main

__all__ = ["main"]

__getattr__ = later(__name__, app="main")
