"""Many models: recipes of sweeps, their trials, and studies that reproduce the paper's training results."""

from certcal.studies.adding import add_to_pack, entry_of_run
from certcal.studies.boards import boards_of, draws_of
from certcal.studies.exhibits import EXHIBITS, Exhibit, draw_exhibit
from certcal.studies.pack import Entry, Pack
from certcal.studies.pack_checks import differences
from certcal.studies.paper import paper_table
from certcal.studies.recipes import SweepRecipe, SweepSettings, build_sweep, load_sweep
from certcal.studies.reference_rows import ReferenceRow, entry_rows
from certcal.studies.reproduce import Reproduction, run_study, study_trials
from certcal.studies.study import Study, load_study, study_names, study_text
from certcal.studies.sweep import Results, check_data, run_sweep
from certcal.studies.trials import Failure, Trial, run_trial, sweep_trials

__all__ = [
    "EXHIBITS",
    "Entry",
    "Exhibit",
    "Failure",
    "Pack",
    "ReferenceRow",
    "Reproduction",
    "Results",
    "Study",
    "SweepRecipe",
    "SweepSettings",
    "Trial",
    "add_to_pack",
    "boards_of",
    "build_sweep",
    "check_data",
    "differences",
    "draw_exhibit",
    "draws_of",
    "entry_of_run",
    "entry_rows",
    "load_study",
    "load_sweep",
    "paper_table",
    "run_study",
    "run_sweep",
    "run_trial",
    "study_names",
    "study_text",
    "study_trials",
    "sweep_trials",
]
