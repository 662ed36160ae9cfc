"""Attack a run: its smoothed model within the radii of its certificates, and its network without noise."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from certcal.attacks import ACE, SANDWICH, AceTable, Sandwich
from certcal.errors import InputError, several
from certcal.progress import in_words
from certcal.runs.attack_cost import ace_passes, counted, sandwich_passes, seconds_per_pass
from certcal.runs.attack_files import FOLDER, UNFINISHED, Family, read_family, write_family
from certcal.runs.attack_target import PlainTarget, Target, Tell, certified_at, load_plain_target, load_target
from certcal.runs.evaluate import rewrite_report, terms_of
from certcal.runs.folder import RunFolder
from certcal.runs.provenance import provenance
from certcal.runs.results import Results
from certcal.scalars import exactly, guarded
from certcal.settings import AttackSettings, EvaluateSettings

# The settings that a family's results depend on.
OF_SANDWICH = ("radii", "adversaries", "draws", "attack_draws", "steps", "limit", "seed")
OF_ACE = ("epsilons", "galil", "stronger", "ace_steps", "limit", "seed")
FEW = 3  # radii that are attacked if none are named
_STRONGER: dict[str, Any] = {"direction": "steepest", "on_flip": "shrink", "step_size": None, "plateau": None}


@dataclass(frozen=True, eq=False)
class Plan:
    """One family of attacks to be made: of what, with what, and at which cost."""

    name: str
    what: str
    passes: int  # forward passes at most
    made_with: dict[str, Any]  # by which a later attack knows that nothing has changed
    attack: Callable[[Any, Callable[[Any], None]], Sandwich | AceTable]  # what was begun, and what keeps each part


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
    evaluation = run.settings().evaluate
    if run.bounds.is_file():
        attack_plain(run, asked, trust=trust, progress=progress, tell=tell)
        return rewrite_report(run, figures=figures)
    target = load_target(run, device=asked.device, limit=asked.limit, trust=trust)
    if asked.family != "ace":
        _carry_out(run, target, plan_sandwich(target, asked, evaluation, tell), progress, tell)
    if asked.family != "smoothed":
        _carry_out(run, target, plan_ace(target, asked, evaluation), progress, tell)
    run.log(f"attack: {asked.family}, {several(len(target.evidence))} on {target.device}")
    return rewrite_report(run, figures=figures)


def attack_plain(run: RunFolder, asked: AttackSettings, *, trust: bool, progress: bool | None, tell: Tell) -> None:
    """Attack the network of a run without noise, within the radii of its bounds."""
    if asked.family == "ace":
        wanted = "be left out for a run of bounds, whose network is attacked within their norm"
        raise InputError.expected("family", wanted, "ace")
    target = load_plain_target(run, device=asked.device, limit=asked.limit, radii=asked.radii, trust=trust)
    n_bins, bounds = run.settings().evaluate.n_bins, [own for own in target.bounds if own.certified.any()]
    if nobody := [exactly(own.radius) for own in target.bounds if not own.certified.any()]:
        tell(f"skipping R = {', '.join(nobody)}: no input is certified there")
    made_with = {"n_bins": n_bins, "delta": run.settings().evaluate.delta, **bounds[0].terms}

    def attack(begun: Sandwich | None, keep: Callable[[Sandwich], None]) -> Sandwich:
        from certcal.attacks import attack_bounds

        found = attack_bounds(
            target.model, target.inputs, bounds, adversaries=asked.adversaries, n_bins=n_bins, steps=asked.steps,
            seed=asked.seed, batch_size=asked.batch_size, begun=begun, keep=keep,
        )  # fmt: skip
        return replace(found, of=target.of)

    tried = [len(own) for own in bounds]  # bounds of inputs that are not certified are tried as well
    plan = Plan(
        SANDWICH,
        f"network without noise: {several(len(bounds), 'radius', 'radii')}, {', '.join(asked.adversaries)}, "
        f"{several(len(bounds[0]))}",
        sandwich_passes(tried, asked.adversaries, inputs=len(bounds[0]), draws=1, attack_draws=1, steps=asked.steps),
        {
            "certificates": made_with,
            "settings": _chosen(asked, OF_SANDWICH)
            | {"radii": [own.radius for own in bounds], "draws": 0, "attack_draws": 0},
        },
        attack,
    )
    _carry_out(run, target, plan, progress, tell)
    run.log(f"attack: {several(len(bounds[0]))} without noise on {target.device}")


def plan_sandwich(target: Target, asked: AttackSettings, evaluation: EvaluateSettings, tell: Tell) -> Plan:
    """Attacks on the smoothed model, within those radii at which somebody is certified."""
    terms = terms_of(evaluation, target.evidence, target.of)
    certificates = terms | {"delta": evaluation.delta, "n_bins": evaluation.n_bins}
    radii = evaluation.radii_at(target.evidence.header.sigma) if asked.radii is None else asked.radii
    certified = certified_at(target.evidence, radii, terms, tell)
    if asked.radii is None and len(certified) > FEW:
        certified = _few(certified, evaluation.open_at, len(target.evidence), tell)
    options: dict[str, Any] = {"draws": asked.draws, "attack_draws": asked.attack_draws, "steps": asked.steps}

    def attack(begun: Sandwich | None, keep: Callable[[Sandwich], None]) -> Sandwich:
        from certcal.attacks import attack_certificates

        found = attack_certificates(
            target.model, target.data, target.evidence, radii=tuple(certified), adversaries=asked.adversaries,
            seed=asked.seed, batch_size=asked.batch_size, begun=begun, keep=keep, **certificates, **options,
        )  # fmt: skip
        return replace(found, of=target.of)

    count = several(len(certified), "radius", "radii")
    return Plan(
        SANDWICH,
        f"smoothed model: {count}, {', '.join(asked.adversaries)}, {several(len(target.evidence))}",
        sandwich_passes(list(certified.values()), asked.adversaries, inputs=len(target.evidence), **options),
        {"certificates": certificates, "settings": _chosen(replace(asked, radii=tuple(certified)), OF_SANDWICH)},
        attack,
    )


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


def plan_ace(target: Target, asked: AttackSettings, evaluation: EvaluateSettings) -> Plan:
    """Attacks on the network without noise."""
    steps = asked.ace_steps or (30 if asked.stronger else 100)
    inputs, budgets, n_bins = len(target.inputs), len(asked.epsilons), evaluation.n_bins

    def attack(*_: Any) -> AceTable:
        from certcal.attacks import run_ace_attacks

        with _full_float32():
            found = run_ace_attacks(
                target.model, target.inputs, target.evidence.label, epsilon=asked.epsilons, n_bins=n_bins,
                galil=asked.galil, batch_size=asked.batch_size, steps=steps, seed=asked.seed,
                **(_STRONGER if asked.stronger else {}),
            )  # fmt: skip
        return replace(found, of=target.of)

    ways = f"{4 + asked.galil} attacks, {several(budgets, 'budget')}"
    return Plan(
        ACE,
        f"network without noise: {ways}, {several(inputs)}",
        ace_passes(inputs, budgets=budgets, steps=steps, galil=asked.galil),
        {"n_bins": n_bins, "settings": _chosen(replace(asked, ace_steps=steps), OF_ACE)},
        attack,
    )


def _chosen(asked: AttackSettings, keys: tuple[str, ...]) -> dict[str, Any]:
    values = {key: getattr(asked, key) for key in keys}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def _carry_out(run: RunFolder, target: Target | PlainTarget, plan: Plan, progress: bool | None, tell: Tell) -> None:
    """Attack and write what comes of it, unless it is there already, made with the same."""
    from certcal import __version__

    made_with = target.made_with | plan.made_with | {"certcal": __version__}
    before = None
    with suppress(InputError):  # what cannot be read is made anew
        before = read_family(run, plan.name)
    if before is not None and before.made_with == made_with:
        tell(f"{plan.name}: already in {run.path / FOLDER}, made with the same settings")
        return
    unfinished = made_with | {UNFINISHED: True}
    begun = before.record if before is not None and before.made_with == unfinished else None
    if begun is not None:
        tell(f"{plan.name}: goes on after the {len(begun)} attacks that are in {run.path / FOLDER}")
    elif before is not None:
        inputs, others = before.record.inputs, _others(before.made_with, made_with)
        tell(f"{plan.name}: replaces that of {inputs:,} inputs made with {others}")
    seconds = plan.passes * seconds_per_pass(target.model, target.inputs, target.device)
    tell(f"{plan.what}: at most {plan.passes:,} forward passes, about {in_words(seconds)} on {target.device}")
    start = time.perf_counter()
    with counted(target.model, plan.passes, doing="attacking", show=progress):
        record = plan.attack(
            begun, lambda part: write_family(run, plan.name, Family(replace(part, of=target.of), unfinished, None))
        )
    circumstances = provenance(seconds=time.perf_counter() - start, device=str(target.device))
    write_family(run, plan.name, Family(record, made_with, circumstances))


def _others(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """In what earlier results differ from those to come."""
    parts = []
    for part in ("settings", "certificates"):
        old, new = dict(before.get(part) or {}), dict(after.get(part) or {})
        parts += [f"{key} = {_brief(old.get(key))}" for key in new if old.get(key) != new[key]]
    parts += [f"another {key}" for key in ("evidence", "model", "certcal") if before.get(key) != after.get(key)]
    return ", ".join(parts)


def _brief(value: Any) -> str:
    return ",".join(f"{one}" for one in value) if isinstance(value, list) else f"{value}"


@contextmanager
def _full_float32() -> Iterator[None]:
    """Let GPUs multiply in full float32, so that labels do not depend on which inputs share a batch."""
    import torch

    places: tuple[Any, Any] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = False
        yield
    finally:
        for place, own in zip(places, before, strict=True):
            place.allow_tf32 = own
