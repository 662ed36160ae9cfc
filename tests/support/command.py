"""The real `certcal` command, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("certcal")  # what people type


def certcal(*words, cwd, code=0, **env):
    """Run the command; its standard output and error."""
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([SCRIPT, *map(str, words)], cwd=cwd, env=environment | env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr
