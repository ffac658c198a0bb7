"""Which units have more faults than their like: by exposure, never by raw counts.

A unit's rate is unknown; it comes from one of two Gamma distributions, that of normal units or that
of lemons. Counts over exposure are Poisson, so that the posterior is a mixture of two Gammas again
(Gamma-Poisson). The two, and how common lemons are, are fitted to the fleet (empirical Bayes);
until it has shown much, published figures count as units of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, lgamma, log
from typing import NamedTuple

__all__ = ["PUBLISHED", "Interval", "RatePrior", "UnitRate", "fit", "poisson_interval"]

_ROUNDS = 60
_PSEUDO_UNITS = 50.0  # that the published figures count as
_LEAST_FACTOR = 5.0  # a lemon has at least so many times the faults of a normal unit


class Interval(NamedTuple):
    """A rate, and the range it lies in with 95 % confidence."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRate:
    """What is believed of the rate of one unit."""

    mean: float
    lemon_probability: float
    excess: float  # of the mean above that of normal units


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePrior:
    """Rates of a fleet's units: faults per day of normal ones and lemons, and how common these are.

    `shape` says how alike units of one kind are: the larger, the more.
    """

    normal: float
    lemon: float
    lemon_share: float
    shape: float = 2.0

    def unit(self, faults: int, days: float) -> UnitRate:
        """Return the posterior of a unit with so many faults in so much exposure.

        Without exposure there is nothing but the prior: faults that no time belongs to say nothing.
        """
        if not days > 0.0:
            faults, days = 0, 0.0
        lemon = self._lemon_probability(faults, days)
        normal_mean = self._mean(self.normal, faults, days)
        lemon_mean = self._mean(self.lemon, faults, days)
        mean = (1.0 - lemon) * normal_mean + lemon * lemon_mean
        return UnitRate(
            mean=mean, lemon_probability=lemon, excess=max(0.0, lemon * (lemon_mean - self.normal))
        )

    def _mean(self, rate: float, faults: int, days: float) -> float:
        return (self.shape + faults) / (self.shape / rate + days)

    def _lemon_probability(self, faults: int, days: float) -> float:
        odds = log(self.lemon_share) - log(1.0 - self.lemon_share)
        odds += _log_marginal(faults, days, self.lemon, self.shape)
        odds -= _log_marginal(faults, days, self.normal, self.shape)
        return 1.0 / (1.0 + exp(-odds)) if odds > -700.0 else 0.0


# Meta's research clusters: 6.5 and 2.3 failures in 1,000 node-days; 1.2 to 1.7 % of the nodes were
# lemons, and without them failures of jobs of 512 and more GPUs fell from 14 to 4 %: they had some
# 30 to 100 times the failures of others.
PUBLISHED = RatePrior(normal=0.003, lemon=0.15, lemon_share=0.015)


def fit(faults: Sequence[int], days: Sequence[float], *, start: RatePrior = PUBLISHED) -> RatePrior:
    """Return what a fleet's own units say of it, by expectation and maximisation.

    Units without exposure are left out. What was believed before counts as 50 units, each seen for
    as long as the mean unit.
    """
    seen = [(count, time) for count, time in zip(faults, days, strict=True) if time > 0.0]
    if not seen:
        return start
    mean_days = sum(time for _, time in seen) / len(seen)
    prior = start
    for _ in range(_ROUNDS):
        before = prior
        prior = _step(prior, seen, start, mean_days)
        if abs(log(prior.lemon / before.lemon)) + abs(log(prior.normal / before.normal)) < 1e-6:
            break
    return prior


def _step(
    prior: RatePrior, seen: Sequence[tuple[int, float]], start: RatePrior, mean_days: float
) -> RatePrior:
    units = [_PSEUDO_UNITS * (1.0 - start.lemon_share), _PSEUDO_UNITS * start.lemon_share]
    times = [each * mean_days for each in units]
    counts = [times[0] * start.normal, times[1] * start.lemon]
    for count, time in seen:
        lemon = prior.unit(count, time).lemon_probability
        for kind, share in enumerate((1.0 - lemon, lemon)):
            units[kind] += share
            counts[kind] += share * count
            times[kind] += share * time
    normal = counts[0] / times[0]
    return RatePrior(
        normal=normal,
        lemon=max(counts[1] / times[1], _LEAST_FACTOR * normal),
        lemon_share=units[1] / (units[0] + units[1]),
        shape=prior.shape,
    )


def _log_marginal(faults: int, days: float, rate: float, shape: float) -> float:
    """Return how likely a count is (negative binomial), up to what both kinds have in common."""
    if days <= 0.0:
        return 0.0
    per_day = shape / rate
    return (
        lgamma(shape + faults)
        - lgamma(shape)
        + shape * log(per_day / (per_day + days))
        - faults * log(per_day + days)
    )


def poisson_interval(count: int, exposure: float, *, confidence: float = 0.95) -> Interval:
    """Return a rate with its exact interval (Garwood). Without exposure, all rates are possible.

    >>> tuple(round(each, 3) for each in poisson_interval(1, 10.0))
    (0.003, 0.1, 0.557)
    """
    if not exposure > 0.0:
        return Interval(low=0.0, mid=float("nan"), high=inf)
    from scipy.special import gammaincinv  # noqa: PLC0415 - slow to load, and not for every turn

    tail = (1.0 - confidence) / 2.0
    low = float(gammaincinv(count, tail)) if count > 0 else 0.0
    high = float(gammaincinv(count + 1, 1.0 - tail))
    return Interval(low=low / exposure, mid=count / exposure, high=high / exposure)
