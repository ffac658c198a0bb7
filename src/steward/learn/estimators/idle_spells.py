"""Estimator of how long idle GPUs stay idle, and of the share that a loan puts to work."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.model.forecast import (
    LOAN_YIELD,
    REMAINING_S,
    UNEXPLAINED_S,
    About,
    Forecast,
    ForecastColumn,
)
from steward.model.job import JobRequest
from steward.model.outcome import Outcome
from steward.model.view import ClusterView

__all__ = ["IdleSpells"]

Floats = NDArray[np.float64]
LOW, MID, HIGH = 0.9, 0.5, 0.1  # chances of lasting longer
LEAST_YIELD = 0.05  # an estimate of zero would never be tried, and so never be corrected
FADE = 0.95  # decay of older outcomes: about twenty count


class IdleSpells:
    """Learn from ended idle spells; open ones are censored at their age.

    The chance of lasting on is the Kaplan-Meier estimate over the last `memory` spells. Without
    data, and beyond the longest spell, it falls back on a prior: what has lasted for a while will
    last about as long again.
    """

    def __init__(self, *, memory: int = 2000, shortest_s: float = 60.0) -> None:
        self.name = "idle-spells"
        self.shortest_s = shortest_s
        self._spells: deque[float] = deque(maxlen=memory)
        self._ages: dict[str, float] = {}
        # a weak prior: of one GPU-hour, a third is put to work
        self._offered_s, self._gained_s = 3600.0, 1200.0
        self._times: Floats = np.empty(0)
        self._lasting: Floats = np.empty(0)

    def learn(self, view: ClusterView, outcomes: Sequence[Outcome]) -> None:
        ages = _ages(view)
        now = {
            str(view.gpus.ids[row]): float(ages[row])
            for row in np.flatnonzero(ages >= self.shortest_s)
        }
        for gpu, age in self._ages.items():
            if gpu not in now:
                self._spells.append(age)
        self._ages = now
        for outcome in outcomes:
            if outcome.counted_on <= 0:
                continue  # a later part of a loan: nothing was promised for it
            self._offered_s = FADE * self._offered_s + outcome.counted_on
            self._gained_s = FADE * self._gained_s + outcome.gained.mid
        self._times, self._lasting = _kaplan_meier(
            np.fromiter(self._spells, dtype=np.float64), np.fromiter(now.values(), dtype=np.float64)
        )

    def predict(self, view: ClusterView) -> tuple[ForecastColumn, ...]:
        ages = _ages(view)
        share = min(1.0, max(LEAST_YIELD, self._gained_s / self._offered_s))
        return (
            ForecastColumn(
                about=About.GPUS,
                quantity=REMAINING_S,
                low=self._remaining(ages, LOW),
                mid=self._remaining(ages, MID),
                high=self._remaining(ages, HIGH),
                basis=f"{self.name}, {len(self._spells)} spells",
            ),
            ForecastColumn(
                about=About.WHOLE,
                quantity=LOAN_YIELD,
                low=np.array([share * 0.5]),
                mid=np.array([share]),
                high=np.array([min(1.0, share * 1.5)]),
                basis=f"{self.name}, {self._offered_s / 3600:.0f} GPU-hours of loans",
            ),
        )

    def estimate(self, _: JobRequest) -> tuple[Forecast, ...]:
        """Return nothing: idleness is an estimate of GPUs, not of jobs that have not run."""
        return ()

    @property
    def state_version(self) -> int:
        return 1

    def save_state(self) -> dict[str, Any]:
        spells = np.fromiter(self._spells, dtype=np.float64)
        return {"spells": spells, "offered_s": self._offered_s, "gained_s": self._gained_s}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        offered_s, gained_s = float(state["offered_s"]), float(state["gained_s"])
        spells = np.asarray(state["spells"], dtype=np.float64).tolist()
        self._spells.extend(spells)
        self._offered_s, self._gained_s = offered_s, gained_s
        self._times, self._lasting = _kaplan_meier(np.array(spells), np.empty(0))

    def _remaining(self, ages: Floats, chance: float) -> Floats:
        """Return how much longer a spell of each age lasts with the given chance."""
        without_data = ages * (1.0 / chance - 1.0)
        if not len(self._times):
            return without_data
        lasting_now = _at(self._times, self._lasting, ages)
        target = lasting_now * chance
        # the first time at which the chance of lasting has fallen to the target
        index = np.searchsorted(-self._lasting, -target, side="left")
        known = (index < len(self._times)) & (lasting_now > 0) & ~np.isnan(ages)
        ends = self._times[np.minimum(index, len(self._times) - 1)]
        # beyond the longest spell, the prior extends the tail
        last_s, last = self._times[-1], self._lasting[-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = (ages >= last_s) | (lasting_now <= 0)
            tail = np.where(beyond, without_data, last_s * last / target - ages)
        return np.where(known, np.maximum(ends - ages, 0.0), np.maximum(tail, 0.0))


def _ages(view: ClusterView) -> Floats:
    column = view.forecast(About.GPUS, UNEXPLAINED_S)
    return np.full(len(view.gpus), np.nan) if column is None else column.mid


def _kaplan_meier(ended: Floats, going_on: Floats) -> tuple[Floats, Floats]:
    """Return the times at which spells ended and the chance of lasting beyond each."""
    times, deaths = np.unique(ended, return_counts=True)
    if not len(times):
        return times, times
    everyone = np.sort(np.concatenate([ended, going_on]))
    at_risk = len(everyone) - np.searchsorted(everyone, times, side="left")
    return times, np.cumprod(1.0 - deaths / at_risk).astype(np.float64)


def _at(times: Floats, lasting: Floats, ages: Floats) -> Floats:
    index = np.searchsorted(times, ages, side="right")
    return np.concatenate([[1.0], lasting])[index]
