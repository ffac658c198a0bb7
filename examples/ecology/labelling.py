"""Which crops an expert should look at: those the model doubts, and no two that are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Allowance", "choose", "doubt", "novelty"]

Floats = NDArray[np.float64]
CANDIDATES = 4  # per label: the most doubtful, of which the most different are taken


@dataclass(slots=True)
class Allowance:
    """Labels that may be bought: a share of what arrives, saved up while little is needed."""

    share: float
    saved: float = 0.0

    def arrive(self, crops: int) -> None:
        """Count crops that an expert could have been asked about."""
        self.saved += self.share * crops

    def take(self, wanted: int) -> int:
        """Return how many labels may be bought now, and take them off."""
        taken = min(wanted, int(self.saved))
        self.saved -= taken
        return taken


def doubt(shares: Floats) -> Floats:
    """Return 1 where the two likeliest classes are equally likely, 0 where one is certain."""
    if shares.shape[1] < 2:
        return np.zeros(len(shares))
    top = np.sort(shares, axis=1)[:, -2:]
    return np.asarray(1.0 - (top[:, 1] - top[:, 0]), np.float64)


def novelty(features: Floats, known: Floats) -> Floats:
    """Return the distance of each crop to the nearest labelled one, from 0 to 2."""
    if not len(known):
        return np.full(len(features), 2.0)
    near = _unit(features) @ _unit(known).T
    return np.asarray(np.sqrt(np.maximum(0.0, 2.0 - 2.0 * near)).min(axis=1), np.float64)


def choose(shares: Floats, features: Floats, known: Floats, count: int) -> list[int]:
    """Return which crops to label: doubtful or novel, then far from each other."""
    count = min(count, len(shares))
    if not count:
        return []
    doubts, far = doubt(shares), novelty(features, known)
    worth = doubts / max(doubts.mean(), 1e-9) + far / max(far.mean(), 1e-9)
    candidates = np.argsort(-worth, kind="stable")[: CANDIDATES * count]
    directions, nearest = _unit(features[candidates]), far[candidates].copy()
    weight = 0.2 + doubts[candidates]
    chosen: list[int] = []
    for _ in range(count):
        next_ = int(np.argmax(nearest * weight))
        chosen.append(int(candidates[next_]))
        near = directions @ directions[next_]
        nearest = np.minimum(nearest, np.sqrt(np.maximum(0.0, 2.0 - 2.0 * near)))
        nearest[np.isin(candidates, chosen)] = -1.0
    return chosen


def _unit(features: Floats) -> Floats:
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.maximum(lengths, 1e-9), np.float64)
