"""Forecasts at the end of a history: who is likely to fail next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steward.learn.failures.forecasts import FailureForecasts
from steward.learn.failures.history import FailureHistory, Floats, Ints
from steward.learn.failures.panels import moment, panels

__all__ = ["LatestForecast", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestForecast:
    """The chance of each unit that is in service when the record ends."""

    t_s: float
    units: Ints
    chances: Floats
    failures: Floats  # so far

    def order(self) -> Ints:
        """Return the rows, the most likely first."""
        return np.argsort(-self.chances, kind="stable")


def latest(history: FailureHistory, *, horizon_s: float) -> LatestForecast:
    """Learn from all of a history and forecast its end."""
    model = FailureForecasts(horizon_s=horizon_s)
    for panel in panels(history, step_s=horizon_s, horizon_s=horizon_s):
        model.learn(panel)
    # A moment before the end: what the record takes out of service at its end is in it still.
    now = moment(history, history.to_s - 1.0, horizon_s=horizon_s)
    return LatestForecast(
        t_s=now.t_s, units=now.units, chances=model.predict(now), failures=now.counts
    )
