"""Options that several verbs share, and how their texts become values."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from certcal.errors import InputError

T = TypeVar("T")

_WHAT, _HOW, _ASK, _SHOW = "What to certify", "How to draw", "What to ask", "Output"


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


def _option(*names: str, help: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)


RunName = Annotated[str, typer.Argument(metavar="RUN", help="Run folder, or a name below runs/.", show_default=False)]
Config = Annotated[
    Path | None, _option("--config", help="TOML file with settings; options win.", panel=_WHAT, metavar="FILE")
]

Model = Annotated[
    str | None, _option("--model", help="A known network, or package.module:factory.", panel=_WHAT, metavar="NAME")
]
Weights = Annotated[
    str | None, _option("--weights", help="Checkpoint (.pt, .pth, .safetensors).", panel=_WHAT, metavar="FILE")
]
Mean = Annotated[
    str | None, _option("--mean", help="Channel means the model normalises with.", panel=_WHAT, metavar="A,B,C")
]
Std = Annotated[
    str | None, _option("--std", help="Channel standard deviations, likewise.", panel=_WHAT, metavar="A,B,C")
]
Classes = Annotated[int | None, _option("--classes", help="Classes of the model [those of the data].", panel=_WHAT)]
Data = Annotated[
    str | None,
    _option("--data", help="A known data set, a .npz file or a folder of class folders.", panel=_WHAT, metavar="NAME"),
]
Split = Annotated[str | None, _option("--split", help="Split of the data [test].", panel=_WHAT)]
Root = Annotated[str | None, _option("--root", help="Folder to look for data in.", panel=_WHAT, metavar="FOLDER")]
Download = Annotated[bool | None, _option("--download", help="Fetch the data if it is missing.", panel=_WHAT)]
Limit = Annotated[int | None, _option("--limit", help="Certify at most so many inputs.", panel=_WHAT)]
Every = Annotated[int | None, _option("--every", help="Certify every so-manieth input only.", panel=_WHAT)]
Resize = Annotated[int | None, _option("--resize", help="Image folders: scale the shorter side.", panel=_WHAT)]
Crop = Annotated[int | None, _option("--crop", help="Image folders: keep the central square.", panel=_WHAT)]
Channels = Annotated[int | None, _option("--channels", help="Image folders: 3 for RGB, 1 for grey [3].", panel=_WHAT)]

Sigma = Annotated[
    float | None, _option("--sigma", help="Standard deviation of the noise, for inputs in [0, 1].", panel=_HOW)
]
Draws = Annotated[int | None, _option("--n", help="Draws per input [100000].", panel=_HOW)]
SelectionDraws = Annotated[int | None, _option("--n0", help="Draws that select the class [100].", panel=_HOW)]
Seed = Annotated[int | None, _option("--seed", help="Seed of the noise [0].", panel=_HOW)]
Stages = Annotated[
    str | None,
    _option(
        "--stages", help="Draws after which decided inputs stop, as 1000,10000,100000.", panel=_HOW, metavar="A,B,…"
    ),
]
Outputs = Annotated[
    str | None, _option("--outputs", help="What the model gives: logits or probabilities [logits].", panel=_HOW)
]
Device = Annotated[str | None, _option("--device", help="cpu, cuda, … [a GPU if there is one].", panel=_HOW)]
Precision = Annotated[str | None, _option("--precision", help="float32, bfloat16 or float16 [float32].", panel=_HOW)]
BatchSize = Annotated[int | None, _option("--batch-size", help="Draws per forward pass on a GPU [4000].", panel=_HOW)]
Fuse = Annotated[
    bool | None, _option("--fuse", help="Fold batch-norm into convolutions: fastest on a GPU.", panel=_HOW)
]
Compile = Annotated[bool | None, _option("--compile", help="Run the model through torch.compile.", panel=_HOW)]

Radii = Annotated[str | None, _option("--radii", help="Radii, as 0,0.1,0.25 [0 to 2 σ].", panel=_ASK, metavar="A,B,…")]
Alpha = Annotated[float | None, _option("--alpha", help="Error probability per input [0.001].", panel=_ASK)]
Delta = Annotated[float | None, _option("--delta", help="Error probability for the whole set [0.001].", panel=_ASK)]
MethodOption = Annotated[MethodName | None, _option("--method", help="Confidence certificate [cdf-cp].", panel=_ASK)]
PopulationOption = Annotated[
    PopulationName | None, _option("--population", help="Whom errors are about [certified].", panel=_ASK)
]
NBins = Annotated[int | None, _option("--n-bins", help="Bins of the calibration error [15].", panel=_ASK)]
Approximations = Annotated[
    str | None, _option("--approximate", help="Also the paper's admm, dece, brier (slow).", panel=_ASK, metavar="A,B,…")
]
Paper = Annotated[
    bool, _option("--paper", help="The paper's certificate: cdf, and α for each of its parts.", panel=_ASK)
]

Json = Annotated[
    bool, _option("--json", help="Print metrics as JSON and nothing else on standard output.", panel=_SHOW)
]
NoFigures = Annotated[bool, _option("--no-figures", help="Leave out PNG and SVG figures.", panel=_SHOW)]


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


def given(**values: Any) -> dict[str, Any]:
    """Those options that were given."""
    return {
        name: str(value) if isinstance(value, StrEnum) else value for name, value in values.items() if value is not None
    }


def evaluation_options(
    *,
    radii: str | None,
    alpha: float | None,
    delta: float | None,
    method: str | None,
    population: str | None,
    n_bins: int | None,
    approximate: str | None,
    paper: bool,
) -> dict[str, Any]:
    """The options that change what is asked of the evidence, as fields of `EvaluateSettings`."""
    if paper and method is not None:
        raise InputError.expected("method", "be left out with --paper, which chooses it", str(method))
    return given(
        radii=numbers("radii", radii, float),
        alpha=alpha,
        delta=delta,
        method="cdf" if paper else method,
        joint=False if paper else None,
        population=population,
        n_bins=n_bins,
        approximations=names(approximate),
    )
