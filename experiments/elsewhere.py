"""Four kinds of certificate on the same data: smoothing, CROWN, a Lipschitz network, votes; what each gives and costs.

    python -m experiments.elsewhere [--inputs 200] [--epochs 4]

Trains four small networks on Fashion-MNIST on the CPU and writes experiments/results/elsewhere.json, which
docs/certificates_from_elsewhere.md quotes: `table` makes its table.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import certcal
from certcal.certificates import (
    intervals_by_lipschitz,
    intervals_by_lirpa,
    intervals_from_logits,
    intervals_from_votes,
)
from certcal.data import load_dataset

RESULT = Path(__file__).parent / "results" / "elsewhere.json"
SIGMA = 0.25
LINF, L2, PATCH = (1 / 255, 4 / 255, 0.05, 0.1), (0.1, 0.25, 0.5), (2, 3, 5)
BAND = 4  # columns that one vote sees


def convolutional() -> nn.Sequential:
    """The network of all but the Lipschitz one: 28 × 28 grey images, ten classes."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 4, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 4, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 25, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


class Orthogonal(nn.Module):
    """A linear map whose rows are orthonormal, by a QR decomposition: Lipschitz constant 1."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outside, inside) / inside**0.5)
        self.bias = nn.Parameter(torch.zeros(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The image of x."""
        q, _ = torch.linalg.qr(self.weight.T)  # (inside, outside), orthonormal columns
        return x @ q + self.bias


class GroupSort(nn.Module):
    """Sorts pairs: a permutation, hence 1-Lipschitz, that loses no gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each pair in order."""
        pairs = x.reshape(len(x), -1, 2)
        return torch.stack([pairs.amin(dim=2), pairs.amax(dim=2)], dim=2).reshape(len(x), -1)


class Lipschitz(nn.Sequential):
    """Orthogonal maps and sorted pairs, with logits scaled by a temperature that the constant accounts for."""

    lipschitz_constant = 8.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.lipschitz_constant * super().forward(x.flatten(1) - 0.5)


def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int, *, change, loss=None) -> float:
    """Processor seconds of training on changed copies of the images."""
    start, optimiser = time.process_time(), torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(epochs):
        for rows in torch.randperm(len(x)).split(128):
            optimiser.zero_grad()
            own = x[rows], y[rows]
            value = (
                loss(net, *own, epoch / epochs) if loss else nn.functional.cross_entropy(net(change(own[0])), own[1])
            )
            value.backward()
            optimiser.step()
    net.eval()
    return time.process_time() - start


def interval_loss(net, x, y, progress):
    """Cross-entropy at the worst margins of interval arithmetic, after Gowal et al. (2018), as ε grows to 0.1."""
    epsilon, share = 0.1 * min(1.0, 1.5 * progress), 0.5 * min(1.0, progress + 0.1)
    low, high = (x - epsilon).clamp(0, 1), (x + epsilon).clamp(0, 1)
    for layer in net:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            middle, half = (low + high) / 2, (high - low) / 2
            act = nn.functional.linear if isinstance(layer, nn.Linear) else nn.functional.conv2d
            more = {} if isinstance(layer, nn.Linear) else {"stride": layer.stride}
            centre, spread = act(middle, layer.weight, layer.bias, **more), act(half, layer.weight.abs(), None, **more)
            low, high = centre - spread, centre + spread
        else:
            low, high = layer(low), layer(high)
    worst = torch.where(nn.functional.one_hot(y, 10).bool(), low, high)
    return (1 - share) * nn.functional.cross_entropy(net(x), y) + share * nn.functional.cross_entropy(worst, y)


def band(x: torch.Tensor, start: torch.Tensor | int) -> torch.Tensor:
    """The images with all but a band of columns, which wraps around, set to a half."""
    columns = (torch.arange(28)[None] - torch.as_tensor(start).reshape(-1, 1)) % 28 < BAND
    return torch.where(columns[:, None, None, :], x, torch.full_like(x, 0.5))


def rows_of(bounds) -> list[dict[str, float]]:
    """What is recorded of each radius, in the certified population and over all inputs."""
    kept = ("radius", "certified", "certified_accuracy", "ece", "certified_ece", "certified_brier", "mean_width")
    found = []
    for one, whole in zip(certcal.evaluate(bounds), certcal.evaluate(bounds, population="all"), strict=True):
        own = {name: getattr(one, name) for name in kept}
        more = {"certified_ece_all": whole.certified_ece, "certified_brier_all": whole.certified_brier}
        found.append({name: None if value != value else value for name, value in (own | more).items()})
    return found


