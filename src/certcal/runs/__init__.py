"""Run folders: settings in, evidence drawn once, results written beside it."""

from typing import TYPE_CHECKING

from certcal.later import later
from certcal.runs.attack_files import kept_attacks
from certcal.runs.compare import compare_runs
from certcal.runs.drawing import save_figure
from certcal.runs.evaluate import copy_run, evaluate_run, rewrite_report, write_results
from certcal.runs.folder import RunFolder
from certcal.runs.groups import absolute_tables
from certcal.runs.judge import caution_for, judge_run
from certcal.runs.plain import import_bounds
from certcal.runs.recalibrate import Recalibration, recalibrate_run
from certcal.runs.results import Results
from certcal.runs.switch import digest_of
from certcal.runs.trust import check_factories

if TYPE_CHECKING:
    from certcal.runs.attack import attack_run
    from certcal.runs.certify import certify_run, check_run
    from certcal.runs.checkup import Checkup
    from certcal.runs.cost import measure_cost
    from certcal.runs.demo import demo_run
    from certcal.runs.load import listed_names, load_data, load_model, training_part, weights_digest
    from certcal.runs.plan import Plan, plan_run
    from certcal.runs.train import TRAIN, estimate_training, next_command, train_run
    from certcal.runs.verify import foresee_verify, verify_run

__all__ = [
    "TRAIN",
    "Checkup",
    "Plan",
    "Recalibration",
    "Results",
    "RunFolder",
    "absolute_tables",
    "attack_run",
    "caution_for",
    "certify_run",
    "check_factories",
    "check_run",
    "compare_runs",
    "copy_run",
    "demo_run",
    "digest_of",
    "estimate_training",
    "evaluate_run",
    "foresee_verify",
    "import_bounds",
    "judge_run",
    "kept_attacks",
    "listed_names",
    "load_data",
    "load_model",
    "measure_cost",
    "next_command",
    "plan_run",
    "recalibrate_run",
    "rewrite_report",
    "save_figure",
    "train_run",
    "training_part",
    "verify_run",
    "weights_digest",
    "write_results",
]

# What runs a model needs torch; whoever only reads what a run left should not wait for it.
__getattr__ = later(
    __name__,
    attack="attack_run",
    certify="certify_run check_run",
    checkup="Checkup",
    cost="measure_cost",
    demo="demo_run",
    load="listed_names load_data load_model training_part weights_digest",
    plan="Plan plan_run",
    train="TRAIN estimate_training next_command train_run",
    verify="foresee_verify verify_run",
)
