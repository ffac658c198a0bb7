"""Conformal limits: quantiles of what runs that a model has not seen were off by."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

__all__ = ["conformal_limit", "least_scores", "pinball"]

Floats = NDArray[np.float64]


def least_scores(share: float) -> int:
    """Return how many scores a limit needs that holds in `share` of cases.

    >>> least_scores(0.9)
    9
    """
    return ceil(share / (1.0 - share) - 1e-9)


def conformal_limit(scores: Floats, share: float) -> tuple[float, bool]:
    """Return an upper limit of the next score that holds with probability `share`, and whether.

    With too few scores nothing holds: the largest distance from 0 then, enlarged.
    """
    count = len(scores)
    if count == 0:
        return float("inf"), False
    rank = ceil((count + 1) * share - 1e-9)
    if rank <= count:
        return float(np.sort(scores)[rank - 1]), True
    missing = least_scores(share) / count
    return float(np.max(np.abs(scores))) * missing, False


def pinball(residuals: Floats, shares: tuple[float, ...] = (0.1, 0.5, 0.9)) -> float:
    """Return the mean pinball loss of a value shifted to each quantile of its residuals."""
    losses = []
    for share in shares:
        left = residuals - np.quantile(residuals, share)
        losses.append(float(np.mean(np.maximum(share * left, (share - 1.0) * left))))
    return float(np.mean(losses))
