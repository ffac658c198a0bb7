"""What a history of failures says: rates by kind and batch, lives, and the worst units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.learn.failures import FailureHistory
from steward.learn.reliability import Rate, Survival, hazard_by_age, kaplan_meier, rate_of
from steward.model.outcome import Interval

__all__ = ["HistoryReport", "history_report"]

HOUR_S, DAY_S = 3600.0, 86_400.0
_BANDS = 8  # of age
_MOST_BATCHES = 12
_LETTERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReport:
    """Rates are per hour of a unit in service; ages are in days."""

    basis: str
    exposure_h: float
    kinds: dict[str, Rate]
    worst: dict[str, list[tuple[str, int]]]
    batches: dict[str, Rate]  # of all failures, by what serial numbers begin with
    survival: Survival  # until the first failure, by time in service
    hazard: list[tuple[float, float, int, float, Interval]]  # age from, to, failures, hours, rate


def history_report(history: FailureHistory) -> HistoryReport:
    """Characterise a history, all of it."""
    count = len(history.units)
    spent_h = history.exposure_s(-np.inf, np.inf) / HOUR_S
    kinds = {
        name: rate_of(
            np.bincount(history.event_unit[history.of_kind(name)], minlength=count), spent_h
        )
        for name in history.kinds
    }
    first_s = _first_s(history)
    ages, failed = _lives(history, first_s)
    return HistoryReport(
        basis=history.basis,
        exposure_h=float(spent_h.sum()),
        kinds=kinds,
        worst={name: _worst(history, name) for name in history.kinds},
        batches=_batches(history, spent_h),
        survival=kaplan_meier(ages / DAY_S, failed),
        hazard=_hazard(history),
    )


def _worst(history: FailureHistory, kind: str) -> list[tuple[str, int]]:
    counts = np.bincount(history.event_unit[history.of_kind(kind)], minlength=len(history.units))
    order = np.argsort(-counts, kind="stable")[:10]
    return [(history.units[i], int(counts[i])) for i in order if counts[i]]


def _batches(history: FailureHistory, spent_h: NDArray[np.float64]) -> dict[str, Rate]:
    """Return rates by the longest beginning of the names of units that has few values."""
    counts = np.bincount(history.event_unit, minlength=len(history.units))
    for letters in range(_LETTERS, 1, -1):
        names = np.array([unit[:letters] for unit in history.units])
        values = np.unique(names)
        if 1 < len(values) <= _MOST_BATCHES:
            return {
                str(each): rate_of(counts[names == each], spent_h[names == each]) for each in values
            }
    return {}


def _first_s(history: FailureHistory) -> NDArray[np.float64]:
    """Return when each unit failed first; infinite where it never did."""
    first = np.full(len(history.units), np.inf)
    np.minimum.at(first, history.event_unit, history.event_s)
    return first


def _lives(
    history: FailureHistory, first_s: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the time in service of each unit until its first failure or its end."""
    until = np.minimum(history.stay_to_s, first_s[history.stay_unit])
    inside = np.clip(until - history.stay_from_s, 0.0, None)
    ages = np.bincount(history.stay_unit, inside, len(history.units)).astype(np.float64)
    return ages, np.isfinite(first_s)


def _hazard(history: FailureHistory) -> list[tuple[float, float, int, float, Interval]]:
    """Return failures per time by age since the first stay of each unit."""
    since = np.full(len(history.units), np.inf)
    np.minimum.at(since, history.stay_unit, history.stay_from_s)
    ages = (history.event_s - since[history.event_unit]) / HOUR_S
    entered = (history.stay_from_s - since[history.stay_unit]) / HOUR_S
    left = (history.stay_to_s - since[history.stay_unit]) / HOUR_S
    edges = np.linspace(0.0, float(left.max()), _BANDS + 1)
    rows = hazard_by_age(ages[np.isfinite(ages)], (entered, left), edges)
    return [
        (low * HOUR_S / DAY_S, high * HOUR_S / DAY_S, failures, hours, rate)
        for (failures, hours, rate), low, high in zip(rows, edges[:-1], edges[1:], strict=True)
    ]
