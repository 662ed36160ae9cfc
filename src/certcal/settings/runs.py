"""What a run is made of, as it stands in its config.toml."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from certcal.errors import InputError
from certcal.settings import checks
from certcal.settings.choices import (
    Approximation,
    Certifier,
    Claim,
    Domain,
    Method,
    Norm,
    Outputs,
    Population,
    Precision,
    Relaxation,
    RunnerUp,
    Scaling,
    Values,
)
from certcal.settings.declare import Record, setting
from certcal.settings.toml import Sections, build, build_sections, check, merged, read_toml, toml_text

NUMBERS = "A,B,…"
PREDICTION_SHARE = 0.5  # less of α narrows confidences a little and certifies fewer inputs: docs/certificates.md
# What bounds of the confidence are asked, beside a radius.
TERMS = ("alpha", "method", "split_alpha", "prediction_share", "runner_up")


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Record, panel="What to certify"):
    """Which network, with which weights."""

    name: str = setting(
        ..., "A known network, timm:NAME, hf:FOLDER, a .onnx, .pt2 or TorchScript file, or package.module:factory.",
        option="--model",
    )  # fmt: skip
    weights: str | None = setting(None, "Checkpoint (.pt, .pth, .safetensors).", metavar="FILE")
    mean: tuple[float, ...] | None = setting(None, "Channel means that the model normalises with.", metavar=NUMBERS)
    std: tuple[float, ...] | None = setting(None, "Channel standard deviations, likewise.", metavar=NUMBERS)
    classes: int | None = setting(None, "Classes of the model", check=checks.classes, shown="those of the data")
    temperature: float | None = setting(None, "Divide the logits by this before smoothing.")
    options: dict[str, Any] = setting({}, "What else the network takes.", option=None)  # noqa: RUF009


@dataclass(frozen=True, kw_only=True)
class DataSettings(Record, panel="What to certify"):
    """Which inputs, as for `certcal.data.load_dataset`."""

    name: str = setting(
        ..., "A known data set, a .npz file, or a folder of class folders or with a CSV of labels.", option="--data"
    )
    split: str | None = setting(None, "Split of the data", shown="train to train on, else test")
    root: str | None = setting(None, "Folder to look for data in.", metavar="FOLDER")
    download: bool = setting(False, "Fetch the data if it is missing.")
    limit: int | None = setting(
        None, "Use at most this many inputs, evenly spread", check=checks.at_least_0, shown="all"
    )
    every: int = setting(1, "Use only every k-th input", check=checks.at_least_1)
    resize: int | None = setting(None, "Image folders: scale the shorter side to this.", check=checks.side)
    crop: int | None = setting(None, "Image folders: keep the central square of this side.", check=checks.side)
    channels: int = setting(3, "Image folders: 3 for RGB, 1 for grey")
    values: str = setting(
        "unit", "What inputs of a .npz file hold: values in [0, 1], or any", choices=Values, was="domain"
    )
    scale: str = setting("none", "Divide inputs that live anywhere by this, so that radii are in it", choices=Scaling)
    class_names: tuple[str, ...] | None = setting(
        None,
        "Class names in the model's order, or a file with one a line",
        metavar="A,B,…",
        shown="its own, or sorted",
        most=checks.MAX_CLASSES,
    )


@dataclass(frozen=True, kw_only=True)
class CertifySettings(Record, panel="How to draw"):
    """How evidence is drawn, as for `certcal.collect_evidence`."""

    sigma: float = setting(..., "Standard deviation of the noise, in the units of the inputs.", check=checks.sigma)
    n: int = setting(100_000, "Draws per input", check=checks.draws)
    n0: int = setting(100, "Draws that select the class", check=checks.chunk)
    seed: int = setting(0, "Seed of the noise", check=checks.seed)
    chunk: int = setting(250, "Draws that are generated and stored together", check=checks.chunk, option=None)
    stages: tuple[int, ...] | None = setting(
        None, "Draws after which decided inputs stop, as 1000,10000,100000.", check=checks.at_least_1, metavar=NUMBERS
    )
    outputs: str = setting("logits", "What the model gives", choices=Outputs)
    temperatures: tuple[float, ...] | None = setting(
        None, "Count scores with logits divided by each of these, as 1,0.5,0.25, from one set of draws",
        check=checks.positive, metavar=NUMBERS, shown="1",
    )  # fmt: skip
    device: str | None = setting(None, "cpu, cuda, …", shown="a GPU if there is one")
    precision: str = setting("float32", "Numbers that the model runs in", choices=Precision)
    batch_size: int | None = setting(
        None, "Draws per forward pass on a GPU", check=checks.at_least_1, shown="found by trying"
    )
    fuse: bool = setting(False, "Fold batch-norm into convolutions: fastest on a GPU.")
    compile: bool | None = setting(None, "Run the model through torch.compile", shown="for long runs on a GPU")


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Record, panel="What to ask"):
    """What is asked of the evidence, as for `certcal.evaluate`. Wrong settings are refused before anything is drawn."""

    radii: tuple[float, ...] | None = setting(
        None, "Radii, as 0,0.1,0.25", check=checks.radius, metavar=NUMBERS, shown="0 to 2 σ in steps of σ/4"
    )
    open_at: float | None = setting(
        None, "Radius that the report opens at", check=lambda _, value: checks.radius("radius", value),
        option="--radius", shown="the largest at which half of the inputs are certified",
    )  # fmt: skip
    alpha: float = setting(0.001, "Error probability per input; 0 only for proven bounds", check=checks.level_or_0)
    delta: float = setting(0.001, "Error probability for the whole set", check=checks.level)
    alpha_for_set: bool = setting(
        False, "Instead of --alpha, take the α that suits guaranteed values, from inputs, planned draws and δ.",
        option="--alpha-for-set/--no-alpha-for-set",
    )  # fmt: skip
    claim: str = setting("failures", "How the guaranteed ECE allows for sampling error", choices=Claim)
    method: str = setting("cdf-cp", "Confidence certificate", choices=Method)
    split_alpha: bool = setting(True, "α is shared by the two parts of a certificate.", option=None, was="joint")
    prediction_share: float = setting(
        PREDICTION_SHARE, "Of α, the share for the class; the rest is for its confidence", check=checks.inner_share
    )
    runner_up: str = setting("complement", "How the second class is bounded", choices=RunnerUp)
    at_temperature: float | None = setting(
        None, "Which of the temperatures that scores were counted at", check=checks.positive, shown="the first"
    )
    population: str = setting("certified", "Inputs that errors are about", choices=Population)
    n_bins: int = setting(15, "Bins of the calibration error", check=checks.bins)
    approximations: tuple[str, ...] = setting(
        (), "Also the paper's approximations (slow)", choices=Approximation, option="--approximate", metavar=NUMBERS
    )

    threshold: float = setting(0.8, "Confidence from which predictions are accepted", check=checks.share)
    accept_accuracy: float | None = setting(
        None, "Also the smallest threshold from which at least this share of those accepted is right under attack.",
        check=checks.share,
    )  # fmt: skip
    groups: tuple[str, ...] = setting(
        (), "Also per group: predicted, label, a column of a .npz data file, or a table", metavar="NAME,…"
    )
    any_binning: bool = setting(False, "Also the worst case over every binning: slow beyond 1000 inputs.")
    images: bool = setting(
        True, "Show pictures of inputs in the report, or none, as for private data.", option="--images/--no-images"
    )

    @property
    def questions(self) -> dict[str, Any]:
        """What `certcal.evaluate` is asked."""
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("images", "at_temperature", "alpha_for_set")
        }

    @property
    def terms(self) -> dict[str, Any]:
        """What `certcal.confidence_bounds` is asked, but for the radius."""
        return {name: getattr(self, name) for name in TERMS}

    def check_together(self) -> None:
        """Approximations need certified inputs. The paper splits nothing. Radii are put in order."""
        if not self.split_alpha and self.prediction_share != PREDICTION_SHARE:
            wanted = "be left out in the paper's reading, which gives α to both"
            raise InputError.expected("prediction_share", wanted, self.prediction_share)
        if self.approximations and self.population == Population.ALL:
            wanted = "be left out for population 'all', which they know nothing of"
            raise InputError.expected("approximations", wanted, ", ".join(self.approximations))
        if self.radii is not None:
            object.__setattr__(self, "radii", tuple(sorted(set(self.radii))))

    def radii_at(self, sigma: float) -> tuple[float, ...]:
        """The radii asked for, or 0 to 2 σ in steps of σ / 4, with the one that the report opens at."""
        asked = self.radii if self.radii is not None else [round(sigma * step / 4, 12) for step in range(9)]
        return tuple(sorted({*asked, *(() if self.open_at is None else (self.open_at,))}))


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """All settings of a run. Only `evaluate` can be changed once evidence has been drawn."""

    model: ModelSettings
    data: DataSettings
    certify: CertifySettings
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)

    def __post_init__(self) -> None:
        if self.evaluate.alpha == 0:
            wanted = "be > 0 for a smoothed model, as draws prove nothing for sure (0 is for proven bounds, --bounds)"
            raise InputError.expected("alpha", wanted, 0)


@dataclass(frozen=True, kw_only=True)
class BoundsSettings(Record, panel="Bounds from elsewhere"):
    """Who certified a network without noise, and what these certificates state of themselves."""

    certifier: str = setting(
        "smoothing", "Who certifies", choices=Certifier, unsaid=(Certifier.TABLE,), panel="How to certify"
    )
    norm: str | None = setting(
        None, "Norm of their radius", choices=Norm, shown="as the table states; of lirpa linf, of lipschitz l2"
    )
    domain: str | None = setting(None, "Where inputs may be moved to", choices=Domain, shown="as the table states")
    sigma: float | None = setting(
        None, "Of a certification log (.tsv): σ of its noise, which logs do not say.", check=checks.sigma
    )
    rounded_down: bool = setting(False, "Of a log: its radii are rounded down, as certcal's are, not to nearest.")
    relaxation: str = setting("crown", "lirpa: how margins are bounded", choices=Relaxation, panel="How to certify")
    constant: float | None = setting(
        None,
        "lipschitz: constant of the logits",
        check=checks.positive,
        shown="the network's own",
        panel="How to certify",
    )
    # Of the vector of logits, or of each logit.
    last_layer: str = setting("global", "lipschitz: of what", choices=("global", "classwise"), panel="How to certify")


@dataclass(frozen=True, kw_only=True)
class BoundsRunSettings:
    """All settings of a run without noise, whose certificates come from elsewhere."""

    model: ModelSettings
    data: DataSettings
    bounds: BoundsSettings = field(default_factory=BoundsSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)


def load_run(path: Path) -> RunSettings | BoundsRunSettings:
    """The settings of a run folder, with noise or without."""
    read = read_toml(path)
    if "bounds" in read:
        return build_sections(BoundsRunSettings, read, str(path))
    return build_sections(RunSettings, read, str(path))


def load_settings(path: Path | None, changes: Sections) -> RunSettings:
    """The settings of a TOML file (or none), changed by what is given beside it: {section: {key: value}}."""
    return build_sections(RunSettings, merged(read_toml(path), changes), str(path or "options"))


def change_evaluation(
    settings: RunSettings | BoundsRunSettings, path: Path | None, changes: dict[str, Any]
) -> EvaluateSettings:
    """The run's evaluation, changed by the [evaluate] section of a TOML file and then by what is given."""
    # The other sections are not used, but a misspelt key is an error there too.
    asked = check(type(settings), read_toml(path), str(path)).get("evaluate", {})
    return build(EvaluateSettings, vars(settings.evaluate) | asked | changes, str(path or "options"), where="evaluate")


def settings_text(settings: RunSettings | BoundsRunSettings) -> str:
    """The settings as TOML."""
    return toml_text(settings, head="What this run was made with; `certcal certify --config` takes it back.")
