"""One turn of a rank-based policy: choose jobs, find them GPUs, write down what changes.

The lab's engine and the live loop both call `plan_changes`: who starts, who is stopped for it, and
where jobs go is decided here and nowhere else. The caller carries the log out: the lab by its
clock, the live loop by decisions.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.scheduling.kernels.allocation import (
    Allocation,
    AllocationCount,
    allocation_by_reference,
    choose_place,
)
from steward.decide.scheduling.kernels.backfill import backfill_around_all, backfill_around_first
from steward.decide.scheduling.kernels.commons import share_commons
from steward.decide.scheduling.kernels.node_clearing import free_gpus_for, stoppable
from steward.decide.scheduling.kernels.ordered import Walk, fill, reorder
from steward.decide.scheduling.kernels.overdue_gangs import place_overdue
from steward.decide.scheduling.kernels.queue_state import QueueState, by_reference, leave
from steward.decide.scheduling.kernels.tenants import (
    serve_by_borrowing,
    serve_by_share,
    serve_within_quota,
)
from steward.decide.scheduling.ranking import Law, Ranking, Sharing

__all__ = [
    "ChangeLog",
    "DriverParameters",
    "PlanChange",
    "driver_parameters",
    "empty_log",
    "plan_changes",
    "plan_starts_and_stops",
]

Array = NDArray[Any]

_LISTED, _SPARED, _WALKED = 2, 3, 4  # marks of jobs that run, while they are listed
_TRIES = 16  # a job that finds no place keeps no other from starting


class PlanChange(IntEnum):
    """What happens to a job."""

    START = 0
    STOP = 1
    MOVE = 2


class ChangeLog(NamedTuple):
    """What happens, in order: the stops that a start needs stand before it, its moves after it."""

    kind: Array
    job: Array
    old_type: Array  # of a job that moves: the GPU type that it leaves
    n: Array  # one number


class DriverParameters(NamedTuple):
    """What of a `Ranking` the driver has to know; any record with these fields will do."""

    sharing: int
    walk: int
    ties: int
    preempts: int
    by_loss: int  # running jobs of equal rank go by what a stop would cost them
    depth: int
    lead: float
    gang_wait_s: float  # a gang that has waited so long is overdue; infinity: none ever is


def driver_parameters(ranking: Ranking) -> DriverParameters:
    """Return a policy as numbers for compiled code."""
    return DriverParameters(
        sharing=int(ranking.sharing),
        walk=int(ranking.walk),
        ties=int(ranking.ties),
        preempts=int(ranking.preempts),
        by_loss=int(ranking.law is Law.EXPERIENCE),
        depth=int(ranking.depth),
        lead=float(ranking.lead),
        gang_wait_s=float(ranking.gang_wait_s),
    )


def empty_log(changes: int) -> ChangeLog:
    """Return a log with room for so many changes."""
    ints = np.int64
    kind, job, old_type = (np.zeros(changes, ints) for _ in range(3))
    return ChangeLog(kind=kind, job=job, old_type=old_type, n=np.zeros(1, ints))


@njit
def plan_starts_and_stops(
    queue: QueueState, alloc: Allocation, policy: DriverParameters, log: ChangeLog
) -> None:
    """Write into `log` what changes now, with backfill. Changes queue and allocation, too."""
    plan_changes(by_reference(queue), allocation_by_reference(alloc), policy, log, 1)


@njit
def plan_changes(
    queue: QueueState,
    alloc: Allocation,
    policy: Any,  # noqa: ANN401 - has the fields of DriverParameters
    log: ChangeLog,
    backfill: int,
) -> None:
    """Do what `plan_starts_and_stops` does, on records that are passed by reference."""
    log.n[0] = 0
    alloc.counts[AllocationCount.UNPLACED] = 0
    if policy.gang_wait_s < np.inf and _serve_overdue(queue, alloc, policy, log):
        return
    for _ in range(_TRIES):
        before = alloc.counts[AllocationCount.UNPLACED]
        walked = _choose(queue, alloc, policy)
        _place(queue, alloc, policy, log)
        _list_running(queue, walked)
        if alloc.counts[AllocationCount.UNPLACED] == before:
            break
    if backfill and policy.walk >= Walk.EASY and queue.length.any() and queue.free.any():
        if policy.walk == Walk.EASY:
            backfill_around_first(queue, alloc.now_s[0])
        else:
            backfill_around_all(queue, alloc.now_s[0], policy.depth)
        _place(queue, alloc, policy, log)
        _list_running(queue, 0)
    for i in range(alloc.counts[AllocationCount.UNPLACED]):
        queue.unplaceable[alloc.unplaced[i]] = 0


@njit
def _serve_overdue(
    queue: QueueState, alloc: Allocation, policy: DriverParameters, log: ChangeLog
) -> bool:
    """Start a gang that has waited too long, if there is one; return True if jobs stop for it.

    Then no other is started in this call: who was stopped may be owed what is free.
    """
    gang = place_overdue(queue, alloc, policy.gang_wait_s)
    if gang < 0:
        return False
    stops = alloc.counts[AllocationCount.FREED]
    for k in range(stops):
        _stop(queue, alloc.freed[k], log)
    _start(queue, alloc, policy, gang, log)
    queue.start[0] = gang
    queue.answer_n[0], queue.answer_n[1] = 1, 0
    _list_running(queue, 0)
    return bool(stops > 0)


@njit
def _choose(queue: QueueState, alloc: Allocation, policy: DriverParameters) -> int:
    """Call the policy's kernel; return how many jobs it has put into an order."""
    sharing = policy.sharing
    if sharing == Sharing.COMMONS:
        share_commons(queue)
    elif sharing == Sharing.STATIC:
        serve_within_quota(queue)
    elif sharing == Sharing.BORROW:
        serve_by_borrowing(queue)
    elif sharing in (Sharing.FAIR_TREE, Sharing.DOMINANT):
        serve_by_share(queue, alloc.now_s[0], int(sharing == Sharing.FAIR_TREE))
    elif policy.preempts:
        reorder(queue, policy.ties, policy.by_loss != 0)
        return int(queue.answer_n[2])
    else:
        fill(queue, policy.walk)
    return 0


