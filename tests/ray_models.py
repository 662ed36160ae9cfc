"""What tests on Ray run in worker and driver processes: models that leave traces, fail or die, and a driver to kill."""

import os
import sys
import time
from pathlib import Path

from torch import nn

from certcal.cluster import Cluster
from certcal.smoothing import collect_evidence
from smoothing_models import small_data, small_model

SMALL = {"sigma": 0.3, "n": 500, "n0": 20, "chunk": 50}


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


def traces(folder):
    """Chunks run by each process."""
    return {int(path.stem): len(path.read_text().split()) for path in Path(folder).glob("*.trace")}


def small_shards():
    """One chunk per shard, saved at once."""
    from certcal.smoothing import keeper, schedule

    schedule.SHARD_SECONDS = keeper.SAVE_SECONDS = 0.0


def main(folder, address, seconds):
    """Sample into a folder on two workers until done or killed."""
    small_shards()
    model = Traced(folder, float(seconds))
    collect_evidence(model, small_data(), store=folder, engine=Cluster(workers=2, address=address), **SMALL)
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
