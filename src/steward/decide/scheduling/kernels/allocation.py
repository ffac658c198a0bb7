"""Where jobs hold GPUs, and whose GPUs are freed for others. Compiled; lab and live share it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit, reference_to
from steward.decide.placement import Demand, NodeOccupancy, Placement, give, take
from steward.decide.placement.gangs import widest_node
from steward.decide.placement.kernels import place_guided
from steward.decide.placement.scores import Guide
from steward.decide.scheduling.kernels.ordered import fits
from steward.decide.scheduling.kernels.queue_state import QueueState

__all__ = [
    "Allocation",
    "AllocationCount",
    "allocation_by_reference",
    "choose_place",
    "demand_of",
    "free_gpus_for",
    "release_gpus",
]

Array = NDArray[Any]


class AllocationCount(IntEnum):
    """What the counters of an allocation count."""

    FREED = 0
    MOVED = 1
    UNPLACED = 2


class Allocation(NamedTuple):
    """Nodes, what each job asks for, and where it is: job i is in row `slot[i]` of the slots."""

    placement: int
    placed: int  # 0: GPUs are only counted, and slots are not used
    guide: Guide
    nodes: NodeOccupancy
    gpus: Array  # by job: whole GPUs
    milli: Array  # or thousandths of one
    cpus: Array
    memory: Array
    may_stop: Array  # by job: 0 while it runs, it must go on
    slots: Array  # free rows of the slots; the first number is how many
    slot: Array  # by job
    slot_node: Array  # the last row is scratch space
    slot_gpus: Array
    slot_n: Array
    unplaced: Array  # jobs that found no place in this call
    freed: Array  # jobs whose GPUs were freed for the job that starts
    moved: Array  # jobs that make room for it by moving
    counts: Array  # see `AllocationCount`
    moves: int  # 1: running jobs may move to make room on a node
    now_s: Array  # the first number


NodesRef, NodesRefType = reference_to("NodesRef", NodeOccupancy._fields, module=__name__)
AllocationRef, AllocationRefType = reference_to(
    "AllocationRef", Allocation._fields, module=__name__
)


@njit
def allocation_by_reference(alloc: Allocation) -> Any:  # noqa: ANN401 - has the fields of an Allocation
    """Return the same allocation as a record that compiled functions pass on by reference."""
    nodes = alloc.nodes
    return AllocationRef(
        alloc.placement,
        alloc.placed,
        alloc.guide,
        NodesRef(
            nodes.free,
            nodes.gpus,
            nodes.milli,
            nodes.cpus_free,
            nodes.memory_free,
            nodes.type,
            nodes.rack,
            nodes.switch,
            nodes.cluster,
            nodes.up,
            nodes.mig,
            nodes.sizes,
        ),
        alloc.gpus,
        alloc.milli,
        alloc.cpus,
        alloc.memory,
        alloc.may_stop,
        alloc.slots,
        alloc.slot,
        alloc.slot_node,
        alloc.slot_gpus,
        alloc.slot_n,
        alloc.unplaced,
        alloc.freed,
        alloc.moved,
        alloc.counts,
        alloc.moves,
        alloc.now_s,
    )


@njit
def demand_of(queue: QueueState, alloc: Allocation, job: int) -> Demand:
    """Return what a job asks for, as placement understands it."""
    return Demand(
        alloc.gpus[job], alloc.milli[job], alloc.cpus[job], alloc.memory[job], queue.types[job]
    )


@njit
def choose_place(queue: QueueState, alloc: Allocation, job: int) -> bool:
    """Find GPUs for a job and hold them; `slot` says where. The preferred pool is tried first."""
    allowed, found = queue.types[job], False
    kind = fits(queue, queue.free, job)
    while kind >= 0 and not found:
        found = not alloc.placed or _place_in(alloc, job, kind)
        if not found:
            queue.types[job] &= ~(1 << kind)
            kind = fits(queue, queue.free, job)
    queue.types[job] = allowed
    if found:
        queue.held_type[job] = kind
        queue.free[kind] -= queue.need[job]
    return found


@njit
def _place_in(alloc: Allocation, job: int, kind: int) -> bool:
    """Find nodes of one pool for a job and hold them."""
    # Tried in a row of its own: the free rows still say where jobs were that may come back.
    tried = len(alloc.slot_n) - 1
    demand = Demand(
        alloc.gpus[job], alloc.milli[job], alloc.cpus[job], alloc.memory[job], 1 << kind
    )
    n = place_guided(
        alloc.placement,
        alloc.nodes,
        demand,
        alloc.guide,
        alloc.slot_node[tried],
        alloc.slot_gpus[tried],
    )
    if n == 0:
        return False
    row = alloc.slots[alloc.slots[0]]
    alloc.slots[0] -= 1
    alloc.slot[job], alloc.slot_n[row] = row, n
    for i in range(n):
        alloc.slot_node[row, i] = alloc.slot_node[tried, i]
        alloc.slot_gpus[row, i] = alloc.slot_gpus[tried, i]
    take(alloc.nodes, demand, alloc.slot_node[row], alloc.slot_gpus[row], n)
    return True


@njit
def release_gpus(queue: QueueState, alloc: Allocation, job: int) -> None:
    """Free what a running job holds."""
    queue.free[queue.held_type[job]] += queue.need[job]
    if alloc.placed:
        row = alloc.slot[job]
        give(
            alloc.nodes,
            demand_of(queue, alloc, job),
            alloc.slot_node[row],
            alloc.slot_gpus[row],
            alloc.slot_n[row],
        )
        alloc.slots[0] += 1
        alloc.slots[alloc.slots[0]] = row


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
        return _clear_node(queue, alloc, job, candidates)
    return _free_by_rank(queue, alloc, job, candidates)


@njit
def _free_by_rank(queue: QueueState, alloc: Allocation, job: int, candidates: int) -> int:
    """Free candidates one by one until the job fits."""
    left = candidates
    while left > 0:
        left -= 1
        release_gpus(queue, alloc, queue.stop[left])
        if choose_place(queue, alloc, job):
            for i in range(candidates - 1, left - 1, -1):
                _note_freed(queue, alloc, queue.stop[i])
            return left
    for i in range(candidates):
        _take_back(queue, alloc, queue.stop[i])
    return -1


@njit
def _note_freed(queue: QueueState, alloc: Allocation, job: int) -> None:
    queue.runs[job] = 3
    alloc.freed[alloc.counts[AllocationCount.FREED]] = job
    alloc.counts[AllocationCount.FREED] += 1


# A gang that must be on one node needs the right jobs to make room, not the worst ones somewhere.


@njit
def _clear_node(queue: QueueState, alloc: Allocation, job: int, candidates: int) -> int:
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
            _hold_again(queue, alloc)
    left = 0
    for i in range(candidates):
        other = queue.stop[i]
        if queue.runs[other] == 2:
            queue.runs[other] = 1
            queue.stop[left] = other
            left += 1
    return left if done else -1


@njit
def _hold_again(queue: QueueState, alloc: Allocation) -> None:
    """Undo what `_empty` has done."""
    while alloc.counts[AllocationCount.MOVED] > 0:
        alloc.counts[AllocationCount.MOVED] -= 1
        job = alloc.moved[alloc.counts[AllocationCount.MOVED]]
        queue.runs[job] = 1
        _take_back(queue, alloc, job)
    while alloc.counts[AllocationCount.FREED] > 0:
        alloc.counts[AllocationCount.FREED] -= 1
        job = alloc.freed[alloc.counts[AllocationCount.FREED]]
        queue.runs[job] = 2
        _take_back(queue, alloc, job)


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
        if _is_on(alloc, queue.stop[i], node):
            release_gpus(queue, alloc, queue.stop[i])
            _note_freed(queue, alloc, queue.stop[i])
    _spare_needless(queue, alloc, alloc.gpus[job], node)
    spare = nodes.free.copy()
    for i in range(queue.running_n[0] - 1, -1, -1):
        mover = queue.running[i]
        if nodes.free[node] >= alloc.gpus[job]:
            return
        if not _movable(queue, alloc, mover) or not _is_on(alloc, mover, node):
            continue
        to = _elsewhere(queue, alloc, mover, spare)
        if to >= 0:
            spare[to] -= alloc.gpus[mover]
            release_gpus(queue, alloc, mover)
            queue.runs[mover] = 4
            alloc.moved[alloc.counts[AllocationCount.MOVED]] = mover
            alloc.counts[AllocationCount.MOVED] += 1


@njit
def _spare_needless(queue: QueueState, alloc: Allocation, need: int, node: int) -> None:
    """Hold again what freed jobs have on a node that is free enough so, best ranks first."""
    kept = 0
    for i in range(alloc.counts[AllocationCount.FREED] - 1, -1, -1):
        job = alloc.freed[i]
        mine = _gpus_on(alloc, job, node)
        if alloc.nodes.free[node] - mine >= need:
            queue.runs[job] = 2
            _take_back(queue, alloc, job)
            alloc.freed[i] = -1
    for i in range(alloc.counts[AllocationCount.FREED]):
        if alloc.freed[i] >= 0:
            alloc.freed[kept] = alloc.freed[i]
            kept += 1
    alloc.counts[AllocationCount.FREED] = kept


@njit
def _gpus_on(alloc: Allocation, job: int, node: int) -> int:
    """Return how many GPUs of a node a job holds."""
    row, gpus = alloc.slot[job], 0
    for k in range(alloc.slot_n[row]):
        if alloc.slot_node[row, k] == node:
            gpus += max(alloc.slot_gpus[row, k], 0)
    return gpus


@njit
def _is_on(alloc: Allocation, job: int, node: int) -> bool:
    row = alloc.slot[job]
    for k in range(alloc.slot_n[row]):  # noqa: SIM110 - compiled code has no generators
        if alloc.slot_node[row, k] == node:
            return True
    return False


@njit
def _take_back(queue: QueueState, alloc: Allocation, job: int) -> None:
    """Hold again what `release_gpus` has just freed."""
    queue.free[queue.held_type[job]] -= queue.need[job]
    if alloc.placed:
        row = alloc.slot[job]
        at = alloc.slots[0]
        while alloc.slots[at] != row:
            at -= 1
        alloc.slots[at] = alloc.slots[alloc.slots[0]]
        alloc.slots[0] -= 1
        take(
            alloc.nodes,
            demand_of(queue, alloc, job),
            alloc.slot_node[row],
            alloc.slot_gpus[row],
            alloc.slot_n[row],
        )
