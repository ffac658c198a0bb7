"""On-line change detectors over several series at once: ADWIN, Page-Hinkley, Bayesian (BOCPD).

Each is given one row of values at a time, keeps bounded state, and answers with the change it has
just detected. NaN is absent and changes nothing. Units do not matter: values are scaled by how far
each series has spread so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from steward.errors import unknown_name

__all__ = ["DETECTORS", "Adwin", "Bocpd", "OnlineChange", "OnlineDetector", "PageHinkley", "online"]

Array = NDArray[Any]
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineChange:
    """A change that was detected with the newest row."""

    ago: int  # rows since it began, as estimated
    score: float  # above 1
    at_fault: tuple[int, ...]  # columns, the clearest first


class OnlineDetector(Protocol):
    """Detects changes row by row."""

    def update(self, values: Array) -> OnlineChange | None:
        """Take in one row; return the change that it reveals."""
        ...


@dataclass(slots=True)
class _Spread:
    """Running mean and variance of each series (Welford)."""

    width: int
    count: Array = field(init=False)
    mean: Array = field(init=False)
    squares: Array = field(init=False)

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.count = np.zeros(self.width)
        self.mean = np.zeros(self.width)
        self.squares = np.zeros(self.width)

    def add(self, values: Array) -> None:
        there = np.isfinite(values)
        self.count += there
        step = np.where(there, values - self.mean, 0.0)
        self.mean = self.mean + step / np.maximum(self.count, 1.0)
        self.squares = self.squares + step * np.where(there, values - self.mean, 0.0)

    @property
    def deviation(self) -> Array:
        """Standard deviations; infinite for a series that has not changed beyond rounding."""
        found: Array = np.sqrt(self.squares / np.maximum(self.count - 1.0, 1.0))
        return np.where(found > _ROUNDING * np.abs(self.mean), found, np.inf)


@dataclass(slots=True, kw_only=True)
class PageHinkley:
    """Cumulative deviations from the mean since the last change, both ways.

    Fires when a sum leaves its extreme by more than `threshold` deviations.
    """

    width: int
    threshold: float = 25.0
    slack: float = 0.5
    warm_up: int = 10
    cut_off: float = 5.0
    floor_share: float = 0.1  # of the spread over all time, below which no scale falls
    _all: _Spread = field(init=False)
    _since: _Spread = field(init=False)
    _sums: Array = field(init=False)  # up and down
    _began: Array = field(init=False)  # rows since each sum left its extreme

    def __post_init__(self) -> None:
        self._all = _Spread(self.width)
        self._restart()

    def _restart(self) -> None:
        self._since = _Spread(self.width)
        self._sums = np.zeros((2, self.width))
        self._began = np.zeros((2, self.width), np.int64)

    def update(self, values: Array) -> OnlineChange | None:
        overall = self._all.deviation  # infinite: nothing has happened so far
        since = self._since.deviation
        least = np.where(np.isfinite(overall), self.floor_share * overall, np.inf)
        scale = np.where(np.isfinite(since), np.maximum(since, least), least)
        off = (values - self._since.mean) / scale
        known = np.isfinite(off) & (self._since.count >= self.warm_up)
        off = np.where(known, np.clip(off, -self.cut_off, self.cut_off), 0.0)
        self._all.add(values)
        self._since.add(values)
        moved = self._sums + np.stack((off - self.slack, -off - self.slack))
        self._began = np.where(moved > 0.0, self._began + 1, 0)
        self._sums = np.maximum(moved, 0.0)
        highest = self._sums.max(axis=0) / self.threshold
        if self.width == 0 or highest.max() <= 1.0:
            return None
        order = np.argsort(-highest, kind="stable")
        first = int(order[0])
        ago = int(self._began[int(np.argmax(self._sums[:, first])), first]) - 1
        found = OnlineChange(
            ago=ago,
            score=float(highest[first]),
            at_fault=tuple(int(each) for each in order if highest[each] > 0.5),
        )
        self._restart()
        return found


@dataclass(slots=True, kw_only=True)
class Adwin:
    """Adaptive window (Bifet and Gavalda 2007): drops its older part when the means differ.

    The window is kept as buckets of doubling size; the series are cut together.
    """

    width: int
    delta: float = 0.002
    every: int = 4  # rows between two checks
    same_size: int = 5  # buckets of one size
    cut_off: float = 5.0
    _all: _Spread = field(init=False)
    _buckets: list[tuple[int, Array, Array]] = field(default_factory=list)  # oldest first
    _rows: int = 0

    def __post_init__(self) -> None:
        self._all = _Spread(self.width)

    def update(self, values: Array) -> OnlineChange | None:
        self._all.add(values)
        scale = self._all.deviation
        centred = np.clip((values - self._all.mean) / scale, -self.cut_off, self.cut_off)
        kept = np.where(np.isfinite(scale) & np.isfinite(centred), centred, 0.0)
        finite = np.where(np.isfinite(scale), scale, 0.0)
        self._buckets.append((1, kept * finite + self._all.mean, np.zeros(self.width)))
        self._merge()
        self._rows += 1
        if self._rows % self.every or len(self._buckets) < 3 or self.width == 0:
            return None
        return self._cut(scale)

    def _merge(self) -> None:
        """Join the two oldest buckets of a size that has too many, from the smallest size on."""
        size, end = 1, len(self._buckets)
        while True:
            begin = end
            while begin > 0 and self._buckets[begin - 1][0] == size:
                begin -= 1
            if end - begin <= self.same_size:
                return
            (one, mean, squares), (other, mean_2, squares_2) = self._buckets[begin : begin + 2]
            step = mean_2 - mean
            total = one + other
            joined = (
                total,
                mean + step * other / total,
                squares + squares_2 + step * step * one * other / total,
            )
            self._buckets[begin : begin + 2] = [joined]
            size, end = 2 * size, begin + 1

    def _cut(self, scale: Array) -> OnlineChange | None:
        sizes = np.array([each[0] for each in self._buckets], float)
        means = np.array([each[1] for each in self._buckets]) / scale
        within = np.array([each[2] for each in self._buckets]) / scale**2
        total = sizes.sum()
        before, sums = np.cumsum(sizes)[:-1], np.cumsum(sizes[:, None] * means, axis=0)
        after = total - before
        gap = np.abs(sums[:-1] / before[:, None] - (sums[-1] - sums[:-1]) / after[:, None])
        mean = sums[-1] / total
        variance = (within.sum(0) + np.sum(sizes[:, None] * (means - mean) ** 2, axis=0)) / total
        # the harmonic size, and a confidence shared among all checks and series
        part = (1.0 / (1.0 / before + 1.0 / after))[:, None]
        likely = np.log(2.0 * np.log(max(total, 3.0)) * self.width / self.delta)
        limit = np.sqrt(2.0 / part * variance * likely) + 2.0 / (3.0 * part) * likely
        ratio = np.where(np.minimum(before, after)[:, None] >= 5, gap / limit, 0.0)
        if ratio.max() <= 1.0:
            return None
        place = int(np.argmax(ratio.max(axis=1)))
        order = np.argsort(-ratio[place], kind="stable")
        found = OnlineChange(
            ago=int(after[place]) - 1,
            score=float(ratio[place].max()),
            at_fault=tuple(int(each) for each in order if ratio[place, each] > 0.5),
        )
        self._buckets = self._buckets[place + 1 :]
        return found


@dataclass(slots=True, kw_only=True)
class Bocpd:
    """Posterior over the length of the present stretch (Adams and MacKay 2007), all series jointly.

    Gaussian stretches of unknown mean and variance. Series depend on one another, so their evidence
    counts with the power 1 / sqrt(number), and outliers are cut off.
    """

    width: int
    expected_rows: float = 1e6  # of a stretch: the higher, the fewer changes
    recent: int = 8  # rows: a stretch shorter than this is a change
    certainty: float = 0.9
    warm_up: int = 10
    most_runs: int = 150
    cut_off: float = 5.0
    _all: _Spread = field(init=False)
    _length: Array = field(init=False)
    _log: Array = field(init=False)  # of the probability of each length
    _count: Array = field(init=False)
    _mean: Array = field(init=False)
    _squares: Array = field(init=False)
    _rows: int = 0
    _armed: bool = False  # the present stretch has been known for longer than `recent`

    def __post_init__(self) -> None:
        self._all = _Spread(self.width)
        self._length, self._log = np.zeros(1, np.int64), np.zeros(1)
        self._count = np.zeros((1, self.width))
        self._mean = np.zeros((1, self.width))
        self._squares = np.zeros((1, self.width))

    def update(self, values: Array) -> OnlineChange | None:
        usual = np.where(
            np.isfinite(values), (values - self._all.mean) / self._all.deviation, np.nan
        )
        self._all.add(values)
        self._rows += 1
        if self._rows <= self.warm_up:
            return None
        row = np.where(np.isfinite(usual), np.clip(usual, -self.cut_off, self.cut_off), np.nan)
        self._weigh(row)
        self._grow(row)
        return self._detected()

    def _weigh(self, row: Array) -> None:
        """Multiply each length's probability by what it expected of this row (Student's t)."""
        kappa, alpha = self._count + 0.1, 0.5 * self._count + 1.0
        mean = self._mean * self._count / kappa
        beta = 0.05 + 0.5 * (self._squares + 0.1 * self._count * self._mean**2 / kappa)
        spread = beta * (kappa + 1.0) / (alpha * kappa)
        off = (row - mean) ** 2 / spread
        log = gammaln(alpha + 0.5) - gammaln(alpha) - 0.5 * np.log(2.0 * np.pi * alpha * spread)
        log = log - (alpha + 0.5) * np.log1p(off / (2.0 * alpha))
        self._log = self._log + np.nansum(log, axis=1) / np.sqrt(max(1, self.width))
        self._log -= np.logaddexp.reduce(self._log)

    def _grow(self, row: Array) -> None:
        """Let each stretch go on or end; keep the most probable lengths."""
        chance = 1.0 / self.expected_rows
        there = np.isfinite(row)
        count = self._count + there
        step = np.where(there, row - self._mean, 0.0)
        mean = self._mean + step / np.maximum(count, 1.0)
        squares = self._squares + step * np.where(there, row - mean, 0.0)
        blank = np.zeros((1, self.width))
        length = np.concatenate(([0], self._length + 1))
        log = np.concatenate(([np.log(chance)], self._log + np.log1p(-chance)))
        keep = np.sort(np.argsort(-log, kind="stable")[: self.most_runs])
        self._length, self._log = length[keep], log[keep] - np.logaddexp.reduce(log[keep])
        self._count = np.concatenate((blank, count))[keep]
        self._mean = np.concatenate((blank, mean))[keep]
        self._squares = np.concatenate((blank, squares))[keep]

    def _detected(self) -> OnlineChange | None:
        recent = (self._length > 0) & (self._length <= self.recent)
        chance = float(np.exp(self._log[recent]).sum())
        if chance < 0.5:
            self._armed = self._armed or self._rows > self.warm_up + self.recent
        if not self._armed or chance < self.certainty:
            return None
        self._armed = False
        likeliest = int(np.flatnonzero(recent)[np.argmax(self._log[recent])])
        older = ~recent & (self._length > self.recent)
        fault = np.zeros(self.width)
        if older.any():
            past = int(np.flatnonzero(older)[np.argmax(self._log[older])])
            fault = np.abs(self._mean[likeliest] - self._mean[past])
        order = np.argsort(-fault, kind="stable")
        return OnlineChange(
            ago=int(self._length[likeliest]) - 1,
            score=chance / self.certainty,
            at_fault=tuple(int(each) for each in order if fault[each] > 0.5 * fault.max()),
        )


DETECTORS: dict[str, type[Adwin] | type[Bocpd] | type[PageHinkley]] = {
    "adwin": Adwin,
    "bocpd": Bocpd,
    "page-hinkley": PageHinkley,
}


def online(values: Array, method: str) -> Sequence[tuple[int, OnlineChange]]:
    """Return, for each change that a detector finds in these rows, the row that revealed it."""
    if method not in DETECTORS:
        raise unknown_name("method", method, DETECTORS)
    detector: OnlineDetector = DETECTORS[method](width=values.shape[1])
    found = ((row, detector.update(each)) for row, each in enumerate(values))
    return [(row, change) for row, change in found if change is not None]
