"""Adversaries against the calibration of a smoothed model, within an ℓ2 ball of radius epsilon."""

from dataclasses import replace

import torch
from torch import nn

from certcal.attacks.adversaries import ADVERSARIES, CHOICE_DRAWS
from certcal.attacks.batched import check_numbers
from certcal.attacks.climb_settings import Settings
from certcal.attacks.records import CalibrationAttack
from certcal.attacks.smoothed import Estimator, Scene, smoothed
from certcal.certificates import MeanLimits
from certcal.errors import InputError
from certcal.means import hoeffding
from certcal.models import Noise, Purpose, as_inputs, as_labels, count_classes, device_of, held_still
from certcal.scalars import check_choice, check_integer
from certcal.settings import Adversary, Norm, Precision, checks
from certcal.types import ArrayLike
from certcal.worstcase import WorstCaseProblem

_FEW_DRAWS_ALPHA = 0.001


def attack_calibration(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    sigma: float,
    epsilon: float,
    adversary: str = Adversary.REACH,
    predicted: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    n_bins: int = 15,
    edges: ArrayLike | None = None,
    draws: int = 32,
    steps: int = 20,
    step_size: float | None = None,
    seed: int = 0,
    box: bool = True,
    batch_size: int | None = None,
    precision: str = "float32",
) -> CalibrationAttack:
    """Inputs moved by at most epsilon in ℓ2 so that the smoothed model is badly calibrated on them as a set.

    Gradients go through `draws` noisy copies of each input, with noise that all steps and inputs share.

    Paper: Sec. 4, Alg. 2, App. F, I.3; Salman et al. (2019), SmoothAdv. "cce" and "reach" are ours.

    Args:
        model: the base model; gives logits for inputs in [0, 1].
        x: inputs, shape (n, …).
        y: true labels, shape (n,).
        sigma: of the smoothing noise.
        epsilon: how far inputs may move; the radius R of a certificate to compare with.
        adversary: "reach", "cce", "acce", "brier" or "smoothadv"; see `Adversary`.
        predicted: the class A of each input whose confidence counts; by default the largest on the attack's draws.
        lower, upper: bounds of the confidences within epsilon, for "acce" and "cce"; by default the Standard
            certificate from the attack's few draws, as in the paper.
        n_bins, edges: bins of the calibration error.
        draws: of noise, m.
        steps: T.
        step_size: length of a step; 2 epsilon / steps by default, as in the paper.
        seed: of the noise.
        box: keep inputs within [0, 1], though certificates also hold outside.
        batch_size: noisy copies per forward pass.
        precision: "float32", or "bfloat16" / "float16" for autocast.

    Raises: InputError if an argument is wrong.
    """
    want = Adversary(check_choice("adversary", adversary, tuple(Adversary)))
    sigma = checks.positive("sigma", sigma)
    radius = checks.not_negative("epsilon", epsilon)
    for name, value in (("draws", draws), ("steps", steps)):
        check_integer(name, value, minimum=1)
    check_choice("precision", precision, tuple(Precision))
    if (lower is None) != (upper is None):
        raise InputError.expected("lower and upper", "be given together", "one of them")
    default = 2 * radius / steps if radius > 0 else None
    length = default if step_size is None else step_size
    settings = Settings(norm=Norm.L2, steps=steps, step_size=length, box=box, seed=seed, batch_size=batch_size)
    with held_still(model):
        inputs = as_inputs(x, model, boxed=box)
        known = count_classes(model, inputs)
        labels = as_labels(y, len(inputs), classes=known)
        predict = smoothed(model, inputs.shape[1:], sigma=sigma, draws=draws, seed=seed, precision=precision)
        scene = Scene(predict, inputs, labels, labels, sigma, radius, draws, device_of(model), settings)
        if predicted is None:
            classes = scene.predictions(inputs)
        else:
            classes = as_labels(predicted, len(inputs), name="predicted", classes=known)
        numbers = torch.arange(len(inputs))
        other = Estimator(model, Noise(seed, Purpose.CHOICE, sigma), CHOICE_DRAWS, precision, batch_size)
        scene = replace(scene, predicted=classes, judge=lambda points: other(points, classes, numbers).confidence)
        seen = scene.seen_confidence(inputs)
        check_numbers(torch.from_numpy(seen), numbers, "The model's probability", "under noise")
        if lower is None or upper is None:
            limits = MeanLimits(*hoeffding(seen * draws, draws, alpha=_FEW_DRAWS_ALPHA))
            lower, upper = limits.at(radius / sigma)
        problem = WorstCaseProblem.checked(lower, upper, scene.correct, n_bins=n_bins, edges=edges)
        moved = ADVERSARIES[want](scene, problem)
        after = scene.seen_confidence(moved)
    return CalibrationAttack(moved, radius, want, classes, scene.correct, seen, after)
