"""The `certcal` command: its verbs, and how errors leave it."""

import os
import signal
import sys
import threading
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

from certcal.cli.attack import attack
from certcal.cli.bench import bench
from certcal.cli.certify import certify
from certcal.cli.check import check
from certcal.cli.compare import compare
from certcal.cli.data import data
from certcal.cli.demo import demo
from certcal.cli.evaluate import evaluate
from certcal.cli.plan import plan
from certcal.cli.recalibrate import recalibrate
from certcal.cli.reference import reference
from certcal.cli.report import report
from certcal.cli.reproduce import reproduce
from certcal.cli.screen import complain
from certcal.cli.train import sweep, train
from certcal.errors import CertcalError, InputError, renamed

STOPPED, TERMINATED = 130, 143  # the exit codes of Ctrl-C and SIGTERM
_DRAWN, _LEARNED = (f"What was {done} is kept; the same command goes on from there." for done in ("drawn", "learned"))
_KEPT = {
    "certify": _DRAWN,
    "demo": _DRAWN,
    "train": _LEARNED,
    "sweep": _LEARNED,
    "reproduce": _LEARNED,
    "attack": "Attacks that were finished are kept; the same command goes on with the others.",
}

# With these nothing is written before all is done: --from draws, the others only show.
_KEEPS_NOTHING = {"--dry-run", "--from", "--list", "--show"}

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


for _verb in (
    demo,
    data,
    train,
    sweep,
    plan,
    certify,
    evaluate,
    recalibrate,
    attack,
    report,
    compare,
    check,
    reproduce,
    reference,
    bench,
):
    # Typer keeps the line breaks of a text, and breaks it again.
    _help = "\n\n".join(" ".join(part.split()) for part in (_verb.__doc__ or "").split("\n\n"))
    app.command(_verb.__name__, help=_help)(_verb)


@cache
def _command() -> Any:
    """The command that Typer makes of the verbs, once for all calls in a process."""
    return get_command(app)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 if it did its work, 2 if what it was given is wrong, 1 if something else is."""
    _prepare()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = _command()([word for word in given if word != "--debug"], standalone_mode=False, prog_name="certcal")
        sys.stdout.flush()
    except Exception as error:
        if debug:
            raise
        code = _explain(error)
    except KeyboardInterrupt:
        code = STOPPED
    except SystemExit as error:
        code = error.code
    if code in (STOPPED, TERMINATED):
        verb = next((word for word in given if not word.startswith("-")), "")
        nothing = verb == "plan" or not _KEEPS_NOTHING.isdisjoint(word.partition("=")[0] for word in given)
        kept = "Nothing was written." if nothing else _KEPT.get(verb, "")
        complain(f"Stopped. {kept}".strip())
    sys.exit(code or 0)


def _prepare() -> None:
    """What every verb relies on: somewhere to write, in whatever encoding, and an end that saves what was done."""
    if threading.current_thread() is threading.main_thread():
        # No Ctrl-C, which Typer would take for one with its exit code.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever called
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


# What people type, from other tools, for options of ours.
_SYNONYMS = {
    "--samples": "--n", "--num-samples": "--n", "--n-samples": "--n", "--draws": "--n", "--tau": "--threshold",
    "--accept": "--threshold", "--init": "--weights", "--checkpoint": "--weights", "--ckpt": "--weights",
    "--dataset": "--data", "--noise": "--sigma", "--noise-sd": "--sigma", "--bins": "--n-bins", "--eps": "--radii",
    "--epsilon": "--radii", "--subset": "--limit", "--max-samples": "--limit", "--batch": "--batch-size",
    "--confidence-level": "--alpha", "--lr": "--learning-rate", "--temp": "--temperature", "--output": "--out",
    "--out": "--into", "--radius": "--radii", "--domain": "--values",
    "--labels": "--class-names", "--class-order": "--class-names",
}  # fmt: skip


# What errors call by other words than people type; RUN stands so in every help.
_TYPED = {
    "run": "RUN", "runs": "RUN RUN …", "reports": "RUN RUN …", "mean and std": "--mean and --std", "table": "--bounds",
    "require": "--require", "out": "--out",
}  # fmt: skip


def _usage(error: Exception, text: str) -> str:
    """What is wrong with a line, and where to go on: the option that was meant, or the help."""
    context = getattr(error, "ctx", None)
    verb, given = getattr(context, "command_path", "certcal"), str(getattr(error, "option_name", ""))
    taken = {name: own for own in getattr(getattr(context, "command", None), "params", ()) for name in own.opts}
    meant = taken.get(_SYNONYMS.get(given, ""))
    if meant is not None:
        return f"No such option: {given}. You may mean {_SYNONYMS[given]}: {meant.help} Try: {verb} --help"
    if owners := [name for name, own in _command().commands.items() if any(given in one.opts for one in own.params)]:
        return f"No such option: {given}. It is an option of certcal {', '.join(owners)}. Try: {verb} --help"
    return f"{text}{'' if text[-1] in '.?!' else '.'} Try: {verb} --help"


def _explain(error: Exception) -> int:
    """Say in a line or two what went wrong; the exit code."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has gone
        return 1
    if type(error).__name__ == "Abort":  # what older versions of typer make of Ctrl-C
        return STOPPED
    wrong_usage = getattr(error, "format_message", None)  # what typer raises, whichever click it stands on
    if wrong_usage is not None:
        if text := wrong_usage().strip():
            complain(_usage(error, text))
        return 2
    if isinstance(error, CertcalError):
        complain(renamed(str(error), _TYPED))
        return 2 if isinstance(error, InputError) else 1
    if isinstance(error, OSError):
        complain(f"{error.filename or 'Writing failed'}: {error.strerror or error}.")
        return 2 if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError) else 1
    complain(f"{type(error).__name__}: {error}\nThis should not happen. Add --debug to see where it comes from.")
    return 1
