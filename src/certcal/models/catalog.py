"""Models by name or import path, each normalising its inputs itself."""

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from certcal.errors import InputError
from certcal.models.lenet import LeNet, SmallCNN
from certcal.models.normalization import Normalize, Statistics
from certcal.models.preact import PreActResNet18
from certcal.models.resnet import CifarResNet
from certcal.scalars import check_integer


def model_names() -> tuple[str, ...]:
    """The names that `build_model` knows."""
    return tuple(_MAKERS)


def build_model(
    name: str, *, classes: int, channels: int, size: int, normalize: Statistics | None = None, **settings: Any
) -> nn.Sequential:
    """A model with random weights that takes inputs in [0, 1], shape (n, channels, size, size), and gives logits.

    Its first layer normalises (or, without `normalize`, passes the inputs on) and its second is the network.

    Args:
        name: one of `model_names()`, or `package.module:factory` for a function or class of yours.
        classes: number of classes.
        channels: number of input channels.
        size: height and width of the inputs.
        normalize: means and standard deviations per channel, as `channel_statistics` gives them.
        **settings: what else the network takes: `shortcut="projection"` for resnet20, 56 and 110; anything for a
            factory, which is also given `classes`, `channels` and `size` if it has parameters of these names.
    """
    for argument, value, minimum in (("classes", classes, 2), ("channels", channels, 1), ("size", size, 1)):
        check_integer(argument, value, minimum=minimum)
    make = _imported(name) if ":" in name else _named(name)
    network = _call(name, make, {"classes": classes, "channels": channels, "size": size}, settings)
    return nn.Sequential(_first_layer(normalize, channels), network)


def _first_layer(normalize: Statistics | None, channels: int) -> nn.Module:
    if normalize is None:
        return nn.Identity()
    try:
        mean, std = normalize
    except (TypeError, ValueError) as error:
        raise InputError.expected("normalize", "be a pair (means, standard deviations)", repr(normalize)) from error
    layer = Normalize(mean, std)
    if len(layer.mean) != channels:
        raise InputError.expected("normalize", f"have one mean per channel ({channels})", len(layer.mean))
    return layer


def _call(name: str, make: Callable[..., Any], shape: dict[str, int], settings: dict[str, Any]) -> nn.Module:
    try:
        signature = inspect.signature(make)
    except ValueError:  # something built in, which does not say what it takes
        signature = inspect.Signature([inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)])
    arguments = {key: value for key, value in shape.items() if key in signature.parameters} | settings
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise InputError.expected(
            f"settings of {name}", f"fit {name}{signature}", str(error).removeprefix("got ")
        ) from error
    network = make(**arguments)
    if not isinstance(network, nn.Module):
        raise InputError.expected("name", f"lead to a torch.nn.Module by {name}", type(network).__name__)
    return network


def _named(name: str) -> Callable[..., nn.Module]:
    if name not in _MAKERS:
        close = difflib.get_close_matches(str(name).lower(), _MAKERS, n=2)
        hint = f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
        names = ", ".join(map(repr, _MAKERS))
        raise InputError.expected("name", f"be one of {names}, or package.module:factory", f"{name!r}{hint}")
    return _MAKERS[name]


def _cifar_resnet(depth: int) -> Callable[..., nn.Module]:
    def make(*, classes: int, channels: int, shortcut: str = "identity") -> nn.Module:
        return CifarResNet(depth=depth, classes=classes, channels=channels, shortcut=shortcut)

    return make


def _resnet50(*, classes: int, channels: int) -> nn.Module:
    if channels != 3:
        raise InputError.expected("channels", "be 3 for resnet50", channels)
    try:
        from torchvision.models import resnet50
    # Beside another build of torch, torchvision fails while importing with a RuntimeError.
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"The model 'resnet50' needs torchvision, which did not import here: {reason}.") from error
    network: nn.Module = resnet50(weights=None, num_classes=classes)
    return network


def _imported(path: str) -> Callable[..., Any]:
    module_name, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    # Relative and empty names raise TypeError and ValueError.
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError.expected("name", "be an importable package.module:factory", f"{path!r}: {error}") from error
    if not callable(found):
        raise InputError.expected("name", "lead to something callable", f"{path!r}, a {type(found).__name__}")
    return found  # type: ignore[no-any-return]


_MAKERS: dict[str, Callable[..., nn.Module]] = {
    "lenet": LeNet,
    "small-cnn": SmallCNN,
    **{f"resnet{depth}": _cifar_resnet(depth) for depth in (20, 56, 110)},
    "preact-resnet18": PreActResNet18,
    "resnet50": _resnet50,
}
