"""At most one option for each job, within the GPUs of each type: the cheapest such choice.

Small problems (the number of ways in which the types can be partly used up is small) are solved
exactly by dynamic programming, others by HiGHS. Both give a choice of the least cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from steward.compiled import njit

__all__ = ["AllocationOption", "cheapest", "cheapest_by_program", "cheapest_by_table"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_STATES = 50_000


class AllocationOption(NamedTuple):
    """One job (its place) with so many GPUs of a type; the cost is against having none."""

    job: int
    type: int
    gpus: int
    cost: float
    must: bool = False  # the job has no other choice


def cheapest(options: Sequence[AllocationOption], owned: Sequence[int]) -> list[int]:
    """Return the places of the chosen options. `options` stand by job, in ascending order."""
    free = _take_all(options, owned)
    if free is not None:
        return free
    if np.prod([gpus + 1.0 for gpus in owned]) <= _MOST_STATES:
        return cheapest_by_table(options, owned)
    return cheapest_by_program(options, owned)


def _take_all(options: Sequence[AllocationOption], owned: Sequence[int]) -> list[int] | None:
    """Give every job its own cheapest option where all of them fit together."""
    best: dict[int, int] = {}
    for place, option in enumerate(options):
        least = options[best[option.job]].cost if option.job in best else 0.0
        if option.must or option.cost < least:
            best[option.job] = place
    left = list(owned)
    for place in best.values():
        left[options[place].type] -= options[place].gpus
    return sorted(best.values()) if min(left) >= 0 else None


@njit
def _add_options(table: Ints, costs: Floats, radix: Ints, values: Floats, taken: Ints) -> None:
    """Add the options of one job to all states; row 0 of `values` is before, row 1 after.

    A state says how many GPUs of each type are in use, as digits; `radix` has the worth of each
    digit and, last, the number of states. Rows of `table`: job, type, GPUs.
    """
    for place in range(len(table)):
        kind, gpus = table[place, 1], table[place, 2]
        base = radix[kind + 1] // radix[kind]
        back = gpus * radix[kind]
        for state in range(back, len(taken)):
            if state // radix[kind] % base >= gpus:
                cost = values[0, state - back] + costs[place]
                if cost < values[1, state] - 1e-9:
                    values[1, state] = cost
                    taken[state] = place


@njit
def _fill(table: Ints, costs: Floats, radix: Ints, starts: Ints, found: Ints) -> None:
    """Write into `found` the chosen option of each job, or -1. Column 3 of `table` is `must`."""
    jobs, states = len(found), radix[len(radix) - 1]
    values = np.zeros((2, states))
    taken = np.full((jobs, states), -1, np.int64)
    for job in range(jobs):
        first, last = starts[job], starts[job + 1]
        if table[first, 3] == 1:
            values[1, :] = np.inf
        _add_options(table[first:last], costs[first:last], radix, values, taken[job])
        values[0, :] = values[1, :]
    at = np.argmin(values[0])
    for job in range(jobs - 1, -1, -1):
        if taken[job, at] >= 0:
            place = starts[job] + taken[job, at]
            found[job] = place
            at -= table[place, 2] * radix[table[place, 1]]


def cheapest_by_table(options: Sequence[AllocationOption], owned: Sequence[int]) -> list[int]:
    """Solve by dynamic programming over the GPUs in use."""
    table = np.array([(o.job, o.type, o.gpus, o.must) for o in options], np.int64)
    jobs = np.unique(table[:, 0])
    starts = np.append(np.searchsorted(table[:, 0], jobs), len(table))
    radix = np.cumprod([1, *(gpus + 1 for gpus in owned)], dtype=np.int64)
    found = np.full(len(jobs), -1, np.int64)
    _fill(table, np.array([o.cost for o in options]), radix, starts, found)
    return [int(place) for place in found if place >= 0]


def cheapest_by_program(options: Sequence[AllocationOption], owned: Sequence[int]) -> list[int]:
    """Solve as an integer program with HiGHS."""
    n, jobs = len(options), max(o.job for o in options) + 1
    rows = np.array([o.job for o in options] + [jobs + o.type for o in options])
    amounts = np.array([1.0] * n + [float(o.gpus) for o in options])
    table = csr_array((amounts, (rows, np.tile(np.arange(n), 2))), shape=(jobs + len(owned), n))
    result = milp(
        np.array([o.cost for o in options]),
        integrality=np.ones(n),
        bounds=Bounds(np.array([float(o.must) for o in options]), np.ones(n)),
        constraints=LinearConstraint(table, ub=np.concatenate((np.ones(jobs), owned))),
    )
    return [place for place, x in enumerate(result.x) if x > 0.5]
