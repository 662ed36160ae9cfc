"""The paper's Table 1: train a classifier, attack its confidences in four ways, and see what calibration becomes.

    python -m experiments.ace_table --data digits --model small-cnn --epochs 15                    # seconds, on a CPU
    python -m experiments.ace_table --data fashion-mnist --root DATA --model lenet --epochs 4      # minutes, on a CPU
    python -m experiments.ace_table --data cifar10 --root DATA --device cuda                       # minutes, on a GPU
    python -m experiments.ace_table --data cifar10 --root DATA --device cuda --adversary-steps 3  # against an adversary

SGD with momentum and weight decay, one cycle of the learning rate, flips and crops for colour images. With
`--adversary-steps`, adversarial training in ℓ∞ with a budget that grows over the first quarter of the epochs, as in the
paper. Results, with machine and commit, go to experiments/results. Where only little data can travel, `--pack FILE`
writes the images asked for as one compressed .npz file, which is then what `--data` names.
"""

import argparse
import json
import time
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.harness import commit, describe_machine
from torch import Tensor, nn

from certcal import adaptive_calibration_error, expected_calibration_error
from certcal.attacks import AceTable, galil_ace_attack, run_ace_attacks
from certcal.data import ImageData, channel_statistics, load_dataset
from certcal.models import build_model
from certcal.training import ObjectiveSettings, Step, make_objective

# Beside the paper's way to climb, one that turns back at the label's border instead of stopping before it.
STRONGER: dict[str, Any] = {"direction": "steepest", "on_flip": "shrink", "steps": 30, "plateau": None}


def main() -> None:
    chosen = arguments()
    train, test = (
        load_dataset(chosen.data, split=split, root=chosen.root, limit=limit)
        for split, limit in (("train", chosen.train_limit), ("test", chosen.test_limit))
    )
    if chosen.pack:
        pack(chosen.pack, train, test)
        return
    precise()
    start = time.perf_counter()
    # Training in half precision likes channels last; full float32 does not.
    model = fit(train, chosen).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    trained = time.perf_counter()
    x, y = test.tensors()
    budgets = [float(Fraction(text)) for text in chosen.epsilons]
    options = {"epsilon": budgets, "batch_size": chosen.attack_batch}
    paper = run_ace_attacks(model, x, y, **options)
    show("as in the paper", paper)
    body: dict[str, Any] = {
        "machine": describe_machine(),
        "commit": commit(),
        "settings": {key: value for key, value in vars(chosen).items() if key not in ("data", "root", "out", "pack")},
        "data": {"train": f"{len(train)} of {train.name}", "test": f"{len(test)} of {test.name}"},
        "seconds": {"training": trained - start, "the paper's attacks": time.perf_counter() - trained},
        "paper": paper.as_dicts(),
        "curves": [{key: np.asarray(value).tolist() for key, value in asdict(curve).items()} for curve in paper.curves],
    }
    record(chosen, body)  # in case there is no time for the rest
    stronger = run_ace_attacks(model, x, y, **options, **STRONGER, step_size=None)
    show("turning back at the border instead of stopping before it", stronger)
    galil = [galil_row(model, x, y, epsilon, chosen.attack_batch) for epsilon in budgets]
    for row in galil:
        print(f"original ACE   {row['epsilon']:6.4f}   AdaECE {100 * row['adaptive_ece']:6.2f}")
    record(chosen, body | {"stronger": stronger.as_dicts(), "galil": galil})


