"""What a run is made of, as it stands in its config.toml."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.evaluation import check_evaluation
from certcal.runs.toml import build, check, read_toml, write_toml


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which network, with which weights."""

    name: str  # one of `certcal.data.model_names()`, or package.module:factory
    weights: str | None = None  # a checkpoint; without it the weights are the factory's own
    mean: tuple[float, ...] | None = None  # normalisation inside the model
    std: tuple[float, ...] | None = None
    classes: int | None = None  # those of the data by default
    temperature: float | None = None  # logits are divided by it, before smoothing
    options: dict[str, Any] = field(default_factory=dict)  # what else the network takes


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which inputs, as for `certcal.data.load_dataset`."""

    name: str
    split: str | None = None
    root: str | None = None
    download: bool = False
    limit: int | None = None
    every: int = 1
    resize: int | None = None
    crop: int | None = None
    channels: int | None = None


@dataclass(frozen=True, kw_only=True)
class CertifySettings:
    """How evidence is drawn, as for `certcal.collect_evidence`."""

    sigma: float
    n: int = 100_000
    n0: int = 100
    seed: int = 0
    chunk: int = 250
    outputs: str = "logits"
    device: str | None = None
    precision: str = "float32"
    batch_size: int | None = None
    fuse: bool = False
    compile: bool = False
    stages: tuple[int, ...] | None = None  # stop an input early once `evaluate`'s radii are decided


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """What is asked of the evidence, as for `certcal.evaluate`."""

    radii: tuple[float, ...] | None = None  # by default 0 to 2 σ in steps of σ / 4
    alpha: float = 0.001
    delta: float = 0.001
    method: str = "cdf-cp"
    joint: bool = True
    population: str = "certified"
    n_bins: int = 15
    approximations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Checked here, before anything is drawn, and not only when the evidence is there.
        check_evaluation(
            radii=(0.0,) if self.radii is None else self.radii,
            alpha=self.alpha,
            delta=self.delta,
            method=self.method,
            split_alpha=self.joint,
            population=self.population,
            n_bins=self.n_bins,
            approximations=self.approximations,
        )
        if self.radii is not None:
            object.__setattr__(self, "radii", tuple(sorted(set(self.radii))))


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """All settings of a run. Only `evaluate` can be changed once evidence has been drawn."""

    model: ModelSettings
    data: DataSettings
    certify: CertifySettings
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)


_NEEDED = {("model", "name"): "--model", ("data", "name"): "--data", ("certify", "sigma"): "--sigma"}


def load_settings(path: Path | None, changes: dict[str, dict[str, Any]]) -> RunSettings:
    """The settings of a TOML file (or none), changed by what is given beside it: {section: {key: value}}.

    Unknown keys, missing ones and values of the wrong type are refused by name.
    """
    values, source = _changed({} if path is None else read_toml(path), changes), str(path or "options")
    check(RunSettings, values, source)
    missing = [option for (section, key), option in _NEEDED.items() if key not in values[section]]
    if missing:
        raise InputError(f"Missing {', '.join(missing)}: give what is missing as an option or in a TOML file.")
    return build(RunSettings, values, source)


def change_evaluation(settings: RunSettings, path: Path | None, changes: dict[str, Any]) -> EvaluateSettings:
    """The run's evaluation, changed by the [evaluate] section of a TOML file and then by what is given."""
    own = {name: getattr(settings.evaluate, name) for name in EvaluateSettings.__dataclass_fields__}
    read = {} if path is None else read_toml(path)
    check(RunSettings, read, str(path))  # the other sections are not used, but a misspelt key is an error there too
    given = {name: value for name, value in own.items() if value is not None} | read.get("evaluate", {}) | changes
    return build(EvaluateSettings, given, str(path or "options"), where="evaluate")


def save_settings(settings: RunSettings, path: Path) -> None:
    """Write the settings as TOML."""
    write_toml(settings, path, head="What this run was made with; `certcal certify --config` takes it back.")


def _changed(read: dict[str, Any], changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    merged = {"model": {}, "data": {}, "certify": {}} | read  # so that what is missing is named within them
    for section, values in changes.items():
        if values:
            own = merged.get(section, {})
            merged[section] = (own if isinstance(own, dict) else {}) | values
    return merged
