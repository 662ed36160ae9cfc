"""Collecting evidence: from a model and data to the sufficient statistic of its draws, resumable at any point."""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from os import PathLike
from typing import Any

import torch
from torch import nn

from certcal.cluster import Cluster, as_cluster
from certcal.errors import CertcalWarning, InputError, kind_of
from certcal.inputs import check_device
from certcal.models import (
    NOISE,
    PROBES,
    Conditions,
    Unscale,
    as_module,
    check_rows,
    class_names,
    count_classes,
    device_of,
    doubt_outputs,
    fastest_convolutions,
    grid_step,
    held_still,
    model_fingerprint,
    model_probe,
    on_device,
)
from certcal.progress import Progress
from certcal.proportions import guessing
from certcal.scalars import check_choice, check_flag, check_integer, check_number, one_or_more
from certcal.settings import MAX_DRAWS, CertifySettings, Values
from certcal.smoothing.evidence import Evidence, EvidenceHeader
from certcal.smoothing.job import Job, StoppingRule, sample_here
from certcal.smoothing.keeper import Keeper
from certcal.smoothing.shards import SCHEMA
from certcal.smoothing.sources import Source
from certcal.smoothing.store import EvidenceStore

MAX_TEMPERATURES = 16
TELLING = 20  # inputs of which an accuracy tells something


