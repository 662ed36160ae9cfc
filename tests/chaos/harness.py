"""What the kinds of chaos share: a tally of outcomes, and commands that are typed, timed out or killed."""

import contextlib
import io
import os
import re
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
FINE = ("done", "refused", "told", "no effect", "stopped")


@dataclass
class Tally:
    """How often what happened, and the first cases of what must not."""

    kind: str
    counts: Counter = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, outcome, case):
        self.counts[outcome] += 1
        if outcome.split(":")[0] not in FINE:
            self.bad.append(f"{outcome}: {case}")

    @property
    def total(self):
        return sum(self.counts.values())


class TooLongError(BaseException):
    """The alarm went off. No code catches it."""


@contextlib.contextmanager
def alarm(seconds):
    def ring(number, frame):
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def typed(words, cwd, *, seconds=30.0):
    """A command in this process: its outcome, exit code, standard output and error."""
    from certcal.cli.app import main

    out, error, code = io.StringIO(), io.StringIO(), None
    known, path, here = set(sys.modules), list(sys.path), os.getcwd()
    try:
        os.chdir(cwd)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error), alarm(seconds):
            main([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    except TooLongError:
        return "too long", None, out.getvalue(), error.getvalue()
    except BaseException:
        error.write(traceback.format_exc())
    finally:
        os.chdir(here)
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if str(cwd) in str(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]
    told = error.getvalue()
    if "Traceback (most" in told or "should not happen" in told or code not in (0, 1, 2):
        outcome = "TRACEBACK"
    elif STEERING.search(out.getvalue() + told):
        outcome = "STEERED"
    else:
        outcome = "done" if code == 0 else "refused"
    return outcome, code, out.getvalue(), told


def started(words, cwd):
    """The same in a process of its own, forked from this one, so that nothing is imported again; its id."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    os.chdir(cwd)
    log = os.open(Path(cwd) / "out.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    code = 1
    try:
        from certcal.cli.app import main

        main([str(word) for word in words])
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def finished(words, cwd):
    """Run a command in a process to its end; the seconds it took."""
    start = time.monotonic()
    _, status = os.waitpid(started(words, cwd), 0)
    if status:
        raise RuntimeError(f"{words}: {(Path(cwd) / 'out.txt').read_text()[-2000:]}")
    return time.monotonic() - start


def killed(words, cwd, after, how=signal.SIGKILL):
    """Start a command and kill it after so many seconds; whether it was still running."""
    child = started(words, cwd)
    deadline = time.monotonic() + after
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.002)
    os.kill(child, how)
    os.waitpid(child, 0)
    return True
