"""Queues by tenant, served by rules of share: quotas, borrowing, decayed use, dominant share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.scheduling.kernels.ordered import fits
from steward.decide.scheduling.kernels.queue_state import QueueState

__all__ = ["serve_by_borrowing", "serve_by_share", "serve_within_quota"]

Array = NDArray[Any]

_ROUNDING = 1e-9  # of scores: equal use is summed in other steps live than in the lab
_OLD_S = 7 * 86_400.0  # an age that counts in full, as Slurm's PriorityMaxAge
_LOOK_PAST = 100  # jobs of one tenant that may be passed over in one look, as Slurm's backfill does


@njit
def serve_within_quota(queue: QueueState) -> None:
    """Start what fits into each tenant's own quota, in order; idle quota stays idle."""
    free = queue.free.copy()
    start_n = 0
    for tenant in range(len(queue.length)):
        held = queue.held[tenant]
        looked = min(queue.length[tenant], start_n + _LOOK_PAST)
        for i in range(queue.first[tenant], queue.first[tenant] + looked):
            if held >= queue.quota[tenant]:
                break
            job = queue.waiting[i]
            kind = fits(queue, free, job)
            if kind >= 0 and held + queue.need[job] <= queue.quota[tenant]:
                free[kind] -= queue.need[job]
                held += queue.need[job]
                queue.start[start_n] = job
                start_n += 1
    queue.answer_n[0], queue.answer_n[1] = start_n, 0


@njit
def serve_by_share(queue: QueueState, now_s: float, by_use: int) -> None:
    """Serve whoever has had least for its weight; who does not fit is passed over.

    `by_use` 1: decayed use so far, with age as a second factor (Slurm's multifactor with its
    usual weights); 0: what it holds now (dominant share; GPUs are the scarce resource).
    """
    tenants = len(queue.length)
    free, held = queue.free.copy(), queue.held.copy()
    at = queue.first.copy()
    start_n = 0
    use, weight = queue.use / (queue.use.sum() + 1e-9), queue.weight / queue.weight.sum()
    fair = 10.0 * 2.0 ** -(use / weight)
    while free.any():
        best, best_score = -1, np.inf
        for tenant in range(tenants):
            i = at[tenant] - queue.first[tenant]
            if i >= queue.length[tenant] or i >= start_n + _LOOK_PAST:
                continue
            score = held[tenant] / queue.weight[tenant]
            if by_use:  # Slurm's sum of a fair-share and an age factor, with weights 10 to 1
                age = min((now_s - queue.since_s[queue.waiting[at[tenant]]]) / _OLD_S, 1.0)
                score = -(fair[tenant] + age)
            if score < best_score - _ROUNDING:
                best, best_score = tenant, score
        if best < 0:
            break
        job = queue.waiting[at[best]]
        at[best] += 1
        kind = fits(queue, free, job)
        if kind >= 0:
            free[kind] -= queue.need[job]
            held[best] += queue.need[job]
            queue.start[start_n] = job
            start_n += 1
    queue.answer_n[0], queue.answer_n[1] = start_n, 0


@njit
def _began_later(queue: QueueState, job: int, other: int) -> bool:
    """Return True if a job began to run after another; among equals, if it arrived after it."""
    if queue.since_s[job] != queue.since_s[other]:
        return bool(queue.since_s[job] > queue.since_s[other])
    return job > other


@njit
def _reclaim(queue: QueueState, held: Array, short: int, owner: int, stop_n: int) -> int:
    """List the youngest jobs of tenants above quota until `short` is covered.

    Returns how many are listed then; -1: those above their quota do not hold enough.
    """
    found = 0
    n = stop_n
    taken = held.copy()
    while found < short:
        youngest = -1
        for i in range(queue.running_n[0]):
            job = queue.running[i]
            tenant = queue.tenant[job]
            if tenant == owner or queue.late[job] == 2 or taken[tenant] <= queue.quota[tenant]:
                continue
            if youngest < 0 or _began_later(queue, job, youngest):
                youngest = job
        if youngest < 0:
            for i in range(stop_n, n):
                queue.late[queue.stop[i]] = 0
            return -1
        queue.late[youngest] = 2  # listed
        queue.stop[n] = youngest
        n += 1
        found += queue.need[youngest]
        taken[queue.tenant[youngest]] -= queue.need[youngest]
    held[:] = taken
    return n


@njit
def _first_in_line(queue: QueueState, at: Array, held: Array, start_n: int, lend: bool) -> int:  # noqa: FBT001 - compiled code has no keywords
    """Return the tenant whose head is next: within quota before borrowing, then by arrival."""
    best, best_borrows = -1, True
    for tenant in range(len(queue.length)):
        i = at[tenant] - queue.first[tenant]
        if i >= queue.length[tenant] or i >= start_n + _LOOK_PAST:
            continue
        job = queue.waiting[at[tenant]]
        borrows = held[tenant] + queue.need[job] > queue.quota[tenant]
        if borrows and not lend:
            continue
        if best >= 0 and borrows == best_borrows:
            if queue.seq[job] > queue.seq[queue.waiting[at[best]]]:
                continue
        elif best >= 0 and borrows:
            continue
        best, best_borrows = tenant, borrows
    return best


@njit
def serve_by_borrowing(queue: QueueState) -> None:
    """Serve heads of queues, within quota first, then by arrival; lend and reclaim.

    A job within its tenant's quota may stop the youngest of those who borrow.
    """
    free, held = queue.free.copy(), queue.held.copy()
    at = queue.first.copy()
    start_n = stop_n = 0
    while True:
        tenant = _first_in_line(queue, at, held, start_n, bool(free.any()))
        if tenant < 0:
            break
        job = queue.waiting[at[tenant]]
        at[tenant] += 1
        kind = fits(queue, free, job)
        if kind < 0 and held[tenant] + queue.need[job] <= queue.quota[tenant]:
            short = queue.need[job] - free.max()
            listed = _reclaim(queue, held, short, tenant, stop_n)
            for i in range(stop_n, listed):
                free[queue.held_type[queue.stop[i]]] += queue.need[queue.stop[i]]
            stop_n = max(listed, stop_n)
            kind = fits(queue, free, job)
        if kind >= 0:
            free[kind] -= queue.need[job]
            held[tenant] += queue.need[job]
            queue.start[start_n] = job
            start_n += 1
    for i in range(stop_n):
        queue.late[queue.stop[i]] = 0
    queue.answer_n[0], queue.answer_n[1] = start_n, stop_n
