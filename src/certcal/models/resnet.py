"""Residual networks for CIFAR-sized images."""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from certcal.scalars import check_choice

SHORTCUTS = ("identity", "projection")


class CifarResNet(nn.Module):
    """6n + 2 layers in three stages of widths 16, 32 and 64; He et al. (2016), Sec. 4.2.

    Where a stage halves the image, the shortcut is the subsampled input padded with zero channels ("identity", the
    paper's option A and without parameters) or a 1×1 convolution with batch-norm ("projection", option B, as in the
    published checkpoints of the randomized smoothing literature).

    Source: K. He et al., "Deep residual learning for image recognition" (2016).
    """

    def __init__(self, *, depth: int, classes: int, channels: int, shortcut: str = "identity") -> None:
        super().__init__()
        check_choice("shortcut", shortcut, SHORTCUTS)
        blocks = (depth - 2) // 6
        self.conv1 = _convolution(channels, 16)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.layer1 = _stage(16, 16, blocks, 1, shortcut)
        self.layer2 = _stage(16, 32, blocks, 2, shortcut)
        self.layer3 = _stage(32, 64, blocks, 2, shortcut)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(64, classes)
        initialize(self)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, shape (n, k)."""
        x = self.relu(self.bn1(self.conv1(inputs)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.fc(self.pool(x).flatten(1))
        return logits


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    def __init__(self, width_in: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = _convolution(width_in, width, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.conv2 = _convolution(width, width)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, inputs: Tensor) -> Tensor:
        """Features, at half the size if the block has a stride of 2."""
        x = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(inputs)))))
        kept = inputs if self.downsample is None else self.downsample(inputs)
        features: Tensor = self.relu(x + kept)
        return features


class PaddedShortcut(nn.Module):
    """Every second pixel, with zero channels added: He et al.'s option A."""

    def __init__(self, extra: int) -> None:
        super().__init__()
        self.extra = extra

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs subsampled by 2 in both directions, with `extra` zero channels shared between both ends."""
        before = self.extra // 2
        return F.pad(inputs[:, :, ::2, ::2], (0, 0, 0, 0, before, self.extra - before))


def initialize(network: nn.Module) -> None:
    """Draw the convolutions' weights as He et al. (2015) do for ReLU networks."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _stage(width_in: int, width: int, blocks: int, stride: int, shortcut: str) -> nn.Sequential:
    downsample: nn.Module | None = None
    if stride != 1 and shortcut == "identity":
        downsample = PaddedShortcut(width - width_in)
    elif stride != 1:
        narrow = nn.Conv2d(width_in, width, 1, stride=stride, bias=False)
        downsample = nn.Sequential(narrow, nn.BatchNorm2d(width))
    first = BasicBlock(width_in, width, stride, downsample)
    return nn.Sequential(first, *(BasicBlock(width, width, 1, None) for _ in range(blocks - 1)))


def _convolution(width_in: int, width: int, stride: int = 1) -> nn.Conv2d:
    # No bias: batch-norm follows and has its own.
    return nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
