"""Maps in files: what certcal reads of how they were fitted is checked, and the rest is anybody's."""

import json

import pytest

from certcal import InputError
from certcal.files import sealed
from certcal.recalibration import IsotonicMap, load_map, save_map


def stored(path, **about):
    save_map(IsotonicMap([0.2, 0.5], [0.1, 0.8]), path)
    body = json.loads(path.read_text())
    body.pop("sha256", None)
    path.write_text(json.dumps(sealed(body | {"about": about})))
    return path


@pytest.mark.parametrize("about", [
    {"wrong": []}, {"wrong": 3}, {"wrong": [3]}, {"certified": [9, 8], "wrong": [3]}, {"splits": "20"}, {"radii": 3},
    {"radii": [None]}, {"sigma": "0.25"}, {"model": 7}, {"units": ["inputs"]}, {"temperature": True},
], ids=str)  # fmt: skip
def test_facts_that_no_map_has_are_refused(tmp_path, about):
    with pytest.raises(InputError, match=r"Expected `path` to hold .* in `about` as save_map writes it, but got"):
        load_map(stored(tmp_path / "map.json", **about))


def test_facts_may_be_missing_or_unknown_and_others_are_kept(tmp_path):
    own = load_map(stored(tmp_path / "map.json", sigma=None, model=None, note=None, mine=[1, {"a": "b"}]))
    assert own.about == {"note": None, "mine": [1, {"a": "b"}]}
