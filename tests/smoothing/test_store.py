"""Evidence on disk: exact round trips, and clear errors for everything that is not whole or not ours."""

import json
import resource
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from certcal import CertcalError, InputError
from certcal.smoothing import load_evidence, merge_shards, save_evidence
from certcal.smoothing.shards import read_header, read_shard, write_shard
from certcal.smoothing.store import EvidenceStore
from collecting import assert_same, collect
from places import SUPPORT
from smoothing_models import small_model


@pytest.fixture(scope="module")
def evidence():
    return collect()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    collect(n=250, store=folder)
    collect(n=500, store=folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_one_file_round_trip_is_exact(evidence, tmp_path):
    whole, small = tmp_path / "evidence.parquet", tmp_path / "compact.parquet"
    for path, compact in ((whole, False), (small, True)):
        save_evidence(evidence, path, compact=compact)
        assert_same(load_evidence(path), evidence)
    assert small.stat().st_size < 0.9 * whole.stat().st_size
    save_evidence(evidence.select(np.arange(0)), small, compact=True)
    assert len(load_evidence(small)) == 0


def test_a_file_is_read_batch_by_batch_and_in_any_order(evidence, tmp_path, monkeypatch):
    monkeypatch.setattr("certcal.smoothing.shards._BATCH", 3)
    turned = evidence.select(np.arange(len(evidence))[::-1])
    save_evidence(turned, tmp_path / "turned.parquet")
    assert_same(load_evidence(tmp_path / "turned.parquet"), evidence)


def test_shards_say_what_wrote_them(folder):
    metadata = pq.read_schema(next(folder.glob("shard-*"))).metadata
    assert set(json.loads(metadata[b"certcal.provenance"])) == {"written", "python", "certcal", "torch", "numpy"}
    assert not list(folder.glob(".*part"))


def test_sources_that_are_not_installed_draw_too(evidence, tmp_path, monkeypatch):
    monkeypatch.setattr("certcal.files.version", {"torch": "1", "numpy": "1"}.__getitem__)
    monkeypatch.setattr("certcal.files.PackageNotFoundError", KeyError)
    save_evidence(evidence, tmp_path / "kept.parquet")
    written = json.loads(pq.read_schema(tmp_path / "kept.parquet").metadata[b"certcal.provenance"])
    assert set(written) == {"written", "python", "torch", "numpy"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sigma": 0.31}, "sigma"),
        ({"seed": 5}, "seed"),
        ({"n0": 21}, "n0"),
        ({"precision": "bfloat16"}, "precision"),
        ({"fuse": True}, "precision"),
        ({"outputs": "probabilities"}, "outputs"),
    ],
)
def test_other_settings_are_refused(folder, options, named):
    before = sorted(path.read_bytes() for path in folder.glob("shard-*"))
    with pytest.raises(InputError, match=f"to have {named} = .* Use another folder for this run"):
        collect(store=folder, **options)
    assert sorted(path.read_bytes() for path in folder.glob("shard-*")) == before


def test_another_model_is_refused(folder):
    with pytest.raises(InputError, match=r"to have model = model [0-9a-f]{12}…, but it has model = model"):
        collect(small_model(seed=1), store=folder)


def test_truncated_shards_are_named_and_the_rest_survives(folder):
    shards = sorted(folder.glob("shard-*"), key=lambda shard: read_shard(shard)[1].first.min())
    victim, *others = shards  # the first draws
    victim.write_bytes(victim.read_bytes()[:-100])
    for attempt in (lambda: load_evidence(folder), lambda: collect(store=folder)):
        with pytest.raises(CertcalError, match=f"Expected .*{victim.name} to be certcal evidence, but .* Move it away"):
            attempt()
    victim.unlink()
    with pytest.raises(InputError, match=r"chunks \d+ to \d+ of input \d+ are missing"):
        merge_shards(others)
    assert_same(collect(store=folder), collect(), plan=False)


@pytest.mark.parametrize("content", ["foreign", "text", "empty", "newer"])
def test_foreign_files_are_refused(folder, content):
    path = folder / "shard-foreign.parquet"
    if content == "foreign":
        pq.write_table(pa.table({"x": [1, 2]}), path)
    elif content == "newer":
        shard = next(folder.glob("shard-*"))
        table = pq.read_table(shard)
        header = json.loads(table.schema.metadata[b"certcal.evidence"]) | {"schema": 4}
        pq.write_table(table.replace_schema_metadata({b"certcal.evidence": json.dumps(header)}), path)
    else:
        path.write_text("not parquet" if content == "text" else "")
    with pytest.raises(CertcalError, match=r"shard-foreign\.parquet to be certcal evidence, but"):
        load_evidence(folder)


