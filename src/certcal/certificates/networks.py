"""Certify a network without noise: by auto_LiRPA's bounds of its margins, or by its own Lipschitz constant.

Proofs: docs/certificates.md, "Certificates from elsewhere".
"""

import copy
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certcal.certificates.intervals import ConfidenceIntervals
from certcal.certificates.lipschitz import lipschitz_constant
from certcal.certificates.margins import intervals_from_lipschitz, intervals_from_margins
from certcal.errors import CertcalError, InputError, one_line
from certcal.models import as_inputs, as_outputs, count_classes, held_still
from certcal.scalars import check_choice, guarded, one_or_more
from certcal.settings import Domain, Norm, Relaxation, checks
from certcal.types import ArrayLike, FloatArray

# What is proven holds in exact arithmetic; the network runs in float32, whose rounding moves its logits. Margins are
# widened by this share of the largest logit (and at least of 1): a thousand units of single precision. It is stated,
# not proven.
SLACK = 2.0**-13
TRIED, CLIMBS, PROBE = 8, 10, 0.05  # inputs, steps and distance of the search for pairs that refute a constant
_NORMS = {Norm.LINF: float("inf"), Norm.L2: 2.0}


@guarded
def intervals_by_lirpa(
    model: nn.Module,
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    radii: Iterable[float] | float,
    norm: str = Norm.LINF,
    relaxation: str = Relaxation.CROWN,
    domain: str | None = None,
    index: Any = None,
) -> tuple[ConfidenceIntervals, ...]:
    """Certificates of a network from auto_LiRPA's bounds of its margins z_A − z_j, at each radius.

    The bounds are computed in float64 and widened by `SLACK` of the largest logit, for the network runs in float32.

    Paper: —; Zhang et al. (2018), CROWN; Gowal et al. (2018), IBP.   Errs: outward, and towards not certified.

    Args:
        model: gives logits for inputs in [0, 1].
        inputs, labels: shape (n, …) and (n,).
        radii: within which to certify.
        norm: "linf" or "l2".
        relaxation: "ibp", "crown-ibp" or "crown", from quick and wide to slow and narrow.
        domain: "box" if moved inputs stay in [0, 1], which makes ℓ∞ bounds narrower and is their default.
        index: positions of the inputs in their data set.

    Raises: InputError if auto_LiRPA cannot bound the network; CertcalError if it is not installed.
    """
    within = Norm(check_choice("norm", norm, tuple(_NORMS)))
    usual = Domain.BOX if within is Norm.LINF else Domain.EVERYWHERE
    where = Domain(usual if domain is None else check_choice("domain", domain, tuple(Domain)))
    if where is Domain.BOX and within is not Norm.LINF:
        raise InputError.expected("domain", "be everywhere in ℓ2, where the box is not used", repr(str(where)))
    method = check_choice("relaxation", relaxation, tuple(Relaxation)).upper()  # as auto_LiRPA names them
    distances = _distances(radii)
    points, logits = _logits(model, inputs)
    logits = logits.double()
    predicted = logits.argmax(dim=1)
    slack = _slack(logits)[:, None]
    confidence = logits.softmax(dim=1).gather(1, predicted[:, None])[:, 0].numpy()
    found = []
    for radius in distances:
        lower, upper = _margins(model, points.double(), predicted, logits.shape[1], radius, within, where, method)
        found.append(
            intervals_from_margins(
                lower - slack,
                upper + slack,
                labels=labels,
                predicted=predicted,
                confidence=confidence,
                index=index,
                radius=radius,
                norm=within,
                domain=where,
                method=f"lirpa ({relaxation})",
            )
        )
    return tuple(found)


