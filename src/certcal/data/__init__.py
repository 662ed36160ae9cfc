"""Labelled inputs: what evidence is collected from."""

from certcal.data.arrays import from_arrays
from certcal.data.datasets import dataset_names, dataset_splits, download_dataset, load_dataset
from certcal.data.downloads import data_folders
from certcal.data.entries import as_pair, as_values, channels_first, is_grey, is_picture
from certcal.data.images import (
    ImageData,
    Scale,
    as_unit_interval,
    channel_statistics,
    data_fingerprint,
    split_data,
    tensor_bytes,
)
from certcal.data.labels import as_classes, check_names, names_of_model
from certcal.data.told_names import check_told_names

__all__ = [
    "ImageData",
    "Scale",
    "as_classes",
    "as_pair",
    "as_unit_interval",
    "as_values",
    "channel_statistics",
    "channels_first",
    "check_names",
    "check_told_names",
    "data_fingerprint",
    "data_folders",
    "dataset_names",
    "dataset_splits",
    "download_dataset",
    "from_arrays",
    "is_grey",
    "is_picture",
    "load_dataset",
    "names_of_model",
    "split_data",
    "tensor_bytes",
]
