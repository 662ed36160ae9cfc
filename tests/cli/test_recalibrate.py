"""`certcal recalibrate` says what it was given where that is no run, and over which splits its means are."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from certcal import load_evidence, save_evidence
from certcal.recalibration import HeldOut, HeldOutRow, IdentityMap
from certcal.runs import RunFolder, recalibrate
from certcal.smoothing import inputs_of
from command import certcal
from places import ROOT
from run_settings import SETTINGS
from smoothing_oracles import random_evidence

FILE = next((ROOT / "reference" / "evidence").glob("digits-*.parquet"))
WANTED = "Expected `RUN` to be a run folder, or a folder that holds evidence.parquet, but got"


def test_a_pack_and_a_file_are_called_so(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "pack").mkdir()
    shutil.copy(ROOT / "reference" / "manifest.toml", tmp_path / "pack")
    copy = "Copy {} to FOLDER/evidence.parquet and {} to FOLDER, and name FOLDER."
    named = copy.format("pack/evidence/NAME.parquet", "pack/evidence/inputs-*.parquet")
    inputs = FILE.with_name(inputs_of(FILE))
    pack = f"{{0}}, which is a reference pack. {named} `certcal reference list {{0}}`"
    save_evidence(load_evidence(FILE), tmp_path / "alone.parquet")
    alone = "Copy alone.parquet to FOLDER/evidence.parquet, and name FOLDER."
    (tmp_path / "none.parquet").write_text("mine")
    for name, told in (
        ("pack", f"{pack.format('pack')} has its names."),
        ("pack/", f"{pack.format('pack/')} has its names."),
        (FILE, f"{FILE}, which is a file. {copy.format(FILE, inputs)}"),
        ("alone.parquet", f"alone.parquet, which is a file. {alone}"),
        ("none.parquet", f"none.parquet, which is a file. {alone.replace('alone.', 'none.')}"),
        ("notes.txt", "notes.txt, which is a file."),
    ):
        _, error = certcal("recalibrate", name, cwd=tmp_path, code=2)
        assert error.strip() == f"{WANTED} {told}"
    _, error = certcal("recalibrate", "nowhere", cwd=tmp_path, code=2)
    assert error.strip() == "Expected `RUN` to be a run folder, but got runs/nowhere, which does not exist."
    (tmp_path / "F").mkdir()
    shutil.copy(FILE, tmp_path / "F" / "evidence.parquet")
    shutil.copy(inputs, tmp_path / "F")
    words = ("recalibrate", "./F", "--repeats", 1, "--on-failure", "identity", "--no-figures")
    assert "F/recalibration/map.json" in certcal(*words, cwd=tmp_path)[0]


@pytest.fixture
def run(tmp_path):
    made = RunFolder(tmp_path / "runs" / "mine")
    made.create()
    rng = np.random.default_rng(0)
    evidence = random_evidence(rng, inputs=120, draws=2000)
    right = rng.random(120) < evidence.confidence
    save_evidence(replace(evidence, label=np.where(right, evidence.selected, 1 - evidence.selected)), made.evidence)
    made.save_settings(SETTINGS)
    return made


@pytest.mark.parametrize(("without", "whose"), [(1, "isotonic map"), (0, "the maps of other splits")])
def test_the_screen_says_over_which_splits_the_means_are(run, tmp_path, monkeypatch, without, whose):
    def some(own: HeldOut) -> HeldOut:
        """A split has no map: there after is as before."""
        rows = [HeldOutRow(**vars(row) | {"after": row.before}) if row.split == without else row for row in own.rows]
        maps = tuple(IdentityMap() if split == without else one for split, one in enumerate(own.maps))
        return HeldOut(maps, own.fit, own.test, tuple(rows))

    made = recalibrate.held_out_maps
    monkeypatch.setattr(recalibrate, "held_out_maps", lambda *given, **terms: some(made(*given, **terms)))
    out, _ = certcal("recalibrate", "mine", "--repeats", 3, "--no-figures", cwd=tmp_path)
    text = " ".join(out.split())
    told = "mean ± deviation over the 2 of 3 splits that kept a map, 60 inputs held out"
    every = json.loads((run.path / "recalibration" / "held_out.json").read_text())["scores"][0]
    before, after = (f"{100 * every[when]['certified_ece']:.2f} %" for when in ("before", "after"))
    first = f"3 splits, 1 of them without a map, where confidences stay as they are: certified ECE {before} → {after}"
    assert text.index(f"{first} at R = ") < text.index(f"{whose} for R = ") < text.index(told)
    assert after != text[text.index("certified ECE, certified") :].split("%")[1].strip() + " %"
