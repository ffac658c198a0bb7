"""Chances of ending by level of run time, mixed from all that a job has in common with others.

A job is in several contexts: all jobs, those of its size, of its user, of its user and name, … For
each context and each level of run time there is the share of jobs that ended there among those
that reached it. A prediction mixes these shares on the logistic scale, by weights that are learned
with every job: contexts that have been right count for more, the more so the more they have seen.
A job that still runs, or was cut off, counts as one that survived the levels it has passed, and
says nothing of those beyond.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit

__all__ = [
    "EDGES_S",
    "LEVELS",
    "Survival",
    "blank_survival",
    "forget_context",
    "lasting",
    "level_at",
    "likely_s",
    "pass_levels",
    "pass_part",
    "prior_share",
    "run_time_s",
    "share_ended",
]

Array = NDArray[Any]

STEPS = 3  # levels for each doubling
EDGES_S: Array = np.concatenate(([0.0], 2.0 ** (np.arange(26 * STEPS + 1) / STEPS)))
LEVELS = len(EDGES_S)  # the last one, from two years on, has no end
_END_S = 4.0 * float(EDGES_S[-1])  # where the last one is taken to end
SHIFTED = 2 * LEVELS  # columns: contexts of time limits count levels from the limit
_BUCKETS = 9  # of how much a context has seen
_MOST_LOGIT = 8.0
_OWN = 0.4  # jobs: what the wider context counts for in a share
_TOP = 2.0  # jobs: what the prior counts for in the share of all
_SLOWEST, _SETTLED = 0.1, 3e4  # weights learn more slowly after so many levels, but never stop
_SPREAD = 0.35  # what the end of a job says of the levels beside its own


class Survival(NamedTuple):
    """Rows are contexts, columns levels. `logit` is of `share`, drawn to what all jobs do."""

    share: Array  # of the jobs that reached the level, those that ended in it
    seen: Array  # how many that rests on; older ones fade
    logit: Array
    bucket: Array  # by how much was seen
    weight: Array  # by slot in a job's list of contexts, and bucket
    memory: Array  # by slot: how many jobs a share remembers
    prior: Array  # by level: share of jobs that end there, where none was seen
    trained: Array  # levels that weights were learned from
    rate: float


def prior_share(median_s: float, spread: float) -> Array:
    """Return chances of ending in each level for run times that are log-normal."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy

    with np.errstate(divide="ignore"):
        ended = ndtr((np.log(EDGES_S) - np.log(median_s)) / spread)
    left = np.maximum(1.0 - ended, 1e-12)
    share: Array = np.clip(1.0 - np.append(left[1:], 0.0) / left, 2e-4, 0.9)
    return share


def blank_survival(
    classes: int, memory: Array, *, rate: float, first: float, prior: Array
) -> Survival:
    """Return what is believed before any job has run."""
    weight = np.zeros((len(memory), _BUCKETS))
    weight[:, 1:] = first * np.linspace(0.3, 1.0, _BUCKETS - 1)
    weight[0] = 1.0
    shape = (classes, SHIFTED)
    return Survival(
        share=np.zeros(shape, np.float32),
        seen=np.zeros(shape, np.float32),
        logit=np.zeros(shape, np.float32),
        bucket=np.zeros(shape, np.int8),
        weight=weight,
        memory=np.asarray(memory, np.float64),
        prior=prior,
        trained=np.zeros(1),
        rate=rate,
    )


def forget_context(past: Survival, row: int) -> None:
    """Make room for another context in a row."""
    for table in (past.share, past.seen, past.logit, past.bucket):
        table[row] = 0


@njit
def level_at(seconds: float) -> int:
    """Return the level of a run time."""
    return int(np.searchsorted(EDGES_S, seconds, side="right") - 1)


@njit
def _between(level: int, seconds: float) -> float:
    """Return how far into its level a run time is, on a logarithmic scale above a second."""
    low = EDGES_S[level]
    high = EDGES_S[level + 1] if level + 1 < LEVELS else _END_S
    if level == 0:
        return float(min((seconds - low) / (high - low), 1.0))
    return float(min(np.log(seconds / low) / np.log(high / low), 1.0))


@njit
def _logit(share: float) -> float:
    share = min(max(share, 3.3e-4), 1.0 - 3.3e-4)
    return float(np.log(share / (1.0 - share)))


@njit
def _all(past: Survival, top: int, level: int) -> float:
    """Return the share of all jobs that end in a level."""
    seen = past.seen[top, level]
    return float((past.share[top, level] * seen + _TOP * past.prior[level]) / (seen + _TOP))


@njit
def _inputs(
    past: Survival, rows: Array, shifts: Array, level: int, x: Array, bucket: Array
) -> float:
    """Write how far each context is from all jobs, and how much it has seen; return the latter."""
    base = _logit(_all(past, rows[0], level))
    for i in range(1, len(rows)):
        x[i], bucket[i] = 0.0, 0
        if rows[i] >= 0:
            at = level + shifts[i]
            bucket[i] = past.bucket[rows[i], at]
            if bucket[i] > 0:
                x[i] = past.logit[rows[i], at] - base
    return base