def fit(data: ImageData, chosen: argparse.Namespace) -> nn.Module:
    """A trained model, in evaluation mode on the device."""
    torch.manual_seed(chosen.seed)
    channels, size, _ = data.shape
    model = build_model(
        chosen.model, classes=len(data.classes), channels=channels, size=size, normalize=channel_statistics(data)
    )
    model = model.to(chosen.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    inputs, labels = (part.to(chosen.device) for part in data.tensors())
    steps = chosen.epochs * -(-len(inputs) // chosen.batch)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=chosen.rate, total_steps=steps, pct_start=0.2)
    half = torch.autocast(torch.device(chosen.device).type, dtype=torch.bfloat16, enabled=chosen.device != "cpu")
    adversary = chosen.adversary_steps
    objective = make_objective(ObjectiveSettings(name="pgd" if adversary else "ce", steps=adversary or 1))
    chance = torch.Generator(inputs.device).manual_seed(chosen.seed)
    budget, warm_up, done = float(Fraction(chosen.adversary_epsilon)), max(steps / 4, 1), 0
    start = time.perf_counter()
    for epoch in range(chosen.epochs):
        total = torch.zeros((), device=inputs.device)
        for batch in torch.randperm(len(inputs), device=inputs.device).split(chosen.batch):
            images = augmented(inputs[batch]) if channels == 3 else inputs[batch]
            now = Step(sigma=0.0, epsilon=budget * min(1.0, done / warm_up), generator=chance)
            with half:
                loss = objective(model, images.contiguous(memory_format=torch.channels_last), labels[batch], now)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total, done = total + loss.detach(), done + 1
        seconds = time.perf_counter() - start
        print(
            f"epoch {epoch + 1:3}   mean loss {float(total) * chosen.batch / len(inputs):.4f}   {seconds:.0f} s",
            flush=True,
        )
    return model.eval()


def augmented(images: Tensor, border: int = 4) -> Tensor:
    """Images flipped at random and cropped at random from a frame of zeros."""
    n, channels, size, _ = images.shape
    images = torch.where(torch.rand(n, 1, 1, 1, device=images.device) < 0.5, images, images.flip(3))
    padded = nn.functional.pad(images, [border] * 4)
    corner = torch.randint(0, 2 * border + 1, (2, n, 1), device=images.device) + torch.arange(
        size, device=images.device
    )
    rows, columns = corner[0][:, None, :, None], corner[1][:, None, None, :]
    every = torch.arange(n, device=images.device)[:, None, None, None]
    return padded[every, torch.arange(channels, device=images.device)[None, :, None, None], rows, columns]


def precise() -> None:
    """Let GPUs multiply in full float32, so that labels do not depend on which inputs share a batch."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def galil_row(model: nn.Module, x: Tensor, y: Tensor, epsilon: float, batch: int | None) -> dict[str, float]:
    moved = galil_ace_attack(model, x, y, epsilon=epsilon, batch_size=batch).inputs
    device = next(model.parameters()).device
    with torch.no_grad():
        probs = torch.cat([model(part.to(device)).softmax(dim=1).cpu() for part in moved.split(500)])
    confidence, label = probs.double().max(dim=1)
    pair = confidence.numpy(), (label == y).numpy()
    return {
        "epsilon": epsilon,
        "accuracy": float(pair[1].mean()),
        "ece": expected_calibration_error(*pair),
        "adaptive_ece": adaptive_calibration_error(*pair),
    }


def show(title: str, table: AceTable) -> None:
    print(f"\n{title}\n  eta  omega  epsilon   accuracy      ECE   AdaECE   Brier   labels changed   stopped by label")
    for row in table:
        errors = f"{100 * row.ece:7.2f}  {100 * row.adaptive_ece:7.2f}  {100 * row.brier:6.2f}"
        where = f"{row.eta:+4d}  {row.omega or 'none':<5}  {row.epsilon:7.4f}"
        print(f" {where}   {100 * row.accuracy:7.2f}   {errors}   {row.label_changes:14}   {row.stopped_by_label:16}")


def pack(path: Path, train: ImageData, test: ImageData) -> None:
    parts = {
        f"{split}_{kind}": np.asarray(values)
        for split, data in (("train", train), ("test", test))
        for kind, values in (("inputs", data.pixels), ("labels", data.labels))
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, classes=np.array(train.classes), **parts)
    print(f"{len(train)} and {len(test)} images in {path}, {path.stat().st_size / 2**20:.1f} MiB")


def record(chosen: argparse.Namespace, body: dict[str, Any]) -> None:
    stem = Path(chosen.data).stem
    trained = "-adversarial" if chosen.adversary_steps else ""
    path = chosen.out or Path(__file__).parent / "results" / f"ace_table-{stem}-{chosen.model}{trained}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
    print(f"\nwritten to {path}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.ace_table", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="cifar10", help="a data set's name, a .npz file or a folder of class folders")
    parser.add_argument("--root", type=Path, help="where the files of a named data set are")
    parser.add_argument("--train-limit", type=int)
    parser.add_argument("--test-limit", type=int, default=2000)
    parser.add_argument("--model", default="preact-resnet18")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=0.4, help="the largest learning rate")
    parser.add_argument("--adversary-steps", type=int, default=0, help="of adversarial training; 0: standard training")
    parser.add_argument("--adversary-epsilon", default="3/255")
    parser.add_argument("--epsilons", nargs="+", default=["2/255", "3/255", "8/255"])
    parser.add_argument("--attack-batch", type=int, help="inputs that are attacked together")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pack", type=Path, help="write the images as one .npz file and stop")
    parser.add_argument("--out", type=Path, help="where to write the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
