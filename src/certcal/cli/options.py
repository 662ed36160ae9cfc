"""Options that several verbs share and that are no settings of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from certcal.errors import InputError
from certcal.settings import PREDICTION_SHARE, Cluster, LogSettings, PlaceSettings, Sections, as_cluster, declared

MOST_TYPED = 20  # values of an option that is told


def option_under(panel: str | None) -> Callable[..., Any]:
    """What makes options, of name, help and the word for a value, that the help shows under a heading."""
    return lambda name, help, metavar=None: typer.Option(name, help=help, metavar=metavar, rich_help_panel=panel)


option, output = option_under(None), option_under("Output")

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Run folder, or a name below runs/.", show_default=False)]
Config = Annotated[Path | None, option("--config", "TOML file with settings; options win.", "FILE")]
Recipe = Annotated[Path | None, option("--recipe", "TOML file with settings; options win.", "FILE")]
Assignments = Annotated[
    list[str] | None, option("--set", "Any other setting, as train.momentum=0.8.", "SECTION.KEY=VALUE")
]
Paper = Annotated[
    bool | None,
    option_under("What to ask")("--paper/--no-paper", "The paper's certificate: cdf, and α for each of its two parts."),
]
Trust = Annotated[
    bool, option("--trust", "Run the code, or the program in a file, that is the model, and remember it.")
]
NoChecks = Annotated[bool, option("--no-checks", "Do not look for mistakes in model and data before drawing.")]
Reset = Annotated[bool, option("--reset", "Forget what the folder remembers of earlier options.")]
Json = Annotated[bool, output("--json", "Print results as JSON and nothing else on standard output.")]
NoFigures = Annotated[bool, output("--no-figures", "Leave out PNG and SVG figures.")]


def engine_of(given: Sections) -> str | Cluster:
    """Where to work, taken out of what was given. What only a cluster has is refused without --engine ray."""
    place, only = PlaceSettings(**given.pop("place")), given.pop("cluster")
    as_cluster(place.engine)
    if place.engine == "ray":
        return Cluster(**only)
    if only:
        wanted = "be ray with --workers, --ray-address or --gpus-per-worker"
        raise InputError.expected("engine", wanted, repr(place.engine))
    return place.engine


def trackers_of(given: Sections) -> tuple[str, ...]:
    """The tools to log to, taken out of what was given. One that is not installed is refused before any work."""
    tools: tuple[str, ...] = LogSettings(**given.pop("logging")).log
    if tools:
        from certcal.integrations import check_trackers

        check_trackers(tools)
    return tools


def remembered(settings: object, given: Sections) -> str:
    """The options that settings hold beside those given now and their defaults, as one would type them."""
    words = []
    for section, own in vars(settings).items():
        for one in declared(type(own)):
            value = getattr(own, one.name)
            if one.option is None or one.name in given.get(section, {}) or value in (one.default, None):
                continue
            shown = _listed(value) if isinstance(value, tuple) else str(value)
            flags = dict(zip((True, False), one.option.split("/"), strict=False))
            words.append(flags[value] if isinstance(value, bool) else f"{one.option} {shown}")
    return " ".join(words)


def _listed(values: tuple[object, ...]) -> str:
    """A list as one would type it, the beginning of it where it is long, as names of 1,000 classes are."""
    return ",".join(map(str, values if len(values) <= MOST_TYPED else (*values[:3], "…")))


def name_files(given: Sections) -> None:
    """Let tables of groups be found from other folders, and take class names from their file: the run keeps both."""
    from certcal import runs

    if "groups" in given.get("evaluate", {}):
        given["evaluate"]["groups"] = runs.absolute_tables(given["evaluate"]["groups"])
    if "class_names" in given.get("data", {}):
        given["data"]["class_names"] = runs.listed_names(given["data"]["class_names"])


def follow_paper(given: dict[str, Any], paper: bool | None) -> None:
    """Add what --paper means to the options of an evaluation; naming a method leaves the paper's certificate."""
    method = given.get("method")
    if paper and method is not None:
        raise InputError.expected("method", "be left out with --paper, which chooses it", str(method))
    if paper:
        given |= {"method": "cdf", "split_alpha": False}
        given.setdefault("prediction_share", PREDICTION_SHARE)  # not what the run remembers
    elif paper is False or method is not None:
        given |= {"method": method or "cdf-cp", "split_alpha": True}