def _margins(
    model: nn.Module, x: Tensor, predicted: Tensor, classes: int, radius: float, norm: Norm, domain: Domain, method: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bounds of z_A − z_j at every point within the radius, float64, shape (n, k)."""
    bounded, tensor, perturbation = _lirpa()
    eye = torch.eye(classes, dtype=torch.float64)
    wanted = eye[predicted][:, None, :] - eye[None]  # (n, k, k): row j gives z_A − z_j
    ends: dict[str, Tensor] = {}
    if norm is Norm.LINF:
        low, high = x - radius, x + radius
        if domain is Domain.BOX:
            low, high = low.clamp(0.0, 1.0), high.clamp(0.0, 1.0)
        ends = {"x_L": torch.nextafter(low, low - 1), "x_U": torch.nextafter(high, high + 1)}
    with _refusing(method):
        own = copy.deepcopy(model).double().eval()
        net = bounded(own, torch.zeros_like(x), device="cpu", verbose=False)
        for there in _within(x, radius, norm, domain):
            _check_trace(own, net, there)
        moved = tensor(x, perturbation(norm=_NORMS[norm], eps=radius, **ends))
        least, most = net.compute_bounds(x=(moved,), C=wanted, method=method)
    return least.numpy(), most.numpy()


def _within(x: Tensor, radius: float, norm: Norm, domain: Domain) -> Iterator[Tensor]:
    """The inputs, all of them brighter, darker, and moved at random, within the ball."""
    rng = np.random.default_rng(0)
    for way in (0.0, 1.0, -1.0, *(rng.uniform(-1, 1, x.shape) for _ in range(4))):
        step = torch.as_tensor(way, dtype=x.dtype).expand_as(x)
        if norm is Norm.L2:
            step = nn.functional.normalize(step.flatten(1), dim=1).reshape(x.shape)
        yield (x + radius * step).clamp(0, 1) if domain is Domain.BOX else x + radius * step


def _check_trace(model: nn.Module, net: nn.Module, x: Tensor) -> None:
    """Refuse a network that does not do what auto_LiRPA saw of it, which is one pass over a blank image."""
    own, seen = as_outputs(model(x.clone()), len(x)), net(x.clone())
    if not torch.allclose(own, seen, rtol=1e-6, atol=1e-6, equal_nan=True):
        wanted = "do the same operations for every input, because auto_LiRPA sees only those for a blank one"
        raise InputError.expected("model", wanted, f"logits that differ by {float((own - seen).abs().max()):.3g}")


@contextmanager
def _refusing(method: str) -> Iterator[None]:
    """auto_LiRPA at work in float64: what it cannot bound is refused in one line."""
    heard: list[str] = []

    def hear(record: logging.LogRecord) -> bool:
        heard.append(record.getMessage())
        return False

    usual, log = torch.get_default_dtype(), logging.getLogger("auto_LiRPA.utils")
    log.addFilter(hear)
    torch.set_default_dtype(torch.float64)  # which it makes its tables in
    try:
        with warnings.catch_warnings(record=True), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except Exception as error:  # it raises whatever the operation at hand does
        got = "; ".join([f"{type(error).__name__}: {one_line(error, most=160)}", *heard[-1:]])
        raise InputError.expected("model", f"be one that auto_LiRPA can bound by {method}", got) from error
    finally:
        torch.set_default_dtype(usual)
        log.removeFilter(hear)


def _lirpa() -> tuple[Any, Any, Any]:
    depth, root = sys.getrecursionlimit(), logging.getLogger()
    shown, level = list(root.handlers), root.level
    try:
        with warnings.catch_warnings(record=True):  # what it imports turns them on again
            warnings.simplefilter("ignore")
            from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm
    except ImportError as error:
        raise CertcalError(
            f"The certifier lirpa needs auto_LiRPA ≥ 0.7 ({error}): pip install 'certcal[verify]', and then "
            "pip install --no-deps git+https://github.com/Verified-Intelligence/auto_LiRPA."
        ) from error
    finally:
        # It sets a million, at which a stranger's nested JSON overflows the stack instead of being refused.
        sys.setrecursionlimit(depth)
        root.handlers[:] = shown  # and it takes over the log of the whole process
        root.setLevel(level)
    return BoundedModule, BoundedTensor, PerturbationLpNorm


@guarded
def intervals_by_lipschitz(
    model: nn.Module,
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    radii: Iterable[float] | float,
    constant: float | None = None,
    last_layer: str = "global",
    index: Any = None,
) -> tuple[ConfidenceIntervals, ...]:
    """Certificates of a Lipschitz network in ℓ2, from its logits and its constant, at each radius.

    `constant` is that of the logits for inputs in [0, 1]; by default what the network itself carries, after
    normalisation and temperature. Margins are widened by `SLACK` of the largest logit, for the network runs in float32.

    Paper: —; docs/certificates.md.   Errs: outward, if the constant is one.
    """
    slope = lipschitz_constant(model) if constant is None else constant
    distances = _distances(radii)
    points, logits = _logits(model, inputs)
    _check_slope(model, points[:TRIED], slope, last_layer)
    known: dict[str, Any] = {"constant": slope, "last_layer": last_layer, "rounding": _slack(logits), "index": index}
    return tuple(intervals_from_lipschitz(logits, labels, radius=radius, **known) for radius in distances)


def _check_slope(model: nn.Module, x: Tensor, slope: float, last_layer: str) -> None:
    """Refuse a constant that two points show to be none: their logits lie farther apart than it allows.

    The pairs x ± v start at random, and v follows the gradient, which is power iteration on the Jacobian.
    """
    v = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    with held_still(model), torch.enable_grad():
        for _ in range(CLIMBS):
            v = (PROBE * nn.functional.normalize(v.flatten(1), dim=1).reshape(x.shape)).detach().requires_grad_()
            ends = [as_outputs(model(point), len(x)) for point in (x + v, x - v)]
            apart = ends[0] - ends[1]
            size = apart.norm(dim=1) if last_layer == "global" else apart.abs().amax(dim=1)
            if not size.requires_grad:
                break
            (uphill,) = torch.autograd.grad(size.square().sum(), v)
            v = torch.where(uphill.flatten(1).any(dim=1).reshape(-1, *[1] * (x.ndim - 1)), uphill, v)
    steepest, place = (float(size.detach().max()), int(size.detach().argmax()))
    rounding = SLACK * float(torch.cat(ends).detach().abs().max().clamp(min=1.0))
    if steepest > 2 * PROBE * slope * 1.001 + rounding:
        got = f"{slope:g}, where points {2 * PROBE:g} apart near input {place} have logits {steepest:.3g} apart"
        raise InputError.expected("constant", "be a Lipschitz constant of the network's logits", got)


def _distances(radii: Iterable[float] | float) -> tuple[float, ...]:
    return tuple(checks.radius("radii", one) for one in one_or_more("radii", radii))


def _logits(model: nn.Module, inputs: ArrayLike) -> tuple[Tensor, Tensor]:
    """The inputs, and what the network gives for them."""
    with held_still(model), torch.no_grad():
        points = as_inputs(inputs, model, boxed=False, name="inputs")
        count_classes(model, points)  # refuses inputs that the model does not take
        return points, as_outputs(model(points.clone()), len(points))


def _slack(logits: Tensor) -> FloatArray:
    """By how much the margins of each input are widened, shape (n,)."""
    return np.asarray(SLACK * logits.double().abs().amax(dim=1).clamp(min=1.0))