def test_the_same_draws_are_never_counted_twice(folder):
    shard = next(folder.glob("shard-*"))
    shutil.copy(shard, folder / "shard-copy.parquet")
    with pytest.raises(CertcalError, match="the same draws are counted twice for input"):
        load_evidence(folder)


def test_leftovers_of_a_killed_write_are_ignored(folder):
    (folder / ".shard-dead.parquet.1.tmp").write_text("half")
    assert load_evidence(folder).draws.tolist() == [500] * 10


def test_nothing_there(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="Expected `path` to be an evidence file or a folder of shards"):
            load_evidence(path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Expected `store` to be a folder that can be written"):
        collect(store=tmp_path / "file" / "store")


@pytest.mark.slow
def test_a_full_disk_is_said_and_loses_nothing(folder):
    """The limit on file sizes stands in for a full disk: writing fails in the middle of a real shard."""
    code = f"""
import resource, signal, sys
sys.path.insert(0, {str(SUPPORT)!r})
from collecting import collect
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import certcal
from certcal import CertcalError
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    collect(n=1000, store={str(folder)!r})
except CertcalError as error:
    print(error)
"""
    assert resource.RLIMIT_FSIZE is not None
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Evidence could not be written" in run.stdout
    assert "What was there is untouched." in run.stdout
    assert load_evidence(folder).draws.tolist() == [500] * 10
    assert not list(folder.glob(".*part"))


def test_header_survives(folder, evidence):
    for shard in folder.glob("shard-*"):
        assert read_header(shard) == replace(evidence.header, stages=(250,))  # what was planned first
    EvidenceStore(folder, evidence.header).close()
    with pytest.raises(InputError):
        EvidenceStore(folder, replace(evidence.header, chunk=51))


def test_a_shard_that_was_moved_away_is_drawn_again(tmp_path, evidence):
    for n in (150, 350, 500):
        collect(n=n, store=tmp_path)
    middle = next(path for path in tmp_path.glob("shard-*") if read_shard(path)[1].first[0] == 3)
    middle.unlink()
    assert_same(collect(store=tmp_path), evidence, plan=False)
    assert_same(load_evidence(tmp_path), evidence, plan=False)


def test_one_process_at_a_time(folder, evidence):
    held = EvidenceStore(folder, evidence.header)
    with pytest.raises(InputError, match="to be a folder that no other process is sampling into"):
        collect(store=folder)
    held.close()
    collect(store=folder)


@pytest.mark.parametrize("change", ["slope", "temperature", "a little"])
def test_a_setting_that_is_no_tensor_is_noticed(tmp_path, change):
    """A temperature off by 1 % too, however small the logits are."""
    model = small_model()
    with torch.no_grad():
        model[-1].weight *= 0.01
    model[1] = nn.LeakyReLU(0.01)
    model.temperature = 1.0
    model.register_forward_hook(lambda module, inputs, out: out / module.temperature)
    collect(model, n=50, store=tmp_path)
    if change == "slope":
        model[1].negative_slope = 0.9
    else:
        model.temperature = {"temperature": 3.0, "a little": 1.01}[change]
    with pytest.raises(InputError, match="a setting that is no tensor has changed"):
        collect(model, n=100, store=tmp_path)


def test_counts_that_do_not_add_up_are_refused(folder):
    path = sorted(folder.glob("shard-*"))[0]
    header, rows = read_shard(path)
    path.unlink()
    write_shard(folder, header, replace(rows, votes=rows.votes + 1))
    with pytest.raises(CertcalError, match="its counts do not add up to its draws"):
        load_evidence(folder)


@pytest.mark.parametrize(
    ("field", "trouble"), [("label", "two labels"), ("selected", "two selected"), ("content", "two diff")]
)
def test_shards_that_disagree_about_an_input_are_refused(folder, field, trouble):
    path = sorted(folder.glob("shard-*"))[0]
    header, rows = read_shard(path)
    path.unlink()
    write_shard(folder, header, replace(rows, **{field: (getattr(rows, field) + 1) % 4}))
    with pytest.raises(CertcalError, match=f"Evidence cannot be merged: {trouble}"):
        load_evidence(folder)
