"""A fingerprint by which a checkpoint knows its data."""

import hashlib

import torch
from torch import Tensor

from certcal.data.images import ImageData


def data_fingerprint(data: ImageData) -> str:
    """SHA-256, in hexadecimal, of labels and images; of images that stay in files, of their names."""
    digest = hashlib.sha256(tensor_bytes(data.labels))
    digest.update(tensor_bytes(data.pixels) if isinstance(data.pixels, Tensor) else repr(data.pixels.paths).encode())
    return digest.hexdigest()


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor in row-major order, whatever its memory format and device."""
    # NumPy lacks some of torch's dtypes, so the bytes are taken as bytes.
    flat = tensor.detach().cpu().contiguous(memory_format=torch.contiguous_format).reshape(-1)
    return flat.view(torch.uint8).numpy().data
