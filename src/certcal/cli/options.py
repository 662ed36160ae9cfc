"""Options that several verbs share, and how their texts become values."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from certcal.errors import InputError

if TYPE_CHECKING:
    from certcal.cluster import Cluster

T = TypeVar("T")


class MethodName(StrEnum):
    """The confidence certificates, as `certcal.certificates.Method`; repeated so that --help needs no SciPy."""

    STANDARD = "standard"
    STANDARD_BERNSTEIN = "standard-bernstein"
    CDF = "cdf"
    CDF_CP = "cdf-cp"
    CDF_CP_MEAN = "cdf-cp-mean"


class PopulationName(StrEnum):
    """As `certcal.report.Population`."""

    CERTIFIED = "certified"
    ALL = "all"


def group(panel: str) -> Callable[..., Any]:
    """Makes options that --help shows together."""

    def make(name: str, help: str, metavar: str | None = None) -> Any:
        return typer.Option(name, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)

    return make


_what, _how, _ask = group("What to certify"), group("How to draw"), group("What to ask")
_show, _other = group("Output"), group("Options")
fitting = group("How to fit")
attacks, attacking = group("Which attacks"), group("How to attack")
_Text: TypeAlias = str | None
_Whole: TypeAlias = int | None
_Number: TypeAlias = float | None
_Flag: TypeAlias = bool | None

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Run folder, or a name below runs/.", show_default=False)]
Config = Annotated[Path | None, _other("--config", "TOML file with settings; options win.", "FILE")]

Model = Annotated[_Text, _what("--model", "A known network, or package.module:factory.", "NAME")]
Weights = Annotated[_Text, _what("--weights", "Checkpoint (.pt, .pth, .safetensors).", "FILE")]
Mean = Annotated[_Text, _what("--mean", "Channel means the model normalises with.", "A,B,C")]
Std = Annotated[_Text, _what("--std", "Channel standard deviations, likewise.", "A,B,C")]
Temperature = Annotated[_Number, _what("--temperature", "Divide the logits by this before smoothing.")]
Classes = Annotated[_Whole, _what("--classes", "Classes of the model (default: those of the data).")]
Data = Annotated[_Text, _what("--data", "A known data set, a .npz file or a folder of class folders.", "NAME")]
Split = Annotated[_Text, _what("--split", "Split of the data (default: test).", "NAME")]
Root = Annotated[_Text, _what("--root", "Folder to look for data in.", "FOLDER")]
Download = Annotated[_Flag, _what("--download", "Fetch the data if it is missing.")]
Limit = Annotated[_Whole, _what("--limit", "Certify at most so many inputs.")]
Every = Annotated[_Whole, _what("--every", "Certify every k-th input only.")]
Resize = Annotated[_Whole, _what("--resize", "Image folders: scale the shorter side.")]
Crop = Annotated[_Whole, _what("--crop", "Image folders: keep the central square.")]
Channels = Annotated[_Whole, _what("--channels", "Image folders: 3 for RGB, 1 for grey (default: 3).")]

Sigma = Annotated[_Number, _how("--sigma", "Standard deviation of the noise, for inputs in [0, 1].")]
Draws = Annotated[_Whole, _how("--n", "Draws per input (default: 100000).")]
SelectionDraws = Annotated[_Whole, _how("--n0", "Draws that select the class (default: 100).")]
Seed = Annotated[_Whole, _how("--seed", "Seed of the noise (default: 0).")]
Stages = Annotated[_Text, _how("--stages", "Draws after which decided inputs stop, as 1000,10000,100000.", "A,B,…")]
Outputs = Annotated[
    _Text, _how("--outputs", "What the model gives, logits or probabilities (default: logits).", "NAME")
]
Device = Annotated[_Text, _how("--device", "cpu, cuda, … (default: a GPU if there is one).", "NAME")]
Precision = Annotated[_Text, _how("--precision", "float32, bfloat16 or float16 (default: float32).", "NAME")]
BatchSize = Annotated[_Whole, _how("--batch-size", "Draws per forward pass on a GPU (default: 4000).")]
Fuse = Annotated[_Flag, _how("--fuse", "Fold batch-norm into convolutions: fastest on a GPU.")]
Compile = Annotated[_Flag, _how("--compile", "Run the model through torch.compile.")]

Engine = Annotated[_Text, _how("--engine", "Where to draw, local or ray (default: local).", "NAME")]
Workers = Annotated[_Whole, _how("--workers", "Ray: worker processes (default: all that fit).")]
RayAddress = Annotated[
    _Text, _how("--ray-address", "Ray: host:port (default: RAY_ADDRESS, or a local one).", "ADDRESS")
]
GpusPerWorker = Annotated[_Number, _how("--gpus-per-worker", "Ray: GPUs of each worker (default: 1 on cuda).")]

_METHODS = "standard, standard-bernstein, cdf, cdf-cp or cdf-cp-mean (default: cdf-cp)."
_POPULATIONS = "Whom errors are about, certified or all (default: certified)."
Radii = Annotated[_Text, _ask("--radii", "Radii, as 0,0.1,0.25 (default: 0 to 2 σ).", "A,B,…")]
Alpha = Annotated[_Number, _ask("--alpha", "Error probability per input (default: 0.001).")]
Delta = Annotated[_Number, _ask("--delta", "Error probability for the whole set (default: 0.001).")]
MethodOption = Annotated[MethodName | None, _ask("--method", _METHODS, "NAME")]
PopulationOption = Annotated[PopulationName | None, _ask("--population", _POPULATIONS, "NAME")]
NBins = Annotated[_Whole, _ask("--n-bins", "Bins of the calibration error (default: 15).")]
Approximations = Annotated[_Text, _ask("--approximate", "Also the paper's admm, dece, brier (slow).", "A,B,…")]
Paper = Annotated[_Flag, _ask("--paper/--no-paper", "The paper's certificate: cdf, and α for each of its parts.")]

Json = Annotated[bool, _show("--json", "Print metrics as JSON and nothing else on standard output.")]
NoFigures = Annotated[bool, _show("--no-figures", "Leave out PNG and SVG figures.")]


def numbers(name: str, text: str | None, kind: Callable[[str], T], described: str = "numbers") -> tuple[T, ...] | None:
    """The values of a list written with commas; None stays None."""
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise InputError.expected(name, f"be {described} separated by commas", repr(text)) from error


def names(text: str | None) -> tuple[str, ...] | None:
    """The words of a list written with commas; None stays None."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    return None if isinstance(value, float) and value != value else value


