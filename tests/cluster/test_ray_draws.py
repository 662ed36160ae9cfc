"""Ray for real, in real processes: the same evidence as local sampling, whoever dies; errors before any sampling."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

# Clusters of these tests have no token, and drivers must not look for one; Ray reads this when it is imported.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
pytest.importorskip("ray", reason="Ray is not installed (the extra `ray`)")

from certcal import CertcalError, load_evidence
from certcal.certificates import StopWhenDecided
from certcal.cluster import Call, Pool, Session, connected, run_calls
from certcal.smoothing import collect_evidence
from collecting import assert_same
from places import SUPPORT
from ray_calls import add, add_or_die, die, wait_or_touch
from ray_models import HERE, SMALL, Failing, Scaled, Traced, traces
from smoothing_models import small_data, small_model


@pytest.fixture
def one_chunk_per_shard(monkeypatch):
    monkeypatch.setattr("certcal.smoothing.schedule.SHARD_SECONDS", 0.0)
    monkeypatch.setattr("certcal.smoothing.keeper.SAVE_SECONDS", 0.0)


def collect(model=None, **options):
    return collect_evidence(model or small_model(), small_data(), **(SMALL | options))


@pytest.mark.usefixtures("one_chunk_per_shard")
class TestSameEvidence:
    @pytest.mark.parametrize("workers", [2, 4])
    def test_whatever_the_number_of_workers(self, cluster, workers, tmp_path):
        model = Traced(tmp_path, 0.01)
        evidence = collect(model, engine=replace(cluster, workers=workers))
        assert sum(traces(tmp_path).values()) == 100
        assert os.getpid() not in traces(tmp_path)
        assert min(workers, 2) <= len(traces(tmp_path)) <= workers  # on a busy machine some join late
        assert_same(evidence, collect(model))

    def test_with_stages_and_either_engine_on_the_same_store(self, cluster, tmp_path):
        staged = {"stages": [500, 1500, 2500], "stop": StopWhenDecided(radii=0.1, alpha=0.01)}
        local = collect(**staged)
        assert local.draws_saved() > 0
        collect(**staged | {"stop": lambda evidence: evidence.draws > 0}, store=tmp_path)  # to the first stage only
        assert_same(collect(**staged, store=tmp_path, engine=replace(cluster, workers=1)), local)
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
        assert len(counts) >= 2
        assert sum(counts.values()) <= 100 + 2  # the running and the waiting shard were lost, if they had run
        assert_same(evidence, collect(model))
        assert_same(load_evidence(tmp_path / "store"), evidence)

    def test_when_the_driver_is_killed(self, cluster, tmp_path):
        """kill -9 in the middle; the same call goes on, and so does local sampling."""
        arguments = [sys.executable, str(SUPPORT / "ray_models.py"), str(tmp_path), cluster.address, "0.05"]
        known = os.environ | {"PYTHONPATH": os.pathsep.join(HERE)}
        run = subprocess.Popen(arguments, env=known, stdout=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("shard-*"))) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        run.kill()
        assert "finished" not in run.communicate()[0]
        model = small_model()
        part = load_evidence(tmp_path)
        assert 5000 <= part.draws.sum() < 25_000
        resumed = subprocess.run([*arguments[:-1], "0", "1"], env=known, capture_output=True, text=True)
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
            collect(model, engine=replace(cluster, workers=1), store=tmp_path / "store")
        thread.join()
        drawn = int(load_evidence(tmp_path / "store").draws.sum()) // 250
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
        text = self.refused("ArithmeticError: ", model=model, engine=replace(cluster, workers=1))
        assert text.startswith("Drawing for input 0")
        assert all(chunks <= 2 for chunks in traces(tmp_path).values())  # one each, and one that waited

    def test_a_model_that_ends_its_process_is_tried_again_so_many_times(self, cluster, tmp_path):
        model = Failing(tmp_path, dies=True)
        self.refused("lost its worker 2 times", model=model, engine=replace(cluster, workers=1, retries=1))
        assert sum(traces(tmp_path).values()) == 2

    def test_more_than_the_cluster_has(self, cluster):
        self.refused("room for a worker (1 CPU and 1 GPU)", engine=replace(cluster, gpus=1))

    def test_a_worker_without_the_model_file(self, cluster, tmp_path, monkeypatch):
        (tmp_path / "only_here.py").write_text("from smoothing_models import Slow\nclass Mine(Slow): pass\n")
        monkeypatch.syspath_prepend(tmp_path)
        from only_here import Mine

        model = Mine(small_model(), 0.0)
        (tmp_path / "only_here.py").unlink()
        text = self.refused("No module named 'only_here'", model=model, engine=cluster, store=tmp_path / "store")
        assert "on node " in text
        assert not list((tmp_path / "store").glob("shard-*"))

    def test_a_model_that_is_another_one_on_a_worker(self, cluster, tmp_path, monkeypatch):
        """Its weights and class are the same, and yet its outputs differ there."""
        monkeypatch.setenv("CERTCAL_TEST_FACTOR", "2")
        self.refused("outputs are others on node ", model=Scaled(), engine=cluster)


def test_calls_are_run_and_numbered(cluster):
    """Also those that results ask for, and after errors of others where these are wanted."""
    first = [(number, 1) for number in range(5)]
    asked = {1: [(10, 1), (20, 1)], 4: [(30, 1)]}
    results = list(run_calls(cluster, add, iter(first), then=lambda position, result: asked.get(position, ())))
    assert len(results) == 8
    assert dict(results[:8]).keys() == set(range(8))
    assert {number: dict(results)[number] for number in range(5)} == {number: number + 1 for number in range(5)}
    assert sorted(result for number, result in results if number >= 5) == [11, 21, 31]

    with pytest.raises(CertcalError, match=r"^Adding \(1\) failed on a worker: TypeError: "):
        list(run_calls(replace(cluster, workers=1), add, [(1, 1), (1, "1")], name="Adding"))

    given = [(1, 1), (1, None), (1, "1"), (2, 2), (3, 3)]
    results = list(run_calls(replace(cluster, workers=1, retries=1), add_or_die, given, errors_are_results=True))
    found = dict(results)
    assert len(results) == len(found) == len(given)
    assert (found[0], found[3], found[4]) == (2, 4, 6)
    assert "(1) lost its worker 2 times" in str(found[1])
    assert "(2) failed on a worker: TypeError: " in str(found[2])


def test_when_no_worker_is_left_and_none_can_be_started(cluster):
    """As when the only node with a GPU is gone: an end instead of silence."""
    with connected(replace(cluster, workers=1)) as session, Pool(session, dict) as pool:
        pool._session = Session(replace(cluster, patience=1.0), 1.0)  # from now on workers want a GPU
        pool.submit(Call("Dying", die, ()))
        with pytest.raises(CertcalError, match=r"^The cluster had no worker for us in 1 s: ") as caught:
            next(filter(None, (pool.results(timeout=0.2) for _ in range(150))), None)
        assert "\n" not in str(caught.value)
        assert pool.in_flight == 1


def test_no_long_call_waits_behind_another_while_a_worker_is_free(cluster, tmp_path):
    paths = [str(tmp_path / name) for name in "abc"]
    calls = [(paths[0], paths[1:]), (paths[1], []), (paths[2], [])]  # the first ends when the others have
    assert dict(run_calls(cluster, wait_or_touch, calls, errors_are_results=True)) == dict.fromkeys(range(3), True)
