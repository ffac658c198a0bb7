"""Which run to do next: the one that tells most about full scale for what it costs.

Pure: configurations, costs and what was run come in, an index and its reason go out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Knowledge", "NextRun", "choose_next"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
SLOPE = 1.0  # prior deviation of log time over one deviation of a feature
CURVED = 0.3  # of what is neither linear nor a level
LENGTH = 2.0  # over which that changes, in deviations of a feature
LEVEL = 0.3  # of the step between downsized runs and full scale
LEAST_NOISE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """A candidate to run: what it takes away of the variance at full scale, per cost."""

    index: int
    gain_share: float  # of the variance of log time at full scale
    cost: float
    because: str


class Knowledge:
    """A Gaussian belief about log time over features, full scale or not, given where runs were.

    Its covariance does not depend on what the runs took, so it can be planned ahead.
    """

    def __init__(self, x: Floats, full: Flags, *, noise: float = 0.1) -> None:
        self._x, self._full = x, full
        self.noise = max(noise, LEAST_NOISE)
        k = covariance(x, full, x, full) + self.noise**2 * np.eye(len(x))
        self._root = np.linalg.cholesky(k) if len(x) else np.zeros((0, 0))

    def covariance(self, a: Floats, a_full: Flags, b: Floats, b_full: Flags) -> Floats:
        """Return the covariance that is left between two sets of configurations."""
        before = covariance(a, a_full, b, b_full)
        if not len(self._x):
            return before
        left = np.linalg.solve(self._root, covariance(self._x, self._full, a, a_full))
        right = np.linalg.solve(self._root, covariance(self._x, self._full, b, b_full))
        after: Floats = before - left.T @ right
        return after

    def deviation(self, x: Floats, full: Flags) -> Floats:
        """Return the standard deviation of log time for each configuration, without noise."""
        variance = prior_variance(x, full)
        if len(self._x):
            left = np.linalg.solve(self._root, covariance(self._x, self._full, x, full))
            variance = variance - np.sum(left**2, axis=0)
        found: Floats = np.sqrt(np.maximum(variance, 1e-12))
        return found


def choose_next(
    known: Knowledge,
    candidates: tuple[Floats, Flags],
    targets: tuple[Floats, Flags],
    *,
    cost: Floats,
    allowed: Flags,
) -> NextRun | None:
    """Return the allowed candidate with the greatest gain per cost; None without one.

    The gain of a run is how far it lowers the mean variance over the targets.
    """
    if not allowed.any():
        return None
    between = known.covariance(*candidates, *targets)
    own = known.deviation(*candidates) ** 2 + known.noise**2
    total = float(np.mean(known.deviation(*targets) ** 2))
    gain = np.mean(between**2, axis=1) / own
    value = np.where(allowed, gain / np.maximum(cost, 1e-9), -1.0)
    best = int(np.argmax(value))
    share = float(gain[best]) / max(total, 1e-12)
    scale = "full scale" if candidates[1][best] else "downsized"
    because = (
        f"{scale}: takes {share:.0%} off the variance left at full scale for a cost of "
        f"{cost[best]:.3g}, the most per cost of {int(allowed.sum())} candidates"
    )
    return NextRun(index=best, gain_share=share, cost=float(cost[best]), because=because)


def covariance(a: Floats, a_full: Flags, b: Floats, b_full: Flags) -> Floats:
    """Return the prior covariance: a line in each feature, a smooth rest, and the step."""
    apart = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2.0 * a @ b.T
    smooth = CURVED**2 * np.exp(-0.5 * np.maximum(apart, 0.0) / LENGTH**2)
    level = LEVEL**2 * np.outer(a_full, b_full)
    found: Floats = 1.0 + SLOPE**2 * (a @ b.T) + smooth + level
    return found


def prior_variance(x: Floats, full: Flags) -> Floats:
    """Return the diagonal of `covariance` of a set with itself."""
    found: Floats = 1.0 + SLOPE**2 * np.sum(x**2, axis=1) + CURVED**2 + LEVEL**2 * full
    return found
