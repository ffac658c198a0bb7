"""What is known of each unit at regular times, and whether it failed soon after.

Rates are counts over exposure, of the unit and of each kind of place that it shares, with several
memories; each is drawn towards the rate of all units, the more the less is known of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.learn.failures.history import FailureHistory, Floats, Ints

__all__ = ["Panel", "moment", "panels"]

DAY_S = 86_400.0
HALF_LIVES_S = (30 * DAY_S, 180 * DAY_S, 1e12)
_LEVEL = 1  # the half-life that the level of all is taken with
_UNIT_PRIOR = 1.0  # failures; a unit tells little of itself
_PLACE_PRIOR = 2.0
_LONGEST_DAYS = 3_000.0
_LEAST = 0.5  # failures, where none was seen yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """All units in service at one time. `failed` is about the time until `t_s + horizon_s`.

    Features compare units of this moment with one another; how often all of them fail is `level`,
    a logarithm of failures per unit and horizon. What only grows with time would be taken for a
    cause of everything that changes with time.
    """

    t_s: float
    level: float
    units: Ints
    features: NDArray[np.float32]
    failed: NDArray[np.bool_]
    counts: Floats  # failures of each so far
    exposure_s: Floats


@dataclass(slots=True, kw_only=True)
class _Memory:
    """Counts and exposure of the values of one kind of place, fading by half-lives."""

    counts: Floats  # half-life x value
    exposure_s: Floats
    prior: float
    known: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # value of each unit now

    @classmethod
    def of(cls, values: int, prior: float) -> _Memory:
        shape = (len(HALF_LIVES_S), values)
        return cls(counts=np.zeros(shape), exposure_s=np.zeros(shape), prior=prior)

    def add(self, units: Ints, exposure_s: Floats, fade: Floats) -> None:
        """Take in the failures and the exposure of one step."""
        ok = self.known >= 0
        values = self.counts.shape[1]
        failed = self.known[units]
        counts = np.bincount(failed[failed >= 0], minlength=values)
        exposed = np.bincount(self.known[ok], exposure_s[ok], values)
        self.counts = self.counts * fade[:, None] + counts
        self.exposure_s = self.exposure_s * fade[:, None] + exposed

    def log_rates(self, units: Ints, overall: Floats) -> Floats:
        """Return how far the rates of these units' places lie from those of all, as logarithms."""
        value = self.known[units]
        counts = np.where(value >= 0, self.counts[:, value], 0.0)
        exposed = np.where(value >= 0, self.exposure_s[:, value], 0.0)
        rates = (counts + self.prior) / (exposed + self.prior / overall[:, None])
        return np.asarray(np.log(rates / overall[:, None]))


def panels(history: FailureHistory, *, step_s: float, horizon_s: float) -> Iterator[Panel]:
    """Yield panels by time; the last ones have a horizon that is over before the record ends."""
    builder = _Builder(history, horizon_s)
    t_s = history.from_s + step_s
    while t_s + horizon_s <= history.to_s:
        builder.advance(t_s)
        yield builder.panel(t_s)
        t_s += step_s


def moment(history: FailureHistory, t_s: float, *, horizon_s: float) -> Panel:
    """Return what is known at one time."""
    builder = _Builder(history, horizon_s)
    step_s = history.from_s + horizon_s
    while step_s < t_s:  # memories fade by steps
        builder.advance(step_s)
        step_s += horizon_s
    builder.advance(t_s)
    return builder.panel(t_s)


class _Builder:
    """Takes in a history up to a time, and describes the units at it."""

    def __init__(self, history: FailureHistory, horizon_s: float) -> None:
        self._history, self._horizon_s = history, horizon_s
        count = len(history.units)
        self._at_s = history.from_s - 1.0
        self._unit = _Memory.of(count, _UNIT_PRIOR)
        self._unit.known = np.arange(count, dtype=np.int64)
        self._places = {
            name: _Memory.of(int(codes.max()) + 1, _PLACE_PRIOR)
            for name, codes in (*history.unit_places.items(), *history.stay_places.items())
        }
        for name, codes in history.unit_places.items():
            self._places[name].known = codes
        for name in history.stay_places:
            self._places[name].known = np.full(count, -1, np.int64)
        self._by_start = np.argsort(history.stay_from_s, kind="stable")
        self._stays_seen = 0
        self._counts, self._exposure_s = np.zeros(count), np.zeros(count)
        self._overall = np.zeros((2, len(HALF_LIVES_S)))  # failures and exposure of all
        self._last_s = np.full((2, count), -np.inf)  # the last failure, and the one before
        self._since_s = np.full(count, np.inf)
        np.minimum.at(self._since_s, history.stay_unit, history.stay_from_s)

    def advance(self, t_s: float) -> None:
        """Take in what happened up to a time, and nothing later."""
        history = self._history
        fade = np.array([0.5 ** ((t_s - self._at_s) / half_s) for half_s in HALF_LIVES_S])
        exposure_s = history.exposure_s(self._at_s, t_s)
        low, high = np.searchsorted(history.event_s, [self._at_s, t_s], "right")
        units = history.event_unit[low:high]
        self._move(t_s)
        for memory in (self._unit, *self._places.values()):
            memory.add(units, exposure_s, fade)
        self._overall = self._overall * fade + np.array([[len(units)], [exposure_s.sum()]])
        np.add.at(self._counts, units, 1.0)
        self._exposure_s += exposure_s
        for unit, when_s in zip(units, history.event_s[low:high], strict=True):
            self._last_s[:, unit] = when_s, self._last_s[0, unit]
        self._at_s = t_s

    def _move(self, t_s: float) -> None:
        """Note where units are now."""
        history = self._history
        starts = history.stay_from_s[self._by_start]
        seen = int(np.searchsorted(starts, t_s, "right"))
        for stay in self._by_start[self._stays_seen : seen]:
            for name, codes in history.stay_places.items():
                self._places[name].known[history.stay_unit[stay]] = codes[stay]
        self._stays_seen = seen

    def panel(self, t_s: float) -> Panel:
        history = self._history
        units = history.in_service(t_s)
        overall = (self._overall[0] + _LEAST) / (self._overall[1] + 1.0)
        age_days = np.clip((t_s - self._since_s[units]) / DAY_S, 0.0, None)
        since = np.minimum((t_s - self._last_s[:, units]) / DAY_S, _LONGEST_DAYS)
        rows = [
            self._unit.log_rates(units, overall),
            *(memory.log_rates(units, overall) for memory in self._places.values()),
            _centred(np.log1p(since)),
            _centred(np.log1p(age_days)[None]),
            _centred(np.log1p(self._counts[units])[None]),
        ]
        low, high = np.searchsorted(history.event_s, [t_s, t_s + self._horizon_s], "right")
        failed = np.zeros(len(history.units), np.bool_)
        failed[history.event_unit[low:high]] = True
        return Panel(
            t_s=t_s,
            level=float(np.log(overall[_LEVEL] * self._horizon_s)),
            units=units,
            features=np.concatenate(rows).T.astype(np.float32),
            failed=failed[units],
            counts=self._counts[units].copy(),
            exposure_s=self._exposure_s[units].copy(),
        )


def _centred(rows: Floats) -> Floats:
    return rows - rows.mean(axis=1, keepdims=True) if rows.size else rows
