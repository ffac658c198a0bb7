"""Which run to do next: the one that tells most about full scale for what it costs.

Pure: configurations, costs and what was run come in, an index and its reason go out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Knowledge", "NextRun", "Places", "choose_next"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
CURVED = 0.3  # prior deviation of what is neither linear nor a level, in log time
LENGTH = 2.0  # over which that changes, in deviations of a feature
LEVEL = 0.3  # of the step between downsized runs and full scale
CELL = 0.4  # of a combination of levels, beside what its levels do alone
CELL_SLOPE = 0.3  # of its own slopes, against those of all
LEAST_NOISE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """Where runs are: features in units of their prior slopes, combinations of levels, scale."""

    x: Floats
    cell: NDArray[np.int64]
    full: Flags

    def __len__(self) -> int:
        return len(self.full)

    def of(self, rows: NDArray[Any]) -> Places:
        """Return some, by index or mask."""
        return Places(x=self.x[rows], cell=self.cell[rows], full=self.full[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """A candidate to run: what it takes away of the variance at full scale, per cost."""

    index: int
    gain_share: float  # of the variance of log time at full scale
    cost: float
    because: str


class Knowledge:
    """A Gaussian belief about log time over places, given where runs were.

    Its covariance does not depend on what the runs took, so it can be planned ahead.
    """

    def __init__(self, runs: Places, *, noise: float = 0.1) -> None:
        self._runs = runs
        self.noise = max(noise, LEAST_NOISE)
        k = covariance(runs, runs) + self.noise**2 * np.eye(len(runs))
        self._root = np.linalg.cholesky(k) if len(runs) else np.zeros((0, 0))

    def covariance(self, a: Places, b: Places) -> Floats:
        """Return the covariance that is left between two sets of places."""
        before = covariance(a, b)
        if not len(self._runs):
            return before
        left = np.linalg.solve(self._root, covariance(self._runs, a))
        right = np.linalg.solve(self._root, covariance(self._runs, b))
        after: Floats = before - left.T @ right
        return after

    def deviation(self, places: Places) -> Floats:
        """Return the standard deviation of log time in each place, without noise."""
        variance = prior_variance(places)
        if len(self._runs):
            left = np.linalg.solve(self._root, covariance(self._runs, places))
            variance = variance - np.sum(left**2, axis=0)
        found: Floats = np.sqrt(np.maximum(variance, 1e-12))
        return found


def choose_next(
    known: Knowledge, candidates: Places, targets: Places, *, cost: Floats, allowed: Flags
) -> NextRun | None:
    """Return the allowed candidate with the greatest gain per cost; None without one.

    The gain of a run is how far it lowers the mean variance over the targets.
    """
    if not allowed.any():
        return None
    between = known.covariance(candidates, targets)
    own = known.deviation(candidates) ** 2 + known.noise**2
    total = float(np.mean(known.deviation(targets) ** 2))
    gain = np.mean(between**2, axis=1) / own
    value = np.where(allowed, gain / np.maximum(cost, 1e-9), -1.0)
    best = int(np.argmax(value))
    share = float(gain[best]) / max(total, 1e-12)
    scale = "full scale" if candidates.full[best] else "downsized"
    because = (
        f"{scale}: takes {share:.0%} off the variance left at full scale for a cost of "
        f"{cost[best]:.3g}, the most per cost of {int(allowed.sum())} candidates"
    )
    return NextRun(index=best, gain_share=share, cost=float(cost[best]), because=because)


def covariance(a: Places, b: Places) -> Floats:
    """Return the prior covariance: lines for all and for each cell, a smooth rest, the step."""
    line = a.x @ b.x.T
    apart = np.sum(a.x**2, axis=1)[:, None] + np.sum(b.x**2, axis=1) - 2.0 * line
    smooth = CURVED**2 * np.exp(-0.5 * np.maximum(apart, 0.0) / LENGTH**2)
    level = LEVEL**2 * np.outer(a.full, b.full)
    cell = (a.cell[:, None] == b.cell) * (CELL**2 + CELL_SLOPE**2 * line)
    found: Floats = 1.0 + line + smooth + level + cell
    return found


def prior_variance(places: Places) -> Floats:
    """Return the diagonal of `covariance` of a set with itself."""
    line = np.sum(places.x**2, axis=1)
    level = LEVEL**2 * places.full
    found: Floats = 1.0 + line + CURVED**2 + level + CELL**2 + CELL_SLOPE**2 * line
    return found
