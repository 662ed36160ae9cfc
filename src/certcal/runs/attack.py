"""Attack a run: its smoothed model within the radii of its certificates, and its network without noise."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from certcal import __version__
from certcal.attacks import (
    ACE,
    SANDWICH,
    AceTable,
    Sandwich,
    attack_bounds,
    attack_certificates,
    run_ace_attacks,
)
from certcal.certificates import ConfidenceIntervals
from certcal.errors import InputError, several
from certcal.progress import in_words
from certcal.runs.attack_files import FOLDER, UNFINISHED, Family, read_family, write_family
from certcal.runs.attack_target import (
    Target,
    ace_passes,
    certified_at,
    counted,
    load_plain_target,
    load_target,
    sandwich_passes,
    seconds_per_pass,
)
from certcal.runs.evaluate import rewrite_report, terms_of
from certcal.runs.facts import provenance
from certcal.runs.folder import RunFolder, Tell
from certcal.runs.results import Results
from certcal.scalars import exactly, guarded
from certcal.settings import AttackSettings, EvaluateSettings
from certcal.smoothing import Evidence

# The settings that a family's results depend on.
OF_SANDWICH = ("radii", "adversaries", "draws", "attack_draws", "steps", "limit", "seed")
OF_ACE = ("epsilons", "galil", "stronger", "ace_steps", "limit", "seed")
FEW = 3  # radii that are attacked if none are named
_STRONGER: dict[str, Any] = {"direction": "steepest", "on_flip": "shrink", "step_size": None, "plateau": None}


@guarded
def attack_run(
    run: RunFolder,
    asked: AttackSettings,
    *,
    trust: bool = False,
    figures: bool = True,
    progress: bool | None = None,
    tell: Tell = lambda text: None,
) -> Results:
    """The results of a run with what attacks do to its model, as written to its folder attack, page and metrics.

    A family whose results are there already, with the same settings, evidence and model, is not attacked again. Each
    radius of the smoothed model's is kept as soon as it is done, and an interrupted call goes on there. A model that is
    code, `package.module:factory`, runs only with `trust`, or if its user named it for this run before.

    Paper: Table 1, App. B.2; Sec. 4 for the adversaries of the smoothed model.
    Raises: InputError if the model or the data are not those that the evidence was drawn from.
    """
    run.create()  # an hour of attacks is for nothing if the folder cannot be written
    load = load_plain_target if run.bounds.is_file() else load_target
    if load is load_plain_target and asked.family == "ace":
        wanted = "be left out for a run of bounds, whose network is attacked within their norm"
        raise InputError.expected("family", wanted, "ace")
    target, certificates = load(run, asked, trust=trust)
    attacks = _Attacks(run, target, asked, run.settings().evaluate, progress, tell)
    if isinstance(certificates, Evidence):
        what = f"{asked.family}, {several(len(certificates))}"
        if asked.family != "ace":
            attacks.on_smoothed_model(certificates)
        if asked.family != "smoothed":
            attacks.by_ace(certificates)
    else:
        what = f"{several(len(target.inputs))} without noise"
        attacks.on_network(certificates)
    run.log(f"attack: {what} on {target.device}")
    return rewrite_report(run, figures=figures)


@dataclass(frozen=True, eq=False)
class _Attacks:
    """The families of attacks on one target. Each is foreseen, made and kept, unless it is there already."""

    run: RunFolder
    target: Target
    asked: AttackSettings
    evaluation: EvaluateSettings
    progress: bool | None
    tell: Tell

    def on_network(self, given: Sequence[ConfidenceIntervals]) -> None:
        """Attack the network of a run without noise, within the radii of its bounds."""
        bounds, n_bins = [own for own in given if own.certified.any()], self.evaluation.n_bins
        if nobody := [exactly(own.radius) for own in given if not own.certified.any()]:
            self.tell(f"skipping R = {', '.join(nobody)}: no input is certified there")
        attack = partial(attack_bounds, self.target.model, self.target.inputs, bounds, n_bins=n_bins)
        tried = {own.radius: len(own) for own in bounds}  # bounds of inputs that are not certified are tried as well
        certificates = {"n_bins": n_bins, "delta": self.evaluation.delta, **bounds[0].terms}
        self._within("network without noise", tried, certificates, attack, draws={"draws": 0, "attack_draws": 0})

    def on_smoothed_model(self, evidence: Evidence) -> None:
        """Attack the smoothed model, within those radii at which somebody is certified."""
        asked, evaluation, target = self.asked, self.evaluation, self.target
        terms = terms_of(evaluation, evidence, target.of)
        certificates = terms | {"delta": evaluation.delta, "n_bins": evaluation.n_bins}
        radii = evaluation.radii_at(evidence.header.sigma) if asked.radii is None else asked.radii
        certified = certified_at(evidence, radii, terms, self.tell)
        if asked.radii is None and len(certified) > FEW:
            certified = _few(certified, evaluation.open_at, len(evidence), self.tell)
        draws: dict[str, Any] = {"draws": asked.draws, "attack_draws": asked.attack_draws}
        attack = partial(
            attack_certificates, target.model, target.data, evidence, radii=tuple(certified), **certificates, **draws
        )
        self._within("smoothed model", certified, certificates, attack, draws=draws)

    def _within(
        self,
        what: str,
        tried: dict[float, int],
        certificates: dict[str, Any],
        attack: Callable[..., Sandwich],
        *,
        draws: dict[str, int],
    ) -> None:
        """Attack within some radii, at each of which so many inputs are tried."""
        asked, inputs = self.asked, len(self.target.inputs)
        passes = {name: max(1, count) for name, count in draws.items()}
        self._carry_out(
            SANDWICH,
            f"{what}: {several(len(tried), 'radius', 'radii')}, {', '.join(asked.adversaries)}, {several(inputs)}",
            sandwich_passes(list(tried.values()), asked.adversaries, inputs=inputs, steps=asked.steps, **passes),
            {"certificates": certificates, "settings": _chosen(asked, OF_SANDWICH) | {"radii": list(tried)} | draws},
            partial(
                attack, adversaries=asked.adversaries, steps=asked.steps, seed=asked.seed, batch_size=asked.batch_size
            ),
        )

    def by_ace(self, evidence: Evidence) -> None:
        """Attack the network without noise."""
        asked, target, n_bins = self.asked, self.target, self.evaluation.n_bins
        steps = asked.ace_steps or (30 if asked.stronger else 100)
        inputs, budgets = len(target.inputs), len(asked.epsilons)

        def attack(**_: Any) -> AceTable:
            with _full_float32():
                return run_ace_attacks(
                    target.model, target.inputs, evidence.label, epsilon=asked.epsilons, n_bins=n_bins,
                    galil=asked.galil, batch_size=asked.batch_size, steps=steps, seed=asked.seed,
                    **(_STRONGER if asked.stronger else {}),
                )  # fmt: skip

        self._carry_out(
            ACE,
            f"network without noise: {4 + asked.galil} attacks, {several(budgets, 'budget')}, {several(inputs)}",
            ace_passes(inputs, budgets=budgets, steps=steps, galil=asked.galil),
            {"n_bins": n_bins, "settings": _chosen(replace(asked, ace_steps=steps), OF_ACE)},
            attack,
        )

    def _carry_out(
        self, name: str, what: str, passes: int, asked: dict[str, Any], attack: Callable[..., Sandwich | AceTable]
    ) -> None:
        """Attack and write what comes of it, unless it is there already, made with the same.

        `attack` takes what was `begun`, and a function to `keep` each part.
        """
        run, target = self.run, self.target
        made_with = target.made_with | asked | {"certcal": __version__}
        before = None
        with suppress(InputError):  # what cannot be read is made anew
            before = read_family(run, name)
        if before is not None and before.made_with == made_with:
            self.tell(f"{name}: already in {run.path / FOLDER}, made with the same settings")
            return
        unfinished = made_with | {UNFINISHED: True}
        begun = before.record if before is not None and before.made_with == unfinished else None
        if begun is not None:
            self.tell(f"{name}: goes on after the {len(begun)} attacks that are in {run.path / FOLDER}")
        elif before is not None:
            inputs, others = before.record.inputs, _others(before.made_with, made_with)
            self.tell(f"{name}: replaces that of {inputs:,} inputs made with {others}")
        seconds = passes * seconds_per_pass(target.model, target.inputs, target.device)
        self.tell(f"{what}: at most {passes:,} forward passes, about {in_words(seconds)} on {target.device}")
        start = time.perf_counter()

        def keep(part: Sandwich | AceTable, made_with: dict[str, Any] = unfinished, when: Any = None) -> None:
            write_family(run, name, Family(replace(part, of=target.of), made_with, when))

        with counted(target.model, passes, show=self.progress):
            record = attack(begun=begun, keep=keep)
        keep(record, made_with, provenance(seconds=time.perf_counter() - start, device=str(target.device)))


def _few(certified: dict[float, int], shown: float | None, inputs: int, tell: Tell) -> dict[float, int]:
    """A few of many radii: up to the one that the report opens at, as far as half of the inputs are certified."""
    near = [radius for radius, count in certified.items() if 2 * count >= inputs and (shown is None or radius <= shown)]
    rising = near if len(near) >= FEW else list(certified)
    places = {round(place * (len(rising) - 1) / (FEW - 1)) for place in range(FEW)}
    chosen = {rising[place]: certified[rising[place]] for place in sorted(places)}
    tell(
        f"attacking at {FEW} of {len(certified)} radii, {', '.join(f'{one:g}' for one in chosen)}; --radii names others"
    )
    return chosen


def _chosen(asked: AttackSettings, keys: tuple[str, ...]) -> dict[str, Any]:
    values = {key: getattr(asked, key) for key in keys}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _others(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """In what earlier results differ from those to come."""
    parts = []
    for part in ("settings", "certificates"):
        old, new = dict(before.get(part) or {}), dict(after.get(part) or {})
        parts += [f"{key} = {_typed(old.get(key))}" for key in new if old.get(key) != new[key]]
    parts += [f"another {key}" for key in ("evidence", "model", "certcal") if before.get(key) != after.get(key)]
    return ", ".join(parts)


def _typed(value: Any) -> str:
    return ",".join(f"{one}" for one in value) if isinstance(value, list) else f"{value}"


@contextmanager
def _full_float32() -> Iterator[None]:
    """Let GPUs multiply in full float32, so that labels do not depend on which inputs share a batch."""
    places: tuple[Any, Any] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = False
        yield
    finally:
        for place, own in zip(places, before, strict=True):
            place.allow_tf32 = own
