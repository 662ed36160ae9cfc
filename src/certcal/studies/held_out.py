"""Which models of a study held-out images may choose among, and what these came to there."""

import json
from dataclasses import dataclass
from pathlib import Path

from certcal.errors import InputError
from certcal.evaluation import Outcome
from certcal.runs import RunFolder
from certcal.studies.trials import Stages, Tell, Trial, held_out_outcomes

SELECTION, HELD_OUT = "selection.json", "held_out"
LIKE = "like.json"  # models that no test input chose, where others of the folder were trained since one did


@dataclass
class Candidates:
    """The models of a folder among which held-out images alone may choose."""

    run: RunFolder
    names: set[str] | None  # None: all

    @classmethod
    def of(cls, run: RunFolder) -> "Candidates":
        """Those of a folder, as earlier calls left them."""
        path = run.path / LIKE
        if not path.is_file():
            return cls(run, None)
        failures = (OSError, ValueError, TypeError, RecursionError)
        with InputError.expecting("into", "be a folder whose like.json names models", f"{path}", on=failures):
            return cls(run, set(map(str, json.loads(path.read_text(encoding="utf-8")))))

    def let_in(self, names: set[str], *, only: bool = True) -> None:
        """Models that no test input chose. `only`: others of the folder may have been; else all, where none had."""
        if self.names is None and not only:
            return
        self.names = names | (self.names or set())
        self.run.write_json(LIKE, sorted(self.names))

    def outcomes(self, stages: Stages, tell: Tell, *, like: Path | None = None) -> list[Outcome]:
        """What they came to on held-out images; in a study `like` another, of those that these chose there."""
        found: list[Outcome] = []
        among = self.names if like is None else selected_models(like, held_out=True)
        for first, tuned in stages:
            if first.trained and first.recipe.validation.every:
                told = "it may have been trained on the images that choose here"
                tell(f"warning: {first.name} came with its weights: {told}.")
            for one in (first, *tuned):
                if among is not None and one.name not in among:
                    continue
                if _holding_out(one) != _holding_out(first):
                    told = f"{first.name} was trained on some of its"
                    tell(f"warning: {one} is left out where held-out images choose: {told}.")
                    continue
                found += held_out_outcomes(one, tell)
        return found


def selected_models(folder: Path, *, held_out: bool = False) -> set[str]:
    """The names of the models that the study in a folder selected; with `held_out`, by held-out images alone."""
    path, wanted = folder / SELECTION, "be the folder of a study that was run"
    if not path.is_file():
        raise InputError.expected("like", wanted, f"{folder}, without {SELECTION}")
    failures = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    with InputError.expecting("like", wanted, f"{path}, which cannot be read", on=failures):
        read = json.loads(path.read_text(encoding="utf-8"))
        chosen = [own for one in read for own in (one.get(HELD_OUT), *(() if held_out else (one,))) if own is not None]
        return {name for own in chosen for score in ("ece", "brier") for name in own[score].values()}


def _holding_out(trial: Trial) -> tuple[object, ...]:
    """What decides which training images are held out."""
    validation, data = trial.recipe.validation, trial.recipe.data
    return trial.recipe.train.seed, validation.fraction, validation.inputs, validation.every > 0, data
