"""Programs whose rows are jobs and pairs of jobs on the same GPUs. Solved by HiGHS.

A pair is a row of its own: it takes the GPUs of one job and moves both. There are many more rows
than jobs, so a simplex method is used; which of several optima it returns does not matter here,
because no published figure depends on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from steward.decide.scheduling.time_shares.problem import TimeShareProblem

__all__ = ["best_level", "best_sum"]

Floats = NDArray[np.float64]


def best_level(problem: TimeShareProblem, rate: Floats, *, scale: Floats) -> tuple[Floats, Floats]:
    """Return shares of jobs and pairs that raise the lowest of `scale * rate` most."""
    moved = _moved(problem, rate)
    jobs = len(problem)
    columns = moved.shape[1]
    limits, most = _limits(problem)
    rising = sparse.hstack([-sparse.diags(scale) @ moved, np.ones((jobs, 1))])
    limits = sparse.hstack([limits, sparse.csr_matrix((limits.shape[0], 1))])
    cost = np.zeros(columns + 1)
    cost[-1] = -1.0
    found = linprog(
        cost,
        A_ub=sparse.vstack([rising, limits]).tocsc(),
        b_ub=np.concatenate([np.zeros(jobs), most]),
        bounds=(0.0, None),
        method="highs",
    )
    return _apart(problem, found.x[:-1])


def best_sum(problem: TimeShareProblem, *, price: Floats) -> tuple[Floats, Floats]:
    """Return shares of jobs and pairs with the most steps/s per price; deadlines if possible."""
    moved = _moved(problem, problem.rate)
    worth = np.asarray(moved.sum(axis=0)).ravel() / np.tile(price, moved.shape[1] // len(price))
    limits, most = _limits(problem)
    owed = owed_rates(problem)
    due = owed > 0.0
    found = linprog(
        -worth,
        A_ub=sparse.vstack([limits, -moved[due]]).tocsc(),
        b_ub=np.concatenate([most, -owed[due]]),
        bounds=(0.0, 1.0),
        method="highs",
    )
    if found.x is None:  # the deadlines cannot all be kept: then as if there were none
        found = linprog(-worth, A_ub=limits, b_ub=most, bounds=(0.0, 1.0), method="highs")
    return _apart(problem, found.x)


def owed_rates(problem: TimeShareProblem) -> Floats:
    """Return the steps/s each job needs to end by its deadline; 0: it has none, or missed it."""
    left_s = problem.deadline_left_s
    due = np.isfinite(left_s) & (left_s > 0.0)
    return np.where(due, problem.steps_left / np.where(due, left_s, 1.0), 0.0)


def _moved(problem: TimeShareProblem, rate: Floats) -> sparse.csr_matrix:
    """Return (jobs, rows x types): how fast each row moves each job on each type."""
    jobs, types = rate.shape
    pairs = len(problem.pairs)
    column = np.arange(types)
    alone = np.arange(jobs)[:, None] * types + column
    shared = (jobs + np.arange(pairs))[:, None] * types + column
    entries = [(np.repeat(np.arange(jobs), types), alone.ravel(), rate.ravel())]
    for side in (0, 1):
        who = np.repeat(problem.pairs[:, side], types)
        entries.append((who, shared.ravel(), problem.pair_rate[:, :, side].ravel()))
    i, k, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    return sparse.csr_matrix((value, (i, k)), shape=(jobs, (jobs + pairs) * types))


def _limits(problem: TimeShareProblem) -> tuple[sparse.csr_matrix, Floats]:
    """Return the limits: no job more than all its time, no type more than its GPUs."""
    jobs, types = problem.rate.shape
    pairs = len(problem.pairs)
    rows = jobs + pairs
    column = np.arange(rows * types)
    who = np.concatenate([np.repeat(np.arange(jobs), types), np.repeat(problem.pairs[:, 0], types)])
    other = np.repeat(problem.pairs[:, 1], types)
    time = sparse.csr_matrix(
        (
            np.ones(len(column) + len(other)),
            (np.concatenate([who, other]), np.concatenate([column, column[jobs * types :]])),
        ),
        shape=(jobs, rows * types),
    )
    size = np.concatenate([problem.gpus, problem.gpus[problem.pairs[:, 0]]])
    held = sparse.csr_matrix(
        (np.repeat(size, types), (column % types, column)), shape=(types, rows * types)
    )
    return sparse.vstack([time, held]).tocsr(), np.concatenate([np.ones(jobs), problem.capacity])


def _apart(problem: TimeShareProblem, shares: Floats) -> tuple[Floats, Floats]:
    table = np.clip(shares.reshape(-1, len(problem.capacity)), 0.0, 1.0)
    return table[: len(problem)], table[len(problem) :]
