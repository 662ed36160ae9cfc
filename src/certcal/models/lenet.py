"""Small convolutional networks: LeNet for MNIST-like images and a smaller one for 8×8 digits."""

from torch import Tensor, nn

from certcal.errors import InputError


class TwoConvolutions(nn.Module):
    """Two convolutions, each with ReLU and 2×2 max-pooling, and two linear layers. Its kinds say how large they are."""

    def __init__(self, conv1: nn.Conv2d, conv2: nn.Conv2d, fc1: nn.Linear, fc2: nn.Linear) -> None:
        super().__init__()
        self.conv1, self.conv2, self.fc1, self.fc2 = conv1, conv2, fc1, fc2
        self.pool = nn.MaxPool2d(2)
        self.relu = nn.ReLU()

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits, shape (n, k)."""
        x = self.pool(self.relu(self.conv1(inputs)))
        x = self.pool(self.relu(self.conv2(x)))
        logits: Tensor = self.fc2(self.relu(self.fc1(x.flatten(1))))
        return logits


class LeNet(TwoConvolutions):
    """Two 5×5 convolutions with max-pooling and a hidden layer of 500 units; 431 080 parameters on MNIST.

    Source: Y. LeCun et al., "Gradient-based learning applied to document recognition" (1998), with the widths 20, 50
    and 500 that R. Zhai et al. use in "MACER" (2020).
    """

    def __init__(self, *, classes: int, channels: int, size: int) -> None:
        if size < 16:
            raise InputError.expected("size", "be at least 16 for LeNet (use 'small-cnn' for less)", size)
        side = ((size - 4) // 2 - 4) // 2
        convolutions = nn.Conv2d(channels, 20, 5), nn.Conv2d(20, 50, 5)
        super().__init__(*convolutions, nn.Linear(50 * side * side, 500), nn.Linear(500, classes))


class SmallCNN(TwoConvolutions):
    """Two 3×3 convolutions and a hidden layer; fits images from 4×4 on and trains on 8×8 digits in seconds."""

    def __init__(self, *, classes: int, channels: int, size: int) -> None:
        if size < 4:
            raise InputError.expected("size", "be at least 4", size)
        convolutions = nn.Conv2d(channels, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        super().__init__(*convolutions, nn.Linear(32 * (size // 4) ** 2, 64), nn.Linear(64, classes))
