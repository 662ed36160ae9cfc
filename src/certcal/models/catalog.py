"""Models by name, import path or file, each normalising its inputs itself."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from certcal.errors import InputError, kind_of, raised
from certcal.models.files import optional, source_of
from certcal.models.functions import as_module
from certcal.models.lenet import LeNet, SmallCNN
from certcal.models.normalization import Normalize, Statistics
from certcal.models.outputs import GREY
from certcal.models.preact import PreActResNet18
from certcal.models.resnet import CifarResNet
from certcal.scalars import check_integer, did_you_mean


def model_names() -> tuple[str, ...]:
    """The names that `build_model` knows."""
    return tuple(_MAKERS)


def build_model(
    name: str,
    *,
    classes: int,
    channels: int | None = None,
    size: int | None = None,
    shape: tuple[int, ...] | None = None,
    sigma: float | None = None,
    normalize: Statistics | None = None,
    trust: bool = False,
    **settings: Any,
) -> nn.Sequential:
    """A model that takes inputs of a shape and gives logits; a network has random weights, a file its own.

    Its first layer prepares inputs: it normalises, as told or as a folder says, or passes them on. The second is the
    network.

    Args:
        name: one of `model_names()`; `timm:NAME`; `hf:FOLDER`, as `save_pretrained` writes it; a file: .onnx, .pt2 of
            torch.export, or TorchScript (.pt, .ts); or `package.module:factory` for a function or class of yours.
        classes: number of classes.
        channels: number of input channels.
        size: height and width of the inputs.
        shape: of one input, instead of channels and size, where it is no square image.
        sigma: standard deviation of the noise, for factories that ask for it.
        normalize: means and standard deviations per channel, as `channel_statistics` gives them.
        trust: let the program of a TorchScript or exported file run.
        **settings: what else the network takes: `shortcut="projection"` for resnet20, 56 and 110; anything for a
            factory. It is also given `classes`, `channels`, `size`, `shape`, `features` (of inputs of one dimension)
            and `sigma`, if it has parameters of these names.
    """
    known = _known(classes, channels, size, shape) | ({} if sigma is None else {"sigma": sigma})
    opened = source_of(name) if isinstance(name, str) else None
    if opened is not None:
        images = {key: value for key, value in known.items() if key in ("classes", "channels")}
        own, network = opened(trust=trust, **(images if name.startswith("timm:") else {}), **settings)
    else:
        make = _imported(name) if ":" in name else _named(name)
        own, network = None, _call(name, make, known, settings)
    first = _first_layer(normalize, known.get("channels"))
    return nn.Sequential(first if normalize is not None or own is None else own, network)


def _known(
    classes: int, channels: int | None, size: int | None, shape: tuple[int, ...] | None
) -> dict[str, int | float | tuple[int, ...]]:
    """What is known of inputs and classes, under the names by which factories ask for it."""
    square = {"channels": channels, "size": size}
    for argument, value, minimum in (("classes", classes, 2), *((*one, 1) for one in square.items() if shape is None)):
        check_integer(argument, value, minimum=minimum)
    sides = (channels or 0, size or 0, size or 0) if shape is None else tuple(shape)
    named = dict(zip(square, sides, strict=False)) if len(sides) > 1 else {"features": sides[0]}
    return {"classes": classes, "shape": sides, **named}


def _first_layer(normalize: Statistics | None, channels: Any) -> nn.Module:
    if normalize is None:
        return nn.Identity()
    wanted = "be a pair (means, standard deviations)"
    with InputError.expecting("normalize", wanted, repr(normalize), on=(TypeError, ValueError)):
        mean, std = normalize
    layer = Normalize(mean, std)
    if len(layer.mean) != channels:
        grey = f" ({GREY})" * ((len(layer.mean), channels) == (1, 3))
        raise InputError.expected("normalize", f"have one mean per channel ({channels})", f"{len(layer.mean)}{grey}")
    return layer


def _call(name: str, make: Callable[..., Any], known: dict[str, Any], settings: dict[str, Any]) -> nn.Module:
    try:
        signature = inspect.signature(make)
    except ValueError:  # something built in, which does not say what it takes
        signature = inspect.Signature([inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)])
    arguments = {key: value for key, value in known.items() if key in signature.parameters} | settings
    fit = f"fit {name}{signature}"
    with InputError.expecting(f"settings of {name}", fit, lambda error: str(error).removeprefix("got "), on=TypeError):
        signature.bind(**arguments)
    # A factory is the user's code, and may fail in any way.
    with InputError.expecting("name", f"lead to a factory that makes a model by {name}", raised):
        return as_module(make(**arguments))


def _named(name: str) -> Callable[..., nn.Module]:
    if name not in _MAKERS:
        names = ", ".join(map(repr, _MAKERS))
        wanted = f"be one of {names}, or package.module:factory"
        raise InputError.expected("name", wanted, f"{name!r}{did_you_mean(name, _MAKERS)}")
    return _MAKERS[name]


def _cifar_resnet(depth: int) -> Callable[..., nn.Module]:
    def make(*, classes: int, channels: int, shortcut: str = "identity") -> nn.Module:
        return CifarResNet(depth=depth, classes=classes, channels=channels, shortcut=shortcut)

    return make


def _resnet50(*, classes: int, channels: int) -> nn.Module:
    if channels != 3:
        raise InputError.expected("channels", "be 3 for resnet50", channels)
    network: nn.Module = optional("torchvision.models", "resnet50").resnet50(weights=None, num_classes=classes)
    return network


def _imported(path: str) -> Callable[..., Any]:
    module_name, _, attribute = path.partition(":")
    wanted = "be an importable package.module:factory"
    failures = (ImportError, AttributeError, TypeError, ValueError)  # the last two of relative and empty names
    with InputError.expecting("name", wanted, lambda error: f"{path!r}: {error}", on=failures):
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    if not callable(found):
        raise InputError.expected("name", "lead to something callable", f"{path!r}, {kind_of(found)}")
    return found  # type: ignore[no-any-return]


_MAKERS: dict[str, Callable[..., nn.Module]] = {
    "lenet": LeNet,
    "small-cnn": SmallCNN,
    **{f"resnet{depth}": _cifar_resnet(depth) for depth in (20, 56, 110)},
    "preact-resnet18": PreActResNet18,
    "resnet50": _resnet50,
}
