"""Run folders: settings in, evidence drawn once, results written beside it."""

from certcal.runs.attack import attack_run
from certcal.runs.certify import certify_run
from certcal.runs.evaluate import evaluate_run, write_results
from certcal.runs.folder import RunFolder
from certcal.runs.recalibrate import Recalibration, recalibrate_run
from certcal.settings import (
    AttackSettings,
    CertifySettings,
    DataSettings,
    EvaluateSettings,
    ModelSettings,
    RecalibrateSettings,
    RunSettings,
    load_settings,
)

__all__ = [
    "AttackSettings",
    "CertifySettings",
    "DataSettings",
    "EvaluateSettings",
    "ModelSettings",
    "RecalibrateSettings",
    "Recalibration",
    "RunFolder",
    "RunSettings",
    "attack_run",
    "certify_run",
    "evaluate_run",
    "load_settings",
    "recalibrate_run",
    "write_results",
]
