"""Where jobs hold GPUs: finding a place, and giving it up. Compiled; lab and live share it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from numpy.typing import NDArray

from steward.compiled import njit, reference_to
from steward.decide.placement import Demand, NodeOccupancy, give, take
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
    "gpus_on",
    "hold_again",
    "is_on",
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
    may_stop: Array  # by job: 0: once it runs, it must go on
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
    kept_s: Array  # by node: until when it is kept for a gang; infinity: it is not
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
        alloc.kept_s,
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
    """Find GPUs for a job and hold them; `slot` says where. The preferred pool is tried first.

    Not on a node that is kept for a gang, if the job could neither be stopped nor end in time.
    """
    allowed, found = queue.types[job], False
    if not alloc.may_stop[job]:
        _hide_kept(queue, alloc, job)
    kind = fits(queue, queue.free, job)
    while kind >= 0 and not found:
        found = not alloc.placed or _place_in(alloc, job, kind)
        if not found:
            queue.types[job] &= ~(1 << kind)
            kind = fits(queue, queue.free, job)
    queue.types[job] = allowed
    if not alloc.may_stop[job]:
        _show_kept(alloc)
    if found:
        queue.held_type[job] = kind
        queue.free[kind] -= queue.need[job]
    return found


@njit
def _hide_kept(queue: QueueState, alloc: Allocation, job: int) -> None:
    """Let nodes look full that are kept for a gang which this job may outstay."""
    ends_s, free = alloc.now_s[0] + queue.limit_s[job], alloc.nodes.free
    for node in range(len(alloc.kept_s)):
        if alloc.kept_s[node] < ends_s and free[node] > 0:
            free[node] = -free[node]


@njit
def _show_kept(alloc: Allocation) -> None:
    """Undo what `_hide_kept` has done."""
    free = alloc.nodes.free
    for node in range(len(alloc.kept_s)):
        free[node] = abs(free[node])


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


@njit
def hold_again(queue: QueueState, alloc: Allocation, job: int) -> None:
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


@njit
def gpus_on(alloc: Allocation, job: int, node: int) -> int:
    """Return how many GPUs of a node a job holds."""
    row, gpus = alloc.slot[job], 0
    for k in range(alloc.slot_n[row]):
        if alloc.slot_node[row, k] == node:
            gpus += max(alloc.slot_gpus[row, k], 0)
    return gpus


@njit
def is_on(alloc: Allocation, job: int, node: int) -> bool:
    """Return True if a job holds GPUs of a node."""
    row = alloc.slot[job]
    for k in range(alloc.slot_n[row]):  # noqa: SIM110 - compiled code has no generators
        if alloc.slot_node[row, k] == node:
            return True
    return False
