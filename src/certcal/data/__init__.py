"""Labelled images and classifiers: what evidence is collected from."""

from certcal.data.arrays import from_arrays
from certcal.data.checkpoints import load_checkpoint, save_checkpoint
from certcal.data.datasets import dataset_names, dataset_splits, download_dataset, load_dataset
from certcal.data.fingerprint import data_fingerprint, model_fingerprint
from certcal.data.images import ImageData
from certcal.data.locate import data_folders
from certcal.data.models import build_model, model_names
from certcal.data.normalization import Normalize, channel_statistics
from certcal.data.splits import split_data
from certcal.data.temperature import Tempered

__all__ = [
    "ImageData",
    "Normalize",
    "Tempered",
    "build_model",
    "channel_statistics",
    "data_fingerprint",
    "data_folders",
    "dataset_names",
    "dataset_splits",
    "download_dataset",
    "from_arrays",
    "load_checkpoint",
    "load_dataset",
    "model_fingerprint",
    "model_names",
    "save_checkpoint",
    "split_data",
]
