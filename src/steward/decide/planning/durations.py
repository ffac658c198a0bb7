"""How long a job waits and runs: a distribution as equally likely points, always the same ones.

A `Range` stands for a distribution with these three quantiles: half a lognormal on each side of
the middle, or half a normal where a limit is 0. Sums of independent ranges pair their points in
fixed orders that are nearly uncorrelated; nothing is drawn, so the same plan comes out each time.
Interruptions are those of one queue; changing to on-demand capacity meanwhile is `spot`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, pdtrik

from steward.model.planning.plan import Range

__all__ = [
    "MOST_RESTARTS",
    "POINTS",
    "Attempts",
    "Spans",
    "Summary",
    "points_of",
    "range_of",
    "spans_of",
]

POINTS = 256
MOST_RESTARTS = 200  # links of a chain and interruptions together
Floats = NDArray[np.float64]
_LIMITS = (0.05, 0.5, 0.95)  # of a Range
_FAR = 100.0  # a lognormal with limits so far apart would have absurd tails
_Z90 = float(ndtri(_LIMITS[2]))
_RUN, _WATTS, _INTERRUPTIONS, _FIRST_WAIT = range(4)  # which order a quantity has


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """What may end a job before its work is done, and what beginning again costs."""

    limit_s: float | None = None  # run time after which the queue ends it
    interrupted_every_s: float | None = None  # mean time until others stop it
    start_s: float = 0.0  # until it computes, each time
    save_s: float = 0.0
    save_every_s: float = 900.0

    @property
    def usable_s(self) -> float:
        """Return how long one job of a chain gets on with the work."""
        return (self.limit_s or 0.0) - self.start_s - self.save_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The quantiles of `Spans`."""

    wait_s: Range
    elapsed_s: Range
    busy_s: Range
    total_s: Range


@dataclass(frozen=True, kw_only=True, eq=False)
class Spans:
    """Lengths of time, one per point. `total_s` is sorted, the others belong to each other."""

    wait_s: Floats  # until it runs for the first time
    elapsed_s: Floats  # from there to its end, waits between links with it
    busy_s: Floats  # of that, on its nodes
    watts: Floats  # of one GPU
    total_s: Floats
    links: int  # jobs of a chain that are enough in 95 of 100 cases

    @cached_property
    def summary(self) -> Summary:
        """Return the quantiles of each."""
        return Summary(
            wait_s=range_of(self.wait_s),
            elapsed_s=range_of(self.elapsed_s),
            busy_s=range_of(self.busy_s),
            total_s=range_of(self.total_s),
        )

    def chance_within(self, left_s: float) -> float:
        """Return the chance that it ends within a time from its submission."""
        return float(np.searchsorted(self.total_s, left_s, side="right")) / POINTS

    def within(self, chance: float) -> float:
        """Return the time from its submission within which it ends with that chance."""
        return float(self.total_s[min(POINTS - 1, ceil(chance * POINTS) - 1)])


def points_of(value: Range, order: int) -> Floats:
    """Return the distribution of a range as points in one of the fixed orders."""
    z = _normal(order)
    return np.where(z < 0, _half(value.mid, value.low, -z), _half(value.mid, value.high, z))


def range_of(points: Floats) -> Range:
    """Return the three quantiles of points."""
    low, mid, high = np.quantile(points, _LIMITS).tolist()
    return Range(low=low, mid=mid, high=high)


def spans_of(run_s: Range, wait_s: Range, watts: Range, attempts: Attempts) -> Spans | None:
    """Return how long it takes with all restarts; None where those would never come to an end."""
    work = points_of(run_s, _RUN)
    chained = attempts.limit_s is not None and run_s.high + attempts.start_s > attempts.limit_s
    if chained and attempts.usable_s <= 0:
        return None
    every_s = attempts.interrupted_every_s
    saves = chained or every_s is not None
    work = work * (1 + attempts.save_s / attempts.save_every_s) if saves else work
    again = np.zeros(POINTS)
    lost = np.zeros(POINTS)
    if every_s is not None:
        again = _poisson(work / every_s)
        lost = again * (attempts.save_every_s / 2 + attempts.save_s)
    links = np.ceil((work + lost) / attempts.usable_s) if chained else np.ones(POINTS)
    restarts = again + links - 1
    if restarts.max() > MOST_RESTARTS:
        return None
    busy = work + lost + attempts.start_s * (1 + restarts) + attempts.save_s * (links - 1)
    waits = _summed_waits(wait_s, int(restarts.max()) + 1)
    gaps = waits[restarts.astype(np.intp), np.arange(POINTS)] - waits[0]
    return Spans(
        wait_s=waits[0],
        elapsed_s=busy + gaps,
        busy_s=busy,
        watts=points_of(watts, _WATTS),
        total_s=np.sort(waits[0] + busy + gaps),
        links=int(np.quantile(links, _LIMITS[2], method="higher")),
    )


def _summed_waits(wait_s: Range, count: int) -> Floats:
    """Return the first wait, the first two together, and so on, for each point."""
    return np.cumsum([points_of(wait_s, _FIRST_WAIT + i) for i in range(count)], axis=0)


def _poisson(mean: Floats) -> Floats:
    """Return how often something happens that happens so often on average."""
    uniform = _uniform(_INTERRUPTIONS)
    never = uniform <= np.exp(-mean)
    return np.where(never, 0.0, np.ceil(pdtrik(uniform, np.where(never, 1.0, mean))))


def _half(mid: float, limit: float, z: Floats) -> Floats:
    """Return values on one side of the middle; `z` is how far out, in standard deviations."""
    z = np.maximum(z, 0.0)
    if max(mid, limit) < _FAR * min(mid, limit):
        return np.asarray(mid * (limit / mid) ** (z / _Z90), np.float64)
    return np.maximum(0.0, mid + (limit - mid) * z / _Z90)


@lru_cache
def _uniform(order: int) -> Floats:
    """Return the middles of equal parts of 0..1, in the order of their hashes (splitmix64)."""
    key = np.arange(1, POINTS + 1, dtype=np.uint64) + np.uint64(POINTS * (order + 1))
    key = key * np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    rank = np.argsort(np.argsort(key ^ (key >> np.uint64(31))))
    return np.asarray((rank + 0.5) / POINTS, np.float64)


@lru_cache
def _normal(order: int) -> Floats:
    return np.asarray(ndtri(_uniform(order)), np.float64)
