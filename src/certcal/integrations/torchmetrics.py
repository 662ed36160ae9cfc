"""Metrics for the torchmetrics ecosystem, with `update / compute / reset / plot`. Extra: `certcal[torchmetrics]`.

Each keeps a sufficient statistic whose sum over batches and processes is that of the whole set, so the value after
distributed reduction is the value on all inputs together, not a mean of means. Rankings and free bins have none: for
AUROC, AURC, KS and any binning keep the bounds, and call the functions of `certcal.worstcase` on all of them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from certcal.errors import InputError
from certcal.metrics import Bins, as_predictions, bin_sums, choose_bins, curve_from_sums
from certcal.report import INCORRECT, plot_reliability
from certcal.scalars import check_number
from certcal.types import ArrayLike, FloatArray, IntArray
from certcal.worstcase import (
    ReachTables,
    WorstCaseProblem,
    bin_sums_at,
    brier_confidences,
    choose_few_bins,
    goals,
    operating_curve,
    optimise,
    rounding_bound,
    tabulate,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CertifiedBrierScore",
    "CertifiedCalibrationError",
    "CertifiedOperatingPoint",
    "CertifiedOverconfidence",
    "CertifiedUnderconfidence",
    "ExpectedCalibrationError",
]


class _SummedMetric(Metric):
    """A metric whose float64 states add up over batches and processes."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, bins: Bins, /, *shape: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bins = bins
        self.add_state("sums", default=torch.zeros(*shape, dtype=torch.float64), dist_reduce_fx="sum")
        # A MetricCollection merges metrics whose states look alike: those with other edges must not. The largest of
        # equal edges is the edges, so reduction leaves them alone.
        self.add_state("edges", default=torch.tensor(bins.edges), dist_reduce_fx="max")

    def _accumulate(self, sums: FloatArray) -> None:
        self.sums: Tensor = self.sums + torch.from_numpy(sums).to(self.sums)

    def _total(self) -> FloatArray:
        return self.sums.double().cpu().numpy()

    def _scalar(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self.sums.device)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> "_SummedMetric":
        """Follow a model to another device, but not to another dtype: counts and certificates need float64."""
        super()._apply(lambda tensor: tensor.to(fn(tensor).device), *args, **kwargs)
        return self

    def set_dtype(self, dst_type: Any) -> "_SummedMetric":
        """Leaves the states in float64."""
        return self


class ExpectedCalibrationError(_SummedMetric):
    """The expected calibration error under the paper's bins, [lo, hi) with the last one closed.

    >>> metric = ExpectedCalibrationError(n_bins=10)
    >>> metric.update(torch.tensor([0.9, 0.9]), torch.tensor([1, 1]))
    >>> metric.update(torch.tensor([0.6, 0.6]), torch.tensor([1, 0]))
    >>> metric.compute()
    tensor(0.1000, dtype=torch.float64)
    """

    def __init__(self, *, n_bins: int = 15, edges: ArrayLike | None = None, **kwargs: Any) -> None:
        bins = choose_bins(n_bins, edges)
        super().__init__(bins, 3, len(bins), **kwargs)  # inputs, confidences, correct

    def update(self, confidence: ArrayLike, correct: ArrayLike) -> None:
        """Add a batch: the predicted class's probability and whether the prediction is right, shape (n,)."""
        self._accumulate(np.stack(bin_sums(*as_predictions(confidence, correct), self.bins)))

    def compute(self) -> Tensor:
        """The ECE of all inputs so far; NaN if there are none."""
        count, confidence, correct = self._total()
        return self._scalar(np.abs(correct - confidence).sum() / count.sum() if count.any() else np.nan)

    def plot(self, val: object = None, ax: "Axes | None" = None) -> "tuple[Figure, Axes]":
        """The reliability diagram of all inputs so far; `val` is there for torchmetrics and not needed."""
        return _draw(self._total(), self, ax, title="ECE {:.1%}")


