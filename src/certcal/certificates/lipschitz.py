"""The Lipschitz constant that a network states: its own, or the product of those of its parts.

Nothing is guessed. A part says nothing of the whole but in a sequence all of whose parts have a constant.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from certcal.errors import InputError
from certcal.models import Normalize, Tempered
from certcal.scalars import guarded
from certcal.settings import checks

STATED = "lipschitz_constant"  # the attribute by which a module states its own
_ONE = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.ReLU, nn.Tanh, nn.Sigmoid)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d)


@guarded
def lipschitz_constant(model: nn.Module) -> float:
    """The Lipschitz constant of a network's logits that it states itself, for ℓ2 distances of inputs in [0, 1].

    An attribute `lipschitz_constant` is of the whole module that has it, whatever is inside. A sequence has the product
    of its parts: modules with that attribute, layers of deel-torchlip (the larger of what they state and what their
    weights show), certcal's `Normalize` and `Tempered`, and layers known to have constant 1, such as ReLU and Flatten.

    Paper: —; docs/certificates.md.   Errs: high, if what is stated is one.
    Raises: InputError if one part has none, which it names.
    """
    return math.prod(_parts(model, "")) * (1 + 2.0**-40)


def _parts(module: nn.Module, place: str) -> Iterator[float]:
    """Factors whose product is a constant of the module at that place."""
    stated, kind = getattr(module, STATED, None), type(module)
    if isinstance(stated, Tensor) and stated.numel() == 1:
        stated = stated.item()
    if isinstance(stated, int | float):
        yield checks.positive(STATED, stated)
    elif isinstance(module, nn.Sequential) and kind.forward is nn.Sequential.forward:
        for name, part in module.named_children():
            yield from _parts(part, f"{place}{name}.")
    elif isinstance(module, Tempered) and kind is Tempered:
        yield 1 / float(module.temperature)
        yield from _parts(module.model, f"{place}model.")
    elif isinstance(module, Normalize) and kind is Normalize:
        yield 1 / float(module.std.min())
    elif _of_torchlip(kind):
        yield max(float(module._coefficient_lip), _of_weights(module))  # type: ignore[arg-type]
    elif kind not in _ONE:
        named = f"none for {kind.__name__}" + (f" at {place[:-1]}" if place else "")
        raise InputError.expected("constant", "be given for a network that does not carry its own", named)


def _of_torchlip(kind: type[nn.Module]) -> bool:
    """Whether it is a layer of deel-torchlip that states a constant; a subclass with its own forward is not."""
    theirs = any(own.__module__.startswith("deel.torchlip") for own in kind.__mro__)
    made_by: Any = kind.forward
    return theirs and hasattr(kind, "apply_lipschitz_factor") and made_by.__module__.split(".")[0] in ("deel", "torch")


def _of_weights(layer: nn.Module) -> float:
    """An upper bound of the constant of a linear layer or a convolution, by its weights; 0 for other layers.

    deel-torchlip's Sequential overwrites what its layers state, and rows that are normalised one by one are not a
    matrix of norm 1. A convolution is a matrix applied to patches, and a pixel is in so many of them.
    """
    if not isinstance(layer, (nn.Linear, *_CONVOLUTIONS)):
        return 0.0
    with torch.no_grad():
        norm = float(torch.linalg.matrix_norm(layer.weight.detach().double().cpu().flatten(1), 2)) * (1 + 2.0**-40)
    if isinstance(layer, nn.Linear):
        return norm
    sides = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
    return norm * math.sqrt(math.prod(-(-k // (stride // math.gcd(stride, d))) for k, stride, d in sides))
