"""Add the models of a study's folder to the reference pack: those that were quoted, and baselines.

    python -m experiments.reference STUDY_FOLDER --data fashion-mnist --commit 801f174 --device "NVIDIA H200"

Each entry says how it came to be quoted: selected on the test inputs as the paper selects (within 3 points of the best
certified accuracy), or on held-out training images. A model trained again stands beside the first, as NAME-again.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from certcal.runs import RunFolder
from certcal.smoothing import load_evidence
from certcal.studies import Pack, add_to_pack, entry_of_run

PACK = Path(__file__).resolve().parents[1] / "reference"


def trials(folder: Path) -> dict[Path, dict[str, Any]]:
    """What each finished trial of the study was."""
    return {
        path.parent: json.loads(path.read_text(encoding="utf-8"))["trial"]
        for path in sorted(folder.rglob("outcome.json"))
    }


def chosen(folder: Path) -> dict[str, str]:
    """How each model that is quoted came to be: where it was selected, and on what."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    selection = folder / "selection.json"  # of a study that was finished
    for row in json.loads(selection.read_text(encoding="utf-8")) if selection.is_file() else ():
        for where, own in (("the test inputs", row), ("held-out training images", row.get("held_out") or {})):
            for score in ("ece", "brier"):
                for model in own.get(score, {}).values():
                    found[model][where].append(f"{score} at {row['radius']:g}")
    return {
        model: "; ".join(f"on {where}: {', '.join(what)}" for where, what in own.items())
        for model, own in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--mapped", type=float, nargs="*", default=[0.5, 1.0])
    parser.add_argument("--chosen", help="how all of them were chosen, where the folder does not know")
    parser.add_argument("--screened", action="store_true", help="also what was certified with the draws of screening")
    asked = parser.parse_args()
    known = trials(asked.folder)
    why = chosen(asked.folder)
    pack = Pack.read(PACK)
    there, models = {one.name for one in pack.entry}, {pack.evidence(one).header.model for one in pack.entry}
    for place, trial in known.items():
        baseline = trial["baseline"] == trial["name"]
        if not (baseline or asked.screened or (place / "quoted.json").is_file()):
            continue
        recipe = trial["recipe"]
        seed = recipe["train"]["seed"]
        words = [asked.data, trial["baseline"], *([] if baseline else [trial["method"], place.name.split("-")[-1]])]
        name = "-".join(words).lower().replace("*", "-star").replace(" ", "-") + f"-seed{seed}"
        run, evidence = RunFolder(place), load_evidence(place / "evidence.parquet")
        if evidence.header.model in models:
            continue  # added before, perhaps by a call that was cut off
        while name in there:  # other weights: models that start from them are compared with them
            name += "-again"
        radii = [radius for radius in recipe["evaluate"]["radii"] if radius < 4 * evidence.header.sigma]
        facts = {
            "name": name,
            "data": asked.data,
            "method": recipe["objective"]["name"].title() if trial["method"] == "baseline" else trial["method"],
            "settings": f"{recipe['train']['epochs']} epochs" + (f", {trial['settings']}" if trial["settings"] else ""),
            "baseline": "" if baseline else trial["baseline"],
            "train_seed": seed,
            "chosen": asked.chosen or why.get(trial["name"], "a baseline" if baseline else "not selected"),
            "radii": radii,
            "mapped": [radius for radius in asked.mapped if radius in radii],
            "commit": asked.commit,
            "device": asked.device,
            "source": "certcal",
        }
        add_to_pack(PACK, evidence, entry_of_run(run, **facts))
        print("added", name, int(evidence.draws.max()), "draws", flush=True)


if __name__ == "__main__":
    main()
