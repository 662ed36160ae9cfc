"""Results in the tools that keep experiments: MLflow, Weights & Biases, TensorBoard. Extras of the same names.

Every value is logged with every digit, as `certified_ece/0.25`: the metric, then the radius. Where nothing is certified
an error has no value, and none is logged.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from sys import stderr
from typing import Any

from certcal.errors import CertcalError, InputError, one_line
from certcal.evaluation import Report
from certcal.files import expanded
from certcal.report import default_view, guarantee, to_markdown
from certcal.scalars import check_choice, guarded
from certcal.settings import Tracker

__all__ = ["check_trackers", "log_report"]

PROJECT = "certcal"  # of Weights & Biases, unless WANDB_PROJECT names another


@dataclass(frozen=True)
class _Entry:
    """What is logged of one evaluation."""

    name: str
    metrics: Mapping[str, float]
    settings: Mapping[str, str]
    text: str  # the guarantee and the table, in Markdown
    page: Path | None
    folder: Path  # of TensorBoard


@guarded
def log_report(
    report: Report,
    tool: str,
    *,
    name: str = "certcal",
    settings: Mapping[str, Any] | None = None,
    page: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] = "tensorboard",
) -> str:
    """Where an evaluation was logged: its metrics at each radius, the guarantee in words, its settings and its page.

    A run of its own is made, below the one that is active in MLflow and beside the one in Weights & Biases. Addresses
    and projects are those that the tool itself is set to, as by MLFLOW_TRACKING_URI or WANDB_PROJECT. TensorBoard has
    no place for a page.

    Paper: —.   Errs: as `certcal.evaluate` does; numbers in the words are rounded to the cautious side.

    Args:
        report: from `evaluate`.
        tool: "mlflow", "wandb" or "tensorboard".
        name: of the run.
        settings: to be kept beside the metrics; those of a dataclass in it are named `certify.sigma`.
        page: the report as HTML, from `certcal.runs.write_results`.
        folder: of TensorBoard's files.

    Raises: InputError if the tool is not installed, CertcalError if it fails.
    """
    (chosen,) = check_trackers([tool])
    entry = _Entry(
        name=name,
        metrics=_metrics(report),
        settings=_flat(settings or {}),
        text=f"{guarantee(report, default_view(report))}\n\n{to_markdown(report)}",
        page=None if page is None else expanded("page", page),
        folder=expanded("folder", folder),
    )
    try:
        with redirect_stdout(stderr):  # standard output is for results: MLflow prints addresses
            return _TOOLS[chosen][1](entry)
    except Exception as error:  # whatever the tool, its server or the network raises
        raise CertcalError(f"{chosen} did not take the results: {one_line(error)}") from error


@guarded
def check_trackers(tools: Iterable[str]) -> tuple[Tracker, ...]:
    """The tools by these names, if they can be imported.

    Raises: InputError if one is unknown or not installed.
    """
    found = tuple(Tracker(check_choice("log", one, tuple(Tracker))) for one in tools)
    for one in found:
        try:
            import_module(_TOOLS[one][0])
        except ImportError as error:
            wanted = f"be a tool that is installed (pip install 'certcal[{one}]')"
            raise InputError.expected("log", wanted, f"{one}: {one_line(error)}") from error
    return found


def _metrics(report: Report) -> dict[str, float]:
    """Every value that is a number, by metric and radius."""
    found: dict[str, float] = {}
    for row in report:
        at = repr(row.radius).removesuffix(".0")  # not as 8/255, where a slash would begin a folder
        values = {**row.as_dict(), **row.further}
        found |= {f"{name}/{at}": float(value) for name, value in values.items() if name != "radius"}
    found["average_certified_radius"] = report.average_certified_radius
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _flat(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings by name; those of a section as section.name. None stands for a default and is left out."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if hasattr(value, "__dataclass_fields__") or isinstance(value, Mapping):
            own = value if isinstance(value, Mapping) else vars(value)
            found |= {f"{name}.{key}": text for key, text in _flat(own).items()}
        elif value is not None:
            found[name] = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return found


def _to_mlflow(entry: _Entry) -> str:
    import mlflow

    with mlflow.start_run(run_name=entry.name, nested=mlflow.active_run() is not None) as run:
        mlflow.log_params(dict(entry.settings))
        mlflow.log_metrics(dict(entry.metrics))
        mlflow.set_tag("mlflow.note.content", entry.text)
        if entry.page is not None:
            mlflow.log_artifact(str(entry.page))
    return f"run {run.info.run_id} in {mlflow.get_tracking_uri()}"


def _to_wandb(entry: _Entry) -> str:
    import wandb

    quiet = wandb.Settings(console="off", silent=True)
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    with wandb.init(
        project=project,
        name=entry.name,
        config=dict(entry.settings),
        notes=entry.text,
        reinit="create_new",
        settings=quiet,
    ) as run:
        run.log(dict(entry.metrics))
        if entry.page is not None:
            run.log_artifact(str(entry.page), name="certcal-report", type="report")
        return str(Path(run.dir).parent if run.offline else run.url)


def _to_tensorboard(entry: _Entry) -> str:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(entry.folder)) as writer:
        for name, value in entry.metrics.items():  # as float64: float32 might round a bound to its wrong side
            writer.add_scalar(name, value, new_style=True, double_precision=True)
        writer.add_text("guarantee", entry.text)
        if entry.settings:
            lines = "".join(f"| {key} | {value} |\n" for key, value in entry.settings.items())
            writer.add_text("settings", f"| setting | value |\n|---|---|\n{lines}")
    return str(entry.folder)


# The module that has to be there, and what writes to the tool.
_TOOLS: Mapping[Tracker, tuple[str, Callable[[_Entry], str]]] = {
    Tracker.MLFLOW: ("mlflow", _to_mlflow),
    Tracker.WANDB: ("wandb", _to_wandb),
    Tracker.TENSORBOARD: ("torch.utils.tensorboard", _to_tensorboard),
}
