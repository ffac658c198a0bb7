"""How far predicted waits were off, and the bound that 90 % of them stay below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["FIRST_SDS", "SHORT_S", "TINY_S", "Calibration", "WaitCalibration"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
SHORT_S = 1.0  # waits that are shorter, and were predicted to be, are not compared
_KEPT = 30_000  # waits that the bound is from
_SHOWN = 2000  # waits that the published figures are about
FIRST_SDS = 1.6  # of the bound before anything was observed: a normal one's 1.28, widened
_RECENT = 3000.0  # waits after which a distance counts a third
_FIRST_WEIGHT = 15.0  # turns of the queue that it counts as
_MEMORY = 50_000.0  # waits that the coverage which steers the bound is about
_AHEAD = 1500.0  # waits, at least, within which the bound makes up for coverage lost or gained
_LEAST_LEVEL, _MOST_LEVEL = 0.5, 0.985  # quantiles that the bound is moved between
_OUTERMOST = 8.0  # standard deviations: a wait further off tells nothing of how wide others are
_LEAST_SDS = 0.1  # of the bound: the mean itself is none
_NORMAL_SDS = 1.2816  # that 90 % of a normal distribution stay below
TINY_S = 1e-6  # added to standard deviations
_OFTEN = 64  # waits between two bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a metric shows of an estimator: NaN before anything was observed."""

    count: int  # waits observed in all
    recent: int  # of those, how many the figures are about
    median_error: float  # as a share of the wait
    coverage: float  # share of waits within their bounds


class WaitCalibration:
    """Compare predicted waits with those observed, and set the bound from it.

    The bound is a quantile of the distances of the last 30,000 waits from their means, in standard
    deviations, of which later ones count more: what is expected gets better as more is learned.
    Waits that are predicted while errors of this kind are still unobserved go wrong
    alike: however many they are, they tell as much as one. What was observed therefore weighs by
    turns of the queue, each of which begins with the first wait that was predicted after the turn
    before was observed.

    The quantile is 90 % while 90 % of waits stayed within their bounds. It is lower or higher as
    more or fewer did, so that over the waits to come this is made up for. Requests that still wait
    count as well: as likely to stay within their bounds as these are now known to be wide, and as
    beyond them if they are. Without them a queue of minutes would be predicted with a bound that
    answers to an error which was mended long ago.

    What was observed of one source of requests says little of the next: when it changes, the bound
    begins anew. Coverage that was lost or gained is made up for all the same.
    """

    def __init__(self, *, share: float = 0.9) -> None:
        self.share = share
        self.count = 0
        self.turns = 0  # of the queue
        self.sds = FIRST_SDS
        self._distances = np.zeros(_KEPT)  # from the mean, in standard deviations
        self._turn_of = np.zeros(_KEPT)
        self._errors = np.zeros(_SHOWN)
        self._held = np.zeros(_SHOWN)
        self._surplus = 0.0  # waits that held beyond the share that should, fading
        self._open_sds = np.zeros(0)
        self._overdue = np.zeros(0, np.bool_)
        self._known = 0  # distances that are about the present source
        self._renewed_at = 0  # of these
        self._turn_s = -np.inf
        self.since_s = -np.inf  # predictions before are about another source

    @property
    def is_due(self) -> bool:
        """Return whether the next wait observed leads to a new bound."""
        return self._known + 1 - self._renewed_at >= min(_OFTEN, 1 + self._known // 8)

    def begin_anew(self, t_s: float) -> None:
        """Leave what was predicted before out of the bound: other requests arrive now."""
        self.since_s, self._turn_s = t_s, -np.inf
        self.turns = self._known = self._renewed_at = 0
        self.sds = FIRST_SDS
        self.expect(np.zeros(0), np.zeros(0, np.bool_))

    def expect(self, open_sds: Floats, overdue: Flags) -> None:
        """Take note of requests that still wait: how wide their bounds are, and whose is over."""
        self._open_sds, self._overdue = open_sds, overdue

    def observe(
        self, mean_s: float, sd_s: float, upper_s: float, wait_s: float, predicted_s: float
    ) -> None:
        """Take in one wait that is over, with what was predicted of it, and when."""
        if max(mean_s, wait_s) < SHORT_S or not np.isfinite(mean_s):
            return
        held = wait_s <= upper_s
        self._errors[self.count % _SHOWN] = abs(mean_s / max(wait_s, 1e-9) - 1.0)
        self._held[self.count % _SHOWN] = held
        self.count += 1
        if predicted_s < self.since_s:
            return
        due = self.is_due
        if predicted_s >= self._turn_s:
            self.turns += 1
            self._turn_s = predicted_s + wait_s
        distance = (wait_s - mean_s) / (sd_s + TINY_S)
        self._distances[self._known % _KEPT] = min(max(distance, -_OUTERMOST), _OUTERMOST)
        self._turn_of[self._known % _KEPT] = self.turns
        self._surplus += held - self.share - self._surplus / _MEMORY
        self._known += 1
        if due:
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
            "known": self._known,
            "turns": self.turns,
            "sds": self.sds,
            "surplus": self._surplus,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; raise ValueError if it kept another number of waits."""
        columns = {name: np.asarray(state[name], np.float64) for name in _COLUMNS}
        if any(each.shape != getattr(self, f"_{name}").shape for name, each in columns.items()):
            raise ValueError("it kept another number of waits")
        numbers = int(state["count"]), float(state["sds"]), float(state["surplus"])
        for name, each in columns.items():
            getattr(self, f"_{name}")[:] = each
        self.count, self.sds, self._surplus = numbers
        self.turns, self._turn_s = int(state["turns"]), -np.inf
        self._known, self.since_s = int(state["known"]), -np.inf
        self._renewed_at = self._known

    def _renew(self) -> None:
        self._renewed_at = self._known
        known = min(self._known, _KEPT)
        order = np.argsort(self._distances[:known])
        distances = self._distances[order]
        age = (self._known - 1 - order) % _KEPT
        below = np.concatenate(([0.0], np.cumsum(np.exp(-age / _RECENT))))
        below /= below[-1]
        turns = self.turns - float(self._turn_of[:known].min()) + 1.0
        weight = turns / (turns + _FIRST_WEIGHT)
        holds = weight * below[np.searchsorted(distances, self._open_sds, side="right")]
        holds += (1.0 - weight) * ndtr(self._open_sds * (_NORMAL_SDS / FIRST_SDS))
        holds[self._overdue] = 0.0
        surplus = self._surplus + float((holds - self.share).sum())
        level = self.share - surplus / max(_AHEAD, float(len(holds)))
        level = min(max(level, _LEAST_LEVEL), _MOST_LEVEL)
        observed = float(distances[np.searchsorted(below[1:-1], level)])
        first = FIRST_SDS / _NORMAL_SDS * float(ndtri(level))
        self.sds = max(first + weight * (observed - first), _LEAST_SDS)


_COLUMNS = ("distances", "turn_of", "errors", "held")
