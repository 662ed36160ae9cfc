"""Ordinary mistakes with a model and its data, each found by trying what would mend it.

What is surely one raises an InputError that names the likely cause; what only may be one is given back in words.
"""

import math
from collections.abc import Iterable, Sequence

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.models import Normalize, doubt_outputs, made_up_inputs
from certcal.runs.look import Look
from certcal.settings import Values

Pair = tuple[tuple[float, ...], tuple[float, ...]]  # means and standard deviations of the channels
NORMALISATIONS: dict[str, Pair] = {  # other than the data's own
    "0.5": ((0.5,), (0.5,)),
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "bytes": ((0.0,), (1 / 255,)),
}
SURELY = 0.75  # an accuracy in another order of the classes that is no chance, with ten inputs of each class
DIM = 0.25  # inputs that stay below may be whole numbers of fewer bits than bytes or 16-bit pixels have
GO_ON = "--no-checks goes on all the same."
CLEAR = 3.5  # standard deviations between two accuracies on the same inputs; five others are tried


def check_outputs(look: Look, *, smoothed: bool) -> None:
    """Outputs are finite, and what `--outputs` says; a certifier without noise takes the softmax by itself."""
    broken = ~look.answers.isfinite().all(dim=1)
    if broken.any():
        where = f"NaN or infinity for {int(broken.sum())} of {len(broken)} inputs without any noise"
        raise _wrong("model", "give finite outputs", f"{where}: weights that diverged, or a division by zero")
    doubt = doubt_outputs(look.answers, look.kind)
    if doubt is not None and not smoothed:
        raise _wrong("model", "give logits", "probabilities: leave out the softmax or sigmoid at its end")
    if doubt is not None:
        raise InputError(f"{doubt} {GO_ON}")


def check_batches(look: Look) -> None:
    """An answer depends on its own input alone, and is the same every time."""
    half = min(16, len(look.inputs))
    own, others = look.inputs[:half], made_up_inputs(half, tuple(look.inputs.shape[1:]))
    alone = look.answer(torch.cat([own, own]))[:half]
    again, beside = look.answer(torch.cat([own, own]))[:half], look.answer(torch.cat([own, others]))[:half]
    rounding = 1e-2 if look.place.type == "cuda" else 1e-3
    scale = rounding * max(1.0, float(alone.abs().max()))
    if float((again - alone).abs().max()) > scale:
        raise _wrong(
            "model", "answer an input the same way every time",
            "random outputs: dropout or noise that .eval() does not turn off",
        )  # fmt: skip
    if float((beside - alone).abs().max()) > scale:
        raise _wrong(
            "model", "answer each input by itself",
            "outputs that depend on the other inputs of their batch: batch statistics in evaluation mode "
            "(BatchNorm with track_running_stats=False, or a model that calls train() itself?)",
        )  # fmt: skip


def check_classes(look: Look) -> None:
    """Labels are among the model's classes, and mean the same."""
    known, most, least = len(look.data.classes), int(look.data.labels.max()), int(look.data.labels.min())
    if most >= look.classes:
        cause = f": labels from {least} to {most}, where classes count from 0 (subtract 1?)" if least == 1 else ""
        cause = cause or ": certcal certifies no regression" * (look.classes == 2)
        raise _wrong("model", f"have an output for every label up to {most}", f"{look.classes} outputs{cause}")
    if look.classes != known and look.guesses and not look.knows_these:
        got = f"{look.classes} outputs, of which {look.accuracy:.0%} name the right class"
        cause = "class mismatch: the model was trained for other classes"
        raise _wrong("model", f"tell apart the {known} classes of the data", f"{got}: {cause}")


def check_labels(look: Look) -> list[str]:
    """Labels mean the model's classes: neither shifted by one, nor in another order."""
    said, k = look.answers.argmax(dim=1), look.classes
    pairs = torch.zeros(k, k).index_put_((look.labels, said), torch.tensor(1.0), accumulate=True) / len(said)
    # A model that always says the same is right on the largest class, in some order. One that is right on some classes
    # is only asked about what no confusion of a trained model does.
    enough = float(pairs.sum(dim=1).max()) + 0.25 if look.guesses else max(SURELY, look.accuracy + 0.1)
    mend = "--class-names takes their names in the model's order" if look.data.found else "renumber them"
    shifted = {by: float((said == (look.labels + by) % k).float().mean()) for by in (-1, 1)}
    by = max(shifted, key=lambda one: shifted[one])
    if look.guesses and shifted[by] >= enough:
        how = f"each label {'minus' if by < 0 else 'plus'} 1: they are shifted by one"
        how = how if k > 2 else f"the two classes exchanged: {mend}"
        raise _wrong(
            "labels", "be the classes that the model was trained with",
            f"{look.accuracy:.0%} accuracy, and {shifted[by]:.0%} with {how}",
        )  # fmt: skip
    best = float(pairs.numpy()[linear_sum_assignment(pairs.numpy(), maximize=True)].sum())
    if best < enough or len(said) < 10 * k:
        return []
    cause = f"{look.accuracy:.0%} accuracy, and {best:.0%} with the classes in another order"
    each = torch.bincount(look.labels, minlength=k)
    if look.guesses and best >= SURELY and int(each.min()) >= 10:  # of some classes, one may be taken for another
        raise _wrong("labels", "number the classes as the training data did", f"{cause}: {mend}")
    return [f"Labels have {cause}: does the data number its classes as the training data did? If not, {mend}."]