def main() -> None:
    """Train, certify, record."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--inputs", type=int, default=200)
    asked.add_argument("--epochs", type=int, default=4)
    asked.add_argument("--train", type=int, default=20_000)
    asked.add_argument("--root", default=None)
    options = asked.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = load_dataset("fashion-mnist", split="train", root=options.root, limit=options.train).tensors()
    test = load_dataset("fashion-mnist", split="test", root=options.root, limit=options.inputs)
    inputs, labels = test.tensors()
    found = {}

    def keep(name, norm, bounds, training, seconds, **more):
        rows = rows_of(bounds)
        found[name] = {"norm": norm, "training_seconds": round(training, 1), "certifying_seconds": round(seconds, 2)}
        found[name] |= {"accuracy": float(bounds[0].correct.mean()), "rows": rows, **more}
        print(name, json.dumps(found[name])[:400], flush=True)

    net = convolutional()
    training = train(net, x, y, options.epochs, change=lambda a: a, loss=interval_loss)
    for relaxation in ("ibp", "crown"):
        start = time.process_time()
        made = intervals_by_lirpa(net, inputs, labels, radii=LINF, relaxation=relaxation)
        keep(f"{relaxation} margins", "linf", made, training, time.process_time() - start)
    boxes = [logit_box(net, inputs, labels, own) for own in made]
    keep("crown logits", "linf", boxes, training, 0.0)

    net = Lipschitz(Orthogonal(784, 256), GroupSort(), Orthogonal(256, 128), GroupSort(), Orthogonal(128, 10))
    training = train(net, x, y, options.epochs, change=lambda a: a)
    start = time.process_time()
    made = intervals_by_lipschitz(net, inputs, labels, radii=L2)
    keep("Lipschitz network", "l2", made, training, time.process_time() - start)

    net = convolutional()
    training = train(net, x, y, options.epochs, change=lambda a: a + SIGMA * torch.randn_like(a))
    start = time.process_time()
    evidence = certcal.collect_evidence(net, (inputs, labels), sigma=SIGMA, n=4_000, progress=False)
    made = [certcal.confidence_bounds(evidence, radius=radius, alpha=0.001) for radius in L2]
    keep("smoothing, σ = 0.25, α = 0.001", "l2", made, training, time.process_time() - start)

    net = convolutional()
    training = train(net, x, y, options.epochs, change=lambda a: band(a, torch.randint(28, (len(a),))))
    start = time.process_time()
    with torch.no_grad():
        said = torch.stack([net(band(inputs, start_at)).argmax(dim=1) for start_at in range(28)], dim=1)
    votes = torch.stack([(said == k).sum(dim=1) for k in range(10)], dim=1)
    made = [
        # A square of side m meets a band of s columns in at most m + s − 1 of its positions.
        intervals_from_votes(votes, labels, changed=side + BAND - 1, radius=side, norm="patch") for side in PATCH
    ]  # fmt: skip
    keep("votes of 28 bands", "patch", made, training, time.process_time() - start)
    about = {
        "inputs": options.inputs,
        "epochs": options.epochs,
        "training_images": options.train,
        "torch": torch.__version__,
    }
    RESULT.write_text(json.dumps({"about": about, "found": found}, indent=1) + "\n", encoding="utf-8")


NAMES = {"linf": "in ℓ∞", "l2": "in ℓ2", "patch": "pixels"}


def _written(radius: float) -> str:
    """A radius as it was asked for: 4/255 where it is so many steps of a byte, never rounded up."""
    short, steps = f"{radius:g}", round(radius * 255)
    return short if float(short) == radius or steps / 255 != radius else f"{steps}/255"


def table(record: dict) -> str:
    """The recorded values as Markdown, errors rounded up and accuracies down."""
    lines = [
        "| certificate | R | certified accuracy | certified ECE | certified Brier | ECE, all inputs | mean width |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for name, one in record["found"].items():
        for row in one["rows"]:
            up = [f"{np.ceil(1e4 * row[key] - 1e-9) / 100:.2f} %" for key in ("certified_ece", "certified_ece_all")]
            accuracy = f"{np.floor(1e3 * row['certified_accuracy'] + 1e-9) / 10:.1f} %"
            brier, width = (f"{np.ceil(1e4 * row[key] - 1e-9) / 1e4:.4f}" for key in ("certified_brier", "mean_width"))
            where = f"{_written(row['radius'])} {NAMES[one['norm']]}"
            lines.append(f"| {name} | {where} | {accuracy} | {up[0]} | {brier} | {up[1]} | {width} |")
    return "\n".join(lines) + "\n"


def costs(record: dict) -> str:
    """What each took, as Markdown."""
    lines = [
        "| certificate | accuracy without attack | training, s | certifying all inputs and radii, s |",
        "|---|---|---|---|",
    ]
    for name, one in record["found"].items():
        took = f"{one['certifying_seconds']:.1f}" if one["certifying_seconds"] else "as the margins"
        lines.append(f"| {name} | {100 * one['accuracy']:.1f} % | {one['training_seconds']:.0f} | {took} |")
    return "\n".join(lines) + "\n"


def logit_box(net, inputs, labels, own):
    """The same network and ball by CROWN's bounds of logits, as many verifiers report them."""
    from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm

    x, radius = inputs.double(), own.radius
    low, high = (x - radius).clamp(0, 1), (x + radius).clamp(0, 1)
    double = convolutional().double()
    double.load_state_dict(net.state_dict())
    ball = PerturbationLpNorm(norm=np.inf, eps=radius, x_L=low, x_U=high)
    with torch.no_grad():
        least, most = BoundedModule(double, torch.zeros_like(x)).compute_bounds(
            x=(BoundedTensor(x, ball),), method="CROWN"
        )
    return intervals_from_logits(
        least, most, labels=labels, predicted=own.predicted, confidence=own.confidence, radius=radius, norm="linf",
        domain="box",
    )  # fmt: skip


if __name__ == "__main__":
    main()
