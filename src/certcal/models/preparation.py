"""How a network of a Hugging Face folder has its images prepared, as layers that come after the noise.

Radii so stay those of the inputs, whose pixels lie in [0, 1]. What cannot be read from the folder is refused.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from certcal.errors import InputError
from certcal.models.normalization import Normalize

_FILTERS = {0: "nearest-exact", 2: "bilinear", 3: "bicubic"}  # by Pillow's numbers
_READ = ("size", "crop_size", "image_mean", "do_resize", "do_normalize", "do_rescale")
_OTHERS = (
    "do_pad",
    "do_flip_channel_order",
    "do_color_quantize",
    "do_thumbnail",
    "do_align_long_axis",
    "do_crop_margin",
)


class Resize(nn.Module):
    """Scales images to a height and a width, or their shorter side to one length, and then keeps the centre.

    Images that have the size already are taken as they are.
    """

    def __init__(
        self, height: int, width: int | None, *, crop: tuple[int, int] | None = None, mode: str = "bilinear"
    ) -> None:
        super().__init__()
        self.register_buffer("size", torch.tensor([height, width or 0]))  # by which fingerprints tell them apart
        if crop is not None or mode != "bilinear":
            self.register_buffer("way", torch.tensor([*(crop or (0, 0)), list(_FILTERS.values()).index(mode)]))
        self._height, self._width, self._crop, self._mode = height, width, crop, mode

    def forward(self, inputs: Tensor) -> Tensor:
        """Images of another size, antialiased."""
        height, width = inputs.shape[-2:]
        if (height, width) == self._crop:
            return inputs
        short = min(height, width)
        size = (self._height, self._width or int(self._height * width / short))
        if self._width is None:
            size = (int(self._height * height / short), size[1])
        if size != (height, width):
            smooth = {} if self._mode == "nearest-exact" else {"antialias": True, "align_corners": False}
            inputs = interpolate(inputs, size, mode=self._mode, **smooth)
        return inputs if self._crop is None else self._centre(inputs, *self._crop)

    def _centre(self, inputs: Tensor, height: int, width: int) -> Tensor:
        over, beside = inputs.shape[-2] - height, inputs.shape[-1] - width
        if over < 0 or beside < 0:
            got = f"{inputs.shape[-1]}×{inputs.shape[-2]} after scaling"
            raise InputError.expected("inputs", f"have at least {width}×{height} pixels for the network's crop", got)
        top, left = over // 2, beside // 2
        return inputs[..., top : top + height, left : left + width]


def preparation(folder: Path, channels: int) -> nn.Module | None:
    """The layers that a folder's preprocessor_config.json stands for; None if it has no such file."""
    file = folder / "preprocessor_config.json"
    if not file.is_file():
        return None
    with InputError.expecting(str(file), "be JSON", on=ValueError):
        given = json.loads(file.read_text(encoding="utf-8"))
    unread = next((key for key in _OTHERS if given.get(key)), None)
    if unread is not None or not any(key in given for key in _READ):
        wanted = "scale, crop and normalise images in the usual ways (else prepare them yourself: my_nets:make)"
        raise InputError.expected(str(file), wanted, unread or "none of " + ", ".join(_READ))
    wanted = "hold sizes, means and standard deviations"
    with InputError.expecting(str(file), wanted, repr, on=(KeyError, TypeError, ValueError)):
        layers = [layer for layer in (_resize(given), _normalise(given, channels)) if layer is not None]
    return nn.Sequential(*layers) if layers else None


def _resize(given: dict[str, Any]) -> Resize | None:
    crop = _sides("crop_size", given["crop_size"]) if given.get("do_center_crop") and "crop_size" in given else None
    if crop is not None and crop[1] is None:
        crop = (crop[0], crop[0])
    if not given.get("do_resize", "size" in given):
        if crop is not None:
            raise InputError.expected(
                "preprocessor_config.json", "scale images before it crops them", "do_resize false"
            )
        return None
    height, width = _sides("size", given["size"])
    if width is None and given.get("crop_pct") is not None:  # as ConvNeXt: small ones are the centre of larger ones
        if height < 384:
            height, crop = int(height / given["crop_pct"]), (height, height)
        else:
            width = height
    if given.get("resample", 2) not in _FILTERS:
        raise InputError.expected("resample", "be 0, 2 or 3: nearest, bilinear or bicubic", given["resample"])
    return Resize(height, width, crop=crop, mode=_FILTERS[given.get("resample", 2)])  # type: ignore[arg-type]


def _sides(name: str, size: Any) -> tuple[int, int | None]:
    """Height and width; the shorter side and None."""
    if isinstance(size, dict):
        size = [size.get("height", size.get("shortest_edge")), size.get("width")]
    sides = [size, size] if isinstance(size, int) else list(size)
    if len(sides) != 2 or not isinstance(sides[0], int) or not isinstance(sides[1], int | None):
        raise InputError.expected(name, "be height and width, or shortest_edge", size)
    return sides[0], sides[1]


def _normalise(given: dict[str, Any], channels: int) -> Normalize | None:
    """One layer for rescaling and normalising pixels that lie in [0, 1]: ((a x − o) − m) / s."""
    factor = float(given.get("rescale_factor", 1 / 255)) if given.get("do_rescale", True) else 1.0
    scale, offset = 255 * factor, 1.0 if given.get("rescale_offset") else 0.0
    scale = 1.0 if abs(scale - 1) < 1e-6 else scale
    mean, std = [0.0] * channels, [1.0] * channels
    if normalised := given.get("do_normalize", "image_mean" in given):
        mean, std = list(given["image_mean"]), list(given["image_std"])
    if given.get("include_top"):  # as EfficientNet: by the standard deviation once more
        std = [one * other for one, other in zip(std, given["image_std"], strict=True)]
    if not normalised and (scale, offset) == (1.0, 0.0) and not given.get("include_top"):
        return None
    return Normalize([(offset + one) / scale for one in mean], [one / scale for one in std])
