"""All settings that a study tried of one baseline: the numbers of those too whose evidence the pack has no room for.

    python -m experiments.every_setting STUDY_FOLDER [FOLDER_OF_SEED_1 …] --data fashion-mnist --commit 5eb63a3

writes experiments/results/every_setting-fashion-mnist.json, of which docs/reproduction_tables.md makes a table.
"""

import argparse
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from certcal.evaluation import Outcome, select
from certcal.runs import RunFolder
from certcal.smoothing import load_evidence
from experiments.pack_table import Table, down, markdown, up
from experiments.reference import chosen, trials

RESULTS = Path(__file__).parent / "results"
_SCORES = ("certified_accuracy", "certified_ece", "certified_brier")
TOLD = (
    "All {count} settings fine-tuned from {baseline} (trained and certified at commit {commit}), by the paper's "
    "bounds, without a map. These are the study's own numbers. The pack has no room for the evidence of all; the last "
    "column says of which seeds it has it. Test inputs and held-out images chose among these settings by their first "
    "10,000 draws. Settings that were chosen at some R have 100,000; the rest have larger CCE and CBS for their fewer "
    "draws, and are never selected. CA and CCE are of seeds 0 / 1 / 2, where they are run; CBS and draws of seed 0, "
    "whose bounds count two looks at the draws:"
)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """What came of each trial of a study's folder, at each radius that it selects at; as quoted, where it was."""
    found, why = [], chosen(folder)
    radii = [row["radius"] for row in json.loads((folder / "selection.json").read_text(encoding="utf-8"))]
    for place, trial in trials(folder).items():
        quoted = place / "quoted.json"
        outcomes = json.loads((quoted if quoted.is_file() else place / "outcome.json").read_text(encoding="utf-8"))
        evidence = load_evidence(RunFolder(place).evidence)
        found += [
            {"setting": trial["name"], "baseline": trial["baseline"], "method": trial["method"],
             "settings": trial["settings"], "seed": trial["recipe"]["train"]["seed"],
             "model": evidence.header.model, "draws": int(evidence.draws.max()), "chosen": why.get(trial["name"], ""),
             **{key: one[key] for key in ("radius", *_SCORES)}}
            for one in outcomes["outcomes"] if one["radius"] in radii
        ]  # fmt: skip
    return found


def every_row(data: str) -> list[dict[str, Any]]:
    """What the results have of all settings of a data set."""
    path = RESULTS / f"every_setting-{data}.json"
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else []


def models_taken(data: str, baseline: str, radius: float) -> dict[str, str]:
    """By method the weights that the paper's selection takes of all settings of a baseline, where these are known."""
    made = [
        Outcome(row["method"], row["model"], radius, *(row[key] for key in _SCORES))
        for row in every_row(data)
        if (row["baseline"], row["seed"], row["radius"], row["draws"]) == (baseline, 0, radius, 100_000)
        and row["settings"]
    ]
    return {method: one.model for method, one in select(made, radius=radius).ece.items()} if made else {}


def room(table: Table) -> str:
    """Of which baseline the pack has less than what its own study selected."""
    tuned = {one.baseline for one in table.models.values()}
    names = " and ".join(sorted({row["baseline"].lower() for row in every_row(table.data) if row["baseline"] in tuned}))
    place = "reproduction_tables.md#every-setting-of-one-baseline"
    told = (
        f" Of {names} the pack has room for some settings only, those that are selected among all baselines; the "
        f"others, some with smaller errors at a lower CA, are [listed]({place})."
    )
    return told if names else ""


def every_setting(table: Table) -> str:
    """A table of all settings that were tried of a baseline, where the results have them."""
    rows, packed = every_row(table.data), set(table.model.values())
    if not rows:
        return ""
    lines = []
    for radius in sorted({row["radius"] for row in rows}):
        for name in dict.fromkeys(row["setting"] for row in rows):
            seeds = {row["seed"]: row for row in rows if (row["setting"], row["radius"]) == (name, radius)}
            first = seeds[0]
            lines.append([
                f"{radius:g}", first["method"], name.rsplit(" ", 1)[-1] if first["settings"] else "the baseline",
                first["settings"] or "—", *(_each(seeds, score) for score in ("certified_accuracy", "certified_ece")),
                up(first["certified_brier"]), f"{first['draws']:,}", _where(first["chosen"], radius),
                ", ".join(str(seed) for seed, row in seeds.items() if row["model"] in packed) or "—",
            ])  # fmt: skip
    heads = ["R", "method", "setting", "what it is", "CA", "CCE", "CBS", "draws", "chosen on", "seeds in the pack"]
    count = len({row["setting"] for row in rows if row["settings"]})
    told = TOLD.format(count=count, baseline=rows[0]["baseline"].lower(), commit=rows[0]["commit"])
    return f"{told}\n\n{markdown(heads, lines, 4)}"


def _each(seeds: Mapping[int, Mapping[str, Any]], score: str) -> str:
    shown = down if score == "certified_accuracy" else up
    return " / ".join(shown(row[score]) for _, row in sorted(seeds.items()))


def _where(why: str, radius: float) -> str:
    """Which inputs chose a setting at R."""
    parts = {part.removeprefix("on ").split(":")[0]: part for part in why.split("; ") if part}
    here = [where for where, part in parts.items() if f"at {radius:g}," in f"{part},"]
    return ", ".join(sorted(("test" if "test" in where else "held-out" for where in here), reverse=True)) or "—"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--commit", required=True)
    asked = parser.parse_args()
    rows = [{"commit": asked.commit, **row} for folder in asked.folders for row in rows_of(folder)]
    lines = ",\n".join(map(partial(json.dumps, ensure_ascii=False), rows))
    (RESULTS / f"every_setting-{asked.data}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