def collect_evidence(
    model: Callable[[torch.Tensor], Any],
    data: Any,
    *,
    sigma: float,
    n: int = 100_000,
    n0: int = 100,
    seed: int = 0,
    chunk: int = 250,
    stages: Sequence[int] | None = None,
    stop: StoppingRule | None = None,
    plan: Sequence[int] | None = None,
    outputs: str = "logits",
    temperatures: Sequence[float] | None = None,
    values: str = Values.UNIT,
    device: str | None = None,
    precision: str = "float32",
    batch_size: int | None = None,
    fuse: bool = False,
    compile: bool | None = None,
    store: str | PathLike[str] | None = None,
    engine: "str | Cluster" = "local",
    progress: bool | None = None,
    begin: Callable[[], None] | None = None,
) -> Evidence:
    """The evidence of a smoothed model: for each input, votes, sums and a histogram of its noisy predictions.

    Certificates at any radius and level follow from it without running the model again. On a CPU the evidence is the
    same bit for bit whatever the chunk, the order of inputs, interruptions, or how often draws were added.

    Paper: App. A.1.

    Args:
        model: a network or a function that gives logits of shape (batch, classes) for inputs in [0, 1]; normalisation
            is its first layer. One logit per input is that of the second of two classes. Logits may stand in `.logits`,
            in a dict or in a tuple.
        data: (inputs, labels), a list of pairs, a Dataset (also of Hugging Face's) or an unshuffled DataLoader;
            `certcal.data.load_dataset` gives one. Bytes are divided by 255; labels may be one-hot, or names in a list.
        sigma: standard deviation of the noise, in the units of the inputs.
        n: estimation draws per input, rounded up to whole chunks.
        n0: selection draws per input, which only choose the class to certify.
        seed: of the noise. Noise depends on (seed, input, draw) alone. Like inputs it is rounded to a fine grid, which
            makes their sums exact in floating point; docs/noise.md.
        chunk: draws that are stored together.
        stages: draws after which sampling may stop for an input, rising to `n`; needs `stop`.
        stop: given the evidence of some inputs, says which of them need no more draws, such as
            `certcal.certificates.StopWhenDecided`. Each stage is a planned look at the data, and certificates share
            alpha among them.
        plan: the numbers of draws at which looks are planned, where this call is not to draw all of them: it ends at
            `n`, and later calls with the same `store` go on. A look at another number than those costs nothing, but its
            limits are wider; docs/certificates.md. By default `stages`, or `n`.
        outputs: "logits", or "probabilities" if the model ends in a softmax or a sigmoid.
        temperatures: count the scores of each draw with its logits divided by each of these: one forward pass, as many
            histograms. `Evidence.at_temperature` gives each; the first is the one that is meant where none is named.
        values: "any" for inputs that do not live in [0, 1]; sigma and radii are in their own units then.
        device: where to run; the model's own device by default.
        precision: "float32", or "bfloat16" / "float16" for autocast. The certificate is of the model run that way.
        batch_size: draws per forward pass on a GPU, in whole chunks; by default as many as run fastest, which takes
            some seconds to find. A CPU takes 250, fewer of large inputs.
        fuse: fold batch-norm, ReLU and residual sums into convolutions: the fastest way on a GPU, with other rounding.
        compile: run the model through torch.compile; by default on a GPU, where more is to be drawn than that takes.
        store: a folder to keep the evidence in. A run that was interrupted, or asks for more draws, goes on there. The
            looks of the first run there are its plan; draws may be added at any time, and certificates stay true.
        engine: "local" draws in this process, "ray" on the workers of a Ray cluster; a `certcal.cluster.Cluster` says
            which, and how many. The evidence is the same.
        progress: show draws per second and time left; by default if standard error is a terminal.
        begin: called once, when the arguments and the store have been checked and before the first draw.

    Raises:
        InputError: if an argument is wrong, or the store holds evidence of another model, noise or seed.
        CertcalWarning: if outputs look like another kind, the smoothed model seems to guess, or `n` is no
            whole number of chunks; a warning.
        CertcalError: if the model gives no probabilities, or evidence cannot be read or written.
    """
    drawn: dict[str, Any] = {"sigma": sigma, "n": n, "n0": n0, "chunk": chunk, "seed": seed, "outputs": outputs}
    run: dict[str, Any] = {"precision": precision, "batch_size": batch_size, "fuse": fuse, "compile": compile}
    CertifySettings(**drawn, **run)  # which checks each of them
    check_flag("progress", bool(progress) if progress is None else progress)
    if store is not None and not isinstance(store, str | PathLike):
        raise InputError.expected("store", "be a path", kind_of(store))
    if begin is not None and not callable(begin):
        raise InputError.expected("begin", "be a function or None", kind_of(begin))
    targets = _chunk_targets(n, chunk, stages, stop)
    if targets[-1] * chunk != n:
        told = f"n = {n} becomes {targets[-1] * chunk}: draws are made in whole chunks of {chunk}; see `chunk`."
        warnings.warn(told, CertcalWarning, stacklevel=2)
    planned = () if plan is None else one_or_more("plan", plan)
    looks = sorted({-(-check_integer("plan", m, minimum=1, maximum=MAX_DRAWS) // chunk) for m in planned}) or targets
    cluster = as_cluster(engine)
    model = as_module(model)
    tf32 = bool(torch.backends.cudnn.allow_tf32)
    place = _device(str(device_of(model)) if device is None else device, cluster)
    conditions = Conditions(str(place), precision, batch_size, fuse, compile, tf32)
    source = Source(data, values=Values(check_choice("values", values, tuple(Values))))
    if getattr(data, "scale", None) is not None and not any(isinstance(one, Unscale) for one in model.modules()):
        told = "`data` is divided by its standard deviations, and the model sees it so: was it trained on such inputs?"
        mend = "Otherwise give Unscale(data.scale.mean, data.scale.std, model) of certcal.models."
        warnings.warn(f"{told} {mend}", CertcalWarning, stacklevel=2)
    with _ready(model, place, cluster) as ready, torch.inference_mode(), fastest_convolutions():
        at = torch.device("cpu") if cluster else place
        classes = source.settle(lambda one: count_classes(ready, one[None], at))
        first = next(source.items(set()))
        source.check_names(classes, class_names(ready))
        shape = first.input.shape
        if cluster is None:
            on_device(ready, place, shape)
        header = EvidenceHeader(
            model=model_fingerprint(ready),
            sigma=float(sigma),
            seed=seed,
            classes=classes,
            n0=n0,
            chunk=chunk,
            precision=str(conditions),
            looks=len(looks),
            stages=tuple(look * chunk for look in looks),
            outputs=outputs,
            noise=NOISE,
            grid=grid_step(sigma),
            elements=shape.numel(),
            units=source.units,
            **_tempered(temperatures, outputs),
        )
        probe = model_probe(ready, tuple(shape), at, kind=outputs)
        answers = check_rows(ready, source.some(PROBES), at, kind=outputs)
        # Probabilities that are none are refused as they come.
        seen = torch.tensor([*probe, *answers]).reshape(-1, header.classes)
        if outputs == "logits" and (doubt := doubt_outputs(seen, outputs)) is not None:
            warnings.warn(str(doubt), CertcalWarning, stacklevel=2)
        with nullcontext() if store is None else closing(EvidenceStore(store, header, probe=probe)) as keeping:
            if stages is not None and keeping is not None and keeping.header.stages != header.stages:
                plan_there = ", ".join(f"{stage:,}" for stage in keeping.header.stages) or "none"
                told = f"The looks of {store} were planned before ({plan_there}): new stages are unplanned, with wider "
                warnings.warn(f"{told}limits. A new store keeps its plan.", CertcalWarning, stacklevel=2)
            keeper = Keeper(header, keeping)
            keeper.check(first)  # the others are checked as they are read
            if begin is not None:
                begin()
            job = Job(source, keeper, targets, stop, Progress(len(source), targets[-1] * chunk, show=progress))
            if cluster is None:
                sample_here(ready, conditions, shape, job)
            elif not job.over:
                from certcal.smoothing.remote import sample_there

                sample_there(cluster, ready, conditions, probe, shape, job)
    evidence = keeper.evidence(source.indices)
    if (guesses := _doubt(evidence)) is not None:
        warnings.warn(guesses, CertcalWarning, stacklevel=2)
    return evidence


def _doubt(evidence: Evidence) -> str | None:
    """Why a report on this evidence may be about a mistake: a model that guesses, or says the same of everything."""
    many, right = len(evidence), float(evidence.correct.mean())
    if many < TELLING or len(set(evidence.label.tolist())) == 1:
        return None
    ask = "is it trained, under such noise, and are these its weights, its classes and its normalisation?"
    if len(set(evidence.selected.tolist())) == 1:
        return f"The smoothed model gives all {many:,} inputs one class, {evidence.selected[0]}: {ask}"
    if right <= guessing(many, evidence.header.classes):
        return f"The smoothed model is right on {right:.0%} of {many:,} inputs, hardly more than by guessing: {ask}"
    return None


def _tempered(temperatures: Sequence[float] | None, outputs: str) -> dict[str, Any]:
    """What a header says of temperatures; nothing of logits as they are."""
    given = () if temperatures is None else tuple(one_or_more("temperatures", temperatures))
    found = tuple(check_number("temperatures", own, "be numbers > 0", lambda value: value > 0) for own in given)
    if len(set(found)) < len(found) or len(found) > MAX_TEMPERATURES:
        wanted = f"be at most {MAX_TEMPERATURES} different numbers"
        raise InputError.expected("temperatures", wanted, ", ".join(map(str, found)))
    if found in ((), (1.0,)):
        return {}
    if outputs != "logits":
        raise InputError.expected("temperatures", "be left out for a model that gives probabilities", list(found))
    return {"temperatures": found, "schema": SCHEMA}


def _device(name: str, cluster: Cluster | None) -> torch.device:
    """A device of this machine, or one of the kind that the workers of a cluster have."""
    if cluster is None:
        return check_device("device", name)
    wanted = "name a kind of device, such as 'cpu' or 'cuda'"
    with InputError.expecting("device", wanted, repr(name), on=(RuntimeError, TypeError)):
        return torch.device(torch.device(name).type)


@contextmanager
def _ready(model: nn.Module, place: torch.device, cluster: Cluster | None) -> Iterator[nn.Module]:
    """The model in evaluation mode: on its device, or for workers a copy of it on the CPU."""
    if cluster is not None:
        yield copy.deepcopy(model).to("cpu").eval()
        return
    with held_still(model):
        yield model.to(place)


def _chunk_targets(n: int, chunk: int, stages: Sequence[int] | None, stop: StoppingRule | None) -> list[int]:
    """After how many chunks each stage ends; the last stage ends at n."""
    if (stages is None) != (stop is None):
        raise InputError.expected("stages and stop", "be given together", "stop" if stages is None else "stages alone")
    draws = [n] if stages is None else [check_integer("stages", s, minimum=1) for s in one_or_more("stages", stages)]
    targets = [-(-stage // chunk) for stage in draws]
    if targets != sorted(set(targets)) or targets[-1] != -(-n // chunk):
        raise InputError.expected("stages", f"rise to n = {n} by whole chunks of {chunk}", list(draws))
    return targets
