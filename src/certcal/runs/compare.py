"""Runs side by side: the same question asked of the evidence of each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from certcal.errors import InputError, several
from certcal.evaluation import SideBySide, check_resamples, compare_reports
from certcal.files import printable
from certcal.report import changed_csv, side_by_side_csv, side_by_side_markdown, side_by_side_page
from certcal.runs.evaluate import evaluate_again, load_run_bounds, radii_of
from certcal.runs.folder import RunFolder, Tell
from certcal.scalars import guarded, one_or_more
from certcal.settings import TERMS


@guarded
def compare_runs(
    runs: Sequence[RunFolder],
    folder: Path,
    *,
    radii: tuple[float, ...] | None = None,
    resamples: int = 200,
    tell: Tell = lambda line: None,
) -> SideBySide:
    """The runs evaluated as the first one was last, at its radii or at those given.

    Page, compare.html, and tables are in the folder.

    Paper: —; run folders are ours.
    Errs: certified values as `certcal.evaluate` does; intervals of differences are estimates.
    """
    check_resamples(resamples)  # before the work, which may take minutes
    names = _names(one_or_more("runs", runs))
    asked = runs[0].settings().evaluate
    # What a comparison has no place for.
    unused: dict[str, Any] = {"open_at": None, "approximations": (), "groups": (), "any_binning": False}
    given = [run for run in runs if run.bounds.is_file()]
    # Bounds from elsewhere state their own level, and are at no other radii than theirs.
    apart = {"radii", *unused, *(TERMS if given else ())}
    common = {name: getattr(asked, name) for name in asked.questions if name not in apart}
    distances = radii or _shared(runs[0], given)
    reports = {}
    for name, run in zip(names, runs, strict=True):
        tell(f"evaluating {name} at {several(len(distances), 'radius', 'radii')}")
        reports[name] = evaluate_again(run, **common, **unused, radii=distances)
    remarks = tuple(_last_asked(run, name, common) for name, run in zip(names, runs, strict=True))
    if resamples:
        tell(f"drawing the inputs again, {several(resamples, 'time')}, to see how far differences vary")
    found = replace(compare_reports(reports, resamples=resamples), remarks=tuple(filter(None, remarks)))
    out = RunFolder(folder)
    out.create()
    with out.change() as change:
        change.write("differences.csv", side_by_side_csv(found))
        change.write("changed.csv", changed_csv(found))
        change.write("compare.md", side_by_side_markdown(found))
        change.write("compare.html", side_by_side_page(found))
    return found


def _shared(first: RunFolder, given: Sequence[RunFolder]) -> tuple[float, ...]:
    """The radii of the first run, as far as runs of bounds from elsewhere have them."""
    there = [{own.radius for own in load_run_bounds(run)} for run in given]
    found = tuple(radius for radius in radii_of(first) if all(radius in some for some in there))
    if not found:
        raise InputError.expected("runs", "have a radius in common, where bounds have only their own", "none")
    return found


def _last_asked(run: RunFolder, name: str, common: dict[str, Any]) -> str:
    """In what a run's own last evaluation differs from the one that all have here; empty if it does not."""
    own = run.settings().evaluate
    differ = [f"{key} = {getattr(own, key)}" for key, value in common.items() if getattr(own, key) != value]
    if not differ:
        return ""
    here = ", ".join(f"{key} = {value}" for key, value in common.items() if getattr(own, key) != value)
    return f"{name} was last evaluated with {', '.join(differ)}; here, like the first run, with {here}."


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Names by which the runs are told apart: those of their folders, or else their paths."""
    if len(runs) < 2:
        raise InputError.expected("runs", "be at least two", len(runs))
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise InputError.expected("runs", "be different from each other", ", ".join(str(run.path) for run in runs))
    names = [path.name for path in paths]
    return [printable(name) for name in (names if len(set(names)) == len(names) else map(str, paths))]