class CertifiedBrierScore(_SummedMetric):
    """The largest top-label Brier score within certified confidence bounds. Paper: Thm. 3.3, Eq. (3).

    >>> metric = CertifiedBrierScore()
    >>> metric.update([0.5, 0.1], [0.9, 0.5], [1, 0])
    >>> round(metric.compute().item(), 6)
    0.25
    """

    def __init__(self, *, n_bins: int = 15, edges: ArrayLike | None = None, **kwargs: Any) -> None:
        bins = choose_bins(n_bins, edges)  # of the diagram only
        super().__init__(bins, 4, len(bins), **kwargs)  # inputs, Brier confidences, correct, losses

    def update(self, lower: ArrayLike, upper: ArrayLike, correct: ArrayLike) -> None:
        """Add a batch of certified bounds and correctness, shape (n,)."""
        problem = WorstCaseProblem.checked(lower, upper, correct)
        worst = brier_confidences(problem)
        losses = np.bincount(self.bins.assign(worst), np.square(problem.correct - worst), minlength=len(self.bins))
        self._accumulate(np.stack([*bin_sums(worst, problem.correct, self.bins), losses]))

    def compute(self) -> Tensor:
        """The certified Brier score of all inputs so far, rounded up; NaN if there are none."""
        count, _, _, losses = self._total()
        if not count.any():
            return self._scalar(np.nan)
        # Every loss is ≤ 1 and passes through at most as many additions as there are inputs.
        return self._scalar(
            min(losses.sum() / count.sum() + rounding_bound(int(count.sum()), int(count.sum()), self.bins), 1.0)
        )

    def plot(self, val: object = None, ax: "Axes | None" = None) -> "tuple[Figure, Axes]":
        """The reliability diagram of the confidences that attain the score."""
        return _draw(
            self._total()[:3], self, ax, title="certified Brier score {:.3f}", colour=INCORRECT, interval=False
        )


class _ReachMetric(_SummedMetric):
    """A worst case over confidences within their bounds: its states are tables of where inputs can be."""

    weights: tuple[float, float]  # of gaps where accuracy exceeds confidence, and of the others
    title: str

    def __init__(self, *, n_bins: int = 15, edges: ArrayLike | None = None, **kwargs: Any) -> None:
        bins = choose_few_bins(n_bins, edges)
        super().__init__(bins, 3, 2, len(bins), len(bins), **kwargs)  # the reach tables
        self.add_state("uncertified", default=torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, *, uncertified: int = 0) -> None:
        """Add a batch of certified bounds and correctness, shape (n,), and how many inputs came without certificate."""
        problem = WorstCaseProblem.checked(lower, upper, correct, edges=self.bins.edges, uncertified=uncertified)
        tables, _ = tabulate(problem.everywhere)  # batches may come from several maps
        self._accumulate(np.stack([tables.count, tables.lower, tables.upper]))
        self.uncertified: Tensor = self.uncertified + uncertified

    def _worst(self) -> tuple[ReachTables, IntArray, float]:
        tables, free = ReachTables(*self._total()), int(self.uncertified)
        return tables, *optimise(tables, self.bins, lambda earned: free * earned, self.weights)

    def compute(self) -> Tensor:
        """The largest error of all inputs so far, rounded up; NaN if there are none."""
        tables, _, total = self._worst()
        inputs, free = int(tables.count.sum()), int(self.uncertified)
        if inputs + free == 0:
            return self._scalar(np.nan)
        additions = inputs if all(self.weights) else 4 * inputs + 64
        return self._scalar(min(max(total / (inputs + free) + rounding_bound(additions, inputs, self.bins), 0.0), 1.0))

    def plot(self, val: object = None, ax: "Axes | None" = None) -> "tuple[Figure, Axes]":
        """The reliability diagram at the worst case, of the certified inputs."""
        tables, signs, _ = self._worst()
        sums = np.stack(bin_sums_at(goals(self.bins, signs), tables))
        free = f", {int(self.uncertified)} uncertified inputs not drawn" if self.uncertified else ""
        return _draw(sums, self, ax, title=f"{self.title} {{:.1%}}" + free, colour=INCORRECT, interval=False)


