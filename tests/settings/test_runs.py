"""Settings of a run: there and back through TOML, and strict about names and types."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certcal import InputError
from certcal.settings import (
    CertifySettings,
    DataSettings,
    EvaluateSettings,
    ModelSettings,
    RunSettings,
    change_evaluation,
    load_settings,
    settings_text,
)

SETTINGS = RunSettings(
    model=ModelSettings(name="lenet"), data=DataSettings(name="mnist"), certify=CertifySettings(sigma=0.5)
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@given(
    name=TEXT,
    weights=st.none() | TEXT,
    options=st.dictionaries(TEXT, st.booleans() | st.integers(-(2**60), 2**60) | NUMBER | TEXT, max_size=3),
    mean=st.none() | st.lists(NUMBER, min_size=1, max_size=3).map(tuple),
    sigma=st.floats(2.0**-15, 1e5),
    radii=st.none() | st.sets(st.floats(0, 1e9), min_size=1, max_size=4).map(sorted).map(tuple),
    split_alpha=st.booleans(),
)
def test_settings_survive_a_file(tmp_path_factory, name, weights, options, mean, sigma, radii, split_alpha):
    path = tmp_path_factory.mktemp("toml") / "config.toml"
    settings = RunSettings(
        model=ModelSettings(name=name, weights=weights, options=options, mean=mean),
        data=DataSettings(name=name, limit=3),
        certify=CertifySettings(sigma=sigma, stages=(10, 20)),
        evaluate=EvaluateSettings(radii=radii, split_alpha=split_alpha, approximations=("admm",)),
    )
    path.write_text(settings_text(settings), encoding="utf-8")
    assert load_settings(path, {}) == settings


def test_options_win_over_the_file(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(settings_text(SETTINGS), encoding="utf-8")
    changed = load_settings(path, {"certify": {"n": 500}, "evaluate": {"radii": (0, 1)}})
    assert changed.certify == replace(SETTINGS.certify, n=500)
    assert changed.evaluate.radii == (0.0, 1.0)
    assert changed.model == SETTINGS.model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[certify]\nsgima = 1", "Unknown setting certify.sgima in FILE (did you mean sigma?)."),
        ("[certfy]\nsigma = 1", "Unknown setting certfy in FILE (did you mean certify?)."),
        ("[certify]\nsigma = 'a'", "Expected `certify.sigma` to be a number, but got 'a' in FILE."),
        ("[certify]\nsigma = true", "Expected `certify.sigma` to be a number, but got True in FILE."),
        ("[certify]\nsigma = 1\nn = 1.5", "Expected `certify.n` to be a whole number, but got 1.5 in FILE."),
        ("certify = 3", "Expected `certify` to be a table, but got 3 in FILE."),
        (
            "[evaluate]\nradii = 0.5",
            "Expected `evaluate.radii` to be a list, each entry a number, but got 0.5 in FILE.",
        ),
        ("[evaluate]\nradii = ['a']", "Expected `evaluate.radii` to be a number, but got 'a' in FILE."),
        (
            "[model]\nweights = 'a'",
            "Missing model.name, data.name, certify.sigma: give what is missing in a TOML file or with "
            "--model, --data, --sigma.",
        ),
        ("x = [", "Expected `config` to be a TOML file, but got FILE: "),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    complete = "model.name = 'lenet'\ndata.name = 'mnist'\n" if "model" not in text else ""
    noise = "certify.sigma = 1\n" if "evaluate" in text else ""
    path.write_text(complete + noise + text)
    with pytest.raises(InputError, match=re.escape(message.replace("FILE", str(path)))):
        load_settings(path, {})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"be a TOML file that can be read, but got .*none\.toml"):
        load_settings(tmp_path / "none.toml", {})


def test_an_evaluation_is_changed_by_file_then_options(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[evaluate]\nalpha = 0.1\nn_bins = 7\n[model]\nname = 'ignored'\n")
    asked = change_evaluation(SETTINGS, path, {"n_bins": 9})
    assert asked == EvaluateSettings(alpha=0.1, n_bins=9)
    path.write_text("[certify]\nsgima = 0.1\n")
    with pytest.raises(InputError, match=r"Unknown setting certify.sgima in .* \(did you mean sigma\?\)"):
        change_evaluation(SETTINGS, path, {})
    path.write_text("evaluate = 3\n")
    with pytest.raises(InputError, match="Expected `evaluate` to be a table, but got 3"):
        change_evaluation(SETTINGS, path, {})
    path.write_text("[evalute]\nalpha = 0.1\n")
    with pytest.raises(InputError, match=r"Unknown setting evalute in .* \(did you mean evaluate\?\)"):
        change_evaluation(SETTINGS, path, {})


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": 2.0}, {"delta": 0.0}, {"radii": (-1.0,)}, {"radii": ()}, {"radii": (float("nan"),)}, {"n_bins": 0},
     {"n_bins": 5000}, {"method": "x"}, {"population": "x"}, {"approximations": ("x",)},
     {"approximations": ("admm",), "population": "all"}],
    ids=str,
)  # fmt: skip
def test_what_evaluate_would_refuse_is_refused_as_a_setting(wrong):
    with pytest.raises(InputError, match=f"Expected `{next(iter(wrong))}`"):
        EvaluateSettings(**wrong)


def test_radii_rise_each_once():
    assert EvaluateSettings(radii=(0.3, 0.1, 0.3)).radii == (0.1, 0.3)
