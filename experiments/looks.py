"""What looking costs: widths of limits after planned and other looks, and draws until inputs are decided.

Expected: 0.5 % wider after the planned draws, a third wider after any other number; of 500 made-up inputs with up to
100 000 draws each, an eighth of the draws with three stages, a tenth with stages that double. Cost: a minute.

    python -m experiments.looks

The inputs are those of experiments/scheduler.py: scores are Φ of normals, σ = 0.25, four radii, α = 0.001.
"""

import json
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from certcal.certificates import PLANNED_SHARE, StopWhenDecided
from certcal.means import anytime_limits
from certcal.proportions import clopper_pearson
from certcal.smoothing import Evidence, EvidenceHeader

ALPHA, SIGMA, RADII = 0.001, 0.25, (0.05, 0.1, 0.25, 0.5)
INPUTS, N, CHUNK, THRESHOLDS = 500, 100_000, 250, 255
DOUBLING = (*(CHUNK * 2**k for k in range(9)), N)
PLANS = {"fixed": (N,), "three stages": (1000, 10_000, N), "stages that double": DOUBLING}


def widths() -> list[dict]:
    """Widths of one threshold's limits, half of α for C2, against limits for one look and no other ever."""
    level, table = ALPHA / 2 / THRESHOLDS, []
    for n in (1000, 10_000, 100_000):
        for share in (0.0, 0.01, 0.5):
            count = int(share * n)
            once = _width(clopper_pearson(count, n, alpha=level))
            row = {"draws": n, "share": share, "once": once}
            row["planned"] = _width(clopper_pearson(count, n, alpha=PLANNED_SHARE * level)) / once
            for look in range(1, 6):  # what spending α / (j (j + 1)) at look j would cost
                row[f"look {look}"] = _width(clopper_pearson(count, n, alpha=level / look / (look + 1))) / once
            row["any time"] = _width(anytime_limits(count, n, alpha=(1 - PLANNED_SHARE) * level)) / once
            table.append({name: round(value, 5) for name, value in row.items()})
    return table


def draws_to_decide() -> dict[str, dict]:
    """Draws until the rule stops each input, or N, under each plan; and with a look after every chunk, none planned."""
    rng = np.random.default_rng(0)
    means, spreads = rng.normal(1.2, 1.0, INPUTS), rng.uniform(0.3, 1.0, INPUTS)
    chunks = rng.binomial(CHUNK, ndtr(means / spreads)[:, None], size=(INPUTS, N // CHUNK))
    won = np.cumsum(chunks, axis=1)
    found = {name: _stops(won, looks, looks) for name, looks in PLANS.items()}
    every = tuple(range(CHUNK, N + 1, CHUNK))
    found["any time, every chunk"] = _stops(won, every, (N,))
    return {
        name: {"draws": int(stops.sum()), "share": round(stops.sum() / INPUTS / N, 4)} for name, stops in found.items()
    }


def _stops(won: np.ndarray, looks: tuple[int, ...], plan: tuple[int, ...]) -> np.ndarray:
    header = EvidenceHeader("synthetic", SIGMA, 0, 2, 100, CHUNK, "none", looks=len(plan), stages=plan)
    rule = StopWhenDecided(radii=RADII, alpha=ALPHA)
    stops, numbers, zeros = np.full(INPUTS, N), np.arange(INPUTS), np.zeros(INPUTS, dtype=np.int64)
    for n in looks[:-1]:
        own = won[:, -(-n // CHUNK) - 1]
        histogram = np.zeros((INPUTS, 256), dtype=np.int64)
        histogram[:, -1] = n  # the rule asks for no width, so only votes count
        sums = np.full(INPUTS, float(n)), np.full(INPUTS, float(n))
        votes = np.stack([own, n - own], axis=1)
        evidence = Evidence(header, numbers, zeros, zeros, zeros, np.full(INPUTS, n), votes, *sums, histogram)
        stops[rule(evidence) & (stops == N)] = n
    return stops


def _width(limits: tuple[np.ndarray, np.ndarray]) -> float:
    return float(limits[1] - limits[0])


def main() -> None:
    """Measure and record."""
    body = {"alpha": ALPHA, "sigma": SIGMA, "radii": RADII, "inputs": INPUTS, "n": N, "stages": PLANS}
    body |= {"widths": widths(), "draws": draws_to_decide()}
    path = Path(__file__).parent / "results" / "looks.json"
    path.write_text(json.dumps(body, indent=1) + "\n")
    print(json.dumps(body["draws"], indent=1))


if __name__ == "__main__":
    main()
