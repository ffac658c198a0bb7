"""Conformal limits: quantiles of what runs that a model has not seen were off by."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

__all__ = ["conformal_limit", "least_scores", "pinball"]

Floats = NDArray[np.float64]
PRIOR = 0.2  # log error, before any is known
SAMPLES_SHARE = 0.75  # of samples of runs, for which a limit holds as promised


def least_scores(share: float) -> int:
    """Return how many scores a limit needs that holds in `share` of cases.

    >>> least_scores(0.9)
    9
    """
    return ceil(share / (1.0 - share) - 1e-9)


def conformal_limit(scores: Floats, share: float) -> tuple[float, bool]:
    """Return an upper limit of the next score that holds with probability `share`, and whether.

    Runs that limits are taken from are a sample, too: that limits hold as promised is to be so for
    three samples of four (exactly as often on average would be too seldom for half of them).

    With too few scores nothing is sure: Student's limit for errors about 0 then, as if one more
    score of `PRIOR` were known.
    """
    count = len(scores)
    rank = ceil((count + 1) * share - 1e-9)
    if rank <= count:
        from scipy.special import bdtrik  # noqa: PLC0415 - heavy

        sure = ceil(float(bdtrik(SAMPLES_SHARE, count, share)) - 1e-9) + 1
        return float(np.sort(scores)[min(max(rank, sure), count) - 1]), True
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy

    freedom = max(1, count)
    size = sqrt((float(np.sum(scores**2)) + PRIOR**2) / freedom)
    return size * float(stdtrit(freedom, share)), False


def pinball(residuals: Floats, *, centred: bool = True) -> float:
    """Return the mean pinball loss at 10, 50 and 90 %, of a value shifted to these quantiles.

    Without `centred` the value itself is the median.
    """
    losses = []
    for share in (0.1, 0.5, 0.9):
        at = 0.0 if share == 0.5 and not centred else np.quantile(residuals, share)
        left = residuals - at
        losses.append(float(np.mean(np.maximum(share * left, (share - 1.0) * left))))
    return float(np.mean(losses))
