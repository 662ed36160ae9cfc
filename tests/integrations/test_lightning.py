"""The Lightning callback in a real Trainer, against the same metrics computed by hand."""

import importlib
import json
import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import certcal
from certcal import InputError
from certcal.certificates import confidence_bounds_at
from certcal.evaluation import row_at
from certcal.models import load_checkpoint

INPUTS, LABELS = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3
FEW = {"sigma": 0.25, "inputs": 8, "draws": 100, "n0": 20}


@pytest.fixture(scope="module")
def lightning():
    """Lightning's and our names: imported here, as that takes seconds of every process that collects tests."""
    pytest.importorskip("pytorch_lightning", reason="Lightning is not installed (the extra `lightning`)")
    return importlib.import_module("lightning_models")


@pytest.fixture
def fit(lightning, tmp_path):
    def fit(callback, *others, data=None, epochs=2, **settings):
        net, watch = lightning.Net(), lightning.Watch()
        loaders = (
            DataLoader(TensorDataset(INPUTS, LABELS), batch_size=16, shuffle=True),
            val_loader() if data is None else data,
        )
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", callbacks=[callback, *others, watch], default_root_dir=tmp_path,
            enable_checkpointing=any(isinstance(one, lightning.ModelCheckpoint) for one in others), **quiet, **settings,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lightning.PossibleUserWarning)
            trainer.fit(net, *loaders)
        return net, watch

    return fit


def val_loader():
    return DataLoader(TensorDataset(INPUTS, LABELS), batch_size=16)


def certified(seen):
    return {name: value for name, value in seen.items() if "certified" in name}


class TestCallback:
    def test_metrics_are_those_of_the_same_inputs_and_draws(self, lightning, fit):
        net, watch = fit(lightning.CertifyEvery(radii=[0.05, 2.0], **FEW))
        logged = certified(watch.seen[1])
        spread = torch.arange(8) * 5
        evidence = certcal.collect_evidence(net, (INPUTS[spread], LABELS[spread]), sigma=0.25, n=100, n0=20, chunk=100)
        for bounds in confidence_bounds_at(evidence, radii=[0.05, 2.0], alpha=0.001):
            row = row_at(bounds)
            for name in ("certified_accuracy", "certified_ece", "certified_brier"):
                wanted = getattr(row, name)
                assert logged.pop(f"{name}/{bounds.radius:g}") == pytest.approx(wanted, rel=1e-6, nan_ok=True)
        assert not logged
        assert math.isnan(row.certified_ece)  # nothing is certified at the large radius
        assert watch.training == [True, True]  # dropout is on again

    @pytest.mark.parametrize(
        ("every", "settings", "new"),
        [
            (2, {"epochs": 5}, [0, 2, 4]),
            (2, {"epochs": 6, "check_val_every_n_epoch": 3}, [0, 1]),  # after epochs 3 and 6
            (3, {"epochs": 8, "check_val_every_n_epoch": 2}, [0, 2]),  # after epochs 2 and 6
            (2, {"epochs": 3, "val_check_interval": 1}, [0, 6]),  # three batches an epoch
        ],
    )
    def test_values_are_new_when_it_is_time_and_can_be_monitored_always(
        self, lightning, fit, tmp_path, every, settings, new
    ):
        name = "certified_brier/0.05"
        keep = lightning.ModelCheckpoint(tmp_path / "kept", monitor=name, filename="{epoch}")
        others = [lightning.EarlyStopping(name, patience=9), keep]
        _, watch = fit(lightning.CertifyEvery(every=every, radii=0.05, **FEW), *others, **settings)
        values = [seen[name] for seen in watch.seen]
        assert [n for n, value in enumerate(values) if not n or value != values[n - 1]] == new
        assert keep.best_model_score.item() == min(values)

    @pytest.mark.slow
    def test_two_processes_log_the_same(self, lightning, fit, tmp_path):
        class Write(lightning.Callback):
            def on_fit_end(self, trainer, module):
                found = {name: one.item() for name, one in trainer.callback_metrics.items() if "certified" in name}
                (tmp_path / f"{trainer.global_rank}.json").write_text(json.dumps(found))

        keep = lightning.ModelCheckpoint(tmp_path / "kept", monitor="certified_accuracy/0.05", mode="max")
        fit(lightning.CertifyEvery(radii=0.05, **FEW), keep, Write(), devices=2, strategy="ddp_fork")
        first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
        assert first == second
        assert len(first) == 3

    def test_a_part_of_the_module_and_other_data_can_be_certified(self, lightning, fit):
        inner = lightning.CertifyEvery(
            model=lambda module: module.body, data=(INPUTS[:3], LABELS[:3]), radii=0.05, **FEW
        )
        net, watch = fit(inner, epochs=1)
        evidence = certcal.collect_evidence(net.body, inner.data, sigma=0.25, n=100, n0=20, chunk=100)
        wanted = certcal.evaluate(evidence, radii=0.05)[0].certified_accuracy
        assert watch.seen[0]["certified_accuracy/0.05"] == pytest.approx(wanted)

    def test_data_that_cannot_be_spread_is_asked_for(self, lightning, fit):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter([(INPUTS[0], LABELS[0])])

        with pytest.raises(InputError, match="Expected `data` to be given where validation data has no length"):
            fit(lightning.CertifyEvery(**FEW), data=DataLoader(Stream()), epochs=1)

    def test_normalised_inputs_are_refused_in_the_usual_words(self, lightning, fit):
        wide = DataLoader(TensorDataset(3 * INPUTS - 1, LABELS), batch_size=16)
        with pytest.raises(InputError, match="normalisation is the model's first layer"):
            fit(lightning.CertifyEvery(**FEW), data=wide, epochs=1)


def test_a_checkpoint_of_the_trainer_gives_the_evidence_of_the_module(lightning, fit, tmp_path):
    keep = lightning.ModelCheckpoint(dirpath=tmp_path / "kept", filename="last")
    net, _ = fit(lightning.CertifyEvery(**FEW), keep, epochs=1)
    body = nn.Sequential(nn.Identity(), nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3)))
    loaded = load_checkpoint(body, tmp_path / "kept/last.ckpt")
    one, other = (
        certcal.collect_evidence(own, (INPUTS, LABELS), sigma=0.25, n=100, n0=20, chunk=100) for own in (loaded, net)
    )
    for name in ("selected", "votes", "score_sum", "histogram"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_wrong_settings_are_refused_at_once(lightning):
    with pytest.raises(InputError, match="Expected `every` to be an integer ≥ 1"):
        lightning.CertifyEvery(sigma=0.25, every=0)
    with pytest.raises(InputError, match="Expected `alpha`"):
        lightning.CertifyEvery(sigma=0.25, alpha=2)
    with pytest.raises(InputError, match="Expected `sigma`"):
        lightning.CertifyEvery(sigma=-1)
