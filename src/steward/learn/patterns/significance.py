"""How unlikely a pattern is by chance, and what is left of that after many were tested."""

from __future__ import annotations

from enum import Enum
from math import exp, lgamma

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from steward.compiled import njit

__all__ = [
    "FEWEST_RUNS",
    "Control",
    "adjusted",
    "clustered_p",
    "fisher_greater",
    "fisher_two_sided",
]

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
FEWEST_RUNS = 5  # with fewer, their scatter is not known well enough


class Control(Enum):
    """How the share of false discoveries is kept below a level.

    Benjamini-Hochberg where tests are independent or depend on each other positively;
    Benjamini-Yekutieli whatever they do, which costs power.
    """

    BH = "bh"
    BY = "by"


def adjusted(p_values: Floats, control: Control = Control.BH) -> Floats:
    """Return q-values: the share of false ones among all that are at least as significant.

    Those that are no number were not tested, and stay so.
    """
    q_values = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    if not len(tested):
        return q_values
    order = tested[np.argsort(p_values[tested], kind="stable")]
    many = len(order)
    factor = float(np.sum(1 / np.arange(1, many + 1))) if control is Control.BY else 1.0
    scaled = p_values[order] * (many * factor) / np.arange(1, many + 1)
    q_values[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return q_values


def fisher_greater(both: Numbers, one: Numbers, other: Numbers, total: int) -> Floats:
    """Return Fisher's exact p of at least `both` in common, by the sizes of two sets of `total`."""
    found = np.empty(len(both), np.float64)
    _fisher(both.astype(np.int64), one.astype(np.int64), other.astype(np.int64), total, found)
    return found


def fisher_two_sided(both: Numbers, one: Numbers, other: Numbers, total: int) -> Floats:
    """Return twice the smaller of both one-sided p-values, at most 1."""
    more = fisher_greater(both, one, other, total)
    fewer = fisher_greater(one - both, one, total - other, total)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(more, fewer)), np.float64)


def clustered_p(total: Floats, squares: Floats, runs: int) -> Floats:
    """Return the one-sided p of a positive sum over runs, by their scatter (Student's t).

    What is summed is, per run, what was seen less what independence would give; `squares` is the
    sum of its squares. Windows of one run resemble each other: runs are what counts, however many
    windows they have.
    """
    if runs < FEWEST_RUNS:
        return np.full(total.shape, np.nan)
    scatter = np.maximum(squares - total**2 / runs, 0.0) * runs / (runs - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = total / np.sqrt(scatter)
    known = np.nan_to_num(score, nan=0.0, posinf=np.inf)
    return np.asarray(stats.t.sf(known, runs - 1), np.float64)


@njit
def _log_choose(many: float, few: float) -> float:
    return lgamma(many + 1.0) - lgamma(few + 1.0) - lgamma(many - few + 1.0)


@njit
def _fisher(both: Numbers, one: Numbers, other: Numbers, total: int, found: Floats) -> None:
    """Write the upper tail of each hypergeometric distribution into `found`.

    Terms are added from `both` away from the middle, until they no longer count.
    """
    for i in range(len(both)):
        low, high = max(0, one[i] + other[i] - total), min(one[i], other[i])
        k = both[i]
        if k <= low:
            found[i] = 1.0
            continue
        if k > high:
            found[i] = 0.0
            continue
        upper = k * total > one[i] * other[i]
        at = k if upper else k - 1
        log_first = (
            _log_choose(one[i], at)
            + _log_choose(total - one[i], other[i] - at)
            - _log_choose(total, other[i])
        )
        term, tail = 1.0, 1.0
        while term > 1e-17 * tail:
            rest = total - one[i] - other[i] + at
            if upper:
                term *= (one[i] - at) * (other[i] - at) / ((at + 1.0) * (rest + 1.0))
                at += 1
            else:
                term *= at * rest / ((one[i] - at + 1.0) * (other[i] - at + 1.0))
                at -= 1
            tail += term
        share = exp(log_first) * tail
        found[i] = min(1.0, share) if upper else max(0.0, 1.0 - share)
