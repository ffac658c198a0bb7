"""Experience with similar jobs: counts of GPU time by class, and estimates for a new job.

Classes form a tree: all jobs, then those of one size, then of one tenant, then of one user and
model. A class with few jobs is shrunk towards its parent, and the top towards a log-uniform prior,
under which the best order is least attained service. So a poor forecast degrades to LAS without a
switch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = [
    "EDGES_S",
    "Experience",
    "age_factor",
    "blank_experience",
    "level_of",
    "likely",
    "mean_left",
    "median_left",
    "rank_of",
    "remember",
]

Array = NDArray[Any]

# A minute to 20 years of GPU time. Every second edge is a whole number, and exactly that: jobs that
# reach edges at one instant must be seen to.
EDGES_S: Array = np.concatenate(([0.0], 60.0 * 2.0 ** (np.arange(48) / 2.0)))
_LEVELS = len(EDGES_S)


class Experience(NamedTuple):
    """Rows are classes, columns are levels of GPU time (s): level i is from `edges[i]` on."""

    edges: Array
    parent: Array  # -1: the class of all jobs
    seen: Array  # jobs that ended in each level
    total: Array
    rank: Array  # expected seconds of service for each job that ends: smaller goes first
    made_at: Array  # how many jobs had ended when the beliefs were renewed that `rank` is of
    finished: Array  # jobs that have ended; and how many of them had when beliefs were renewed
    believed: Array  # `seen` when beliefs were renewed
    believed_total: Array
    memory: float  # effective number of jobs per class; older ones decay
    strength: float  # how many jobs of its own a class needs to outweigh the one above it


def blank_experience(parent: Array, *, strength: float, memory: float) -> Experience:
    """Return an empty experience for these classes."""
    n = len(parent)
    return Experience(
        edges=EDGES_S,
        parent=parent,
        seen=np.zeros((n, _LEVELS)),
        total=np.zeros(n),
        rank=np.zeros((n, _LEVELS)),
        made_at=np.full(n, -1, np.int64),
        finished=np.zeros(2, np.int64),
        believed=np.zeros((n, _LEVELS)),
        believed_total=np.zeros(n),
        memory=float(memory),
        strength=float(strength),
    )


@njit
def level_of(edges: Array, seconds: float) -> int:
    """Return the level of an amount of GPU time."""
    return int(np.searchsorted(edges, seconds, side="right") - 1)


@njit
def remember(past: Experience, leaf: int, seconds: float) -> None:
    """Count a job of this class that ended after so many seconds of GPU time.

    Ranks are recomputed, for all classes at once, when a tenth more jobs have ended, so that they
    do not depend on when they are read.
    """
    level = level_of(past.edges, seconds)
    at = leaf
    fade = 1.0 - 1.0 / past.memory
    while at >= 0:
        past.seen[at] *= fade
        past.seen[at, level] += 1.0
        past.total[at] = past.total[at] * fade + 1.0
        at = past.parent[at]
    past.finished[0] += 1
    if past.finished[0] > past.finished[1] * 1.1:
        past.believed[:] = past.seen
        past.believed_total[:] = past.total
        past.finished[1] = past.finished[0]


@njit
def likely(past: Experience, leaf: int) -> Array:
    """Return the probability that a job of this class ends in each level."""
    depth = 0
    chain = np.empty(8, np.int64)
    at = leaf
    while at >= 0:
        chain[depth] = at
        depth += 1
        at = past.parent[at]
    share = np.full(len(past.edges), 1.0 / len(past.edges))
    for i in range(depth - 1, -1, -1):
        at = chain[i]
        if past.believed_total[at] == 0.0:
            continue  # it believes what the wider one does, to the last digit
        share = (past.believed[at] + past.strength * share) / (
            past.believed_total[at] + past.strength
        )
    return share


@njit
def mean_left(past: Experience, leaf: int, level: int) -> float:
    """Return the mean remaining GPU time of a job of this class at this level."""
    share, edges = likely(past, leaf), past.edges
    mean = share[-1] * 1.5 * edges[-1]
    there = share[-1]
    for i in range(level, len(edges) - 1):
        mean += share[i] * 0.5 * (edges[i] + edges[i + 1])
        there += share[i]
    return float(mean / there - edges[level])


@njit
def median_left(past: Experience, leaf: int, level: int) -> float:
    """Return the median GPU time that jobs of this class still take once they reach a level."""
    share, edges = likely(past, leaf), past.edges
    left = 0.0
    for i in range(level, len(edges)):
        left += share[i]
    ended = 0.0
    for i in range(level, len(edges) - 1):
        if ended + share[i] >= 0.5 * left:
            part = (0.5 * left - ended) / share[i]
            return float(edges[i] + part * (edges[i + 1] - edges[i]) - edges[level])
        ended += share[i]
    return float(1.5 * edges[-1] - edges[level])


@njit
def age_factor(waited_s: float, old_s: float) -> float:
    """Return how much more a job counts that has waited so long: 1, and from then on by doublings.

    >>> age_factor(90.0, 100.0), age_factor(250.0, 100.0), age_factor(400.0, 100.0)
    (1.0, 2.0, 4.0)
    """
    factor = 1.0
    while waited_s >= 2.0 * factor * old_s:
        factor *= 2.0
    return factor


@njit
def _ranks(edges: Array, share: Array, out: Array) -> None:
    """For a job at each level: the least expected service per expected end, over all horizons.

    This is the inverse of the Gittins index: it minimises the mean time in the system when only
    the distribution is known.
    """
    n = len(edges)
    for level in range(n):
        left = 0.0
        for i in range(level, n):
            left += share[i]
        ended = spent = 0.0
        best = np.inf
        for i in range(level, n):
            low = edges[i]
            high = edges[i + 1] if i + 1 < n else edges[i] * 2.0
            mid = 0.5 * (low + high)
            spent += share[i] * (mid - low) + (left - ended - share[i]) * (high - low)
            ended += share[i]
            if ended > 0.0 and spent / ended < best:
                best = spent / ended
        out[level] = best


@njit
def rank_of(past: Experience, leaf: int, level: int) -> float:
    """Return the rank in seconds, by the beliefs that hold now."""
    if past.made_at[leaf] != past.finished[1]:
        _ranks(past.edges, likely(past, leaf), past.rank[leaf])
        past.made_at[leaf] = past.finished[1]
    return float(past.rank[leaf, level])
