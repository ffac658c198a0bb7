"""Priority classes as weights: how much nearer to its end a job counts for its class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["class_weights"]

_MOST_CLASSES = 16  # more distinct numbers are no classes: Slurm's priorities are sums of factors


def class_weights(priority: NDArray[np.int64], class_weight: float) -> NDArray[np.float64]:
    """Return each job's weight: one class up counts `class_weight` times as much.

    Only the order of the classes matters, not their numbers.

    >>> class_weights(np.array([0, 100, 0]), 10.0)
    array([ 1., 10.,  1.])
    """
    classes, index = np.unique(priority, return_inverse=True)
    if len(classes) > _MOST_CLASSES:
        return np.ones(len(priority))
    weights: NDArray[np.float64] = class_weight ** index.reshape(-1).astype(np.float64)
    return weights
