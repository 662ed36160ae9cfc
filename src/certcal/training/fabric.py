"""The processes that train: one by itself, or through Lightning Fabric several, on one machine or many."""

import importlib
import logging
import os
import warnings
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from certcal.errors import InputError
from certcal.inputs import check_device
from certcal.models import best_device
from certcal.settings import MachineSettings

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class OneProcess:
    """What training asks of Fabric, for a process by itself: without the seconds that importing Fabric takes."""

    device: torch.device
    global_rank: int = 0
    world_size: int = 1
    is_global_zero: bool = True

    def barrier(self) -> None:
        """There is nobody to wait for."""


def launch_fabric(machine: MachineSettings) -> Any:
    """The processes, all running, as each of them sees them: a Fabric, or one process alone."""
    device = check_device("device", machine.device or best_device())
    outside = "TORCHELASTIC_RUN_ID" in os.environ  # torchrun made the processes and says how many there are
    local = int(os.environ["LOCAL_WORLD_SIZE"]) if outside else machine.devices
    nodes = int(os.environ["WORLD_SIZE"]) // local if outside else machine.nodes
    if device.type == "cuda" and local > torch.cuda.device_count():
        wanted = f"be at most the number of GPUs here ({torch.cuda.device_count()})"
        raise InputError.expected("devices", wanted, local)
    if device.type == "cpu" and not outside and local > (os.cpu_count() or 1):
        raise InputError.expected("devices", f"be at most the number of cores here ({os.cpu_count()})", local)
    if local * nodes == 1:
        if device.type == "cuda":
            device = torch.device("cuda", device.index or 0)
            torch.cuda.set_device(device)
        return OneProcess(device)
    kind = _fabric()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Fabric's hints speak of wrappers and options that are not used here
        logging.getLogger(kind.__module__.partition(".fabric")[0]).setLevel(logging.ERROR)
        if outside:
            _join_group("nccl" if device.type == "cuda" else "gloo")
        fabric = kind(accelerator=device.type, devices=local, num_nodes=nodes, strategy="ddp")
        fabric.launch()
    return fabric


def _fabric() -> Any:
    for name in ("lightning_fabric", "lightning.fabric"):  # alone, or as a part of `lightning`
        try:
            return importlib.import_module(name).Fabric
        except ImportError:
            continue
    raise InputError("Training on several devices needs Lightning Fabric: pip install 'certcal[train]'.")


def _join_group(backend: str) -> None:
    """Join torchrun's processes. Keys of an earlier attempt stay in its store, so each attempt has its own prefix."""
    import torch.distributed

    dist: Any = torch.distributed  # whose stubs leave these names out
    if not dist.is_initialized():
        store, rank, size = next(dist.rendezvous("env://"))
        store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)


def leave_group() -> None:
    """Wait for the other processes, then leave them: who leaves early breaks those still talking."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def averaged(fabric: Any, model: nn.Module, loss: torch.Tensor) -> torch.Tensor:
    """The mean loss over processes; gradients and running statistics become their means in the same exchange.

    By hand, because objectives run the model many times a step, which Fabric's wrapper for data parallelism is not made
    for.
    """
    if fabric.world_size == 1:
        return loss.detach()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    together = [*gradients, *buffers, loss.detach().reshape(1)]
    mine = torch.cat([part.reshape(-1).float() for part in together])
    flat: torch.Tensor = fabric.all_reduce(mine, reduce_op="mean")
    with torch.no_grad():
        for part, mean in zip(together, torch.split(flat, [part.numel() for part in together]), strict=True):
            part.copy_(mean.view_as(part))
    return flat[-1]


def same_everywhere(fabric: Any, model: nn.Module, optimiser: torch.optim.Optimizer, facts: Facts) -> Facts:
    """Give every process the weights, the optimiser's state and the facts of the first."""
    if fabric.world_size == 1:
        return facts
    weights, moments, facts = fabric.broadcast((model.state_dict(), optimiser.state_dict(), facts), src=0)
    if not fabric.is_global_zero:
        model.load_state_dict(weights)
        optimiser.load_state_dict(moments)
    return facts
