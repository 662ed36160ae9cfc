"""PreActResNet-18 for 32×32 images."""

from torch import Tensor, nn

from certcal.models.resnet import initialize


class PreActResNet18(nn.Module):
    """Four stages of two pre-activation blocks, widths 64 to 512; 11.17 million parameters.

    Batch-norm and ReLU come before each convolution, and once more after the last block.

    Source: K. He et al., "Identity mappings in deep residual networks" (2016).
    """

    def __init__(self, *, classes: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        self.layer1 = _stage(64, 64, 1)
        self.layer2 = _stage(64, 128, 2)
        self.layer3 = _stage(128, 256, 2)
        self.layer4 = _stage(256, 512, 2)
        self.bn = nn.BatchNorm2d(512)
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, classes)
        initialize(self)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, shape (n, k)."""
        x = self.layer2(self.layer1(self.conv1(inputs)))
        x = self.layer4(self.layer3(x))
        logits: Tensor = self.fc(self.pool(self.relu(self.bn(x))).flatten(1))
        return logits


class PreActBlock(nn.Module):
    """Batch-norm, ReLU, convolution, twice, beside a shortcut."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(width_in)
        self.conv1 = nn.Conv2d(width_in, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.relu = nn.ReLU()
        self.shortcut = None if stride == 1 else nn.Conv2d(width_in, width, 1, stride=stride, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features, at half the size if the block has a stride of 2."""
        active = self.relu(self.bn1(inputs))
        # A projection sees the activated input, the identity the raw one.
        kept = inputs if self.shortcut is None else self.shortcut(active)
        features: Tensor = self.conv2(self.relu(self.bn2(self.conv1(active)))) + kept
        return features


def _stage(width_in: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(PreActBlock(width_in, width, stride), PreActBlock(width, width, 1))
