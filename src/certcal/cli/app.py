"""The `certcal` command: its verbs, and how errors leave it."""

import sys
from typing import Annotated

import typer

from certcal.cli import bench, certify, data, demo, evaluate, recalibrate, report
from certcal.cli.screen import complain
from certcal.errors import CertcalError, InputError

app = typer.Typer(
    help="Certify how calibrated a classifier stays when an adversary perturbs its inputs.\n\n"
    "Start with [bold]certcal demo[/bold], or with your own model: [bold]certcal certify --help[/bold].",
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from certcal import __version__

        print(f"certcal {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """What every verb understands. `main` takes --debug out of the arguments, wherever it stands."""


for _room in (demo, data, certify, evaluate, recalibrate, report, bench):
    _room.add_to(app)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 if it did its work, 2 if what it was given is wrong, 1 if something else is."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = app([word for word in given if word != "--debug"], standalone_mode=False, prog_name="certcal")
        sys.stdout.flush()
    except Exception as error:
        if debug:
            raise
        code = _explain(error)
    except KeyboardInterrupt:
        sampling = bool({"certify", "demo"} & set(given))
        complain("Stopped." + " What was drawn is kept; the same command goes on from there." * sampling)
        code = 130
    sys.exit(code or 0)


def _explain(error: Exception) -> int:
    """Say in a line or two what went wrong; the exit code."""
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()  # whoever read our output has gone: nobody to tell
        return 1
    wrong_usage = getattr(error, "format_message", None)  # what typer raises, whichever click it stands on
    if wrong_usage is not None:
        context = getattr(error, "ctx", None)
        verb = getattr(context, "command_path", "certcal")
        complain(f"{wrong_usage()} Try: {verb} --help")
        return 2
    if isinstance(error, CertcalError):
        complain(str(error))
        return 2 if isinstance(error, InputError) else 1
    if isinstance(error, OSError) and error.filename is not None:
        complain(f"{error.filename}: {error.strerror}.")
        return 2 if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError) else 1
    complain(f"{type(error).__name__}: {error}\nThis should not happen. Add --debug to see where it comes from.")
    return 1
