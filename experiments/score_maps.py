"""Maps inside and outside the expectation on stored evidence: 20 splits, fitted on one half, scored on the other.

    python -m experiments.score_maps digits EVIDENCE --radii 0.1,0.25,0.5     # a file or a folder of shards
    python -m experiments.score_maps --docs                                   # writes the tables into the page

EVIDENCE is what `python -m experiments.recalibration digits --store EVIDENCE` draws, or the evidence of any run. Writes
results/score_maps-<name>.json. Expected: of maps with the same certified ECE, those inside keep the higher AUROC.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from bench.harness import commit, describe_machine

import certcal
from certcal.recalibration import Candidate, choose_map, fit_nested, held_out_maps

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "recalibration.md"
ALPHA, SPLITS = 0.001, 20
START, END = "<!-- score maps -->", "<!-- end of score maps -->"
MAPS = {
    "outer, λ = 0": Candidate(None, "isotonic", 0.0),
    "outer, λ = 0.5": Candidate(None, "isotonic", 0.5),
    "temperature, λ = 0.5": Candidate(None, "temperature", 0.5),
    "inside alone, λ = 0": Candidate("brier", None, 0.0),
    "inside alone, λ = 0.5": Candidate("brier", None, 0.5),
    "inside, for the ECE, λ = 0.2": Candidate("calibration", None, 0.2),
    "both, λ = 0.5": Candidate("brier", "isotonic", 0.5),
}
# Where what matters is the certified error, and AUROC may fall by 0.03 for it.
BOLD = "automatic, AUROC within 0.03"
SHARP = tuple(Candidate("brier", None, share) for share in (0.0, 0.1, 0.25)) + tuple(
    Candidate("calibration", None, share) for share in (0.05, 0.1, 0.25)
)
COLUMNS = ("certified_ece", "certified_brier", "brier", "brier_all", "auroc")


def rows_at(evidence: certcal.Evidence, radius: float, splits: int) -> list[dict]:
    """Mean held-out scores of every map at one radius, the identity first and the automatic choices last."""
    terms = {"alpha": ALPHA}
    asked = {"radii": radius, "alpha": ALPHA}
    makers = {name: lambda part, one=one: one.fit(part, radii=(radius,), alpha=ALPHA) for name, one in MAPS.items()}
    for share in (0.0, 0.5):
        makers[f"inside, λ = {share:g}"] = lambda part, share=share: fit_nested(
            part, clean_weight=share, on_failure="identity", **asked
        )
    makers["automatic"] = lambda part: choose_map(part, **asked).map
    makers[BOLD] = lambda part: choose_map(part, candidates=SHARP, auroc_loss=0.03, brier_loss=1.0, **asked).map
    rows, outer = [], {}
    for name, make in makers.items():
        held = held_out_maps(evidence, make, radii=radius, terms=terms, repeats=splits)
        before, after = held.mean(radius)
        if not rows:
            rows.append({"radius": radius, "map": "identity", "scores": asdict(before)})
        row = {"radius": radius, "map": name, "scores": asdict(after), "spread": asdict(held.spread(radius))}
        losses = np.array([one.after.certified_brier for one in held.rows])
        share = name.rpartition("λ = ")[2]
        if name.startswith("outer"):
            outer[share] = losses
        elif share in outer:  # by how much it is above the outer map with the same weight, split by split
            rise = losses - outer[share]
            row["above_outer"] = {"mean": float(rise.mean()), "deviation": float(rise.std(ddof=1))}
        rows.append(row)
        print(radius, name, {key: round(getattr(after, key), 4) for key in COLUMNS}, flush=True)
    return rows


def table(body: dict) -> str:
    """The record as Markdown."""
    lines = [
        f"**{body['title']}**, {body['inputs']} inputs, accuracy {body['accuracy']:.1%}, {body['draws']} draws:",
        "",
    ]
    lines += [
        "| R | map | certified ECE | certified Brier | above outer | Brier | Brier, all | AUROC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in body["rows"]:
        own = row["scores"]
        shares = [f"{100 * own[name]:.1f}" for name in COLUMNS[:4]]
        shares.insert(2, _rise(row.get("above_outer")))
        lines.append(f"| {row['radius']:g} | {row['map']} | {' | '.join(shares)} | {own['auroc']:.3f} |")
    return "\n".join(lines)


def _rise(rise: dict | None) -> str:
    """By how much the certified Brier score is above the outer map's, and how much that differs between splits."""
    if rise is None:
        return ""
    return f"{100 * rise['mean']:+.2f}" + (f" ± {100 * rise['deviation']:.2f}" if "deviation" in rise else "")


def write_page() -> None:
    """Put the tables of all records between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    tables = [table(json.loads(path.read_text())) for path in sorted(RESULTS.glob("score_maps-*.json"))]
    head, rest = text.split(START, 1)
    PAGE.write_text(
        head + START + "\n\n" + "\n\n".join(tables) + "\n\n" + END + rest.split(END, 1)[1], encoding="utf-8"
    )


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
    rows = [row for radius in chosen.radii for row in rows_at(evidence, radius, chosen.splits)]
    body = {"machine": describe_machine(), "commit": commit(), "title": chosen.title or chosen.name, "alpha": ALPHA}
    body |= {"splits": chosen.splits, "inputs": len(evidence), "draws": int(evidence.draws[0])}
    body |= {"accuracy": round(float(evidence.correct.mean()), 4), "sigma": evidence.header.sigma, "rows": rows}
    (RESULTS / f"score_maps-{chosen.name}.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
