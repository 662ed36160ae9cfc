"""Drawing on a Ray cluster: the driver decides and keeps, workers that hold the model draw."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray
import torch
from torch import nn

from certcal.cluster import Call, Cluster, Pool, connected
from certcal.errors import CertcalError, InputError
from certcal.inputs import check_device
from certcal.interrupts import deferred_interrupts
from certcal.models import (
    Conditions,
    fastest_convolutions,
    made_up_inputs,
    model_fingerprint,
    model_probe,
    on_device,
    same_probe,
)
from certcal.smoothing.evidence import EvidenceHeader
from certcal.smoothing.job import Job
from certcal.smoothing.passes import Work
from certcal.smoothing.sampler import Sampler, rows_on_cpu
from certcal.smoothing.schedule import Schedule, Shard
from certcal.smoothing.shards import Rows, concatenate
from certcal.smoothing.sources import Item


@dataclass(frozen=True)
class Parcel:
    """What a worker needs to sample as the driver would."""

    model: bytes  # pickled; a class is named by the module it is imported from
    header: EvidenceHeader
    conditions: Conditions
    shape: tuple[int, ...]  # of one input
    probe: list[float]  # the model's answers to made-up inputs


def sample_there(
    cluster: Cluster, model: nn.Module, conditions: Conditions, probe: list[float], shape: torch.Size, job: Job
) -> None:
    """Check the cluster, place the model, which is on the CPU, once per worker, and draw all that the job asks for."""
    with InputError.expecting("model", "be one that can be pickled and sent to workers", _brief):
        pickled = ray.cloudpickle.dumps(model)
    header, kind = job.keeper.header, torch.device(conditions.device).type
    parcel = Parcel(pickled, header, conditions, tuple(shape), probe)
    # What a shard has at least; it grows with the speed that is seen.
    rows = rows_on_cpu(header.elements) if kind == "cpu" else conditions.batch_size or 4000
    schedule = Schedule(job, batch=max(1, rows // header.chunk))
    with deferred_interrupts() as interrupted:
        try:
            # The meter comes last: it counts from the first draws, not from the checks before them.
            with connected(cluster, device=kind) as own, Pool(own, make_sampler, ray.put(parcel)) as pool, job.meter:
                _drive(pool, schedule, own.workers, interrupted)
        finally:
            job.keeper.save()


def _drive(pool: Pool, schedule: Schedule, workers: int, interrupted: Callable[[], bool]) -> None:
    """Keep every worker busy with a shard; after Ctrl-C only let those under way finish."""
    places: dict[int, Any] = {}  # inputs in the object store, while shards of them are under way
    shards: dict[Call, Shard] = {}
    while shards or not (schedule.over or interrupted()):
        while pool.room and not interrupted() and (shard := schedule.next(workers)) is not None:
            call = _call(shard, places)
            shards[call] = shard
            pool.submit(call)
        for call, result in pool.results():
            if isinstance(result, CertcalError):
                raise result
            shard = shards.pop(call)
            if shard.chunks:
                schedule.drawn(shard, *result)
            else:
                schedule.selected(shard, result)
        if len(places) > 2 * sum(len(shard.items) for shard in shards.values()) + workers:
            busy = {item.index for shard in shards.values() for item in shard.items}
            places = {index: place for index, place in places.items() if index in busy}
    if interrupted():
        raise KeyboardInterrupt("sampling stopped; with a store, the same call goes on from here")


def _call(shard: Shard, places: dict[int, Any]) -> Call:
    for item in shard.items:
        if item.index not in places:
            places[item.index] = ray.put(item)
    items = [places[item.index] for item in shard.items]
    numbers = ", ".join(str(item.index) for item in shard.items[:3]) + ", …" * (len(shard.items) > 3)
    if shard.chunks:
        return Call(f"Drawing for input {numbers}", draw_chunks, (shard.selected, shard.chunks, *items))
    return Call(f"Selecting the class of input {numbers}", select_classes, tuple(items))


def make_sampler(parcel: Parcel) -> Sampler:
    """What a worker holds: the model on its device, ready to sample.

    On a CPU it runs in one thread, whatever the machine.
    """
    conditions = parcel.conditions
    kind = torch.device(conditions.device).type
    torch.backends.cudnn.allow_tf32 = conditions.tf32
    if kind == "cpu":
        torch.set_num_threads(1)  # local sampling uses more where they give the same bits
    place = check_device("device", kind)
    model = on_device(check_model(parcel), place, parcel.shape)
    with torch.inference_mode():
        return Sampler(model, parcel.header, conditions, made_up_inputs(4, parcel.shape).to(place))


def select_classes(sampler: Sampler, *items: Item) -> list[int]:
    """The classes that the selection draws choose."""
    with torch.inference_mode(), fastest_convolutions():
        sampler.open_window(items, {})
    return sampler.selected


def draw_chunks(
    sampler: Sampler, selected: tuple[int, ...], chunks: tuple[tuple[int, int], ...], *items: Item
) -> tuple[Rows, float]:
    """Rows of the chunks first … stop − 1 of each input, and the seconds they took."""
    start = time.perf_counter()
    known = {item.index: chosen for item, chosen in zip(items, selected, strict=True)}
    work = Work.of([(slot, *own) for slot, own in enumerate(chunks)], sampler.header.chunk)
    parts: list[Rows] = []
    with torch.inference_mode(), fastest_convolutions():
        sampler.open_window(items, known)
        sampler.draw(work, keep=parts.append)
    return concatenate(parts, sampler.header), time.perf_counter() - start


def check_model(parcel: Parcel) -> nn.Module:
    """On a node: the model, which can be made here and is the driver's."""
    try:
        model: nn.Module = ray.cloudpickle.loads(parcel.model).eval()
    except Exception as error:  # a module that is not there, or is another one
        raise CertcalError(
            f"The model cannot be made {_here()}: {_brief(error)}. The file that its class comes from has to be "
            "importable on every node, installed or on its PYTHONPATH; weights travel with the run."
        ) from error
    if model_fingerprint(model) != parcel.header.model:
        raise CertcalError(f"The model's weights or classes are others {_here()} than where the run was started.")
    with torch.inference_mode():
        probe = model_probe(model, parcel.shape, torch.device("cpu"), kind=parcel.header.outputs)
    if not same_probe(probe, parcel.probe):
        raise CertcalError(
            f"The model's outputs are others {_here()} than where the run was started although its weights are the "
            "same: the file its class comes from may be another version."
        )
    return model


def _here() -> str:
    return f"on node {ray.util.get_node_ip_address()}"


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0].rstrip('.')}"
