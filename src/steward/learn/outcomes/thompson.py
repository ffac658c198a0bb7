"""Discounted Bayesian linear regression of each action's reward, and the odds of being the best.

The reward of an arm in a context x is x . theta plus noise. What was measured long ago counts
less. Nothing here reads a clock; randomness comes from a key that a caller gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DRAWS", "ArmPosterior", "best_shares_of_many", "rng_of", "with_floor"]

Floats = NDArray[np.float64]
DRAWS = 1000
FEW_DRAWS = 200  # where thousands of contexts are evaluated
_LEAST_VARIANCE = 1e-4


def rng_of(key: str) -> np.random.Generator:
    """Return a random generator that depends on the key alone.

    >>> float(rng_of("a").random()) == float(rng_of("a").random())
    True
    """
    return np.random.default_rng(int.from_bytes(blake2b(key.encode(), digest_size=8).digest()))


@dataclass(slots=True, kw_only=True)
class ArmPosterior:
    """What is known of one arm. `fade` is the weight that everything keeps at each new reward."""

    size: int  # of a context
    fade: float = 0.995
    prior: float = 1.0  # precision of each coefficient, around zero
    precision: Floats = field(init=False)
    sums: Floats = field(init=False)  # of context times reward
    weight: float = 0.0  # effective number of rewards
    rewards: float = 0.0  # faded sum
    squares: float = 0.25  # of what was not predicted, faded: a prior of one reward
    seen: float = 1.0

    def __post_init__(self) -> None:
        self.precision = np.eye(self.size) * self.prior
        self.sums = np.zeros(self.size)

    def add(self, context: Floats, reward: float) -> float:
        """Take in a reward; return by how much it was mispredicted."""
        error = reward - self.mean(context)
        self.forget(self.fade)
        self.precision += np.outer(context, context)
        self.sums += context * reward
        self.weight += 1.0
        self.rewards += reward
        self.squares = self.squares * self.fade + error * (reward - self.mean(context))
        self.seen = self.seen * self.fade + 1.0
        return error

    def forget(self, kept: float) -> None:
        """Let everything known count for so much of what it did; the prior stays."""
        self.precision *= kept
        self.precision += (1.0 - kept) * self.prior * np.eye(self.size)
        self.sums *= kept
        self.weight *= kept
        self.rewards *= kept

    def fit(self, contexts: Floats, rewards: Floats) -> None:
        """Learn from many rewards at once, the newest last; on an arm that knows nothing yet."""
        weights = self.fade ** np.arange(len(rewards) - 1, -1, -1.0)
        weighted = contexts * weights[:, None]
        self.precision = self.prior * np.eye(self.size) + weighted.T @ contexts
        self.sums = weighted.T @ rewards
        self.weight, self.rewards = float(weights.sum()), float(weights @ rewards)
        rest = rewards - contexts @ self.coefficients
        self.squares = 0.25 + float(weights @ (rest * rest))
        self.seen = 1.0 + self.weight

    def mean(self, context: Floats) -> float:
        """Return the expected reward."""
        return float(self.beliefs(context[None])[0][0])

    def deviation(self, context: Floats) -> float:
        """Return how uncertain the expected reward is."""
        return float(self.beliefs(context[None])[1][0])

    def beliefs(self, contexts: Floats) -> tuple[Floats, Floats]:
        """Return the expected reward in each context, and its standard deviation."""
        inverse = np.linalg.inv(self.precision)
        noise = max(self.squares / self.seen, _LEAST_VARIANCE)
        variance = np.einsum("ij,jk,ik->i", contexts, inverse, contexts)
        return contexts @ (inverse @ self.sums), np.sqrt(noise * np.maximum(variance, 0.0))

    @property
    def coefficients(self) -> Floats:
        """What each part of a context adds to the reward."""
        return np.asarray(np.linalg.solve(self.precision, self.sums), np.float64)

    def save_state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        names = ("weight", "rewards", "squares", "seen")
        numbers = {name: getattr(self, name) for name in names}
        return {"precision": self.precision.tolist(), "sums": self.sums.tolist(), **numbers}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        precision = np.asarray(state["precision"], np.float64).reshape(self.size, self.size)
        self.sums = np.asarray(state["sums"], np.float64).reshape(self.size)
        self.precision = precision.copy()
        for name in ("weight", "rewards", "squares", "seen"):
            setattr(self, name, float(state[name]))


def best_shares_of_many(
    means: Floats, deviations: Floats, key: str, *, draws: int = FEW_DRAWS
) -> Floats:
    """Return how often each arm is the best of joint draws, for every row of contexts x arms.

    These are Thompson's probabilities. The rows share their draws.
    """
    normal = rng_of(key).standard_normal((draws, 1, means.shape[1]))
    found = np.zeros(means.shape)
    for part in np.array_split(np.arange(len(means)), -(-len(means) // 500) or 1):
        best = (normal * deviations[part] + means[part]).argmax(axis=2)
        for arm in range(means.shape[1]):
            found[part, arm] = np.mean(best == arm, axis=0)
    return found


def with_floor(shares: Floats, floor: float) -> Floats:
    """Return probabilities that are at least `floor` / arms each.

    >>> with_floor(np.array([1.0, 0.0]), 0.1).tolist()
    [0.95, 0.05]
    """
    found: Floats = (1.0 - floor) * shares + floor / shares.shape[-1]
    return found