def check_units(look: Look, mean: Sequence[float] | None, std: Sequence[float] | None) -> None:
    """Means and deviations of inputs in [0, 1] are not those of bytes."""
    if mean is None or std is None or look.data.values is Values.ANY or max(mean) <= 1:
        return
    told = " ".join(f"--{key} {_listed(one / 255 for one in own)}" for key, own in (("mean", mean), ("std", std)))
    got = f"a mean of {max(mean):g}: those of bytes? (divided by 255 they are {told})"
    raise _wrong("mean and std", "be in the units of the inputs, which lie in [0, 1]", got)


def check_normalisation(look: Look, *, given: bool) -> list[str]:
    """No other normalisation of the inputs makes the model clearly better."""
    tried = {
        name: look.answer(look.inputs, _normalised(look, pair, replace=given))
        for name, pair in _normalisations(look).items()
    }
    name = max(tried, key=lambda one: look.share_right(tried[one]), default=None)
    if name is None or not _is_clearly_better(look, tried[name]):
        return []
    found = look.share_right(tried[name])
    surely = found - look.accuracy >= 0.15 and look.accuracy <= 0.75 * found
    highest = float(look.inputs.max())
    if surely and name != "none" and look.data.values is Values.UNIT and highest <= DIM:
        raise _wrong(
            "inputs", "reach as far in [0, 1] as those that the model was trained with",
            f"{highest:.2g} at most ({look.accuracy:.0%} accuracy, and {found:.0%} with another normalisation): whole "
            "numbers of fewer bits than their type has? (give floats, divided by the largest that there can be, such "
            "as 16 or 4095; or the --mean and --std that the model was trained with)",
        )  # fmt: skip
    mended = "the model seems to normalise by itself (leave out --mean and --std)"
    if name != "none":
        keys = zip(("mean", "std"), _normalisations(look)[name], strict=True)
        told = " ".join(f"--{key} {_listed(values)}" for key, values in keys)
        mended = f"normalisation forgotten? (give {told}, or those the model was trained with)"
    if surely:
        got = f"{look.accuracy:.0%} accuracy, and {found:.0%} with others: {mended}"
        raise _wrong("mean and std", "be those that the model was trained with", got)
    return [f"Accuracy is {look.accuracy:.0%}, and {found:.0%} with another normalisation: {mended}."]


def _listed(values: Iterable[float]) -> str:
    return ",".join(f"{value:.4g}" for value in values)


def _is_clearly_better(look: Look, answers: Tensor) -> bool:
    """Whether other answers are right more often than the model's, beyond chance (McNemar's test)."""
    own, other = (one.argmax(dim=1) == look.labels for one in (look.answers, answers))
    won, lost = int((other & ~own).sum()), int((own & ~other).sum())
    return won - lost > CLEAR * math.sqrt(won + lost)


def _normalisations(look: Look) -> dict[str, Pair]:
    if look.inputs.ndim != 4:
        return {}
    channels, wide = look.inputs.shape[1], look.inputs.double()
    mean, std = wide.mean(dim=(0, 2, 3)), wide.std(dim=(0, 2, 3)).clamp(min=1e-3)
    own: dict[str, Pair] = {
        "none": ((0.0,) * channels, (1.0,) * channels),
        "data": (tuple(mean.tolist()), tuple(std.tolist())),
    }
    for name, (means, stds) in NORMALISATIONS.items():
        if len(means) in (1, channels):
            own[name] = means * (channels // len(means)), stds * (channels // len(stds))
    return own


def _normalised(look: Look, pair: Pair, *, replace: bool) -> nn.Module:
    """The network behind another normalisation, in place of its own if it was given one."""
    inner = look.model[1] if replace and isinstance(look.model, nn.Sequential) else look.model
    return nn.Sequential(Normalize(*pair).to(look.place), inner)


def _wrong(name: str, requirement: str, got: str) -> InputError:
    return InputError(f"{InputError.expected(name, requirement, got)} {GO_ON}")
