"""What another policy would have earned on choices that were logged with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError

__all__ = [
    "ChoiceLog",
    "Comparison",
    "Estimate",
    "bernstein_low",
    "compare",
    "effective_size",
    "estimates",
    "median_of_means",
    "reward_model",
]

Floats = NDArray[np.float64]
Array = NDArray[Any]
_RESAMPLES = 500
_SWITCH_ABOVE = 10.0
_RIDGE = 1.0
_FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceLog:
    """Choices with what they earned, oldest first; `chance` is that of the arm that was taken."""

    contexts: Floats  # choices x features
    arms: Array
    chance: Floats
    rewards: Floats
    block: Array  # of choices that are not independent, as those of a day

    def __post_init__(self) -> None:
        rows = len(self.contexts)
        if not rows == len(self.arms) == len(self.chance) == len(self.rewards) == len(self.block):
            raise StewardError("columns of a log differ in length", where="choices", hint="")
        if np.any(self.chance <= 0.0) or np.any(self.chance > 1.0):
            raise StewardError(
                "a logged choice has no probability",
                where="choices",
                hint="a choice is logged with the probability that it was made with, above 0",
            )

    def __len__(self) -> int:
        return len(self.arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The mean reward of a policy, by one estimator."""

    method: str
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How much more than the old policy a new one would have earned, doubly robust."""

    choices: int
    effective: float  # number of choices that the answer really rests on
    new: float
    old: float
    low: float  # of the difference, at 95 %
    high: float
    estimates: tuple[Estimate, ...] = ()  # of the new policy, by every method

    def holds(self, least_effective: float) -> bool:
        """Return whether the new policy is surely better, on enough evidence."""
        return self.effective >= least_effective and self.low > 0.0


def effective_size(weights: Floats) -> float:
    """Return how many unweighted choices are worth as much."""
    squares = float(np.sum(weights * weights))
    return float(np.sum(weights)) ** 2 / squares if squares > 0 else 0.0


def reward_model(log_: ChoiceLog, arms: int) -> Floats:
    """Return the expected reward of each arm in each logged context, from the other folds."""
    folds = np.unique(log_.block, return_inverse=True)[1] % _FOLDS
    found = np.zeros((len(log_), arms))
    size = log_.contexts.shape[1]
    for fold in np.unique(folds):
        for arm in range(arms):
            rest = (folds != fold) & (log_.arms == arm)
            x, r = log_.contexts[rest], log_.rewards[rest]
            theta = np.linalg.solve(x.T @ x + _RIDGE * np.eye(size), x.T @ r)
            found[folds == fold, arm] = log_.contexts[folds == fold] @ theta
    return np.clip(found, -1.0, 1.0)


def estimates(log_: ChoiceLog, policy: Floats, expected: Floats) -> tuple[Estimate, ...]:
    """Return the mean reward of a policy (choices x arms) by IPS, SNIPS, DR and SWITCH."""
    weights = _weights(log_, policy)
    rest = log_.rewards - expected[np.arange(len(log_)), log_.arms]
    direct = np.sum(policy * expected, axis=1)
    kept = np.where(weights <= _SWITCH_ABOVE, weights, 0.0)
    total = float(weights.sum())
    normalised = float(np.sum(weights * log_.rewards)) / total if total > 0 else 0.0
    return (
        Estimate(method="IPS", mean=float(np.mean(weights * log_.rewards))),
        Estimate(method="SNIPS", mean=normalised),
        Estimate(method="DR", mean=float(np.mean(direct + weights * rest))),
        Estimate(method="SWITCH", mean=float(np.mean(direct + kept * rest))),
    )


def compare(log_: ChoiceLog, new: Floats, old: Floats) -> Comparison:
    """Return what the doubly robust estimate says of the difference of two policies.

    Its range is a bootstrap over blocks, since choices of a day are alike.
    """
    if not len(log_):
        return Comparison(choices=0, effective=0.0, new=0.0, old=0.0, low=0.0, high=0.0)
    expected = reward_model(log_, new.shape[1])
    rest = log_.rewards - expected[np.arange(len(log_)), log_.arms]
    gain_new, gain_old = (
        np.sum(policy * expected, axis=1) + _weights(log_, policy) * rest for policy in (new, old)
    )
    low, high = _bootstrap(gain_new - gain_old, log_.block)
    return Comparison(
        choices=len(log_),
        effective=effective_size(_weights(log_, new)),
        new=float(gain_new.mean()),
        old=float(gain_old.mean()),
        low=low,
        high=high,
        estimates=estimates(log_, new, expected),
    )


def _weights(log_: ChoiceLog, policy: Floats) -> Floats:
    found: Floats = policy[np.arange(len(log_)), log_.arms] / log_.chance
    return found


def _bootstrap(values: Floats, block: Array) -> tuple[float, float]:
    """Return the range of the mean over resampled blocks, always the same for the same values."""
    _, place = np.unique(block, return_inverse=True)
    sums, counts = np.bincount(place, weights=values), np.bincount(place)
    if len(sums) < 2:
        return -np.inf, np.inf
    picks = np.random.default_rng(17).integers(0, len(sums), (_RESAMPLES, len(sums)))
    means = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def bernstein_low(values: Floats, *, most: float, delta: float = 0.05) -> float:
    """Return a bound below the mean of independent values of at most `most` in size.

    >>> bernstein_low(np.ones(1000), most=1.0) > 0.98
    True
    """
    count, likely = len(values), log(3.0 / delta)
    spread = sqrt(2.0 * float(np.var(values)) * likely / count)
    return float(np.mean(values)) - spread - 3.0 * most * likely / count


def median_of_means(values: Floats, *, delta: float = 0.05) -> float:
    """Return a mean that a few wild values cannot move."""
    groups = min(len(values), ceil(8.0 * log(1.0 / delta)))
    return float(np.median([each.mean() for each in np.array_split(values, groups)]))
