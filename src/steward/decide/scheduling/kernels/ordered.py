"""One order over all jobs: walk it and give GPUs to whoever fits."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.compiled import njit
from steward.decide.scheduling.kernels.queue_state import QueueState, sort_running

__all__ = ["TieOrder", "Walk", "fill", "fits", "reorder"]


class Walk(IntEnum):
    """What happens at a job that does not fit."""

    STRICT = 0  # everybody behind it waits too
    FIT = 1  # it is skipped
    EASY = 2  # it gets the earliest possible date; others may pass if they do not delay it
    CONSERVATIVE = 3  # every job gets a date that nobody may delay


class TieOrder(IntEnum):
    """Who goes first when a running and a waiting job rank equal."""

    WAITING = 0  # the one that was there; a newcomer comes last
    RUNNING = 1  # the one that runs; one that just fell to this rank comes last


@njit
def fits(queue: QueueState, free: np.ndarray, job: int) -> int:
    """Return the preferred type with room for a job, among equals the one with most; or -1."""
    best = -1
    if queue.unplaceable[job] == 1:
        return best
    prefer = queue.prefer
    for kind in range(len(free)):
        allowed = (queue.types[job] >> kind) & 1
        if not allowed or free[kind] < queue.need[job]:
            continue
        if (
            best < 0
            or prefer[kind] < prefer[best]
            or (prefer[kind] == prefer[best] and free[kind] > free[best])
        ):
            best = kind
    return best


@njit
def fill(queue: QueueState, walk: int) -> None:
    """Start waiting jobs of queue 0 in their order; nobody is stopped."""
    free = queue.free.copy()
    start_n = 0
    for i in range(queue.first[0], queue.first[0] + queue.length[0]):
        if not free.any():
            break
        job = queue.waiting[i]
        kind = fits(queue, free, job)
        if kind >= 0:
            free[kind] -= queue.need[job]
            queue.start[start_n] = job
            start_n += 1
        elif walk != Walk.FIT:
            break
    queue.answer_n[0], queue.answer_n[1] = start_n, 0


@njit
def _running_first(queue: QueueState, runs: int, waits: int, ties: int) -> bool:
    if queue.key[runs] != queue.key[waits]:
        return bool(queue.key[runs] < queue.key[waits])
    if ties == TieOrder.WAITING:
        return bool(queue.late[waits] == 1)
    return bool(queue.late[runs] == 0)


@njit
def reorder(queue: QueueState, ties: int, by_loss: bool) -> None:  # noqa: FBT001 - compiled code
    """Walk running and waiting jobs together; who is not reached, or does not fit, stops.

    Running jobs of equal rank go by what they would lose (`by_loss`), or by when they came to it.
    """
    sort_running(queue, by_loss)
    free = queue.capacity.copy()
    r, r_end = 0, queue.running_n[0]
    w, w_end = queue.first[0], queue.first[0] + queue.length[0]
    start_n = stop_n = walked_n = 0
    while (r < r_end or w < w_end) and free.any():
        if w >= w_end or (
            r < r_end and _running_first(queue, queue.running[r], queue.waiting[w], ties)
        ):
            job = queue.running[r]
            r += 1
            kind = queue.held_type[job]
            if free[kind] < queue.need[job]:
                queue.stop[stop_n] = job
                stop_n += 1
                continue
        else:
            job = queue.waiting[w]
            w += 1
            kind = fits(queue, free, job)
            if kind < 0:
                continue
            queue.start[start_n] = job
            start_n += 1
        free[kind] -= queue.need[job]
        queue.walked[walked_n] = job
        walked_n += 1
    while r < r_end:  # nothing is left for those behind
        queue.stop[stop_n] = queue.running[r]
        r += 1
        stop_n += 1
    queue.answer_n[0], queue.answer_n[1], queue.answer_n[2] = start_n, stop_n, walked_n
