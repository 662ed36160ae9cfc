"""Small pictures of a run's inputs for its page: those that contribute most, and what R and σ look like."""

import base64
import io
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certcal.errors import CertcalError
from certcal.runs.folder import IN_PYTHON, RunFolder
from certcal.scalars import exactly
from certcal.settings import RunSettings

if TYPE_CHECKING:
    from torch import Tensor

    from certcal.attacks import Moved
    from certcal.data import ImageData
    from certcal.smoothing import Evidence

SIDE, LARGE = 48, 160  # pixels of a thumbnail and of the strip, at most
MOST = 80  # thumbnails
PAIRS = 64  # inputs whose distances are typical


@dataclass(frozen=True, eq=False)
class Pictures:
    """The inputs of a run's evidence, where they are images that can still be read."""

    data: "ImageData"
    position: dict[int, int]  # of each index in the data

    @classmethod
    def of(cls, run: RunFolder, evidence: "Evidence") -> "Pictures | None":
        """The images that evidence was drawn from; None if there are none, or others under their numbers."""
        try:
            settings = run.settings()
            if not isinstance(settings, RunSettings) or settings.data.name == IN_PYTHON:
                return None
            if "torch" not in sys.modules and not Path(settings.data.name).exists():
                return None  # `certcal evaluate` does without torch; only files that are at hand are worth loading it
            from certcal.runs.load import load_data
            from certcal.smoothing import Source

            data = load_data(replace(settings.data, download=False))
            channels, height, width = data.shape
            if channels not in (1, 3) or min(height, width) < 4:
                return None
            known = dict(zip(data.index.tolist(), range(len(data)), strict=True))
            places = [known[index] for index in evidence.index.tolist()]
            item = next(Source(data.select(data.index.new_tensor(places[:1]))).items(set()))
            return cls(data, known) if item.content == evidence.content[0] else None
        except (CertcalError, KeyError, OSError, ValueError):  # a page without pictures is still a page
            return None

    def image(self, index: int) -> "Tensor":
        """One input, (c, h, w) in [0, 1]."""
        return self.data[self.position[index]][0]

    def thumbnails(self, indices: Iterable[int]) -> dict[str, dict[str, str]]:
        """Picture and file name of some inputs, by number."""
        some = [index for index in dict.fromkeys(indices) if index in self.position][:MOST]
        paths = getattr(self.data.pixels, "paths", None)
        names = {index: Path(paths[self.position[index]]).name if paths else "" for index in some}
        return {str(index): {"src": as_png(self.image(index), SIDE), "file": names[index]} for index in some}

    def strip(
        self, index: int, *, radius: float, sigma: float, worst: "tuple[str, Moved] | None" = None
    ) -> dict[str, Any]:
        """One input as it is, moved within R, and under noise; and R in units that people know.

        It is moved as the strongest attack moved the input that it harmed most, or else in a random direction.
        """
        import torch

        change = self._change(worst)
        index = index if worst is None or change is None else worst[1].index
        own = self.image(index)
        noise = torch.randn(own.shape, generator=torch.Generator().manual_seed(index))
        shown = [("as it is", own)]
        if radius and worst is not None and change is not None:
            seen = f"confidence {worst[1].before:.0%} to {worst[1].after:.0%}"
            shown.append((f"moved within R = {exactly(radius)} by the attack “{worst[0]}”: {seen}", own + change))
        elif radius:
            shown.append((f"moved by R = {exactly(radius)} in a random direction", own + radius * noise / noise.norm()))
        shown.append((f"one noisy copy, σ = {sigma:g}", own + sigma * noise))
        return {
            "index": index,
            "pictures": [{"src": as_png(picture, LARGE), "text": text} for text, picture in shown],
            "units": self._units(radius) if radius else "",
            "attacked": bool(radius) and change is not None,
        }

    def _change(self, worst: "tuple[str, Moved] | None") -> "Tensor | None":
        """How an attack moved one of these inputs; None if it moved none, or its record is of inputs unlike these."""
        import torch

        if worst is None or worst[1].index not in self.position:
            return None
        try:
            return torch.from_numpy(worst[1].as_array(tuple(self.data.shape)))
        except ValueError:
            return None

    def _units(self, radius: float) -> str:
        import torch

        some = self.data.take(limit=min(PAIRS, len(self.data))).inputs.flatten(1)
        each = 255 * radius / math.sqrt(some.shape[1])
        told = f"R = {exactly(radius)} moves every value by {each:.2g}/255, if it is spread evenly over all"
        typical = float(torch.pdist(some).median()) if len(some) > 1 else 0.0
        if typical == 0:  # one input, or one many times over
            return f"{told}."
        return f"{told}; it is {radius / typical:.1%} of the typical distance between two inputs."


def as_png(picture: "Tensor", side: int) -> str:
    """A picture as the address of an inline PNG, scaled by whole pixels up, or smoothly down, to about that side."""
    from PIL import Image

    pixels = (picture.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    large = max(image.size)
    if large > side:
        width, height = (max(1, edge * side // large) for edge in image.size)
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
