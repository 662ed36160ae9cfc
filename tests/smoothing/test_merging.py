"""Evidence of several folders merges into one, and what does not belong together never does."""

import shutil

import numpy as np
import pytest
from torch import nn

from certcal import InputError
from certcal.smoothing import load_evidence, merge_shards, save_evidence
from collecting import assert_same, collect
from smoothing_models import halves, small_data, small_model


@pytest.fixture(scope="module")
def evidence():
    return collect()


def test_shards_from_several_folders_merge(evidence, tmp_path):
    from certcal.data import from_arrays

    data = from_arrays(*small_data())
    for part in range(2):
        collect(data=data.select(np.arange(part, 10, 2)), store=tmp_path / str(part))
    assert_same(merge_shards(sorted(tmp_path.glob("*/shard-*"))), evidence)


def test_a_saved_whole_merges_with_nothing(evidence, tmp_path):
    """It has forgotten which chunks it holds, so they might be counted twice."""
    whole, folder = tmp_path / "evidence.parquet", tmp_path / "run"
    save_evidence(evidence, whole)
    for n in (250, 500):
        collect(n=n, store=folder)
    with pytest.raises(InputError, match="was saved as a whole and merges with nothing"):
        merge_shards([whole, folder])
    assert_same(merge_shards(folder), evidence, plan=False)


def test_run_folders_merge_by_their_shards_and_all_that_differs_is_named(evidence, tmp_path):
    for part, data in enumerate(halves()):
        collect(data=data, store=tmp_path / str(part) / "shards")
    assert_same(merge_shards([tmp_path / "0", tmp_path / "1"]), evidence)
    collect(sigma=0.5, seed=7, store=tmp_path / "c")
    with pytest.raises(
        InputError, match=r"have sigma = .*, seed = .*, but it has sigma = 0.5, seed = 7\. Only"
    ) as told:
        merge_shards([tmp_path / "0", tmp_path / "c"])
    assert "another folder" not in str(told.value)


@pytest.mark.parametrize("change", ["all", "model", "sigma", "seed", "n0", "precision", "outputs"])
def test_stores_of_other_draws_never_merge_whichever_comes_first(tmp_path, change):
    """The one with more stages gives the header; the other used to go unchecked when it came first."""
    one, two = halves()
    changes = {"sigma": 1.0, "seed": 2, "n0": 21, "precision": "bfloat16", "outputs": "probabilities"}
    options = {"sigma": 1.0, "seed": 2} if change == "all" else {key: changes[key] for key in changes if key == change}
    model = small_model(seed=int(change in ("all", "model")))
    model = nn.Sequential(model, nn.Softmax(dim=1)) if change == "outputs" else model
    collect(data=one, n=100, seed=1, sigma=0.1, store=tmp_path / "a")
    staged = {"stages": [50, 100], "stop": lambda evidence: evidence.draws < 0}
    collect(model, two, n=100, store=tmp_path / "b", **({"seed": 1, "sigma": 0.1} | staged | options))
    places = [tmp_path / "a", tmp_path / "b"]
    named = {"all": "model", "outputs": "(model|outputs)"}.get(change, change)
    for turned in (False, True):
        with pytest.raises(InputError, match=rf"^Expected the evidence in .* to have {named} = .*, but it has .*$"):
            merge_shards(places[::-1] if turned else places)
        for place, name in zip(places, "21" if turned else "12", strict=True):
            for shard in place.glob("shard-*"):
                shutil.copy(shard, tmp_path / f"shard-{name}.parquet")
        with pytest.raises(InputError, match="Expected the evidence in"):
            load_evidence(tmp_path)


def test_models_that_differ_in_no_tensor_never_merge(tmp_path):
    one, two = halves()
    model = small_model()
    model[1] = nn.LeakyReLU(0.01)
    collect(model, one, n=50, store=tmp_path / "a")
    model[1].negative_slope = 0.9
    collect(model, two, n=50, store=tmp_path / "b")
    for places in (["a", "b"], ["b", "a"]):
        with pytest.raises(InputError, match="a setting that is no tensor has changed"):
            merge_shards([tmp_path / place for place in places])
