"""The public surface: the names people rely on, how they are called, and what importing them costs."""

import importlib
import inspect
import subprocess
import sys
from operator import attrgetter

import pytest

import certcal
from signatures import SIGNATURES

CLASSES = {"CertcalError", "ConfidenceIntervals", "Evidence", "InputError", "Kind", "Solution"}


def test_names_are_listed_and_sorted():
    assert set(certcal.__all__) == {name for name in SIGNATURES if "." not in name} | CLASSES
    assert len(certcal.__all__) <= 25
    assert certcal.__all__ == sorted(certcal.__all__)
    assert all(hasattr(certcal, name) for name in certcal.__all__)


@pytest.mark.parametrize(
    "room",
    [
        "attacks",
        "certificates",
        "cluster",
        "data",
        "evaluation",
        "metrics",
        "recalibration",
        "report",
        "runs",
        "settings",
        "smoothing",
        "training",
        "worstcase",
    ],
)
def test_rooms_list_their_names(room):
    module = importlib.import_module(f"certcal.{room}")
    assert len(set(module.__all__)) == len(module.__all__)  # ruff keeps them sorted
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    signature = inspect.signature(attrgetter(name)(certcal))
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_functions_say_what_comes_back_where_it_is_from_and_show_it(name):
    text = inspect.getdoc(attrgetter(name)(certcal))
    assert "Paper:" in text
    needs_a_model = {"collect_evidence", "confidence_bounds", "evaluate", "load_evidence", "save_evidence"}
    assert ">>>" in text or name in needs_a_model


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_import_is_light():
    heavy = ("torch", "jinja2", "matplotlib", "ray", "torchmetrics", "sklearn", "pandas", "scipy.stats")
    assert fresh(f"import certcal, sys; print(*[m for m in {heavy} if m in sys.modules])") == []


ROOMS = {"attacks", "data", "evaluation", "integrations", "runs", "training"}


@pytest.mark.slow
def test_all_names_are_reached_through_the_package():
    """In a fresh process: a test that imported a room before would hide a missing one."""
    code = "import certcal\nfor name in dir(certcal): getattr(certcal, name)\nprint(*dir(certcal))"
    assert set(fresh(code)) >= {*certcal.__all__, *ROOMS}


def test_the_package_shows_its_names_and_rooms_and_no_others():
    assert set(dir(certcal)) >= {*certcal.__all__, *ROOMS}
    shown = {name for name in dir(certcal) if not name.startswith("__")}
    assert not shown & {"Any", "TYPE_CHECKING", "find_spec", "import_module", "iter_modules"}
    with pytest.raises(AttributeError, match="module 'certcal' has no attribute 'nothing'"):
        certcal.nothing  # noqa: B018


@pytest.mark.parametrize(("name", "room"), certcal._MOVED.items())
def test_names_that_moved_say_where(name, room):
    with pytest.raises(ImportError, match=rf"certcal.{name} has moved: it is certcal.{room}.{name}$"):
        getattr(certcal, name)
    with pytest.raises(ImportError, match="has moved"):
        exec(f"from certcal import {name}")
    assert hasattr(getattr(certcal, room), name)
    assert name not in dir(certcal)


def test_solution_prints_in_one_line():
    text = repr(certcal.certified_calibration_error([0.1, 0.5], [0.6, 0.9], [1, 0]))
    assert text == "Solution(value=0.9, kind=exact, inputs=2, status=solved to global optimality)"
    assert float(certcal.certified_brier_score([0.5], [0.5], [1])) == pytest.approx(0.25)


def test_errors_have_one_base_class():
    assert issubclass(certcal.InputError, certcal.CertcalError)
