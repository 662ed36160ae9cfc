"""Certified metrics while a Lightning module is trained. Extra: `certcal[lightning]`."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader, Subset

from certcal.errors import InputError
from certcal.scalars import check_integer, one_or_more
from certcal.settings import ValidationSettings, Values, checks
from certcal.training import validate

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:  # the package has two names
    from pytorch_lightning import Callback, LightningModule, Trainer

__all__ = ["CertifyEvery"]


class CertifyEvery(Callback):  # type: ignore[misc]  # Lightning is no requirement, so its types may be unknown
    """Certifies some validation inputs every few epochs, and logs certified accuracy, ECE and Brier score per radius.

    The names are `certified_ece/0.25` and so on, to be monitored by other callbacks; errors are NaN where no input is
    certified. The first validation certifies; those in between log the last values again, so that there is always one
    to monitor. They are for following training: the draws are few, Lightning keeps float32, and whoever chooses a model
    by them certifies it anew on other inputs. The same noise is used every time, so that epochs can be compared.

    Paper: —.   Errs: as `certcal.evaluate` does, but for the rounding of what Lightning logs.

    Args:
        sigma: standard deviation of the noise, in the units of the inputs.
        every: least number of epochs from one time to the next; with 1, at every validation.
        inputs: how many of the validation inputs, evenly spread over the first validation data set.
        draws, n0, radii, alpha, method, n_bins: as `certcal train` validates; by default 1,000 draws, and radii σ/2, σ,
            3σ/2.
        data: other inputs, as for `collect_evidence`; all of them are used.
        model: what of the module to certify, given the module; by default the module itself, called with a batch.
        seed: of the noise.
        outputs, values: as for `collect_evidence`.
    """

    def __init__(
        self,
        *,
        sigma: float,
        every: int = 1,
        inputs: int = 100,
        draws: int = 1000,
        n0: int = 100,
        radii: Iterable[float] | None = None,
        alpha: float = 0.001,
        method: str = "cdf-cp",
        n_bins: int = 15,
        data: Any = None,
        model: Callable[[Any], Callable[[torch.Tensor], Any]] | None = None,
        seed: int = 0,
        outputs: str = "logits",
        values: str = Values.UNIT,
    ) -> None:
        self.every = check_integer("every", every, minimum=1)
        self.asked = ValidationSettings(
            inputs=inputs,
            draws=draws,
            n0=n0,
            radii=None if radii is None else one_or_more("radii", radii),
            alpha=alpha,
            method=method,
            n_bins=n_bins,
        )
        self.sigma = checks.positive("sigma", sigma)
        self.data, self.model, self.seed = data, model, checks.seed("seed", seed)
        self.reading: dict[str, Any] = {"outputs": outputs, "values": values}
        self._last: tuple[int, dict[str, float]] | None = None  # epoch and values

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget what another training found."""
        self._last = None

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Certify on the first process, if it is time, and log on all."""
        if trainer.sanity_checking:
            return
        epoch = trainer.current_epoch
        if self._last is None or self.every == 1 or epoch - self._last[0] >= self.every:
            found = self._certified(trainer, pl_module) if trainer.is_global_zero else {}
            self._last = epoch, trainer.strategy.broadcast(found)
        # Other callbacks monitor on every process; the values are the same there.
        pl_module.log_dict(self._last[1], sync_dist=True)

    def _certified(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, float]:
        data = self.data if self.data is not None else _some(trainer.val_dataloaders, self.asked.inputs)
        model = pl_module if self.model is None else self.model(pl_module)
        # Lightning validates in inference mode, whose tensors other code must not keep.
        with torch.inference_mode(False), torch.no_grad():
            found = validate(
                model, data, self.asked, sigma=self.sigma, seed=self.seed, device=pl_module.device, **self.reading
            )
        return {name.replace("_at_", "/"): value for name, value in found.items()}


def _some(loaders: Any, inputs: int) -> "DataLoader[Any]":
    """So many inputs of the first validation data set, evenly spread, in batches as its loader makes them."""
    loader = loaders[0] if isinstance(loaders, list | tuple) else loaders
    dataset: Any = getattr(loader, "dataset", None)
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        wanted = "be given where validation data has no length or is not read by position"
        raise InputError.expected("data", wanted, f"none, with a {type(dataset or loader).__name__}")
    count = min(inputs, len(dataset))
    chosen = Subset(dataset, [position * len(dataset) // count for position in range(count)])
    return DataLoader(chosen, batch_size=64, collate_fn=loader.collate_fn)
