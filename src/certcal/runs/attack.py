"""Attack a run: its smoothed model within the radii of its certificates, and its network without noise."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from certcal.errors import InputError
from certcal.runs.attack_files import ACE, FOLDER, SANDWICH, curve_as_dict, read_family, write_family
from certcal.runs.attack_target import Target, Tell, certified_at, load_target
from certcal.runs.certify import radii_of
from certcal.runs.evaluate import refresh_results
from certcal.runs.folder import RunFolder
from certcal.runs.passes import ace_passes, counted, in_words, sandwich_passes, seconds_per_pass
from certcal.runs.provenance import provenance
from certcal.settings import AttackSettings

_STRONGER: dict[str, Any] = {"direction": "steepest", "on_flip": "shrink", "step_size": None, "plateau": None}


def attack_run(
    run: RunFolder,
    asked: AttackSettings,
    *,
    figures: bool = True,
    progress: bool | None = None,
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """What attacks do to a run's model, as written to its folder attack and into its page and metrics.

    A family whose results are there already, with the same settings, evidence and model, is not attacked again; each
    family is written as soon as it is finished.

    Paper: Table 1, App. B.2; Sec. 4 for the adversaries of the smoothed model.
    Raises: InputError if the model or the data are not those that the evidence was drawn from.
    """
    evaluation = run.settings().evaluate
    target = load_target(run, device=asked.device, limit=asked.limit)
    if asked.family != "ace":
        certificates = {key: getattr(evaluation, key) for key in ("alpha", "delta", "method", "split_alpha", "n_bins")}
        radii = radii_of(evaluation, target.evidence.header.sigma) if asked.radii is None else asked.radii
        certified = certified_at(target.evidence, radii, certificates, tell)
        own = replace(asked, radii=tuple(certified))
        more = {"certificates": certificates}
        smoothed = partial(_sandwich, target, own, certificates, list(certified.values()), progress, tell)
        _keep(run, SANDWICH, target, own, more, smoothed, tell)
    if asked.family != "smoothed":
        own = replace(asked, ace_steps=asked.ace_steps or (30 if asked.stronger else 100))
        ace = partial(_ace, target, own, evaluation.n_bins, progress, tell)
        _keep(run, ACE, target, own, {"n_bins": evaluation.n_bins}, ace, tell)
    run.log(f"attack: {asked.family}, {len(target.evidence)} inputs on {target.device}")
    return refresh_results(run, figures=figures)


def settings_of_family(asked: AttackSettings, name: str) -> dict[str, Any]:
    """The settings that a family's results depend on."""
    own = {SANDWICH: ("radii", "adversaries", "draws", "attack_draws", "steps"),
           ACE: ("epsilons", "galil", "stronger", "ace_steps")}[name]  # fmt: skip
    values = asdict(asked)
    return {key: list(value) if isinstance(value := values[key], tuple) else value
            for key in (*own, "limit", "seed")}  # fmt: skip


def _keep(
    run: RunFolder,
    name: str,
    target: Target,
    asked: AttackSettings,
    more: dict[str, Any],
    attack: Callable[[], dict[str, Any]],
    tell: Tell,
) -> None:
    """Attack and write what comes of it, unless it is there already, made with the same."""
    from certcal import __version__

    made_with = target.made_with | more | {"settings": settings_of_family(asked, name), "certcal": __version__}
    before = _before(run, name)
    if before is not None and before["made_with"] == made_with:
        tell(f"{name}: already in {run.path / FOLDER}, made with the same settings")
        return
    if before is not None:
        tell(
            f"{name}: replaces that of {before['inputs']:,} inputs made with {_others(before['made_with'], made_with)}"
        )
    start = time.perf_counter()
    found = attack()
    circumstances = provenance(seconds=time.perf_counter() - start, device=str(target.device))
    sizes = {"inputs": len(target.evidence), "of": target.of}
    write_family(run, name, sizes | found | {"made_with": made_with, "provenance": circumstances})


def _before(run: RunFolder, name: str) -> dict[str, Any] | None:
    """What is there of a family; nothing if it cannot be read."""
    try:
        return read_family(run, name)
    except InputError:
        return None


def _others(before: dict[str, Any], after: dict[str, Any]) -> str:
    """In what earlier results differ from those to come."""
    parts = []
    for part in ("settings", "certificates"):
        old, new = dict(before.get(part) or {}), dict(after.get(part) or {})
        parts += [f"{key} = {_brief(old.get(key))}" for key in new if old.get(key) != new[key]]
    parts += [f"another {key}" for key in ("evidence", "model", "certcal") if before.get(key) != after.get(key)]
    return ", ".join(parts)


def _brief(value: Any) -> str:
    return ",".join(f"{one}" for one in value) if isinstance(value, list) else f"{value}"


def _sandwich(
    target: Target,
    asked: AttackSettings,
    certificates: dict[str, Any],
    certified: list[int],
    progress: bool | None,
    tell: Tell,
) -> dict[str, Any]:
    from certcal.attacks import prepare_sandwich

    options: dict[str, Any] = {"draws": asked.draws, "attack_draws": asked.attack_draws, "steps": asked.steps}
    passes = sandwich_passes(certified, asked.adversaries, inputs=len(target.evidence), **options)
    count = f"{len(certified)} radi{'i' if len(certified) > 1 else 'us'}"
    what = f"{count}, {', '.join(asked.adversaries)}, {len(target.evidence):,} inputs"
    _announce(target, f"smoothed model: {what}", passes, tell)
    with counted(target.model, passes, doing="attacking", show=progress):
        found = prepare_sandwich(
            target.model,
            target.data,
            target.evidence,
            radii=asked.radii or (),
            adversaries=asked.adversaries,
            seed=asked.seed,
            batch_size=asked.batch_size,
            **certificates,
            **options,
        )
    curves = {"before": found.before, "after": found.after}
    named = {name: [curve_as_dict(own) for own in curve] for name, curve in curves.items()}
    return {"holds": found.holds, "rows": found.as_dicts(), **named}


def _ace(target: Target, asked: AttackSettings, n_bins: int, progress: bool | None, tell: Tell) -> dict[str, Any]:
    from certcal.attacks import prepare_ace_table

    steps = asked.ace_steps or 100
    passes = ace_passes(len(target.inputs), budgets=len(asked.epsilons), steps=steps, galil=asked.galil)
    what = f"{4 + asked.galil} attacks, {len(asked.epsilons)} budget{'s' * (len(asked.epsilons) > 1)}"
    _announce(target, f"network without noise: {what}, {len(target.inputs):,} inputs", passes, tell)
    with counted(target.model, passes, doing="attacking", show=progress), _full_float32():
        found = prepare_ace_table(
            target.model,
            target.inputs,
            target.evidence.label,
            epsilons=asked.epsilons,
            n_bins=n_bins,
            galil=asked.galil,
            batch_size=asked.batch_size,
            steps=steps,
            seed=asked.seed,
            **(_STRONGER if asked.stronger else {}),
        )
    return {"rows": found.as_dicts(), "curves": [curve_as_dict(own) for own in found.curves]}


def _announce(target: Target, what: str, passes: int, tell: Tell) -> None:
    seconds = passes * seconds_per_pass(target.model, target.inputs, target.device)
    tell(f"{what}: at most {passes:,} forward passes, about {in_words(seconds)} on {target.device}")


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
