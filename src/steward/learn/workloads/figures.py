"""Figures of merit of a classifier: macro-F1, area under the curve, calibration error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["area_under_curve", "calibration_error", "macro_f1"]

Floats = NDArray[np.float64]
BINS = 8


def macro_f1(truth: Sequence[str], said: Sequence[str]) -> float | None:
    """Return the mean over the true kinds of F1; None without runs.

    >>> macro_f1(["a", "a", "b"], ["a", "b", "b"])
    0.6666666666666666
    """
    if not truth:
        return None
    names, found = np.array(truth), np.array(said)
    each = []
    for kind in np.unique(names):
        hits = int(((names == kind) & (found == kind)).sum())
        each.append(2.0 * hits / int((names == kind).sum() + (found == kind).sum()))
    return float(np.mean(each))


def area_under_curve(positive: Floats, negative: Floats) -> float | None:
    """Return the chance that a positive scores above a negative, ties counted half."""
    if not len(positive) or not len(negative):
        return None
    above = (positive[:, None] > negative[None, :]).mean()
    ties = (positive[:, None] == negative[None, :]).mean()
    return float(above + 0.5 * ties)


def calibration_error(probability: Floats, right: NDArray[np.bool_]) -> float | None:
    """Return the expected calibration error over bins that hold equally many."""
    if not len(probability):
        return None
    order = np.argsort(probability, kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    gaps = [abs(float(probability[p].mean() - right[p].mean())) * len(p) for p in parts]
    return sum(gaps) / len(order)
