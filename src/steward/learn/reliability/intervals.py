"""Exact intervals of counts: few events prove little, and none is not a rate of zero."""

from __future__ import annotations

from math import inf, nan

from scipy.special import betaincinv, gammaincinv

from steward.model.outcome import Interval

__all__ = ["poisson_rate", "rate_ratio", "share"]

CONFIDENCE = 0.95


def poisson_rate(count: int, exposure: float, *, confidence: float = CONFIDENCE) -> Interval:
    """Return events per exposure with Garwood's interval; without exposure all is possible.

    >>> found = poisson_rate(0, 100.0)
    >>> found.low, round(found.high, 4)
    (0.0, 0.0369)
    """
    if not exposure > 0:
        return Interval(low=0.0, mid=nan, high=inf)
    tail = (1 - confidence) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    high = float(gammaincinv(count + 1, 1 - tail))
    return Interval(low=low / exposure, mid=count / exposure, high=high / exposure)


def share(count: int, of: int, *, confidence: float = CONFIDENCE) -> Interval:
    """Return a share with the interval of Clopper and Pearson; of nothing all is possible."""
    if of <= 0:
        return Interval(low=0.0, mid=nan, high=1.0)
    tail = (1 - confidence) / 2
    low = float(betaincinv(count, of - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return Interval(low=low, mid=count / of, high=high)


def rate_ratio(
    first: tuple[int, float], second: tuple[int, float], *, confidence: float = CONFIDENCE
) -> Interval:
    """Return how many times the second rate the first is; each is a count and its exposure.

    Given how many events there were in both, the first's are binomial: the interval is exact.
    """
    (a, exposure_a), (b, exposure_b) = first, second
    if not (exposure_a > 0 and exposure_b > 0) or a + b == 0:
        return Interval(low=0.0, mid=nan, high=inf)
    part = share(a, a + b, confidence=confidence)
    scale = exposure_b / exposure_a
    return Interval(
        low=_odds(part.low) * scale, mid=_odds(part.mid) * scale, high=_odds(part.high) * scale
    )


def _odds(chance: float) -> float:
    return chance / (1 - chance) if chance < 1 else inf
