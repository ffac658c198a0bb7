"""How long units live: survival by age with units that came late or left alive, and hazards."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from steward.learn.reliability.intervals import poisson_rate
from steward.model.outcome import Interval

__all__ = ["Survival", "hazard_by_age", "kaplan_meier"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """The share that is alive after each age at which one failed, with 95 % bounds."""

    age: Floats
    share: Floats
    low: Floats
    high: Floats
    units: int
    failures: int

    def at(self, age: float) -> Interval:
        """Return the share that is alive at an age."""
        place = int(np.searchsorted(self.age, age, "right")) - 1
        if place < 0:
            return Interval(low=1.0, mid=1.0, high=1.0)
        values = (self.low[place], self.share[place], self.high[place])
        low, mid, high = (float(each) for each in values)
        return Interval(low=low, mid=mid, high=high)

    @property
    def median(self) -> float:
        """Return the age by which half have failed; not a number where that was not seen."""
        below = np.flatnonzero(self.share <= 0.5)
        return float(self.age[below[0]]) if len(below) else float("nan")


def kaplan_meier(ages: Floats, failed: Bools, entered: Floats | None = None) -> Survival:
    """Return Kaplan and Meier's estimate; what has not failed left alive at its age.

    `entered` is the age at which each came under observation. Bounds are Greenwood's, on the scale
    of log(-log), so that they stay within 0 and 1.
    """
    ages = np.asarray(ages, np.float64)
    entered = np.zeros(len(ages)) if entered is None else np.asarray(entered, np.float64)
    kept = ages > entered
    ages, failed, entered = ages[kept], np.asarray(failed, np.bool_)[kept], entered[kept]
    times, deaths = np.unique(ages[failed], return_counts=True)
    gone = np.searchsorted(np.sort(ages), times, "left")
    come = np.searchsorted(np.sort(entered), times, "left")
    risk = (come - gone).astype(np.float64)
    share = np.asarray(np.cumprod(1 - deaths / risk), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(deaths / (risk * (risk - deaths)))
        width = _Z95 * np.sqrt(variance) / np.abs(np.log(share))
        low, high = share ** np.exp(width), share ** np.exp(-width)
    over = ~np.isfinite(width)  # where all have failed: nothing more is known
    return Survival(
        age=times,
        share=share,
        low=np.where(over, 0.0, low),
        high=np.where(over, np.where(share > 0, 1.0, _last(high)), high),
        units=len(ages),
        failures=int(failed.sum()),
    )


def _last(high: Floats) -> float:
    known = high[np.isfinite(high)]
    return float(known[-1]) if len(known) else 1.0


def hazard_by_age(
    ages: Floats, exposure: tuple[Floats, Floats], edges: Floats
) -> list[tuple[int, float, Interval]]:
    """Return failures, exposure and rate per band of age.

    `ages` are those at failures; `exposure` the ages at which each unit entered and left.
    """
    entered, left = exposure
    found = []
    for low, high in pairwise(edges.tolist()):
        spent = float(np.clip(np.minimum(left, high) - np.maximum(entered, low), 0.0, None).sum())
        count = int(((ages >= low) & (ages < high)).sum())
        found.append((count, spent, poisson_rate(count, spent)))
    return found