@njit
def _place(queue: QueueState, alloc: Allocation, policy: DriverParameters, log: ChangeLog) -> None:
    """Find GPUs for the jobs to start; stop none for a job that does not fit even so."""
    candidates = stoppable(queue, alloc)
    for i in range(queue.answer_n[0]):
        job = queue.start[i]
        left = free_gpus_for(queue, alloc, job, candidates)
        if left >= 0:
            candidates = left
            for k in range(alloc.counts[AllocationCount.FREED]):
                _stop(queue, alloc.freed[k], log)
            _start(queue, alloc, policy, job, log)
            for k in range(alloc.counts[AllocationCount.MOVED]):
                _move(queue, alloc, alloc.moved[k], log)
            continue
        unplaced = alloc.counts[AllocationCount.UNPLACED]
        if unplaced < len(alloc.unplaced):
            queue.unplaceable[job] = 1
            alloc.unplaced[unplaced] = job
            alloc.counts[AllocationCount.UNPLACED] += 1
        if not policy.preempts and policy.walk != Walk.FIT:
            break  # no job may pass it


@njit
def _log(log: ChangeLog, kind: int, job: int, old_type: int) -> None:
    i = log.n[0]
    log.kind[i], log.job[i], log.old_type[i] = kind, job, old_type
    log.n[0] += 1


@njit
def _start(
    queue: QueueState, alloc: Allocation, policy: DriverParameters, job: int, log: ChangeLog
) -> None:
    """Let a waiting job that holds its GPUs run. It is not stopped again in this call."""
    leave(queue, job)
    queue.held[queue.tenant[job]] += queue.need[job]
    queue.runs[job], queue.since_s[job], queue.late[job] = 1, alloc.now_s[0], 0
    if policy.sharing == Sharing.COMMONS:
        queue.key[job] = 0.0
    else:
        queue.key[job] /= policy.lead
    _log(log, PlanChange.START, job, -1)


@njit
def _stop(queue: QueueState, job: int, log: ChangeLog) -> None:
    """Let a running job whose GPUs were freed stop. It does not start again in this call."""
    queue.runs[job] = 0
    queue.held[queue.tenant[job]] -= queue.need[job]
    _log(log, PlanChange.STOP, job, -1)


@njit
def _move(queue: QueueState, alloc: Allocation, job: int, log: ChangeLog) -> None:
    """Let a running job whose GPUs were freed go on elsewhere, or stop where that fails."""
    old_type = queue.held_type[job]
    if choose_place(queue, alloc, job):
        queue.runs[job] = 1
        _log(log, PlanChange.MOVE, job, old_type)
    else:  # its new node has too few CPUs, or too little memory
        _stop(queue, job, log)


@njit
def _list_running(queue: QueueState, walked: int) -> None:  # noqa: C901 - compiled
    """List who runs now: in the order of the walk, then jobs that are new.

    Jobs that were to stop and were spared keep their place among those that ran before, and are
    before new ones of the same key.
    """
    running, order, n, at = queue.running, queue.walked, walked, 0
    for i in range(queue.running_n[0]):
        if queue.runs[running[i]] == 1:
            queue.runs[running[i]] = _SPARED
    for i in range(walked):
        if queue.runs[order[i]] == _SPARED:
            queue.runs[order[i]] = _WALKED
    for i in range(walked):
        job = order[i]
        if queue.runs[job] == _WALKED:
            while at < queue.running_n[0] and running[at] != job:
                n += _listed(queue, running[at], n)
                at += 1
        else:
            n += _spared_before(queue, job, at, n)
        n += _listed(queue, job, n)
    for i in range(at, queue.running_n[0]):
        n += _listed(queue, running[i], n)
    for i in range(queue.answer_n[0]):
        n += _listed(queue, queue.start[i], n)
    queue.running_n[0] = n - walked
    for i in range(n - walked):
        running[i] = order[walked + i]
        queue.runs[running[i]] = 1


@njit
def _spared_before(queue: QueueState, job: int, first: int, at: int) -> int:
    """List the spared jobs that came to this job's key before it; return how many are more."""
    n = 0
    for i in range(first, queue.running_n[0]):
        other = queue.running[i]
        if queue.key[other] > queue.key[job]:
            break
        if queue.runs[other] == _SPARED and queue.late[other] == 0:
            n += _listed(queue, other, at + n)
    return n


@njit
def _listed(queue: QueueState, job: int, at: int) -> int:
    """Put a job that runs at this place of the list, once; return how many are more."""
    if queue.runs[job] in (0, _LISTED):
        return 0
    queue.runs[job] = _LISTED
    queue.walked[at] = job
    return 1