def percent_up(value: float) -> str:
    """A certified error in percent, rounded up; a dash where there is none."""
    return _percent(value, "up")


def percent_down(value: float) -> str:
    """A certified accuracy in percent, rounded down."""
    return _percent(value, "down")


def _percent(value: float, side: str) -> str:
    from certcal.evaluation import Rounding
    from certcal.report import percent

    return "—" if value != value else percent(value, Rounding(side))


def given(**values: Any) -> dict[str, Any]:
    """Those options that were given."""
    return {
        name: str(value) if isinstance(value, StrEnum) else value for name, value in values.items() if value is not None
    }


def engine_of(engine: str | None, *, workers: int | None, address: str | None, gpus: float | None) -> "str | Cluster":
    """Where to draw. What only a cluster has is refused without --engine ray."""
    from certcal.cluster import Cluster, as_cluster

    only = given(workers=workers, address=address, gpus=gpus)
    name = engine or "local"
    as_cluster(name)
    if name == "local" and only:
        raise InputError.expected("engine", "be ray with --workers, --ray-address or --gpus-per-worker", repr(name))
    return Cluster(**only) if name == "ray" else name


def evaluation_options(
    *,
    radii: str | None,
    alpha: float | None,
    delta: float | None,
    method: str | None,
    population: str | None,
    n_bins: int | None,
    approximate: str | None,
    paper: bool | None,
) -> dict[str, Any]:
    """The options that change what is asked of the evidence, as fields of `EvaluateSettings`.

    α is for both parts of a certificate together, except with --paper; naming a method leaves that behind too.
    """
    if paper and method is not None:
        raise InputError.expected("method", "be left out with --paper, which chooses it", str(method))
    return given(
        radii=numbers("radii", radii, float),
        alpha=alpha,
        delta=delta,
        method="cdf" if paper else "cdf-cp" if paper is False and method is None else method,
        joint=False if paper else True if paper is False or method is not None else None,
        population=population,
        n_bins=n_bins,
        approximations=names(approximate),
    )
