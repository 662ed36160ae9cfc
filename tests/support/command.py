"""The `certcal` command, in this process or in one of its own."""

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

SCRIPT = Path(sys.executable).with_name("certcal")  # what people type
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}


def certcal(*words, cwd, code=0, **env):
    """Run the command; its standard output and error. Given variables of the environment, in a process of its own."""
    run = in_a_process if env else in_this_process
    done, out, error = run([str(word) for word in words], cwd, PLAIN | env)
    assert done == code, error + out
    assert "Traceback" not in error
    return out, error


def in_a_process(words, cwd, env):
    done = subprocess.run([SCRIPT, *words], cwd=cwd, env=os.environ | env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def in_this_process(words, cwd, env):
    """Ten times as fast: nothing is imported again."""
    from certcal.cli.app import main

    out, error = io.StringIO(), io.StringIO()
    known, path = set(sys.modules), list(sys.path)
    caught = redirect_stdout(out), redirect_stderr(error)
    with mock.patch.dict(os.environ, env), chdir(cwd), caught[0], caught[1], pytest.raises(SystemExit) as done:
        main(words)
    sys.path[:] = path
    for name in set(sys.modules) - known:  # the folder's own modules: the next test's folder may have others
        if Path(cwd) in Path(getattr(sys.modules[name], "__file__", None) or "/").parents:
            del sys.modules[name]
    return done.value.code, out.getvalue(), error.getvalue()
