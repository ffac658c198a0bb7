"""How far predicted waits were off, and the bound that 90 % of them stay below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["SHORT_S", "Calibration", "WaitCalibration"]

SHORT_S = 1.0  # waits that are shorter, and were predicted to be, are not compared
_KEPT = 8000  # waits that the bound is from
_SHOWN = 2000  # waits that the published figures are about
_FIRST_SDS = 1.6  # of the bound before anything was observed: a normal one's 1.28, widened
_FIRST_WEIGHT = 8.0  # turns of the queue that it counts as
_COVERED = 4000.0  # waits that the coverage which steers the bound is about
_GAIN = 10.0  # standard deviations that the bound moves by for all of the coverage
_OUTERMOST = 8.0  # standard deviations: a wait further off tells nothing of how wide others are
_LOWEST, _HIGHEST = -1.0, 4.0  # standard deviations that it is moved by at most
_LEAST_SDS = 0.5  # of the bound: the mean itself is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a metric shows of an estimator: NaN before anything was observed."""

    count: int  # waits observed in all
    recent: int  # of those, how many the figures are about
    median_error: float  # as a share of the wait
    coverage: float  # share of waits within their bounds


class WaitCalibration:
    """Compare predicted waits with those observed, and set the bound from it.

    The bound is as many standard deviations above the mean as 90 % of the last 8,000 waits stayed
    below. Waits that are predicted while errors of this kind are still unobserved go wrong alike:
    however many they are, they tell as much as one. What was observed therefore weighs by turns of
    the queue, each of which begins with the first wait that was predicted after the turn before
    was observed. As far as there were turns, the bound also moves against the coverage that was
    reached: up while less than 90 % held, down, by less, while more did.
    """

    def __init__(self, *, share: float = 0.9) -> None:
        self.share = share
        self.count = 0
        self.turns = 0  # of the queue
        self.sds = _FIRST_SDS
        self._distances = np.zeros(_KEPT)  # from the mean, in standard deviations
        self._errors = np.zeros(_SHOWN)
        self._held = np.zeros(_SHOWN)
        self._covered = share
        self._renewed_at = 0
        self._turn_s = -np.inf

    def observe(
        self, mean_s: float, sd_s: float, upper_s: float, wait_s: float, predicted_s: float
    ) -> None:
        """Take in one wait that is over, with what was predicted of it, and when."""
        if max(mean_s, wait_s) < SHORT_S or not np.isfinite(mean_s):
            return
        held = wait_s <= upper_s
        distance = (wait_s - mean_s) / (sd_s + 1e-6)
        self._distances[self.count % _KEPT] = min(max(distance, -_OUTERMOST), _OUTERMOST)
        self._errors[self.count % _SHOWN] = abs(mean_s / max(wait_s, 1e-9) - 1.0)
        self._held[self.count % _SHOWN] = held
        self.count += 1
        if predicted_s >= self._turn_s:
            self.turns += 1
            self._turn_s = predicted_s + wait_s
        weight = 1.0 / min(self.count + 100.0, _COVERED)
        self._covered += weight * (held - self._covered)
        if self.count - self._renewed_at >= min(32, 1 + self.count // 8):
            self._renew()

    def figures(self) -> Calibration:
        """Return what is published."""
        recent = min(self.count, _SHOWN)
        return Calibration(
            count=self.count,
            recent=recent,
            median_error=float(np.median(self._errors[:recent])) if recent else float("nan"),
            coverage=float(self._held[:recent].mean()) if recent else float("nan"),
        )

    def save(self) -> dict[str, Any]:
        """Return the state as JSON values and arrays."""
        columns = {name: getattr(self, f"_{name}").copy() for name in _COLUMNS}
        return {
            **columns,
            "count": self.count,
            "turns": self.turns,
            "sds": self.sds,
            "covered": self._covered,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; raise ValueError if it kept another number of waits."""
        columns = {name: np.asarray(state[name], np.float64) for name in _COLUMNS}
        if any(each.shape != getattr(self, f"_{name}").shape for name, each in columns.items()):
            raise ValueError("it kept another number of waits")
        numbers = int(state["count"]), float(state["sds"]), float(state["covered"])
        for name, each in columns.items():
            getattr(self, f"_{name}")[:] = each
        self.count, self.sds, self._covered = numbers
        self.turns, self._turn_s = int(state["turns"]), -np.inf
        self._renewed_at = self.count

    def _renew(self) -> None:
        self._renewed_at = self.count
        known = min(self.count, _KEPT)
        observed = float(np.quantile(self._distances[:known], self.share))
        weight = self.turns / (self.turns + _FIRST_WEIGHT)
        moved = min(max(_GAIN * (self.share - self._covered), _LOWEST), _HIGHEST)
        sds = _FIRST_SDS + weight * (observed + moved - _FIRST_SDS)
        self.sds = max(sds, _LEAST_SDS)


_COLUMNS = ("distances", "errors", "held")
