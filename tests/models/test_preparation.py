"""Images are prepared inside the model as Hugging Face's own processors prepare them."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from certcal import InputError
from certcal.models.preparation import Resize, preparation


def smooth_image(height: int, width: int) -> np.ndarray:
    """Bytes (h, w, 3) that change slowly: processors round them between two steps, and we do not."""
    y, x = np.mgrid[0:height, 0:width] / 8
    return (127 + 120 * np.stack([np.sin(x), np.cos(y), np.sin(x + y)], axis=-1)).astype(np.uint8)


PROCESSORS = {
    "scaled": ("ViTImageProcessorPil", {"size": {"height": 16, "width": 20}}),
    "cropped": ("BitImageProcessorPil", {"size": {"shortest_edge": 24}, "crop_size": {"height": 16, "width": 18}}),
    "a crop by its share": ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 28}, "crop_pct": 0.875}),
    "twice divided": ("EfficientNetImageProcessorPil", {"size": {"height": 16, "width": 16}}),
    "from −1 on": (
        "EfficientNetImageProcessorPil",
        {
            "size": {"height": 16, "width": 16},
            "rescale_offset": True,
            "rescale_factor": 1 / 127.5,
            "include_top": False,
        },
    ),
    "bytes": (
        "ViTImageProcessorPil",
        {"size": {"height": 16, "width": 16}, "do_rescale": False, "do_normalize": False},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROCESSORS)
def test_prepared_images_are_those_of_the_processor(tmp_path, name: str) -> None:
    transformers = pytest.importorskip("transformers")
    kind, settings = PROCESSORS[name]
    processor = getattr(transformers, kind)(**settings)
    processor.save_pretrained(tmp_path)
    layers = preparation(tmp_path, 3)
    for sides in ((32, 32), (30, 45), (50, 33)):
        image = smooth_image(*sides)
        wanted = processor(Image.fromarray(image), return_tensors="pt")["pixel_values"]
        found = layers(torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255)
        assert found.shape == wanted.shape
        scale = float((layers[-1].std.min() if hasattr(layers[-1], "std") else torch.tensor(1.0)).reciprocal())
        assert float((found - wanted).abs().max()) <= 1.6 / 255 * max(1.0, scale)


def test_sizes_that_fit_are_kept() -> None:
    images = torch.rand(2, 3, 4, 4)
    assert Resize(4, 4)(images) is images
    assert Resize(9, None, crop=(4, 4))(images) is images
    assert Resize(4, None)(images) is images
    assert Resize(4, None)(torch.rand(2, 3, 9, 18)).shape == (2, 3, 4, 8)
    flat = Resize(4, 4)(torch.full((2, 3, 9, 7), 0.25))
    assert torch.allclose(flat, torch.full((2, 3, 4, 4), 0.25))
    with pytest.raises(InputError, match="have at least 8×8 pixels for the network's crop, but got 6×6"):
        Resize(6, None, crop=(8, 8))(images)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"do_flip_channel_order": True, "size": 4}, "in the usual ways .* but got do_flip_channel_order"),
        ({"pretrained_cfg": {}}, "in the usual ways .* but got none of size"),
        ({"size": {"longest_edge": 4}}, "`size` to be height and width, or shortest_edge"),
        ({"size": 4, "resample": 1}, "`resample` to be 0, 2 or 3"),
        ({"do_normalize": True}, "hold sizes, means and standard deviations"),
        ({"do_resize": False, "do_center_crop": True, "crop_size": 4}, "scale images before it crops them"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, config: dict, message: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=message):
        preparation(tmp_path, 3)


def test_nothing_to_prepare(tmp_path) -> None:
    assert preparation(tmp_path, 3) is None
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"do_resize": False, "do_normalize": False}))
    assert preparation(tmp_path, 3) is None
