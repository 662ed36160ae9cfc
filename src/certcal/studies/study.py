"""Recipes that reproduce the paper's training results: baselines, and methods that fine-tune each of them."""

import re
from dataclasses import dataclass, field, replace
from importlib.resources import as_file
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from certcal.errors import InputError, several
from certcal.scalars import check_integer, did_you_mean
from certcal.settings import CertifySettings, Sections, build, merged, options_of, read_toml
from certcal.studies.paper import BUILT_IN, PAPER
from certcal.studies.recipes import SweepRecipe, SweepSettings, build_sweep, grid_size

_NAME = re.compile(r"[^\W_][\w .+*-]{0,99}")  # as a folder is called after it


@dataclass(frozen=True, kw_only=True)
class About:
    """What a study is."""

    title: str
    radii: tuple[float, ...]  # at which models are compared
    paper: str = ""  # its table in paper.toml
    cost: str = ""
    notes: str = ""
    screen: int | None = None  # draws that models are selected with; those selected then get all of certify.n


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A model that is trained from nothing, or taken from a file."""

    name: str
    objective: dict[str, Any]
    train: dict[str, Any]
    weights: str | None = None  # of a model that is trained already


@dataclass(frozen=True, kw_only=True)
class MethodOfTuning:
    """A way to fine-tune each baseline, with the settings that are tried."""

    name: str
    objective: dict[str, Any]
    train: dict[str, Any] = field(default_factory=dict)
    sweep: SweepSettings = field(default_factory=SweepSettings)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Baselines, methods, and the settings that they share."""

    about: About
    model: dict[str, Any]
    data: dict[str, Any]
    test: dict[str, Any]
    train: dict[str, Any]  # of baselines
    finetune: dict[str, Any] = field(default_factory=dict)  # the same of fine-tuning
    validation: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict, metadata={"was": "engine"})
    certify: dict[str, Any] = field(default_factory=dict)
    evaluate: dict[str, Any] = field(default_factory=dict)
    baseline: tuple[Baseline, ...]
    method: tuple[MethodOfTuning, ...] = ()
    changed: str = ""  # settings that differ from its file's, in words

    def of(self, part: str) -> "Study":
        """The same study, whose title says that it is of a part: else a table of it would pass for that of all."""
        return replace(self, about=replace(self.about, title=f"{self.about.title}, {part}"))

    def but_for(self, changed: str) -> "Study":
        """The same study with other settings, which its title and table tell."""
        return replace(self.of("with other settings"), changed=changed)

    @property
    def all_draws(self) -> int:
        """The draws of each input with which models are quoted."""
        return int(self.certify.get("n", CertifySettings.n))

    @property
    def later(self) -> tuple[int, ...]:
        """The look that is planned after the one with the draws of screening."""
        return () if self.about.screen is None else (self.all_draws,)

    def training(self, baseline: Baseline) -> SweepRecipe:
        """How a baseline is trained and certified."""
        own = {"objective": baseline.objective, "train": self.train | baseline.train}
        return build_sweep(self._shared() | own, f"baseline {baseline.name}")

    def tuning(self, baseline: Baseline, method: MethodOfTuning, weights: Path) -> SweepRecipe:
        """How a baseline is fine-tuned by a method, with all its trials."""
        # The same seed, by which training images are held out: those of the baseline were in no training before.
        start = {key: own for key, own in (self.train | baseline.train).items() if key == "seed"}
        start |= {key: baseline.train[key] for key in ("sigma", "epsilon") if key in baseline.train}
        # What the baseline says of draws and steps holds on, unless it was trained for something that has more options.
        name = method.objective.get("name", baseline.objective.get("name"))
        known = options_of(name) if isinstance(name, str) else ()  # what is no name is refused below
        kept = {key: value for key, value in baseline.objective.items() if key == "name" or key in known}
        own: Sections = {
            "model": self.model | {"weights": str(weights)},
            "objective": kept | method.objective,
            "train": start | self.finetune | method.train,
            "sweep": {key: value for key, value in vars(method.sweep).items() if value is not None},
        }
        return build_sweep(self._shared() | own, f"method {method.name}")

    def _shared(self) -> Sections:
        names, radii = ("model", "data", "test", "machine"), {"radii": list(self.about.radii)}
        return {name: getattr(self, name) for name in names} | {
            "certify": self.certify | ({} if self.about.screen is None else {"n": self.about.screen}),
            "evaluate": radii | self.evaluate,
            "validation": radii | self.validation,
        }


def study_names() -> tuple[str, ...]:
    """The studies that come with certcal."""
    found = (Path(one.name) for one in BUILT_IN.iterdir())
    return tuple(sorted(one.stem for one in found if one.suffix == ".toml" and one.stem != PAPER))


def study_text(name: str) -> str:
    """The TOML of a study: one that comes with certcal, or a file."""
    return _study_file(name).read_text(encoding="utf-8")