class CertifiedCalibrationError(_ReachMetric):
    """The largest expected calibration error within certified confidence bounds, exactly. Paper: Def. 3.4, Eq. (4).

    >>> metric = CertifiedCalibrationError(n_bins=3)
    >>> metric.update([0.1], [0.6], [1])
    >>> metric.update([0.5], [0.9], [0])
    >>> round(metric.compute().item(), 6)
    0.9
    """

    weights = (1.0, 1.0)
    title = "certified calibration error"


class CertifiedOverconfidence(_ReachMetric):
    """The most, under attack, by which confidence exceeds accuracy, over the bins where it does. docs/one_sided.md.

    >>> metric = CertifiedOverconfidence(n_bins=3)
    >>> metric.update([0.1], [0.6], [1])
    >>> metric.update([0.5], [0.9], [0])
    >>> round(metric.compute().item(), 6)
    0.45
    """

    weights = (0.0, 1.0)
    title = "certified overconfidence"


class CertifiedUnderconfidence(_ReachMetric):
    """The most, under attack, by which accuracy exceeds confidence, over the bins where it does. docs/one_sided.md.

    >>> metric = CertifiedUnderconfidence(n_bins=3)
    >>> metric.update([0.1, 0.5], [0.6, 0.9], [1, 0])
    >>> round(metric.compute().item(), 6)
    0.45
    """

    weights = (1.0, 0.0)
    title = "certified underconfidence"


class CertifiedOperatingPoint(_SummedMetric):
    """The least accuracy, under attack, of predictions accepted from a threshold; `coverage` is their least share.

    >>> metric = CertifiedOperatingPoint(threshold=0.5)
    >>> metric.update([0.7, 0.2], [0.9, 0.6], [1, 1])
    >>> metric.update([0.6], [0.8], [0])
    >>> metric.compute().item(), round(metric.coverage, 3)
    (0.5, 0.667)
    """

    higher_is_better = True

    def __init__(self, *, threshold: float, **kwargs: Any) -> None:
        own = check_number("threshold", threshold, "lie in [0, 1]", lambda value: 0.0 <= value <= 1.0)
        # Metrics with other thresholds must not be merged, which the edges see to.
        super().__init__(Bins.from_edges(np.unique([0.0, own, 1.0])), 5, **kwargs)
        self.threshold = own

    def update(self, lower: ArrayLike, upper: ArrayLike, correct: ArrayLike, *, uncertified: int = 0) -> None:
        """Add a batch of certified bounds and correctness, shape (n,), and how many inputs came without certificate."""
        curve = operating_curve(lower, upper, correct, thresholds=[self.threshold], uncertified=uncertified)
        counts = (curve.right[0], curve.accepted[0], curve.certain[0], curve.reachable[0], curve.inputs)
        self._accumulate(np.array(counts, dtype=np.float64))

    def compute(self) -> Tensor:
        """The least accuracy of those accepted, of all inputs so far; NaN if no input can be accepted."""
        right, accepted, _, reachable, _ = self._total()
        return self._scalar(np.nan if not reachable else right / accepted if accepted else 1.0)

    @property
    def coverage(self) -> float:
        """The least share of the inputs so far that is accepted; NaN if there are none."""
        *_, certain, _, inputs = self._total()
        return float(certain / inputs) if inputs else np.nan


def _draw(sums: FloatArray, metric: Any, ax: "Axes | None", *, title: str, **style: Any) -> "tuple[Figure, Axes]":
    if not sums[0].any():
        raise InputError.expected("plot", "come after an update with at least one certified input", "none so far")
    curve = curve_from_sums(*sums, bins=metric.bins, alpha=0.05)
    axes = plot_reliability(curve, ax=ax, title=title.format(float(metric.compute())), **style)
    return cast("Figure", axes.figure), axes
