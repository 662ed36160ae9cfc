"""Maps inside and outside the expectation on stored evidence: 20 splits, fitted on one half, scored on the other.

    python -m experiments.score_maps digits EVIDENCE --radii 0.1,0.25,0.5     # a file or a folder of shards
    python -m experiments.score_maps --docs                                   # writes the tables into the page

EVIDENCE is what `python -m experiments.recalibration digits --store EVIDENCE` draws, or the evidence of any run. Writes
results/score_maps-<name>.json. Expected: of maps with the same certified ECE, those inside keep the higher AUROC.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from bench.harness import commit, describe_machine

import certcal
from certcal.recalibration import AnyMap, Candidate, Choice, Scores, choose_map, fit_nested, held_out_maps

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "recalibration.md"
ALPHA, SPLITS = 0.001, 20
START, END = "<!-- score maps -->", "<!-- end of score maps -->"
SHARES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
OUTER = "outer"
KINDS = ("inside alone", "inside, for the ECE", "inside")
CURVES = {
    OUTER: Candidate(None, "isotonic"),
    "inside alone": Candidate("brier", None),
    "inside, for the ECE": Candidate("calibration", None),
}
STEPS = {"steps": Candidate(None, "steps"), "share ≥ 0.975, then steps": Candidate(None, "steps", reaching=0.975)}
# Where what matters is the certified error, and AUROC may fall by 0.03 for it.
BOLD = "automatic, AUROC within 0.03"
LIMITS = {"auroc_loss": 0.03, "brier_loss": 1.0}
SHOWN = (
    "outer, λ = 0",
    "outer, λ = 0.5",
    "temperature, λ = 0.5",
    "inside alone, λ = 0",
    "inside alone, λ = 0.5",
    "inside, for the ECE, λ = 0",
    "inside, for the ECE, λ = 0.05",
    "inside, for the ECE, λ = 0.2",
    "both, λ = 0.5",
    "inside, λ = 0",
    "inside, λ = 0.5",
    *(f"{name}, λ = {share:g}" for name in STEPS for share in (0.8, 0.9)),
    "automatic",
    BOLD,
)
COLUMNS = ("certified_ece", "certified_brier", "brier", "brier_all", "auroc")
# By how much certified errors may differ and still be called equal.
EQUAL = 0.001

Maker = Callable[[certcal.Evidence], AnyMap]


def makers(radius: float) -> dict[str, Maker]:
    """Ways to make a map at one radius, by name; each sees the fitting half alone."""
    others = {"temperature": Candidate(None, "temperature"), "both": Candidate("brier", "isotonic")}
    fixed = [(name, one, share) for name, one in CURVES.items() for share in SHARES]
    fixed += [(name, one, 0.5) for name, one in others.items()]
    fixed += [(name, one, share) for name, one in STEPS.items() for share in (0.8, 0.9)]
    found: dict[str, Maker] = {
        f"{name}, λ = {share:g}": lambda part, one=one, share=share: one.fit(
            part, radii=(radius,), alpha=ALPHA, clean_weight=share
        )
        for name, one, share in fixed
    }
    for share in SHARES:
        found[f"inside, λ = {share:g}"] = lambda part, share=share: fit_nested(
            part, radii=radius, alpha=ALPHA, clean_weight=share, on_failure="identity"
        )
    return found


def choosers(radius: float) -> dict[str, Maker]:
    """Ways that choose among maps, which take most of the time: one comparison of candidates serves both limits."""
    asked: dict[str, Any] = {"radii": (radius,), "alpha": ALPHA}
    last: dict[bytes, Choice] = {}

    def choice(part: certcal.Evidence) -> Choice:
        inputs = part.index.tobytes()
        if inputs not in last:
            last.clear()
            last[inputs] = choose_map(part, on_failure="identity", **asked)
        return last[inputs]

    return {
        "automatic": lambda part: choice(part).map,
        BOLD: lambda part: choice(part).within(**LIMITS)[0].fit(part, **asked),
    }


def held_out(evidence: certcal.Evidence, radius: float, splits: int, made: dict[str, Maker]) -> dict[str, list[Scores]]:
    """The scores of every map on the half that it was not fitted to, split by split; the identity first."""
    found: dict[str, list[Scores]] = {name: [] for name in ("identity", *made)}
    for seed in range(splits):  # splits outermost: maps of one split share their limits
        for place, (name, make) in enumerate(made.items()):
            own = held_out_maps(evidence, make, radii=radius, terms={"alpha": ALPHA}, repeats=1, seed=seed).rows[0]
            if not place:
                found["identity"].append(own.before)
            found[name].append(own.after)
        print(radius, seed, {key: round(getattr(found[name][-1], key), 4) for key in COLUMNS}, flush=True)
    return found


def rows_of(held: dict[str, list[Scores]], radius: float) -> list[dict]:
    """Means and deviations between splits of the maps that the table shows, as far as they are known."""
    rows = []
    for name in (own for own in ("identity", *SHOWN) if own in held):
        mean, spread = (
            {key: float(how(of(held, name, key))) for key in asdict(held[name][0])} for how in (_mean, _std)
        )
        row = {"radius": radius, "map": name, "scores": mean, "spread": spread}
        same = OUTER + name[name.find(", λ = ") :]
        if name.startswith(("inside", "both", "temperature")) and same in held:
            rise = of(held, name, "certified_brier") - of(held, same, "certified_brier")
            row["above_outer"] = {"mean": float(_mean(rise)), "deviation": float(_std(rise))}
        rows.append(row)
    return rows


def equal_errors(held: dict[str, list[Scores]], radius: float) -> list[dict]:
    """What AUROC inside maps have at the certified ECE of each outer map, on straight lines between neighbouring λ.

    Mean curves decide between which λ; the same two are then compared with the outer map in every split.
    """
    rows = []
    for share in SHARES:
        outer = f"{OUTER}, λ = {share:g}"
        error, own = (of(held, outer, key) for key in ("certified_ece", "auroc"))
        row = {
            "radius": radius,
            "clean_weight": share,
            "certified_ece": float(_mean(error)),
            "outer": float(_mean(own)),
        }
        for kind in KINDS:
            errors, aurocs = (
                np.array([of(held, f"{kind}, λ = {other:g}", key) for other in SHARES])
                for key in ("certified_ece", "auroc")
            )
            best = _best_at(_mean(errors, axis=1), aurocs, float(_mean(error)) + EQUAL)
            row[kind] = (
                None if best is None else {"mean": float(_mean(best - own)), "deviation": float(_std(best - own))}
            )
        rows.append(row)
    return rows


def _best_at(errors: np.ndarray, aurocs: np.ndarray, limit: float) -> np.ndarray | None:
    """The AUROC in every split where its mean is largest on a curve, given mean errors, with an error ≤ limit."""
    points = [aurocs[place] for place in np.flatnonzero(errors <= limit)]
    for first in range(len(errors) - 1):
        low, high = errors[first : first + 2]
        if min(low, high) <= limit < max(low, high):
            share = (limit - low) / (high - low)
            points.append((1 - share) * aurocs[first] + share * aurocs[first + 1])
    return max(points, key=np.mean, default=None)


def of(held: dict[str, list[Scores]], name: str, key: str) -> np.ndarray:
    """One score of one map in every split."""
    return np.array([getattr(own, key) for own in held[name]])


_mean = np.nanmean


def _std(values: np.ndarray) -> float:
    return float(np.nanstd(values, ddof=1)) if len(values) > 1 else float("nan")


def table(body: dict) -> str:
    """The record as Markdown."""
    lines = [
        f"**{body['title']}**, {body['inputs']} inputs, accuracy {body['accuracy']:.1%}, {body['draws']} draws:",
        "",
        "| R | map | certified ECE | certified Brier | above outer | Brier | Brier, all | AUROC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in body["rows"]:
        own = row["scores"]
        shares = [f"{100 * own[name]:.1f}" for name in COLUMNS[:4]]
        rise = row.get("above_outer")
        shares.insert(2, "" if rise is None else f"{100 * rise['mean']:+.2f} ± {100 * rise['deviation']:.2f}")
        lines.append(f"| {row['radius']:g} | {row['map']} | {' | '.join(shares)} | {own['auroc']:.3f} |")
    return "\n".join(lines)


def equal_table(bodies: list[dict]) -> str:
    """AUROC at the certified ECE of the outer map, of all records, as Markdown."""
    lines = [
        f"| evidence | R | λ of the outer map | certified ECE | AUROC, outer | {' | '.join(KINDS)} |",
        "|---|---|---|---|---|" + "---|" * len(KINDS),
    ]
    for body in bodies:
        for row in body["equal"]:
            gains = [row[kind] for kind in KINDS]
            told = ["" if own is None else f"{own['mean']:+.3f} ± {own['deviation']:.3f}" for own in gains]
            start = (
                f"| {body['name']} | {row['radius']:g} | {row['clean_weight']:g} | {100 * row['certified_ece']:.1f} "
            )
            lines.append(f"{start}| {row['outer']:.3f} | {' | '.join(told)} |")
    return "\n".join(lines)


def write_page() -> None:
    """Put the tables of all records between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    bodies = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("score_maps-*.json"))]
    parts = [table(body) for body in bodies] + [
        "**AUROC at the same certified ECE** as the outer map with a weight λ, minus that map's:",
        equal_table(bodies),
    ]
    head, rest = text.split(START, 1)
    PAGE.write_text(head + START + "\n\n" + "\n\n".join(parts) + "\n\n" + END + rest.split(END, 1)[1], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("evidence", nargs="?", type=Path)
    parser.add_argument("--title", help="what the evidence is of")
    parser.add_argument(
        "--radii", type=lambda text: [float(part) for part in text.split(",")], default=[0.25, 0.5, 1.0]
    )
    parser.add_argument("--inputs", type=int, help="only so many of them")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--docs", action="store_true", help="write the tables into the page and stop")
    chosen = parser.parse_args()
    if chosen.docs:
        write_page()
        return
    evidence = certcal.load_evidence(chosen.evidence)
    if chosen.inputs:
        evidence = evidence.select(slice(chosen.inputs))
    body = {
        "machine": describe_machine(),
        "commit": commit(),
        "name": chosen.name,
        "title": chosen.title or chosen.name,
    }
    body |= {"alpha": ALPHA, "splits": chosen.splits, "inputs": len(evidence), "draws": int(evidence.draws.max())}
    body |= {"accuracy": round(float(evidence.correct.mean()), 4), "sigma": evidence.header.sigma}
    body |= {"rows": [], "equal": []}
    held: dict[float, dict[str, list[Scores]]] = {radius: {} for radius in chosen.radii}
    for ways in (makers, choosers):
        for radius in chosen.radii:
            held[radius] |= held_out(evidence, radius, chosen.splits, ways(radius))
            known = [(own, radius) for radius, own in held.items() if own]
            body["rows"], body["equal"] = (
                [row for one in known for row in made(*one)] for made in (rows_of, equal_errors)
            )
            # After each, so that a run that is cut off leaves what it has.
            (RESULTS / f"score_maps-{chosen.name}.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
