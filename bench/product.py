"""What people wait for at the command line: help, and an evaluation of ten thousand inputs."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Figure, medians
from bench.smoothing import SIGMA, synthetic_evidence
from certcal.runs import RunFolder
from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, ModelSettings, RunSettings
from certcal.smoothing import save_evidence

RADII = (0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)


def figures() -> Iterator[Figure]:
    """Whole processes, start-up included: 10 000 inputs with 100 000 draws each, 13 radii, exact worst case."""
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        run.create()
        save_evidence(synthetic_evidence(10_000, 100_000), run.evidence)
        run.save_settings(
            RunSettings(
                model=ModelSettings(name="synthetic"),
                data=DataSettings(name="synthetic"),
                certify=CertifySettings(sigma=SIGMA),
                evaluate=EvaluateSettings(radii=RADII),
            )
        )

        def call(*words: str) -> None:
            subprocess.run([sys.executable, "-m", "certcal", *words], check=True, capture_output=True)

        calls = {
            "help": lambda: call("--help"),
            "evaluate": lambda: call("evaluate", str(run.path)),
            "without figures": lambda: call("evaluate", str(run.path), "--no-figures"),
        }
        times = medians(calls, repeats=3)
        page = (run.path / "report.html").stat().st_size
    note = f"{times['without figures']:.1f} s without figures"
    yield Figure("certcal evaluate, 10 000 inputs × 13 radii, with start-up", times["evaluate"], "s", 10, note=note)
    yield Figure("certcal --help", times["help"], "s", 1)
    yield Figure("its report.html", page / 1e6, "MB", 1)
