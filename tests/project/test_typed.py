"""Whoever uses certcal is told of wrong types by their own type checker: the package is marked as typed."""

import subprocess
import sys

import pytest

from places import ROOT

USER = """
import certcal

lower, upper = [0.5, 0.6], [0.7, 0.9]
worst = certcal.certified_calibration_error(lower, upper, [1, 0])
value: float = worst.value
wrong: str = worst.value
certcal.collect_evidence(3)
"""


@pytest.mark.slow
def test_a_consumer_is_told_of_its_mistakes(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", str(tmp_path / "cache"), "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    lines = {line.split(":")[1] for line in done.stdout.splitlines() if line.startswith("user.py") and "error" in line}
    assert lines == {"7", "8"}, done.stdout + done.stderr
    assert (ROOT / "src/certcal/py.typed").is_file()
