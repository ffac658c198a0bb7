"""Whose GPUs are freed for a job: by rank, or of one node. Compiled; lab and live share it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.placement import Placement
from steward.decide.placement.gangs import widest_node
from steward.decide.scheduling.kernels.allocation import (
    Allocation,
    AllocationCount,
    choose_place,
    demand_of,
    gpus_on,
    hold_again,
    is_on,
    release_gpus,
)
from steward.decide.scheduling.kernels.queue_state import QueueState

__all__ = [
    "clear_node",
    "free_by_rank",
    "free_gpus_for",
    "note_freed",
    "spare_needless",
    "stoppable",
    "undo_clearing",
]

Array = NDArray[Any]

# `queue.runs` says what becomes of a running job: 1 nothing, 2 may stop, 3 stops, 4 moves.


@njit
def free_gpus_for(queue: QueueState, alloc: Allocation, job: int, candidates: int) -> int:
    """Hold GPUs for a job; free those of candidates in `queue.stop` if needed, the last first.

    Those freed are written to `alloc.freed` and taken out of the list; those that gave up their
    place only to move, to `alloc.moved`. Returns how many candidates are left; -1: it does not fit
    even so, and nothing has changed.
    """
    alloc.counts[AllocationCount.MOVED] = 0
    alloc.counts[AllocationCount.FREED] = 0
    if choose_place(queue, alloc, job):
        return candidates
    demand = demand_of(queue, alloc, job)
    if alloc.placement == Placement.PACKED and 0 < demand.gpus <= widest_node(alloc.nodes, demand):
        return clear_node(queue, alloc, job, candidates)
    return free_by_rank(queue, alloc, job, candidates)


@njit
def free_by_rank(queue: QueueState, alloc: Allocation, job: int, candidates: int) -> int:
    """Free candidates one by one until the job fits."""
    left = candidates
    while left > 0:
        left -= 1
        release_gpus(queue, alloc, queue.stop[left])
        if choose_place(queue, alloc, job):
            for i in range(candidates - 1, left - 1, -1):
                note_freed(queue, alloc, queue.stop[i])
            return left
    for i in range(candidates):
        hold_again(queue, alloc, queue.stop[i])
    return -1


@njit
def note_freed(queue: QueueState, alloc: Allocation, job: int) -> None:
    """Write down that a running job was freed of its GPUs and stops."""
    queue.runs[job] = 3
    alloc.freed[alloc.counts[AllocationCount.FREED]] = job
    alloc.counts[AllocationCount.FREED] += 1


# A gang that must be on one node needs the right jobs to make room, not the worst ones somewhere.


@njit
def clear_node(queue: QueueState, alloc: Allocation, job: int, candidates: int) -> int:
    """Free one node far enough: by stopping candidates there and, if that is not enough, by moves.

    Only jobs move for which there is room elsewhere, and they go on there at this very instant.
    """
    for i in range(candidates):
        queue.runs[queue.stop[i]] = 2
    node = _cheapest_node(queue, alloc, job, candidates)
    done = False
    if node >= 0:
        _empty(queue, alloc, job, node, candidates)
        allowed = queue.types[job]
        queue.types[job] = 1 << alloc.nodes.type[node]
        done = choose_place(queue, alloc, job)
        queue.types[job] = allowed
        if not done:  # movers in one another's way, too few CPUs, or too little memory
            undo_clearing(queue, alloc)
    left = 0
    for i in range(candidates):
        other = queue.stop[i]
        if queue.runs[other] == 2:
            queue.runs[other] = 1
            queue.stop[left] = other
            left += 1
    return left if done else -1


@njit
def undo_clearing(queue: QueueState, alloc: Allocation) -> None:
    """Undo what `_empty` has done."""
    while alloc.counts[AllocationCount.MOVED] > 0:
        alloc.counts[AllocationCount.MOVED] -= 1
        job = alloc.moved[alloc.counts[AllocationCount.MOVED]]
        queue.runs[job] = 1
        hold_again(queue, alloc, job)
    while alloc.counts[AllocationCount.FREED] > 0:
        alloc.counts[AllocationCount.FREED] -= 1
        job = alloc.freed[alloc.counts[AllocationCount.FREED]]
        queue.runs[job] = 2
        hold_again(queue, alloc, job)


@njit
def _movable(queue: QueueState, alloc: Allocation, job: int) -> bool:
    """Whether a running job may move: it is on one node, did not just start, and no stop hurts."""
    return bool(
        queue.runs[job] == 1
        and alloc.slot_n[alloc.slot[job]] == 1
        and alloc.milli[job] == 0
        and queue.since_s[job] < alloc.now_s[0]
        and queue.key[job] > 0.0
    )


@njit
def _elsewhere(queue: QueueState, alloc: Allocation, job: int, spare: Array) -> int:
    """Return the fullest other node with so much to spare that a job could move there, or -1."""
    nodes, best = alloc.nodes, -1
    here = alloc.slot_node[alloc.slot[job], 0]
    for node in range(len(spare)):
        if node == here or spare[node] < alloc.gpus[job] or not nodes.up[node]:
            continue
        if (queue.types[job] >> nodes.type[node]) & 1 and (best < 0 or spare[node] < spare[best]):
            best = node
    return best


@njit
def _add_gpus(alloc: Allocation, job: int, by_node: Array) -> None:
    """Count what a job holds on each node."""
    row = alloc.slot[job]
    for i in range(alloc.slot_n[row]):
        by_node[alloc.slot_node[row, i]] += max(alloc.slot_gpus[row, i], 0)  # below: a fraction


@njit
def _add_movable(queue: QueueState, alloc: Allocation, by_node: Array) -> None:
    """Count what jobs hold on each node that could move, if each were the only one."""
    free = alloc.nodes.free
    freest = np.argmax(free)
    second = 0
    for node in range(len(free)):
        if node != freest:
            second = max(second, free[node])
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        if _movable(queue, alloc, job):
            on_freest = alloc.slot_node[alloc.slot[job], 0] == freest
            if alloc.gpus[job] <= (second if on_freest else free[freest]):
                _add_gpus(alloc, job, by_node)


@njit
def _cheapest_node(queue: QueueState, alloc: Allocation, job: int, candidates: int) -> int:
    """Return the node where the fewest GPUs have to move, then the one that is filled best."""
    nodes = alloc.nodes
    need, types = alloc.gpus[job], queue.types[job]
    have, movable = nodes.free.copy(), np.zeros(len(nodes.free), np.int64)
    for i in range(candidates):
        _add_gpus(alloc, queue.stop[i], have)
    if alloc.moves:
        _add_movable(queue, alloc, movable)
    best, best_moves = -1, need  # who asks for less than has to move does not get it
    for node in range(len(have)):
        moves = max(need - have[node], 0)
        if not nodes.up[node] or not (types >> nodes.type[node]) & 1 or moves > movable[node]:
            continue
        if moves < best_moves or (best >= 0 and moves == best_moves and have[node] < have[best]):
            best, best_moves = node, moves
    return best


@njit
def _empty(queue: QueueState, alloc: Allocation, job: int, node: int, candidates: int) -> None:
    """Free GPUs of a node until there are enough: candidates first, then jobs that can move."""
    nodes = alloc.nodes
    for i in range(candidates - 1, -1, -1):
        if nodes.free[node] >= alloc.gpus[job]:
            break
        if is_on(alloc, queue.stop[i], node):
            release_gpus(queue, alloc, queue.stop[i])
            note_freed(queue, alloc, queue.stop[i])
    spare_needless(queue, alloc, alloc.gpus[job], node)
    spare = nodes.free.copy()
    for i in range(queue.running_n[0] - 1, -1, -1):
        mover = queue.running[i]
        if nodes.free[node] >= alloc.gpus[job]:
            return
        if not _movable(queue, alloc, mover) or not is_on(alloc, mover, node):
            continue
        to = _elsewhere(queue, alloc, mover, spare)
        if to >= 0:
            spare[to] -= alloc.gpus[mover]
            release_gpus(queue, alloc, mover)
            queue.runs[mover] = 4
            alloc.moved[alloc.counts[AllocationCount.MOVED]] = mover
            alloc.counts[AllocationCount.MOVED] += 1


@njit
def spare_needless(queue: QueueState, alloc: Allocation, need: int, node: int) -> None:
    """Hold again what freed jobs have on a node that is free enough so, best ranks first."""
    kept = 0
    for i in range(alloc.counts[AllocationCount.FREED] - 1, -1, -1):
        job = alloc.freed[i]
        mine = gpus_on(alloc, job, node)
        if alloc.nodes.free[node] - mine >= need:
            queue.runs[job] = 2
            hold_again(queue, alloc, job)
            alloc.freed[i] = -1
    for i in range(alloc.counts[AllocationCount.FREED]):
        if alloc.freed[i] >= 0:
            alloc.freed[kept] = alloc.freed[i]
            kept += 1
    alloc.counts[AllocationCount.FREED] = kept


@njit
def stoppable(queue: QueueState, alloc: Allocation) -> int:
    """Leave jobs out of the list of stops that must go on or just began; return how many stay."""
    n = 0
    for i in range(queue.answer_n[1]):
        job = queue.stop[i]
        if alloc.may_stop[job] and queue.since_s[job] < alloc.now_s[0]:
            queue.stop[n] = job
            n += 1
    return n
