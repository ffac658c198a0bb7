"""How good answers are: F1 of each class, all classes alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["macro_f1"]


def macro_f1(truth: NDArray[np.str_], said: NDArray[np.str_]) -> float:
    """Return the mean F1 of the classes that are there; 0 if there is nothing."""
    classes = np.unique(truth)
    if not len(classes):
        return 0.0
    found = []
    for each in classes:
        right = int(((truth == each) & (said == each)).sum())
        found.append(2 * right / int((truth == each).sum() + (said == each).sum()))
    return float(np.mean(found))