@njit
def _mixed(past: Survival, x: Array, bucket: Array) -> float:
    """Return the chance of ending in a level for a job that reaches it; `x[0]` is of all jobs."""
    mixed = float(x[0])
    for i in range(1, len(x)):
        mixed += past.weight[i, bucket[i]] * x[i]
    return float(1.0 / (1.0 + np.exp(-min(max(mixed, -_MOST_LOGIT), _MOST_LOGIT))))


@njit
def _count(  # noqa: PLR0913, PLR0917 - compiled
    past: Survival, i: int, row: int, at: int, wide: float, ended: float, mass: float
) -> None:
    """Count a job in one context and level: `mass` of it reached the level, `ended` of that."""
    seen = past.seen[row, at] + mass
    share = past.share[row, at] + (ended - past.share[row, at]) * mass / seen
    past.share[row, at] = share
    past.seen[row, at] = min(seen, past.memory[i])
    past.logit[row, at] = _logit((share * seen + _OWN * wide) / (seen + _OWN))
    past.bucket[row, at] = min(1 + int(np.log2(1.0 + seen)), _BUCKETS - 1)


@njit
def _count_all(
    past: Survival, rows: Array, shifts: Array, level: int, ended: float, mass: float
) -> None:
    wide = _all(past, rows[0], level)
    for i in range(len(rows)):
        if rows[i] >= 0:
            _count(past, i, rows[i], level + shifts[i], wide, ended, mass)


@njit
def _learn_weights(past: Survival, x: Array, bucket: Array, ended: float) -> None:
    off = ended - _mixed(past, x, bucket)
    past.trained[0] += 1.0
    rate = past.rate * max(_SLOWEST, 1.0 / (1.0 + past.trained[0] / _SETTLED))
    for i in range(1, len(x)):
        if bucket[i] > 0:
            past.weight[i, bucket[i]] += rate * off * x[i]


@njit
def pass_levels(  # noqa: PLR0913, PLR0917 - compiled: one argument for each array
    past: Survival,
    rows: Array,
    shifts: Array,
    x: Array,
    bucket: Array,
    first: int,
    last: int,
    ends: bool,  # noqa: FBT001 - compiled
) -> None:
    """Learn that a job went through levels `first` to before `last`, and ended in that or not.

    Weights learn by what contexts said when the job came: later they know more of jobs that came
    with it, which is of no use for the next.
    """
    for level in range(first, last):
        _learn_weights(past, x[level], bucket[level], 0.0)
        _count_all(past, rows, shifts, level, 0.0, 1.0)
    if ends:
        _learn_weights(past, x[last], bucket[last], 1.0)
        _count_all(past, rows, shifts, last, 1.0, 1.0)
        if last > 0:
            _count_all(past, rows, shifts, last - 1, 1.0, _SPREAD)
        if last + 1 < LEVELS:
            _count_all(past, rows, shifts, last + 1, 1.0, _SPREAD)


@njit
def pass_part(past: Survival, rows: Array, shifts: Array, ran_s: float) -> None:
    """Learn that a job was cut off in the midst of a level: it survived that much of it."""
    level = level_at(ran_s)
    part = _between(level, ran_s)
    if part > 0.0:
        _count_all(past, rows, shifts, level, 0.0, part)


@njit
def lasting(
    past: Survival, rows: Array, shifts: Array, x: Array, bucket: Array, out: Array
) -> None:
    """Write the chance of running longer than the lower edge of each level, and from what."""
    left = 1.0
    for level in range(len(out)):
        out[level] = left
        x[level, 0] = _inputs(past, rows, shifts, level, x[level], bucket[level])
        left *= 1.0 - _mixed(past, x[level], bucket[level])


@njit
def share_ended(left: Array, seconds: float) -> float:
    """Return the chance of ending within a run time; `left` is what `lasting` wrote."""
    level = level_at(seconds)
    after = left[level + 1] if level + 1 < LEVELS else 0.0
    return float(1.0 - left[level] + _between(level, seconds) * (left[level] - after))


@njit
def run_time_s(left: Array, ended: float) -> float:
    """Return the run time within which a share of jobs has ended."""
    level = 0
    while level + 1 < LEVELS and 1.0 - left[level + 1] <= ended:
        level += 1
    after = left[level + 1] if level + 1 < LEVELS else 0.0
    part = min(max((ended - 1.0 + left[level]) / max(left[level] - after, 1e-12), 0.0), 1.0)
    low = EDGES_S[level]
    high = EDGES_S[level + 1] if level + 1 < LEVELS else _END_S
    if level == 0:
        return float(part * high)
    return float(low * (high / low) ** part)


@njit
def likely_s(left: Array, ran_s: float) -> float:
    """Return the run time that is most likely within a factor of two of the true one."""
    best, found = -1.0, max(ran_s, 1.0)
    for level in range(1, LEVELS):
        if 2.0 * EDGES_S[level] <= ran_s:
            continue
        low = (
            left[max(level - STEPS, 0)]
            if EDGES_S[level] >= 2.0 * ran_s
            else 1.0 - share_ended(left, ran_s)
        )
        high = left[level + STEPS] if level + STEPS < LEVELS else 0.0
        if low - high > best:
            best, found = low - high, max(EDGES_S[level], ran_s)
    return float(found)
