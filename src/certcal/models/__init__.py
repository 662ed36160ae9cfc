"""Models, and how one is run under noise: device, precision, outputs, noise and seeds."""

from certcal.models.catalog import build_model, model_names
from certcal.models.checkpoints import load_checkpoint, save_checkpoint
from certcal.models.fingerprint import model_fingerprint
from certcal.models.normalization import Normalize
from certcal.models.temperature import Tempered

__all__ = [
    "Normalize",
    "Tempered",
    "build_model",
    "load_checkpoint",
    "model_fingerprint",
    "model_names",
    "save_checkpoint",
]
