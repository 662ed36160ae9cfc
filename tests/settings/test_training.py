"""Recipes of training, those of earlier versions too."""

from certcal.settings import load_recipe


def test_a_recipe_of_an_earlier_version_reads_and_can_be_changed(tmp_path):
    path = tmp_path / "train.toml"
    path.write_text(
        '[model]\nname = "lenet"\n[data]\nname = "mnist"\n[objective]\nname = "noise"\n[train]\nsigma = 0.5\n'
        '[engine]\ndevice = "cpu"\nworkers = 2\n'
    )
    assert load_recipe(path, {}).machine.workers == 2
    changed = load_recipe(path, {"machine": {"workers": 3}}).machine
    assert (changed.device, changed.workers) == ("cpu", 3)
