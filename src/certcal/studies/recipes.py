"""The recipe of a sweep: a training run, the settings that vary, and the certification of what was trained."""

from dataclasses import dataclass, field
from pathlib import Path

from certcal.runs import TrainRecipe, build_recipe
from certcal.settings import CertifySettings, DataSettings, EvaluateSettings, Sections, merged, read_toml
from certcal.studies.grid import SweepSettings


@dataclass(frozen=True, kw_only=True)
class SweepRecipe(TrainRecipe):
    """Many training runs, each certified on the inputs of `test`."""

    test: DataSettings
    certify: CertifySettings  # σ is that of the training
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)


def load_sweep(path: Path | None, changes: Sections) -> SweepRecipe:
    """The recipe of a TOML file (or none), changed by what is given beside it: {section: {key: value}}."""
    return build_sweep(merged({} if path is None else read_toml(path), changes), str(path or "options"))


def build_sweep(values: Sections, source: str) -> SweepRecipe:
    """A recipe of the given sections; certification takes the σ of the training unless another is given."""
    train = values.get("train", {})
    sigma = train.get("sigma", 1.0) if isinstance(train, dict) else 1.0
    return build_recipe(merged({"certify": {"sigma": sigma}}, values), SweepRecipe, source)
