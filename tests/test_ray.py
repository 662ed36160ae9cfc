"""Ray for real, in real processes: the same evidence as local sampling, whoever dies; errors before any sampling."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")

from certcal import CertcalError, InputError, load_evidence
from certcal.certificates import StopWhenDecided
from certcal.cluster import Cluster, run_calls
from certcal.smoothing import collect_evidence
from ray_models import SMALL, Failing, Traced, traces
from smoothing_models import small_data, small_model
from test_collect import assert_same

pytestmark = pytest.mark.xdist_group("ray")  # one cluster is enough for two cores
ROOT = Path(__file__).parent.parent
HERE = [str(ROOT / "src"), str(ROOT / "tests")]


@contextmanager
def head(folder, *, path=(), workers=4):
    """A cluster of this machine, started as people start one; its address."""
    command = ["ray", "start", "--head", "--block", "--port=0", f"--num-cpus={workers}", "--include-dashboard=false"]
    known = os.environ | {"PYTHONPATH": os.pathsep.join([*path, *HERE]), "RAY_USAGE_STATS_ENABLED": "0"}
    known |= {"OMP_NUM_THREADS": "1"}
    options = [f"--temp-dir={folder}", "--object-store-memory=100000000", "--node-ip-address=127.0.0.1"]
    with open(folder / "output", "w") as output:
        starter = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())"]
        process = subprocess.Popen([*starter, *command[1:], *options], env=known, stdout=output, stderr=output)
    try:
        named, deadline = folder / "ray_current_cluster", time.monotonic() + 60
        while not named.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        yield named.read_text().strip()
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    # Names of sockets may have a hundred characters, fewer than pytest's folders sometimes have.
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder, head(Path(folder)) as found:
        yield found


@pytest.fixture
def cluster(address):
    return Cluster(workers=2, address=address, patience=60)


@pytest.fixture
def one_chunk_per_shard(monkeypatch):
    monkeypatch.setattr("certcal.smoothing.schedule.SHARD_SECONDS", 0.0)
    monkeypatch.setattr("certcal.smoothing.keeper.SAVE_SECONDS", 0.0)


def collect(model=None, **options):
    return collect_evidence(model or small_model(), small_data(), **(SMALL | options))


@pytest.mark.usefixtures("one_chunk_per_shard")
class TestSameEvidence:
    @pytest.mark.parametrize("workers", [1, 2, 4])
    def test_whatever_the_number_of_workers(self, address, workers, tmp_path):
        model = Traced(tmp_path, 0.005)
        local = collect(model)
        assert_same(collect(model, engine=Cluster(workers=workers, address=address)), local)
        assert len(traces(tmp_path)) == 1 + workers  # this process and all of the workers

    def test_with_stages_and_either_engine_on_the_same_store(self, cluster, tmp_path):
        staged = {"stages": [100, 300, 500], "stop": StopWhenDecided(radii=0.1, alpha=0.01)}
        local = collect(**staged)
        assert local.draws_saved() > 0
        collect(**staged | {"n": 300, "stages": [100, 300]}, store=tmp_path)
        assert_same(collect(**staged, store=tmp_path, engine=cluster), local)
        before = sorted(tmp_path.glob("shard-*"))
        assert_same(collect(**staged, store=tmp_path), local)
        assert sorted(tmp_path.glob("shard-*")) == before  # nothing was left to draw

    def test_when_a_worker_is_killed(self, cluster, tmp_path):
        """By process id, in the middle: its shard is drawn again, by another process, and counted once."""
        model = Traced(tmp_path, 0.03)
        killed = []

        def kill_one():
            while not killed:
                busy = [pid for pid, chunks in traces(tmp_path).items() if chunks >= 10]
                if busy:
                    killed.append(busy[0])
                    os.kill(busy[0], signal.SIGKILL)
                time.sleep(0.01)

        thread = threading.Thread(target=kill_one)
        thread.start()
        evidence = collect(model, engine=cluster, store=tmp_path / "store")
        thread.join()
        counts = traces(tmp_path)
        assert len(counts) == 3
        assert sum(counts.values()) < 100 + 5  # at most the running and the waiting shard were lost
        assert_same(evidence, collect(model))
        assert_same(load_evidence(tmp_path / "store"), evidence)

    def test_when_the_driver_is_killed(self, cluster, tmp_path):
        """kill -9 in the middle; the same call goes on, and so does local sampling."""
        arguments = [sys.executable, str(ROOT / "tests" / "ray_models.py"), str(tmp_path), cluster.address, "0.05"]
        known = os.environ | {"PYTHONPATH": os.pathsep.join(HERE)}
        run = subprocess.Popen(arguments, env=known, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("shard-*"))) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        run.kill()
        assert "finished" not in run.communicate()[0]
        model = small_model()
        part = load_evidence(tmp_path)
        assert 1000 <= part.draws.sum() < 5000
        resumed = subprocess.run([*arguments[:-1], "0"], env=known, capture_output=True, text=True)
        assert "finished" in resumed.stdout, resumed.stderr
        whole = load_evidence(tmp_path)
        assert_same(replace(whole, header=collect(model).header), collect(model))
        chunks = sum(traces(tmp_path).values())
        assert chunks <= 100 + 4  # what two workers had in their hands

    def test_when_it_is_interrupted(self, cluster, tmp_path):
        """Ctrl-C: shards under way are finished and kept."""
        model = Traced(tmp_path, 0.03)

        def interrupt():
            while sum(traces(tmp_path).values()) < 20:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt, match="the same call goes on from here"):
            collect(model, engine=cluster, store=tmp_path / "store")
        thread.join()
        drawn = int(load_evidence(tmp_path / "store").draws.sum()) // 50
        assert 20 <= drawn < 100
        assert drawn == sum(traces(tmp_path).values())
        assert_same(collect(model, store=tmp_path / "store"), collect(model))


class TestErrors:
    """One line each, before any sampling where sampling can be spared."""

    def refused(self, text, **options):
        with pytest.raises(CertcalError) as caught:
            collect(**options)
        assert text in str(caught.value)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def test_a_model_that_raises_is_not_tried_again(self, cluster, tmp_path):
        model = Failing(tmp_path, dies=False)
        text = self.refused("ArithmeticError: ", model=model, engine=cluster)
        assert text.startswith("Drawing for input 0")
        assert all(chunks <= 2 for chunks in traces(tmp_path).values())  # one each, and one that waited

    def test_a_model_that_ends_its_process_is_tried_again_so_many_times(self, cluster, tmp_path):
        model = Failing(tmp_path, dies=True)
        self.refused("lost its worker 2 times", model=model, engine=replace(cluster, workers=1, retries=1))
        assert sum(traces(tmp_path).values()) == 2

    def test_without_ray(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)  # as Python marks what cannot be imported
        self.refused("pip install 'certcal[ray]'", engine="ray")

    def test_an_address_nobody_answers_at(self, monkeypatch):
        start = time.monotonic()
        self.refused("Connection refused", engine=Cluster(address="127.0.0.1:1"))
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
        self.refused("127.0.0.1:1", engine="ray")
        assert time.monotonic() - start < 5

    def test_an_address_that_is_not_ray(self, monkeypatch):
        monkeypatch.setattr("certcal.cluster.session.CONNECT_SECONDS", 0.3)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.refused("timed out", engine=Cluster(address=f"127.0.0.1:{silent.getsockname()[1]}"))

    @pytest.mark.parametrize("text", ["nowhere", "ray://here:10001", "here:", ":1"])
    def test_an_address_that_is_none(self, text):
        with pytest.raises(InputError, match="host:port"):
            Cluster(address=text)

    @pytest.mark.parametrize("engine", ["dask", None, 4])
    def test_another_engine(self, engine):
        self.refused("Expected `engine` to be 'local', 'ray' or a certcal.cluster.Cluster", engine=engine)

    def test_more_than_the_cluster_has(self, cluster):
        self.refused("room for a worker (1 CPU and 1 GPU)", engine=replace(cluster, gpus=1))

    def test_a_worker_without_the_model_file(self, cluster, tmp_path, monkeypatch):
        (tmp_path / "only_here.py").write_text("from smoothing_models import Slow\nclass Mine(Slow): pass\n")
        monkeypatch.syspath_prepend(tmp_path)
        from only_here import Mine

        model = Mine(small_model(), 0.0)
        (tmp_path / "only_here.py").unlink()
        text = self.refused("No module named 'only_here'", model=model, engine=cluster, store=tmp_path / "store")
        assert "on node 127.0.0.1" in text
        assert not list((tmp_path / "store").glob("shard-*"))

    def test_a_worker_with_another_file_under_the_same_name(self, cluster, tmp_path, monkeypatch):
        source = "from torch import nn\nclass Mine(nn.Linear):\n    def forward(self, x): return {} * super().forward(x.flatten(1))\n"
        (tmp_path / "elsewhere.py").write_text(source.format(1))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        from elsewhere import Mine

        torch.manual_seed(0)
        model = Mine(64, 4)
        (tmp_path / "elsewhere.py").write_text(source.format(2))
        self.refused("outputs are others on node 127.0.0.1", model=model, engine=cluster)

    def test_a_worker_with_another_version(self, tmp_path):
        import tempfile

        fake = tmp_path / "certcal-9.9.9.dist-info"
        fake.mkdir()
        (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: certcal\nVersion: 9.9.9\n")
        with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
            with head(Path(folder), path=[str(tmp_path)], workers=1) as address:
                text = self.refused("but node 127.0.0.1 has 9.9.9", engine=Cluster(address=address))
        assert "to have certcal 0.1.0" in text


def add(left, right):
    return left + right


def test_calls_are_run_and_numbered(cluster):
    results = dict(run_calls(cluster, add, ((number, 1) for number in range(7))))
    assert results == {number: number + 1 for number in range(7)}


def test_a_call_that_raises_is_named(cluster):
    with pytest.raises(CertcalError, match=r"^Adding \(1\) failed on a worker: TypeError: "):
        list(run_calls(cluster, add, [(1, 1), (1, "1")], name="Adding"))


def test_the_command_starts_and_stops_a_cluster_of_its_own(tmp_path):
    """Beside it no process and no folder is left; the engine is nothing a run remembers."""
    inputs, labels = small_data()
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    given = ["--model", "smoothing_models:small_model", "--data", "data.npz", "--sigma", "0.3", "--n", "500"]
    command = [sys.executable, "-m", "certcal", "certify", "run", *given, "--no-figures"]
    known = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    known |= {"PYTHONPATH": os.pathsep.join(HERE)}
    there = subprocess.run(
        [*command, "--engine", "ray", "--workers", "1"], cwd=tmp_path, env=known, capture_output=True, text=True
    )
    assert there.returncode == 0, there.stderr
    assert "ray" not in (tmp_path / "runs" / "run" / "config.toml").read_text()
    assert "Ray" not in there.stderr
    (left,) = [line for line in there.stderr.splitlines() if "draws made" in line]
    assert left.startswith("5,000 draws made")
    here = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True)
    assert "0 draws made" in here.stderr
