"""All that training has come to, in a file that appears whole or not at all: what a killed run goes on from."""

import hashlib
import json
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from certcal.data import tensor_bytes
from certcal.errors import InputError, one_line
from certcal.files import replacing
from certcal.models import load_checkpoint
from certcal.settings import ObjectiveSettings, TrainSettings, ValidationSettings

FORMAT = 1
TENSORS = "tensors:"  # before the digest of weights that training starts from


@dataclass
class TrainState:
    """Where training stands. Random numbers need no state: they follow from seed, epoch and step."""

    epoch: int = 0  # in progress
    step: int = 0  # done in this epoch
    loss_sum: float = 0.0  # over these steps
    seconds: float = 0.0  # spent on them
    history: list[dict[str, float]] = field(default_factory=list)  # a row for each finished epoch
    best: dict[str, float] = field(default_factory=dict)  # the best validation so far
    processes: int = 1

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch, self.step, self.loss_sum, self.seconds = self.epoch + 1, 0, 0.0, 0.0


def save_state(
    path: Path, state: TrainState, model: nn.Module, optimiser: torch.optim.Optimizer, settings: dict[str, Any]
) -> None:
    """Write a checkpoint; an interrupted write leaves the previous one as it was."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "state_dict": {name: value.detach().cpu() for name, value in model.state_dict().items()},
        "optimiser": optimiser.state_dict(),
        "state": dict(vars(state)),
        "settings": json.dumps(settings, sort_keys=True),
    }
    with replacing(path) as part:
        try:
            with part.open("wb") as written:
                torch.save(content | {"digest": _digest(content)}, written)
        except RuntimeError as error:  # what torch makes of a full disk
            raise OSError(f"{path.name} could not be written: {one_line(error)}") from error


def load_state(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, settings: dict[str, Any], device: torch.device
) -> TrainState:
    """The state in a checkpoint; model and optimiser are set to it.

    Raises: InputError if the file is damaged, of another architecture, or of other settings; nothing is changed then.
    """
    content = read_same_state(path, settings, device)
    load_checkpoint(model, path)  # names what does not fit
    try:
        optimiser.load_state_dict(content["optimiser"])
    except (ValueError, KeyError) as error:
        raise InputError.expected(str(path), "hold the optimiser's state for this model", str(error)) from error
    return TrainState(**content["state"])


def read_same_state(path: Path, settings: dict[str, Any], device: torch.device | str = "cpu") -> dict[str, Any]:
    """What a checkpoint of training with these settings holds; one with others is refused."""
    content = read_state(path, device)
    check_same_settings(path, json.loads(content["settings"]), settings)
    return content


def read_state(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What a checkpoint of training holds, read without running code."""
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # a damaged archive fails in torch's reader with anything
        raise InputError.expected(str(path), "be a checkpoint of `certcal train`", one_line(error, most=200)) from error
    wanted = {"format", "state_dict", "optimiser", "state", "settings", "digest"}
    if not isinstance(content, dict) or set(content) != wanted or content["format"] != FORMAT:
        held = ", ".join(sorted(map(str, content))[:5]) if isinstance(content, dict) else type(content).__name__
        raise InputError.expected(str(path), "be a checkpoint of `certcal train`", f"a file with {held}")
    if content.pop("digest") != _digest(content):  # torch reads on over damaged bytes
        raise InputError.expected(str(path), "be as it was written", "a damaged file")
    return content


def _digest(value: Any) -> str:
    """SHA-256 of nested plain data and tensors."""
    if isinstance(value, torch.Tensor):
        content = bytes(tensor_bytes(value)) + f"{value.dtype}{tuple(value.shape)}".encode()
    elif isinstance(value, dict):
        content = "".join(f"{key!r}:{_digest(value[key])}" for key in sorted(value, key=repr)).encode()
    elif isinstance(value, list | tuple):
        content = "".join(map(_digest, value)).encode()
    else:
        content = repr(value).encode()
    return hashlib.sha256(content).hexdigest()


def check_same_settings(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on with other settings than a checkpoint was made with."""
    before = _defaults(now) | before  # of settings that an earlier version did not have
    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    # Schedules count epochs from the first, so more of them is the same run, only longer.
    changed = [key for key in changed if key != "train.epochs" or now[key] < before[key]]
    # Earlier versions wrote the options of all objectives.
    changed = [key for key in changed if key in now or not key.startswith("objective.")]
    # In run folders they knew data by its name and size only.
    changed = [key for key in changed if key != "data.content" or key in before]
    # And they compared the file that training starts from, not the weights in it.
    changed = [key for key in changed if key != "model.weights" or str(before.get(key)).startswith(TENSORS)]
    if changed:
        told = {key: f"{key} = {now.get(key)!r} (was {before.get(key)!r})" for key in changed[:4]}
        if "data.content" in told:  # digests, which tell a reader nothing
            told["data.content"] = f"other images or labels in {now.get('data.name', 'the data')}"
        more = f" and {len(changed) - 4} more" if len(changed) > 4 else ""
        wanted = f"be those that {path.name} was made with (or train under another name)"
        raise InputError.expected("settings", wanted, f"{', '.join(told.values())}{more}")


def _defaults(now: dict[str, Any]) -> dict[str, Any]:
    """Today's defaults of the settings that are given now."""
    kinds: dict[str, Any] = {"train": TrainSettings, "validation": ValidationSettings}
    kinds["objective"] = ObjectiveSettings.kinds.get(now.get("objective.name", ""), ObjectiveSettings)
    own = {section: {one.name: one.default for one in fields(kind)} for section, kind in kinds.items()}
    return {key: value for key, value in flat_settings(own).items() if key in now and value is not MISSING}


def flat_settings(sections: dict[str, Any]) -> dict[str, Any]:
    """Settings as {section.key: value}, of what JSON knows."""
    flat: dict[str, Any] = {}
    for section, value in sections.items():
        if isinstance(value, dict):
            flat |= {f"{section}.{key}": list(one) if isinstance(one, tuple) else one for key, one in value.items()}
        else:
            flat[section] = value
    return flat
