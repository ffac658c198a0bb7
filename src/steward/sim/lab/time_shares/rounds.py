"""Choice of units for the next round: types in turn, units by priority, while GPUs last."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.sim.lab.time_shares.accounts import ShareAccounts

__all__ = ["choose", "follow"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def choose(ledger: ShareAccounts, *, order: Ints, capacity: Floats, fills_idle: bool) -> Ints:
    """Return the type each unit holds in the next round, or -1."""
    priority = ledger.priorities()
    ranked = np.empty((len(order), len(priority)), np.int64)
    for k, kind in enumerate(order):
        ranked[k] = np.lexsort(
            (-ledger.share[:, kind], -ledger.deficit_s[:, kind], -priority[:, kind])
        )
    may = ledger.runnable()
    if not fills_idle:
        may &= priority > 0.0
    return _take(order, ranked, ledger.first, ledger.second, ledger.gpus, may, capacity.copy())


def follow(
    ledger: ShareAccounts, *, order: Ints, capacity: Floats, planned: Ints, rank: Floats
) -> Ints:
    """Return the type each unit holds: as planned, then GPUs left over by rank."""
    left = capacity.copy()
    able = ledger.runnable()
    ranked = np.argsort(-rank[ledger.first], kind="stable")
    ranked = np.repeat(ranked[None, :], len(order), axis=0)
    sure = able & (planned[:, None] == np.arange(len(capacity)))
    chosen = _take(order, ranked, ledger.first, ledger.second, ledger.gpus, sure, left)
    rest = able & (chosen < 0)[:, None]
    extra = _take(order, ranked, ledger.first, ledger.second, ledger.gpus, rest, left)
    return np.where(chosen >= 0, chosen, extra)


@njit
def _take(  # noqa: PLR0913, PLR0917 - columns of the ledger, as arrays
    order: Ints,
    ranked: Ints,
    first: Ints,
    second: Ints,
    gpus: Floats,
    may: Bools,
    left: Floats,
) -> Ints:
    """Walk each type's ranking; a job runs once, whether alone or in a pair. Changes `left`."""
    chosen = np.full(len(first), -1, np.int64)
    taken = np.zeros(len(gpus), np.bool_)
    for k in range(len(order)):
        kind = order[k]
        for i in ranked[k]:
            if left[kind] <= 1e-9:
                break
            job, other = first[i], second[i]
            if taken[job] or (other >= 0 and taken[other]) or not may[i, kind]:
                continue
            if gpus[job] > left[kind] + 1e-9:
                continue
            left[kind] -= gpus[job]
            taken[job] = True
            if other >= 0:
                taken[other] = True
            chosen[i] = kind
    return chosen
