"""Speed and power of a job against the power limit of its GPUs, fitted to a few measured limits.

Between measured limits, speed is a non-decreasing, concave function of the limit: a GPU that may
draw more runs at a higher clock, and each watt buys less than the one before. Below the lowest one
it falls as a power of the limit, by an exponent that is partly known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

__all__ = ["Belief", "PowerFit", "PowerPoint", "fit_of"]

Floats = NDArray[np.float64]
Z80 = 1.2816  # four of five cases
# The exponent below the lowest measured limit: what curves of V100s show within 5 to 10 % of
# slowdown (`benchmarks/power_caps.py` names the part of the data that it was chosen on).
EXPONENT = 0.45
SPREAD = 0.6  # standard deviation of its logarithm
PEAK = 1.08  # a limit begins to bind this far above the mean power: load is not even
STEEPENING = 1.3  # of the exponent from one segment to the next below it
MOST_EXPONENT = 3.0
NOISE_SHARE = 0.003  # no speed is known better than this
GRID = 200  # limits between the lowest possible and no cap that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPoint:
    """What was measured at one limit."""

    limit_watts: float
    steps_per_s: float
    watts: float  # that one GPU drew, mean
    error_share: float = 0.0  # standard error of the speed
    windows: int = 1

    @property
    def joules_per_step(self) -> float:
        """Energy of one GPU for one step."""
        return self.watts / self.steps_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """A figure and the range it lies in, in four of five cases."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFit:
    """The curve of one job. `points` are by limit, at least one; the last is the reference."""

    points: tuple[PowerPoint, ...]
    _limits: Floats = field(init=False, repr=False)
    _speeds: Floats = field(init=False, repr=False)  # against the reference, concave

    def __post_init__(self) -> None:
        limits = np.array([each.limit_watts for each in self.points])
        speeds = np.array([each.steps_per_s for each in self.points])
        errors = np.array([_error(each) for each in self.points])
        reference = self.points[-1].steps_per_s
        object.__setattr__(self, "_limits", limits)
        object.__setattr__(self, "_speeds", _concave(limits, speeds / reference, errors))

    @property
    def reference(self) -> PowerPoint:
        """What the job did without a cap, or at the highest limit that it was seen at."""
        return self.points[-1]

    @property
    def lowest(self) -> PowerPoint:
        """What it did at the lowest limit that it was measured at."""
        return self.points[0]

    def slowdown(self, limit_watts: float) -> Belief:
        """Return how much slower it is at a limit than without a cap."""
        return _belief(self._slowdowns(np.array([limit_watts]))[:, 0])

    def joules_share(self, limit_watts: float) -> Belief:
        """Return the energy of a step at a limit against that without a cap."""
        return _belief(self._joules_shares(np.array([limit_watts]))[:, 0])

    def floor(self, allowed_share: float, least_watts: float) -> Belief:
        """Return the limit of least energy that slows the job by no more than is allowed.

        `high` is surely within it, `low` perhaps; all are between `least_watts` and no cap.
        """
        top = float(self._limits[-1])
        grid = np.linspace(min(least_watts, top), top, GRID)
        energy = self._joules_shares(grid)[1]
        within = self._slowdowns(grid) <= allowed_share
        # nothing below a limit that is too low
        within = np.cumprod(within[:, ::-1], axis=1)[:, ::-1].astype(bool)
        best = grid[np.where(within, energy, np.inf).argmin(axis=1)]
        return _belief(np.sort(best))

    def proven(self, allowed_share: float) -> PowerPoint:
        """Return the measured point of least energy within what is allowed; at worst no cap."""
        fine = [
            each
            for each in self.points
            if 1.0 - each.steps_per_s / self.reference.steps_per_s <= allowed_share
        ]
        return min(fine, key=lambda each: each.joules_per_step)

    # -- the curve -----------------------------------------------------------------------------

    def _slowdowns(self, limits: Floats) -> Floats:
        """Return low, mid and high for each of these limits."""
        error = Z80 * sqrt(2.0) * max(_error(each) for each in self.points)
        slow = np.stack([1.0 - self._speeds_at(limits, each) for each in self._exponents()])
        slow += np.array([[-error], [0.0], [error]])
        return np.where(limits >= self._limits[-1], 0.0, slow)

    def _joules_shares(self, limits: Floats) -> Floats:
        watts = self._watts_at(limits) / self.reference.watts
        return np.asarray(watts / np.maximum(1.0 - self._slowdowns(limits), 0.01))

    def _speeds_at(self, limits: Floats, exponent: float) -> Floats:
        """Return speeds against that without a cap."""
        inside = np.interp(limits, self._limits, self._speeds)
        return np.asarray(inside * self._below(limits) ** exponent / self._speeds[-1])

    def _watts_at(self, limits: Floats) -> Floats:
        inside = np.interp(limits, self._limits, [each.watts for each in self.points])
        return np.asarray(inside * self._below(limits))

    def _below(self, limits: Floats) -> Floats:
        """Return what part limits are of the highest one that binds; 1 where none does.

        A limit far above what the GPU draws changes nothing.
        """
        return np.minimum(limits / min(float(self._limits[0]), PEAK * self.lowest.watts), 1.0)

    def _exponents(self) -> tuple[float, float, float]:
        """Return the exponent below the lowest limit: optimistic, likely, pessimistic.

        The slope of the last segment is one more observation of it, the better the longer that is.
        """
        mean, precision = log(EXPONENT), SPREAD**-2
        if len(self.points) > 1 and self.lowest.watts < self.points[1].watts:
            span = log(self.points[1].watts / self.lowest.watts)
            fall = -log(max(self._speeds[0] / self._speeds[1], 1e-6))
            error = sqrt(2.0) * max(_error(each) for each in self.points[:2])
            seen = max(fall, error) / span * STEEPENING
            spread = max(error / max(fall, error), 0.25)
            weight = spread**-2
            mean = (mean * precision + log(seen) * weight) / (precision + weight)
            precision += weight
        half = Z80 / sqrt(precision)
        low, mid, high = (min(exp(mean + x), MOST_EXPONENT) for x in (-half, 0.0, half))
        return low, mid, high


def _belief(values: Floats) -> Belief:
    low, mid, high = (float(each) for each in values)
    return Belief(low=low, mid=mid, high=high)


def _error(point: PowerPoint) -> float:
    return max(point.error_share, NOISE_SHARE)


def _concave(limits: Floats, speeds: Floats, errors: Floats) -> Floats:
    """Return the non-decreasing, concave values nearest to these, in the sense of least squares.

    Such a function is a constant and a sum of ramps `min(limit, knot)` with weights of 0 or more.
    """
    scale = limits[-1]
    ramps = np.minimum.outer(limits, limits) / scale
    ones = np.ones((len(limits), 1))
    basis = np.hstack([ones, -ones, ramps])
    weights, _ = nnls(basis / errors[:, None], speeds / errors)
    return np.asarray(basis @ weights, dtype=np.float64)


def fit_of(points: Sequence[PowerPoint]) -> PowerFit:
    """Return the curve through these points, in any order."""
    return PowerFit(points=tuple(sorted(points, key=lambda each: each.limit_watts)))
