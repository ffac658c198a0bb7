"""Rates of events per exposure, with and without the units that carry most of them.

Few units carry most errors. A pooled rate is then that of the worst ones, and Poisson's interval
is too narrow: so units are drawn anew for a second interval, and the rate without them is beside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

from steward.learn.reliability.intervals import poisson_rate
from steward.model.outcome import Interval

__all__ = ["Rate", "rate_of", "worst_units"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_DRAWS = 400
_CHANCE = 0.05  # that any unit is called worst although all have one rate
_ROUNDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Events per hour of exposure. Intervals: 95 %.

    `exact` holds where events come independently; `between_units` where units differ, too.
    """

    count: int
    exposure_h: float
    units: int
    units_with: int
    exact: Interval
    between_units: Interval
    dispersion: float  # variance over mean of the counts, as of one exposure; 1 is Poisson's
    dispersed_p: float  # of as much dispersion if all units had one rate
    worst: tuple[int, ...]  # places of units that no common rate explains, the worst first
    without_worst: Interval
    without_worst_count: int

    @property
    def mtbe_h(self) -> Interval:
        """Return exposure per event, which is what people compare."""
        low, mid, high = (_inverse(x) for x in (self.exact.high, self.exact.mid, self.exact.low))
        return Interval(low=low, mid=mid, high=high)


def rate_of(counts: Ints, exposure_h: Floats, *, seed: int = 0) -> Rate:
    """Return the rate of units by their counts and exposures, one of each per unit."""
    counts = np.asarray(counts, np.int64)
    exposure_h = np.asarray(exposure_h, np.float64)
    total, hours = int(counts.sum()), float(exposure_h.sum())
    worst = worst_units(counts, exposure_h)
    rest = np.ones(len(counts), np.bool_)
    rest[worst] = False
    dispersion, dispersed_p = _dispersion(counts, exposure_h)
    return Rate(
        count=total,
        exposure_h=hours,
        units=len(counts),
        units_with=int((counts > 0).sum()),
        exact=poisson_rate(total, hours),
        between_units=_drawn(counts, exposure_h, seed),
        dispersion=dispersion,
        dispersed_p=dispersed_p,
        worst=tuple(worst.tolist()),
        without_worst=poisson_rate(int(counts[rest].sum()), float(exposure_h[rest].sum())),
        without_worst_count=int(counts[rest].sum()),
    )


def worst_units(counts: Ints, exposure_h: Floats) -> Ints:
    """Return units that have more events than the rate of all others makes likely, worst first.

    Those found are left out of the rate that the next ones are compared with.
    """
    kept = exposure_h > 0
    limit = _CHANCE / max(1, int(kept.sum()))
    found = np.zeros(len(counts), np.bool_)
    for _ in range(_ROUNDS):
        rest = kept & ~found
        hours = float(exposure_h[rest].sum())
        if not hours:
            break
        mean = (float(counts[rest].sum()) + 0.5) / hours * exposure_h
        # The chance of at least as many events, by the incomplete gamma function.
        chance = np.where(counts > 0, gammainc(np.maximum(counts, 1), mean), 1.0)
        new = rest & (chance < limit) & (counts > 1)
        if not new.any():
            break
        found |= new
    places = np.flatnonzero(found)
    order = np.argsort(-counts[places] / exposure_h[places], kind="stable")
    by_count = np.argsort(-counts[places[order]], kind="stable")
    return np.asarray(places[order][by_count], np.int64)


def _dispersion(counts: Ints, exposure_h: Floats) -> tuple[float, float]:
    """Return Pearson's dispersion and its chance under one rate."""
    kept = exposure_h > 0
    hours, total = float(exposure_h[kept].sum()), float(counts[kept].sum())
    freedom = int(kept.sum()) - 1
    if freedom < 1 or not total:
        return float("nan"), 1.0
    mean = total / hours * exposure_h[kept]
    chi2 = float(((counts[kept] - mean) ** 2 / mean).sum())
    return chi2 / freedom, float(gammaincc(freedom / 2, chi2 / 2))


def _drawn(counts: Ints, exposure_h: Floats, seed: int) -> Interval:
    """Return the rate and its interval with units drawn anew; never narrower than the exact one."""
    exact = poisson_rate(int(counts.sum()), float(exposure_h.sum()))
    some = np.flatnonzero((counts > 0) | (exposure_h > 0))
    if len(some) < 2 or not counts.any() or not exposure_h.any():
        return exact
    rng = np.random.default_rng(seed)
    rates = np.empty(_DRAWS)
    for i in range(_DRAWS):
        weights = rng.poisson(1.0, len(some))
        hours = float(weights @ exposure_h[some])
        rates[i] = float(weights @ counts[some]) / hours if hours else np.nan
    low, high = np.nanpercentile(rates, [2.5, 97.5])
    return Interval(
        low=min(float(low), exact.low), mid=exact.mid, high=max(float(high), exact.high)
    )


def _inverse(rate: float) -> float:
    return 1 / rate if rate else float("inf")
