"""Gangs that have waited too long: whose turn it is, and which node is cleared or kept for it.

A gang is a job of several GPUs. Where running jobs cannot move, the GPUs that fall free one by one
are never on one node, and small jobs take them: a wide gang may starve though its tenant is owed
its GPUs. So a gang that has waited `gang_wait_s` is overdue. Whatever its rank, it is promised GPUs
first, after all guarantees; the one that has waited longest is served, one at an instant. A node is
cleared for it by stopping jobs that can go on elsewhere. Where each node has a job that cannot be
stopped, the node that such jobs leave soonest is kept: GPUs there go on being used, but only by
jobs that can be stopped or end in time. A gang that was served is stopped for a better rank only
after it has run for `gang_wait_s`, too.
"""

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
    is_on,
    release_gpus,
)
from steward.decide.scheduling.kernels.commons import share_commons
from steward.decide.scheduling.kernels.node_clearing import (
    free_gpus_for,
    note_freed,
    spare_needless,
    stoppable,
    undo_clearing,
)
from steward.decide.scheduling.kernels.queue_state import QueueState, enter, leave

__all__ = ["ITS_TURN", "keeps_its_turn", "place_overdue"]

Array = NDArray[Any]

ITS_TURN = -2.0  # the key of gangs whose turn it is: before jobs that cannot be stopped
_ROUNDING_S = 1e-6  # a replay's looks at one instant are a hair apart live
_MOST_KEPT = 0.25  # of all nodes
_LATER = 1e-6  # of two overdue gangs, the key of the second is so much larger


@njit
def keeps_its_turn(since_s: Any, queued_s: Any, now_s: float, gang_wait_s: float) -> Any:  # noqa: ANN401 - numbers or arrays
    """Return whether a running gang was overdue and has run for less than `gang_wait_s` since."""
    least_s = gang_wait_s - _ROUNDING_S
    return (since_s - queued_s >= least_s) & (now_s - since_s < least_s)


@njit
def place_overdue(queue: QueueState, alloc: Allocation, gang_wait_s: float) -> int:
    """Hold GPUs for the first overdue gang that can be served, and return it; -1: there is none.

    Jobs that are stopped for it are in `alloc.freed`. For those that are promised GPUs and find no
    node, nodes are kept: see `alloc.kept_s`.
    """
    alloc.kept_s[:] = np.inf
    gangs = _overdue(queue, alloc, gang_wait_s)
    if len(gangs) == 0 or _served_now(queue, alloc, gang_wait_s):
        return -1
    promised = _promised(queue, gangs)
    candidates = stoppable(queue, alloc)
    for i in range(len(gangs)):
        if promised[i] and _served(queue, alloc, gangs[i], candidates, gang_wait_s):
            return int(gangs[i])
    return -1


@njit
def _served_now(queue: QueueState, alloc: Allocation, gang_wait_s: float) -> bool:
    """Return True if a gang was served at this very instant: first, who made room may go on."""
    now_s = alloc.now_s[0]
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        since_s, queued_s = queue.since_s[job], queue.queued_s[job]
        began = alloc.gpus[job] > 1 and since_s >= now_s
        if began and keeps_its_turn(since_s, queued_s, now_s, gang_wait_s):
            return True
    return False


@njit
def _served(
    queue: QueueState, alloc: Allocation, job: int, candidates: int, gang_wait_s: float
) -> bool:
    """Hold GPUs for an overdue gang if that can be done now; else keep a node, if none is kept."""
    nodes = alloc.nodes
    up = nodes.up.copy()
    kept = 0
    for node in range(len(up)):
        if alloc.kept_s[node] < np.inf:  # for one that has waited longer
            nodes.up[node] = False
            kept += 1
    found = free_gpus_for(queue, alloc, job, candidates) >= 0
    if not found and alloc.placement == Placement.PACKED:
        found = _evict(queue, alloc, job, gang_wait_s)
        one_node = alloc.gpus[job] <= widest_node(nodes, demand_of(queue, alloc, job))
        if not found and one_node and kept < _MOST_KEPT * len(up):
            _keep_node(queue, alloc, job, gang_wait_s)
    nodes.up[:] = up
    return found


@njit
def _overdue(queue: QueueState, alloc: Allocation, gang_wait_s: float) -> Array:
    """Return the gangs that have waited so long, the longest first; among equals by arrival."""
    found = np.empty(queue.length.sum(), np.int64)
    queued_s, n = queue.queued_s, 0
    for q in range(len(queue.length)):
        for i in range(queue.first[q], queue.first[q] + queue.length[q]):
            job = queue.waiting[i]
            waited_s = alloc.now_s[0] - queued_s[job]
            if alloc.gpus[job] < 2 or waited_s < gang_wait_s - _ROUNDING_S:
                continue
            at = n
            while at > 0:
                later_s = queued_s[found[at - 1]] - queued_s[job]
                if later_s < -_ROUNDING_S or (later_s <= _ROUNDING_S and found[at - 1] < job):
                    break
                found[at] = found[at - 1]
                at -= 1
            found[at] = job
            n += 1
    return found[:n]


