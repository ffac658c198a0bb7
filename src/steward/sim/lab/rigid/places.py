"""Where jobs go, and whose GPUs are freed for them. Compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.placement import Placement, Want, give, take
from steward.decide.placement.gangs import widest_node
from steward.decide.placement.kernels import place_guided
from steward.decide.scheduling.passes.ordered import fits
from steward.sim.lab.rigid.world import Rules, Tally, World

__all__ = ["choose_place", "freed_for", "give_up_place", "want_of"]

Array = NDArray[Any]


@njit
def want_of(world: World, job: int) -> Want:
    """Return what a job asks for, as placement understands it."""
    book = world.book
    return Want(
        world.gpus[job], world.milli[job], world.cpus[job], world.memory[job], book.types[job]
    )


@njit
def choose_place(world: World, job: int) -> bool:
    """Find GPUs for a job and hold them; `slot` says where. The preferred pool is tried first."""
    book = world.book
    allowed, found = book.types[job], False
    kind = fits(book, book.free, job)
    while kind >= 0 and not found:
        found = world.placement == Placement.COUNT or _place_in(world, job, kind)
        if not found:
            book.types[job] &= ~(1 << kind)
            kind = fits(book, book.free, job)
    book.types[job] = allowed
    if found:
        book.held_type[job] = kind
        book.free[kind] -= book.need[job]
    return found


@njit
def _place_in(world: World, job: int, kind: int) -> bool:
    """Find nodes of one pool for a job and hold them."""
    # Tried in a row of its own: the free rows still say where jobs were that may come back.
    tried = len(world.slot_n) - 1
    want = Want(world.gpus[job], world.milli[job], world.cpus[job], world.memory[job], 1 << kind)
    n = place_guided(
        world.placement,
        world.nodes,
        want,
        world.guide,
        world.slot_node[tried],
        world.slot_gpus[tried],
    )
    if n == 0:
        return False
    row = world.slots[world.slots[0]]
    world.slots[0] -= 1
    world.slot[job], world.slot_n[row] = row, n
    for i in range(n):
        world.slot_node[row, i] = world.slot_node[tried, i]
        world.slot_gpus[row, i] = world.slot_gpus[tried, i]
    take(world.nodes, want, world.slot_node[row], world.slot_gpus[row], n)
    return True


@njit
def give_up_place(world: World, job: int) -> None:
    """Free what a running job holds."""
    book = world.book
    book.free[book.held_type[job]] += book.need[job]
    if world.placement != Placement.COUNT:
        row = world.slot[job]
        give(
            world.nodes,
            want_of(world, job),
            world.slot_node[row],
            world.slot_gpus[row],
            world.slot_n[row],
        )
        world.slots[0] += 1
        world.slots[world.slots[0]] = row


# `book.runs` says what becomes of a running job: 1 nothing, 2 may stop, 3 stops, 4 moves.


@njit
def freed_for(world: World, rules: Rules, job: int, candidates: int) -> int:
    """Hold GPUs for a job; free those of candidates in `book.stop` if needed, the last first.

    Those freed are written to `world.freed` and taken out of the list; those that gave up their
    place only to move, to `world.moved`. Returns how many candidates are left; -1: it does not fit
    even so, and nothing has changed.
    """
    world.tally[Tally.MOVED] = 0
    if choose_place(world, job):
        return candidates
    want = want_of(world, job)
    if world.placement == Placement.PACKED and 0 < want.gpus <= widest_node(world.nodes, want):
        return _clear_node(world, rules, job, candidates)
    return _free_by_rank(world, job, candidates)


@njit
def _free_by_rank(world: World, job: int, candidates: int) -> int:
    """Free candidates one by one until the job fits."""
    book = world.book
    left = candidates
    while left > 0:
        left -= 1
        give_up_place(world, book.stop[left])
        if choose_place(world, job):
            for i in range(candidates - 1, left - 1, -1):
                _note_freed(world, book.stop[i])
            return left
    for i in range(candidates):
        _take_back(world, book.stop[i])
    return -1


@njit
def _note_freed(world: World, job: int) -> None:
    world.book.runs[job] = 3
    world.freed[world.tally[Tally.FREED]] = job
    world.tally[Tally.FREED] += 1


# A gang that must be on one node needs the right jobs to make room, not the worst ones somewhere.


@njit
def _clear_node(world: World, rules: Rules, job: int, candidates: int) -> int:
    """Free one node far enough: by stopping candidates there and, if that is not enough, by moves.

    Only jobs move for which there is room elsewhere, and they go on there at this very instant.
    """
    book = world.book
    for i in range(candidates):
        book.runs[book.stop[i]] = 2
    first = world.tally[Tally.FREED]
    world.tally[Tally.MOVED] = 0
    node = _cheapest_node(world, rules, job, candidates)
    done = False
    if node >= 0:
        _empty(world, job, node, candidates)
        allowed = book.types[job]
        book.types[job] = 1 << world.nodes.type[node]
        done = choose_place(world, job)
        book.types[job] = allowed
        if not done:  # movers in one another's way, too few CPUs, or too little memory
            _hold_again(world, first)
    left = 0
    for i in range(candidates):
        other = book.stop[i]
        if book.runs[other] == 2:
            book.runs[other] = 1
            book.stop[left] = other
            left += 1
    return left if done else -1


@njit
def _hold_again(world: World, first: int) -> None:
    """Undo what `_empty` has done."""
    book = world.book
    while world.tally[Tally.MOVED] > 0:
        world.tally[Tally.MOVED] -= 1
        job = world.moved[world.tally[Tally.MOVED]]
        book.runs[job] = 1
        _take_back(world, job)
    while world.tally[Tally.FREED] > first:
        world.tally[Tally.FREED] -= 1
        job = world.freed[world.tally[Tally.FREED]]
        book.runs[job] = 2
        _take_back(world, job)


@njit
def _movable(world: World, job: int) -> bool:
    """Whether a running job may move: it is on one node, did not just start, and no stop hurts."""
    book = world.book
    return bool(
        book.runs[job] == 1
        and world.slot_n[world.slot[job]] == 1
        and world.milli[job] == 0
        and book.since_s[job] < world.now_s[0]
        and book.key[job] > 0.0
    )


@njit
def _elsewhere(world: World, job: int, spare: Array) -> int:
    """Return the fullest other node with so much to spare that a job could move there, or -1."""
    nodes, best = world.nodes, -1
    here = world.slot_node[world.slot[job], 0]
    for node in range(len(spare)):
        if node == here or spare[node] < world.gpus[job] or not nodes.up[node]:
            continue
        if (world.book.types[job] >> nodes.type[node]) & 1 and (
            best < 0 or spare[node] < spare[best]
        ):
            best = node
    return best


@njit
def _add_gpus(world: World, job: int, by_node: Array) -> None:
    """Count what a job holds on each node."""
    row = world.slot[job]
    for i in range(world.slot_n[row]):
        by_node[world.slot_node[row, i]] += max(world.slot_gpus[row, i], 0)  # below: a fraction


@njit
def _add_movable(world: World, by_node: Array) -> None:
    """Count what jobs hold on each node that could move, if each were the only one."""
    book, free = world.book, world.nodes.free
    freest = np.argmax(free)
    second = 0
    for node in range(len(free)):
        if node != freest:
            second = max(second, free[node])
    for i in range(book.running_n[0]):
        job = book.running[i]
        if _movable(world, job):
            on_freest = world.slot_node[world.slot[job], 0] == freest
            if world.gpus[job] <= (second if on_freest else free[freest]):
                _add_gpus(world, job, by_node)


@njit
def _cheapest_node(world: World, rules: Rules, job: int, candidates: int) -> int:
    """Return the node where the fewest GPUs have to move, then the one that is filled best."""
    book, nodes = world.book, world.nodes
    need, types = world.gpus[job], book.types[job]
    have, movable = nodes.free.copy(), np.zeros(len(nodes.free), np.int64)
    for i in range(candidates):
        _add_gpus(world, book.stop[i], have)
    if rules.moves:
        _add_movable(world, movable)
    best, best_moves = -1, need  # who asks for less than has to move does not get it
    for node in range(len(have)):
        moves = max(need - have[node], 0)
        if not nodes.up[node] or not (types >> nodes.type[node]) & 1 or moves > movable[node]:
            continue
        if moves < best_moves or (best >= 0 and moves == best_moves and have[node] < have[best]):
            best, best_moves = node, moves
    return best


@njit
def _empty(world: World, job: int, node: int, candidates: int) -> None:
    """Free GPUs of a node until there are enough: candidates first, then jobs that can move."""
    book, nodes = world.book, world.nodes
    for i in range(candidates - 1, -1, -1):
        if nodes.free[node] >= world.gpus[job]:
            return
        if _is_on(world, book.stop[i], node):
            give_up_place(world, book.stop[i])
            _note_freed(world, book.stop[i])
    spare = nodes.free.copy()
    for i in range(book.running_n[0] - 1, -1, -1):
        mover = book.running[i]
        if nodes.free[node] >= world.gpus[job]:
            return
        if not _movable(world, mover) or not _is_on(world, mover, node):
            continue
        to = _elsewhere(world, mover, spare)
        if to >= 0:
            spare[to] -= world.gpus[mover]
            give_up_place(world, mover)
            book.runs[mover] = 4
            world.moved[world.tally[Tally.MOVED]] = mover
            world.tally[Tally.MOVED] += 1


@njit
def _is_on(world: World, job: int, node: int) -> bool:
    row = world.slot[job]
    for k in range(world.slot_n[row]):  # noqa: SIM110 - compiled code has no generators
        if world.slot_node[row, k] == node:
            return True
    return False


@njit
def _take_back(world: World, job: int) -> None:
    """Hold again what `give_up_place` has just freed."""
    book = world.book
    book.free[book.held_type[job]] -= book.need[job]
    if world.placement != Placement.COUNT:
        row = world.slot[job]
        world.slots[0] -= 1  # rows were freed last to first: this takes the same ones back
        take(
            world.nodes,
            want_of(world, job),
            world.slot_node[row],
            world.slot_gpus[row],
            world.slot_n[row],
        )
