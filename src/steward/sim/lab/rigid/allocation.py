"""Where jobs go, and whose GPUs are freed for them. Compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.placement import Demand, Placement, give, take
from steward.decide.placement.gangs import widest_node
from steward.decide.placement.kernels import place_guided
from steward.decide.scheduling.kernels.ordered import fits
from steward.sim.lab.rigid.replay_state import Counter, PolicyParameters, ReplayState

__all__ = ["choose_place", "freed_for", "give_up_place", "want_of"]

Array = NDArray[Any]


@njit
def want_of(state: ReplayState, job: int) -> Demand:
    """Return what a job asks for, as placement understands it."""
    queue = state.queue
    return Demand(
        state.gpus[job], state.milli[job], state.cpus[job], state.memory[job], queue.types[job]
    )


@njit
def choose_place(state: ReplayState, job: int) -> bool:
    """Find GPUs for a job and hold them; `slot` says where. The preferred pool is tried first."""
    queue = state.queue
    allowed, found = queue.types[job], False
    kind = fits(queue, queue.free, job)
    while kind >= 0 and not found:
        found = state.placement == Placement.COUNT or _place_in(state, job, kind)
        if not found:
            queue.types[job] &= ~(1 << kind)
            kind = fits(queue, queue.free, job)
    queue.types[job] = allowed
    if found:
        queue.held_type[job] = kind
        queue.free[kind] -= queue.need[job]
    return found


@njit
def _place_in(state: ReplayState, job: int, kind: int) -> bool:
    """Find nodes of one pool for a job and hold them."""
    # Tried in a row of its own: the free rows still say where jobs were that may come back.
    tried = len(state.slot_n) - 1
    want = Demand(state.gpus[job], state.milli[job], state.cpus[job], state.memory[job], 1 << kind)
    n = place_guided(
        state.placement,
        state.nodes,
        want,
        state.guide,
        state.slot_node[tried],
        state.slot_gpus[tried],
    )
    if n == 0:
        return False
    row = state.slots[state.slots[0]]
    state.slots[0] -= 1
    state.slot[job], state.slot_n[row] = row, n
    for i in range(n):
        state.slot_node[row, i] = state.slot_node[tried, i]
        state.slot_gpus[row, i] = state.slot_gpus[tried, i]
    take(state.nodes, want, state.slot_node[row], state.slot_gpus[row], n)
    return True


@njit
def give_up_place(state: ReplayState, job: int) -> None:
    """Free what a running job holds."""
    queue = state.queue
    queue.free[queue.held_type[job]] += queue.need[job]
    if state.placement != Placement.COUNT:
        row = state.slot[job]
        give(
            state.nodes,
            want_of(state, job),
            state.slot_node[row],
            state.slot_gpus[row],
            state.slot_n[row],
        )
        state.slots[0] += 1
        state.slots[state.slots[0]] = row


# `queue.runs` says what becomes of a running job: 1 nothing, 2 may stop, 3 stops, 4 moves.


@njit
def freed_for(state: ReplayState, policy: PolicyParameters, job: int, candidates: int) -> int:
    """Hold GPUs for a job; free those of candidates in `queue.stop` if needed, the last first.

    Those freed are written to `state.freed` and taken out of the list; those that gave up their
    place only to move, to `state.moved`. Returns how many candidates are left; -1: it does not fit
    even so, and nothing has changed.
    """
    state.counters[Counter.MOVED] = 0
    if choose_place(state, job):
        return candidates
    want = want_of(state, job)
    if state.placement == Placement.PACKED and 0 < want.gpus <= widest_node(state.nodes, want):
        return _clear_node(state, policy, job, candidates)
    return _free_by_rank(state, job, candidates)


@njit
def _free_by_rank(state: ReplayState, job: int, candidates: int) -> int:
    """Free candidates one by one until the job fits."""
    queue = state.queue
    left = candidates
    while left > 0:
        left -= 1
        give_up_place(state, queue.stop[left])
        if choose_place(state, job):
            for i in range(candidates - 1, left - 1, -1):
                _note_freed(state, queue.stop[i])
            return left
    for i in range(candidates):
        _take_back(state, queue.stop[i])
    return -1


@njit
def _note_freed(state: ReplayState, job: int) -> None:
    state.queue.runs[job] = 3
    state.freed[state.counters[Counter.FREED]] = job
    state.counters[Counter.FREED] += 1


# A gang that must be on one node needs the right jobs to make room, not the worst ones somewhere.


@njit
def _clear_node(state: ReplayState, policy: PolicyParameters, job: int, candidates: int) -> int:
    """Free one node far enough: by stopping candidates there and, if that is not enough, by moves.

    Only jobs move for which there is room elsewhere, and they go on there at this very instant.
    """
    queue = state.queue
    for i in range(candidates):
        queue.runs[queue.stop[i]] = 2
    first = state.counters[Counter.FREED]
    state.counters[Counter.MOVED] = 0
    node = _cheapest_node(state, policy, job, candidates)
    done = False
    if node >= 0:
        _empty(state, job, node, candidates)
        allowed = queue.types[job]
        queue.types[job] = 1 << state.nodes.type[node]
        done = choose_place(state, job)
        queue.types[job] = allowed
        if not done:  # movers in one another's way, too few CPUs, or too little memory
            _hold_again(state, first)
    left = 0
    for i in range(candidates):
        other = queue.stop[i]
        if queue.runs[other] == 2:
            queue.runs[other] = 1
            queue.stop[left] = other
            left += 1
    return left if done else -1


@njit
def _hold_again(state: ReplayState, first: int) -> None:
    """Undo what `_empty` has done."""
    queue = state.queue
    while state.counters[Counter.MOVED] > 0:
        state.counters[Counter.MOVED] -= 1
        job = state.moved[state.counters[Counter.MOVED]]
        queue.runs[job] = 1
        _take_back(state, job)
    while state.counters[Counter.FREED] > first:
        state.counters[Counter.FREED] -= 1
        job = state.freed[state.counters[Counter.FREED]]
        queue.runs[job] = 2
        _take_back(state, job)


@njit
def _movable(state: ReplayState, job: int) -> bool:
    """Whether a running job may move: it is on one node, did not just start, and no stop hurts."""
    queue = state.queue
    return bool(
        queue.runs[job] == 1
        and state.slot_n[state.slot[job]] == 1
        and state.milli[job] == 0
        and queue.since_s[job] < state.now_s[0]
        and queue.key[job] > 0.0
    )


@njit
def _elsewhere(state: ReplayState, job: int, spare: Array) -> int:
    """Return the fullest other node with so much to spare that a job could move there, or -1."""
    nodes, best = state.nodes, -1
    here = state.slot_node[state.slot[job], 0]
    for node in range(len(spare)):
        if node == here or spare[node] < state.gpus[job] or not nodes.up[node]:
            continue
        if (state.queue.types[job] >> nodes.type[node]) & 1 and (
            best < 0 or spare[node] < spare[best]
        ):
            best = node
    return best


@njit
def _add_gpus(state: ReplayState, job: int, by_node: Array) -> None:
    """Count what a job holds on each node."""
    row = state.slot[job]
    for i in range(state.slot_n[row]):
        by_node[state.slot_node[row, i]] += max(state.slot_gpus[row, i], 0)  # below: a fraction


@njit
def _add_movable(state: ReplayState, by_node: Array) -> None:
    """Count what jobs hold on each node that could move, if each were the only one."""
    queue, free = state.queue, state.nodes.free
    freest = np.argmax(free)
    second = 0
    for node in range(len(free)):
        if node != freest:
            second = max(second, free[node])
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        if _movable(state, job):
            on_freest = state.slot_node[state.slot[job], 0] == freest
            if state.gpus[job] <= (second if on_freest else free[freest]):
                _add_gpus(state, job, by_node)


@njit
def _cheapest_node(state: ReplayState, policy: PolicyParameters, job: int, candidates: int) -> int:
    """Return the node where the fewest GPUs have to move, then the one that is filled best."""
    queue, nodes = state.queue, state.nodes
    need, types = state.gpus[job], queue.types[job]
    have, movable = nodes.free.copy(), np.zeros(len(nodes.free), np.int64)
    for i in range(candidates):
        _add_gpus(state, queue.stop[i], have)
    if policy.moves:
        _add_movable(state, movable)
    best, best_moves = -1, need  # who asks for less than has to move does not get it
    for node in range(len(have)):
        moves = max(need - have[node], 0)
        if not nodes.up[node] or not (types >> nodes.type[node]) & 1 or moves > movable[node]:
            continue
        if moves < best_moves or (best >= 0 and moves == best_moves and have[node] < have[best]):
            best, best_moves = node, moves
    return best


@njit
def _empty(state: ReplayState, job: int, node: int, candidates: int) -> None:
    """Free GPUs of a node until there are enough: candidates first, then jobs that can move."""
    queue, nodes = state.queue, state.nodes
    for i in range(candidates - 1, -1, -1):
        if nodes.free[node] >= state.gpus[job]:
            return
        if _is_on(state, queue.stop[i], node):
            give_up_place(state, queue.stop[i])
            _note_freed(state, queue.stop[i])
    spare = nodes.free.copy()
    for i in range(queue.running_n[0] - 1, -1, -1):
        mover = queue.running[i]
        if nodes.free[node] >= state.gpus[job]:
            return
        if not _movable(state, mover) or not _is_on(state, mover, node):
            continue
        to = _elsewhere(state, mover, spare)
        if to >= 0:
            spare[to] -= state.gpus[mover]
            give_up_place(state, mover)
            queue.runs[mover] = 4
            state.moved[state.counters[Counter.MOVED]] = mover
            state.counters[Counter.MOVED] += 1


@njit
def _is_on(state: ReplayState, job: int, node: int) -> bool:
    row = state.slot[job]
    for k in range(state.slot_n[row]):  # noqa: SIM110 - compiled code has no generators
        if state.slot_node[row, k] == node:
            return True
    return False


@njit
def _take_back(state: ReplayState, job: int) -> None:
    """Hold again what `give_up_place` has just freed."""
    queue = state.queue
    queue.free[queue.held_type[job]] -= queue.need[job]
    if state.placement != Placement.COUNT:
        row = state.slot[job]
        state.slots[0] -= 1  # rows were freed last to first: this takes the same ones back
        take(
            state.nodes,
            want_of(state, job),
            state.slot_node[row],
            state.slot_gpus[row],
            state.slot_n[row],
        )