@njit
def _promised(queue: QueueState, gangs: Array) -> Array:
    """Return which gangs get GPUs if they go before all others, but after guarantees.

    `queue.stop` lists who would be promised nothing then.
    """
    keys = queue.key[gangs]
    for i in range(len(gangs)):
        leave(queue, gangs[i])
        queue.key[gangs[i]] = ITS_TURN + _LATER * (i + 1)
        enter(queue, gangs[i])
    share_commons(queue)
    for i in range(queue.answer_n[0]):
        queue.runs[queue.start[i]] = 3
    promised: Array = queue.runs[gangs] == 3
    for i in range(queue.answer_n[0]):
        queue.runs[queue.start[i]] = 0
    for i in range(len(gangs)):
        leave(queue, gangs[i])
        queue.key[gangs[i]] = keys[i]
        enter(queue, gangs[i])
    return promised


@njit
def _may_evict(queue: QueueState, alloc: Allocation, job: int, gang_wait_s: float) -> bool:
    """Return True if a running job may be stopped for a gang: it can be, and has had its turn."""
    since_s, now_s = queue.since_s[job], alloc.now_s[0]
    if queue.runs[job] != 1 or not alloc.may_stop[job] or since_s >= now_s:
        return False
    return alloc.gpus[job] < 2 or not keeps_its_turn(
        since_s, queue.queued_s[job], now_s, gang_wait_s
    )


@njit
def _evict(queue: QueueState, alloc: Allocation, job: int, gang_wait_s: float) -> bool:
    """Stop jobs of the cheapest node until a gang fits there; one wider than it goes on to others.

    Those that are stopped may be owed GPUs themselves; they get them elsewhere in the next calls.
    """
    alloc.counts[AllocationCount.FREED] = alloc.counts[AllocationCount.MOVED] = 0
    nodes, need = alloc.nodes, alloc.gpus[job]
    one_node = need <= widest_node(nodes, demand_of(queue, alloc, job))
    tried = np.zeros(len(nodes.free), np.bool_)
    found = False
    while not found:
        node = _cheapest_node(queue, alloc, job, tried, gang_wait_s)
        if node < 0 or (one_node and tried.any()):
            break
        tried[node] = True
        _empty_node(queue, alloc, node, min(need, nodes.gpus[node]), gang_wait_s)
        found = choose_place(queue, alloc, job)
    if not found:
        undo_clearing(queue, alloc)
    for i in range(queue.running_n[0]):
        if queue.runs[queue.running[i]] == 2:  # spared
            queue.runs[queue.running[i]] = 1
    return found


@njit
def _empty_node(
    queue: QueueState, alloc: Allocation, node: int, need: int, gang_wait_s: float
) -> None:
    """Free so many GPUs of a node, of the worst ranks first, and no more than it takes."""
    for i in range(queue.running_n[0] - 1, -1, -1):
        other = queue.running[i]
        if alloc.nodes.free[node] >= need:
            break
        if is_on(alloc, other, node) and _may_evict(queue, alloc, other, gang_wait_s):
            release_gpus(queue, alloc, other)
            note_freed(queue, alloc, other)
    spare_needless(queue, alloc, need, node)


@njit
def _cheapest_node(
    queue: QueueState, alloc: Allocation, job: int, tried: Array, gang_wait_s: float
) -> int:
    """Return the node where the fewest GPUs have to be freed for a gang, or -1."""
    nodes, best, least = alloc.nodes, -1, 0
    for node in range(len(nodes.free)):
        part = min(alloc.gpus[job], nodes.gpus[node])
        missing = max(part - nodes.free[node], 0)
        if tried[node] or not nodes.up[node] or not (queue.types[job] >> nodes.type[node]) & 1:
            continue
        if best >= 0 and missing >= least:
            continue
        held = 0
        for i in range(queue.running_n[0]):
            other = queue.running[i]
            if _may_evict(queue, alloc, other, gang_wait_s):
                held += gpus_on(alloc, other, node)
        if held >= missing:
            best, least = node, missing
    return best


@njit
def _keep_node(queue: QueueState, alloc: Allocation, job: int, gang_wait_s: float) -> None:
    """Keep the node that is left soonest by jobs that cannot be stopped."""
    nodes, kept, soonest_s = alloc.nodes, -1, np.inf
    for node in range(len(nodes.free)):
        if not nodes.up[node] or not (queue.types[job] >> nodes.type[node]) & 1:
            continue
        date_s, room = alloc.now_s[0], nodes.free[node]
        for i in range(queue.running_n[0]):
            other = queue.running[i]
            mine = gpus_on(alloc, other, node)
            room += mine
            if mine > 0 and not _may_evict(queue, alloc, other, gang_wait_s):
                date_s = max(date_s, queue.since_s[other] + queue.limit_s[other])
        if room >= alloc.gpus[job] and date_s < soonest_s:
            kept, soonest_s = node, date_s
    if kept >= 0:
        alloc.kept_s[kept] = soonest_s
