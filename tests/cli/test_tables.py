"""The help and the documentation of options follow from their declarations."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

import certcal.cli
from certcal.cli.app import app
from certcal.cli.tables import BLOCK, with_tables
from certcal.settings import EvaluateSettings, declared
from certcal.studies import EXHIBITS, study_names
from command import PLAIN, in_this_process

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
VERBS = typer.main.get_command(app).commands


def test_the_tables_of_the_page_are_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) >= 8
    told = "write them again: python -m certcal.cli.tables docs/command_line.md"
    assert with_tables(text) == text, told


def test_a_stale_table_is_written_again():
    stale = "a\n<!-- options of evaluate: What to ask -->\n| old |\n<!-- end -->\nb\n"
    fresh = with_tables(stale)
    assert "| old |" not in fresh
    assert "| `--delta X` | Error probability for the whole set (default: 0.001). |" in fresh
    assert with_tables(fresh) == fresh


def test_every_option_of_an_evaluation_is_one_of_its_record():
    wanted = {one.option.partition("/")[0] for one in declared(EvaluateSettings) if one.option}
    for verb in ("evaluate", "certify"):
        assert wanted <= {name for one in VERBS[verb].params for name in one.opts}


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_terminal_of_80_columns(verb, tmp_path):
    code, out, _ = in_this_process([verb, "--help"], tmp_path, PLAIN | {"COLUMNS": "80"})
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert all(f"{name} " in out for one in VERBS[verb].params for name in one.opts if name.startswith("--"))


def test_names_of_studies_tables_and_figures_are_whole_at_80_columns(tmp_path):
    """They are there to be typed."""
    _, out, _ = in_this_process(["reproduce", "--list"], tmp_path, PLAIN | {"COLUMNS": "80"})
    first = {line.split(" ")[0] for line in out.splitlines()}
    assert {*study_names(), *EXHIBITS} <= first


def test_no_default_is_typed_by_hand():
    for path in Path(certcal.cli.__file__).parent.glob("*.py"):
        assert "(default:" not in path.read_text(encoding="utf-8"), path.name


def test_the_help_loads_nothing_that_computes():
    code = "import sys, certcal.cli.app; print(*(set(sys.modules) & {'torch', 'numpy', 'scipy', 'pyarrow'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
