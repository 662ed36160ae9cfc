"""Run folders that an earlier version wrote: they open, and the same numbers follow from their evidence."""

import json

import pytest

from certcal.certificates import PLANNED_SHARE
from certcal.runs import RunFolder
from command import certcal
from old_runs import ROW, write_old_run


def test_a_folder_of_an_earlier_version_is_evaluated_to_its_numbers(tmp_path):
    """With the alpha of which a tenth for other looks leaves the one of then; with the same one a little wider."""
    folder = tmp_path / "runs" / "old"
    write_old_run(folder)
    alpha = RunFolder(folder).settings().evaluate.alpha
    for given, rel in ((alpha / PLANNED_SHARE, 1e-9), (alpha, 0.01)):
        certcal("evaluate", "old", "--no-figures", "--alpha", repr(given), cwd=tmp_path)
        rows = json.loads((folder / "metrics.json").read_text())["rows"]
        assert {key: rows[0][key] for key in ROW} == pytest.approx(ROW, rel=rel)
        assert rows[1]["certified"] == 0
    assert rows[0]["mean_width"] > ROW["mean_width"]


def test_settings_that_are_none_any_more_are_refused_in_a_line(tmp_path):
    write_old_run(tmp_path / "runs" / "old")
    config = tmp_path / "runs" / "old" / "config.toml"
    config.write_text(config.read_text().replace("n_bins", "bins_of_old"))
    _, error = certcal("evaluate", "old", "--no-figures", cwd=tmp_path, code=2)
    assert "bins_of_old" in error
    assert len(error.strip().splitlines()) == 1
