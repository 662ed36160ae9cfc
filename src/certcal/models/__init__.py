"""Models, and how one is run under noise: device, precision, outputs, noise and seeds."""

from certcal.models.catalog import build_model, model_names
from certcal.models.checkpoints import checkpoint_digest, load_checkpoint, save_checkpoint, state_digest
from certcal.models.devices import (
    autocast,
    best_device,
    device_of,
    fastest_convolutions,
    wait_for,
)
from certcal.models.fingerprint import PROBES, check_rows, model_fingerprint, model_probe, same_probe
from certcal.models.functions import as_module
from certcal.models.given import FLOATS, as_inputs, as_labels, class_names, classify
from certcal.models.grid import grid_step, rounded_normals, through_grid, to_grid
from certcal.models.normalization import Normalize, Unscale
from certcal.models.outputs import (
    as_outputs,
    as_probabilities,
    count_classes,
    doubt_outputs,
    logits_of,
    no_distribution,
)
from certcal.models.philox import NOISE, Noise, Purpose, kernels_for
from certcal.models.running import Conditions, Runner, held_still, made_up_inputs, on_device
from certcal.models.seeds import place_generator, place_seed
from certcal.models.temperature import Tempered

__all__ = [
    "FLOATS",
    "NOISE",
    "PROBES",
    "Conditions",
    "Noise",
    "Normalize",
    "Purpose",
    "Runner",
    "Tempered",
    "Unscale",
    "as_inputs",
    "as_labels",
    "as_module",
    "as_outputs",
    "as_probabilities",
    "autocast",
    "best_device",
    "build_model",
    "check_rows",
    "checkpoint_digest",
    "class_names",
    "classify",
    "count_classes",
    "device_of",
    "doubt_outputs",
    "fastest_convolutions",
    "grid_step",
    "held_still",
    "kernels_for",
    "load_checkpoint",
    "logits_of",
    "made_up_inputs",
    "model_fingerprint",
    "model_names",
    "model_probe",
    "no_distribution",
    "on_device",
    "place_generator",
    "place_seed",
    "rounded_normals",
    "same_probe",
    "save_checkpoint",
    "state_digest",
    "through_grid",
    "to_grid",
    "wait_for",
]
