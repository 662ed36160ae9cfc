"""What tests on Ray run in worker and driver processes: models that leave traces, fail or die, and a driver to kill."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import nn

from certcal.cluster import Cluster
from certcal.smoothing import collect_evidence
from places import ROOT, SUPPORT
from smoothing_models import small_data, small_model

HERE = [str(ROOT / "src"), str(SUPPORT)]
SMALL = {"sigma": 0.3, "n": 2500, "n0": 20, "chunk": 250}  # a pass for every chunk


class Traced(nn.Module):
    """Leaves a line in a file named by its process for every chunk, and takes its time."""

    def __init__(self, folder, seconds=0.0):
        super().__init__()
        self.model, self.folder, self.seconds = small_model(), str(folder), seconds

    def forward(self, x):
        if len(x) == SMALL["chunk"]:
            time.sleep(self.seconds)
            with open(Path(self.folder) / f"{os.getpid()}.trace", "a") as file:
                file.write("chunk\n")
        return self.model(x)


class Failing(Traced):
    """Raises, or takes its process with it, at a chunk."""

    def __init__(self, folder, *, dies):
        super().__init__(folder)
        self.dies = dies

    def forward(self, x):
        out = super().forward(x)
        if len(x) == SMALL["chunk"] and self.dies:
            os._exit(1)
        if len(x) == SMALL["chunk"]:
            raise ArithmeticError("this model cannot\nbe run")
        return out


class Scaled(nn.Module):
    """Its logits depend on the environment of the process, as they might on the version of a file."""

    def __init__(self):
        super().__init__()
        self.model = small_model()

    def forward(self, x):
        return self.model(x) * float(os.environ.get("CERTCAL_TEST_FACTOR", "1"))


@contextmanager
def head(*, path=(), workers=4):
    """A cluster of this machine, started as people start one; its address."""
    program = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())"]
    options = ["start", "--head", "--block", "--port=0", f"--num-cpus={workers}", "--include-dashboard=false"]
    known = os.environ | {"PYTHONPATH": os.pathsep.join([*path, *HERE]), "RAY_USAGE_STATS_ENABLED": "0"}
    # Names of sockets may have a hundred characters, fewer than pytest's folders sometimes have.
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        options += [f"--temp-dir={folder}", "--object-store-memory=100000000"]
        with open(Path(folder) / "output", "w") as output:
            process = subprocess.Popen([*program, *options], env=known, stdout=output, stderr=output)
        try:
            named, deadline = Path(folder) / "ray_current_cluster", time.monotonic() + 60
            while not named.exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            yield named.read_text().strip()
        finally:
            process.terminate()
            process.wait(timeout=30)


def traces(folder):
    """Chunks run by each process."""
    return {int(path.stem): len(path.read_text().split()) for path in Path(folder).glob("*.trace")}


def small_shards():
    """One chunk per shard, saved at once."""
    from certcal.smoothing import keeper, schedule

    schedule.SHARD_SECONDS = keeper.SAVE_SECONDS = 0.0


def main(folder, address, seconds, workers=2):
    """Sample into a folder until done or killed."""
    small_shards()
    model = Traced(folder, float(seconds))
    collect_evidence(model, small_data(), store=folder, engine=Cluster(workers=int(workers), address=address), **SMALL)
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