def _study_file(name: str) -> Traversable:
    path = Path(name).expanduser()
    if path.suffix == ".toml" and path.is_file():
        return path
    if name not in study_names():
        wanted = f"be one of {', '.join(study_names())}, or a TOML file"
        raise InputError.expected("recipe", wanted, f"{name!r}{did_you_mean(name, study_names())}")
    return BUILT_IN / f"{name}.toml"


def _read(name: str) -> Sections:
    """The sections of a study, over those of the study that it is `like`, which comes with certcal.

    A section that names another model or other data is whole: what is said of cifar10's is not about them. Nor are its
    title, the paper's numbers, notes and cost; and other data comes with its own test data.
    """
    with as_file(_study_file(name)) as path:
        own = read_toml(path)
    if (base := own.pop("like", None)) is None:
        return own
    if base not in study_names():
        raise InputError.expected(f"like in {Path(name).name}", f"be one of {', '.join(study_names())}", repr(base))
    theirs = _read(base)
    others = [part for part in ("model", "data", "test") if _name_in(own, part) not in (None, _name_in(theirs, part))]
    data = [part for part in others if part != "model"]
    if data and (missing := [part for part in ("data", "test") if _name_in(own, part) is None]):
        wanted = f"be given beside {data[0]}.name, which is not that of {base}"
        raise InputError.expected(f"{missing[0]}.name", wanted, "none")
    if others:
        shared = {key: value for key, value in theirs["about"].items() if key in ("radii", "screen")}
        theirs["about"] = {"title": f"{Path(name).stem}, like {base}"} | shared
    whole = [name for name, section in own.items() if isinstance(section, dict) and "name" in section]
    return merged({name: section for name, section in theirs.items() if name not in whole}, own)


def _name_in(sections: Sections, part: str) -> Any:
    section = sections.get(part)
    return section.get("name") if isinstance(section, dict) else None


def load_study(
    name: str,
    changes: Sections | None = None,
    *,
    baselines: tuple[str, ...] = (),
    methods: tuple[str, ...] = (),
    weights: dict[str, str] | None = None,
    sample: int | None = None,
) -> Study:
    """A study, changed by what is given, with the baselines and methods named (all by default), checked throughout.

    `sample` is the most settings to try of each method, 0 for baselines only; a larger one later goes on with a smaller
    one.
    """
    given = weights or {}
    study = build(Study, merged(_read(name), changes or {}), name)
    for names in ([one.name for one in study.baseline], [one.name for one in study.method]):
        folders = [folder_of(own).lower() for own in names]
        for own, folder in zip(names, folders, strict=True):
            if not _NAME.fullmatch(own):
                wanted = "begin with a letter or digit and hold only these, spaces and . _ + * -, at most 100"
                raise InputError.expected("name of a baseline or method", wanted, repr(own))
            if folders.count(folder) > 1:
                wanted = "give a folder of its own (spaces are -, * is -star, capitals do not count)"
                raise InputError.expected("name of a baseline or method", wanted, repr(own))
    if study.about.screen is not None:
        screen = check_integer("about.screen", study.about.screen, minimum=1)
        if screen > study.all_draws:
            wanted = f"be no more draws than certify.n, {study.all_draws:,} (set both)"
            raise InputError.expected("about.screen", wanted, f"{screen:,}")
    named, tuned = _named("baseline", study.baseline, baselines), _named("only", study.method, methods)
    if sample == 0 and methods:
        raise InputError.expected("only", "be left out with sample = 0: only baselines are trained", ", ".join(methods))
    known = [one.name for one in named]
    for other in given.keys() - set(known):
        raise InputError.expected("weights", f"name a baseline ({', '.join(known)})", repr(other))
    study = replace(
        study,
        baseline=tuple(replace(one, weights=given.get(one.name, one.weights)) for one in named),
        method=tuple(_fewer(one, sample) for one in tuned if sample != 0),
    )
    parts = [one.name for one in named if baselines] + [one.name for one in tuned if methods and sample != 0]
    if sample is not None:
        parts.append(f"at most {several(sample, 'setting')} of each method" if sample else "baselines")
    if parts:
        study = study.of(f"only {', '.join(parts)}")
    for one in study.baseline:  # a mistake in the last stage is better found before the first
        study.training(one)
        for method in study.method:
            study.tuning(one, method, Path("model.pt"))
    return study


def folder_of(name: str) -> str:
    """What the folder of a method is called."""
    return name.replace("*", "-star").replace(" ", "-")


def _fewer(method: MethodOfTuning, sample: int | None) -> MethodOfTuning:
    if sample is None:
        return method
    check_integer("sample", sample, minimum=1)
    most = min(sample, method.sweep.sample or grid_size(method.sweep))
    return replace(method, sweep=replace(method.sweep, sample=most))


def _named(argument: str, items: tuple[Any, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
    known = {one.name: one for one in items}
    for name in names:
        if name not in known:
            raise InputError.expected(argument, f"be one of {', '.join(known)}", f"{name!r}{did_you_mean(name, known)}")
    return tuple(known[name] for name in dict.fromkeys(names)) if names else items
