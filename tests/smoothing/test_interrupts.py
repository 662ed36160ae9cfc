"""Runs that are interrupted or killed resume to the evidence of an uninterrupted one."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from certcal.interrupts import deferred_interrupts
from certcal.smoothing import load_evidence
from collecting import assert_same, collect
from places import SUPPORT
from smoothing_models import Counting, Slow, small_data, small_model


def start_run(folder, seconds=0.15):
    code = SUPPORT / "smoothing_models.py"
    return subprocess.Popen([sys.executable, str(code), str(folder), str(seconds)], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_killed_runs_resume_to_the_same_evidence(tmp_path, how):
    """Killed in the middle of sampling, by Ctrl-C or by kill -9; then run to the end."""
    run = start_run(tmp_path)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("shard-*"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(run.pid, how)
    assert "finished" not in run.communicate()[0]
    partial = load_evidence(tmp_path)
    assert 250 <= partial.draws.sum() < 5000
    finished = start_run(tmp_path, 0.0)
    assert "finished" in finished.communicate()[0]
    # The subprocess knows the model's class by another module name, so the fingerprints differ.
    resumed, reference = load_evidence(tmp_path), collect(Slow(small_model(), 0.0))
    assert_same(replace(resumed, header=reference.header), reference)


def test_a_ctrl_c_that_nobody_asks_for_again_is_not_lost():
    handlers, done = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], []

    def work():
        with deferred_interrupts():  # one within another, as verbs have them
            with deferred_interrupts():
                signal.raise_signal(signal.SIGINT)
                done.append("the last of the work")
            done.append("what follows it")
        done.append("what a user has stopped")

    def told():
        with deferred_interrupts() as interrupted:
            signal.raise_signal(signal.SIGINT)
            if interrupted():
                raise ValueError("stopped")

    def failed():
        with deferred_interrupts():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("failed by itself")

    with pytest.raises(KeyboardInterrupt):
        failed()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the last of the work", "what follows it"]
    with pytest.raises(ValueError, match="stopped"):
        told()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.usefixtures("no_rehearsal")
class TestInterrupts:
    """Ctrl-C as a real signal, at moments chosen to hurt."""

    def interrupt(self, out=None):
        os.kill(os.getpid(), signal.SIGINT)
        return out

    def once(self, out):
        self.once = lambda later: later
        return self.interrupt(out)

    def resumed(self, folder):
        model = Counting(small_model(), 10**9, None)
        assert_same(collect(model, store=folder), collect(model))

    def test_in_a_pass(self, tmp_path):
        """The pass is finished first: seven are kept."""
        with pytest.raises(KeyboardInterrupt, match="the same call goes on from here"):
            collect(Counting(small_model(), 7, self.interrupt), store=tmp_path)
        peek = load_evidence(tmp_path)
        assert peek.draws.tolist() == [500, 500, 500, 250]
        assert peek.header.planned(peek.draws).tolist() == [True, True, True, False]  # a look that was not planned
        self.resumed(tmp_path)

    def test_in_a_chunk_of_two_passes(self, tmp_path):
        """The chunk is finished first, and not the pass in which it ends."""
        with pytest.raises(KeyboardInterrupt, match="the same call goes on from here"):
            collect(Counting(small_model(), 1, lambda out: self.once(out)), store=tmp_path, n=900, chunk=300)
        assert load_evidence(tmp_path).draws.tolist() == [300]

    def test_between_counting_votes_and_scores(self, tmp_path, monkeypatch):
        from certcal.smoothing import tally

        bucketize = torch.bucketize
        monkeypatch.setattr(tally.torch, "bucketize", lambda *a, **k: self.interrupt(bucketize(*a, **k)))
        with pytest.raises(KeyboardInterrupt):
            collect(Counting(small_model(), 10**9, None), store=tmp_path)
        monkeypatch.undo()
        monkeypatch.setattr("certcal.smoothing.job.fastest_threads", lambda call: nullcontext())
        self.resumed(tmp_path)

    @pytest.mark.slow
    def test_while_a_shard_gets_its_name(self, tmp_path, monkeypatch):
        replace_file = os.replace
        monkeypatch.setattr(os, "replace", lambda *a: self.interrupt(replace_file(*a)))
        monkeypatch.setattr("certcal.smoothing.keeper.SAVE_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            collect(Counting(small_model(), 10**9, None), store=tmp_path, data=small_data(40))
        monkeypatch.setattr(os, "replace", replace_file)
        model, data = Counting(small_model(), 10**9, None), small_data(40)
        assert_same(collect(model, data, store=tmp_path), collect(model, data))

    def test_twice_stops_at_once_and_keeps_what_was_whole(self, tmp_path):
        def impatient(out):
            self.interrupt()
            self.interrupt()
            return out

        with pytest.raises(KeyboardInterrupt):
            collect(Counting(small_model(), 7, impatient), store=tmp_path)
        self.resumed(tmp_path)

    def test_handlers_are_put_back(self):
        before = signal.getsignal(signal.SIGINT)
        collect(n=50)
        assert signal.getsignal(signal.SIGINT) is before
