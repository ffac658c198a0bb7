"""The clockwork: events in their order, one look by the policy per instant. Compiled."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.decide.placement import Placement
from steward.decide.scheduling.passes.book import sort_running
from steward.decide.scheduling.passes.ordered import fill, reorder
from steward.decide.scheduling.ranking import Law
from steward.model.compiled import njit
from steward.sim.lab.rigid.heap import pop
from steward.sim.lab.rigid.moves import (
    _CHANGE,
    _FRONT,
    _NEXT,
    _PASSES,
    _WAITING,
    Rank,
    arrive,
    bring_up_to_date,
    end,
    freed_for,
    interrupt,
    promote,
    rank,
    reach_level,
    start,
    stop,
)
from steward.sim.lab.rigid.world import Rules, World, by_reference

__all__ = ["Pause", "advance"]


class Pause(IntEnum):
    """Why `advance` came back."""

    FINISHED = 0
    ROOM = 1  # for spans or events is short
    TURN = 2  # so many instants have passed: time to show progress


@njit
def _current(world: World, i: int) -> bool:
    """Whether an event still counts: nothing has happened to its job since."""
    return bool(world.heap.stamp[i] == world.stamp[world.heap.subject[i]])


@njit
def _next_s(world: World) -> float:
    """Return when something happens next; infinity: never."""
    heap = world.heap
    while heap.size[0] > 0 and not _current(world, 0):
        pop(heap)
    soonest = heap.time_s[0] if heap.size[0] > 0 else np.inf
    if world.count[_NEXT] < len(world.submit_s):
        soonest = min(soonest, world.submit_s[world.count[_NEXT]])
    if world.count[_CHANGE] < len(world.change_s):
        soonest = min(soonest, world.change_s[world.count[_CHANGE]])
    return float(soonest)


@njit
def _happen(world: World, rules: Rules, ranks_from: int, ranks_to: int) -> None:
    """Let everything of these ranks happen that is due now."""
    heap, now = world.heap, world.now_s[0]
    while heap.size[0] > 0 and heap.time_s[0] <= now and heap.rank[0] <= ranks_to:
        job, kind = heap.subject[0], heap.rank[0]
        current = _current(world, 0)
        pop(heap)
        if not current or kind < ranks_from:
            continue
        if kind == Rank.END:
            end(world, rules, job)
        elif kind == Rank.LEVEL:
            reach_level(world, rules, job)
        elif kind == Rank.PROMOTION:
            promote(world, rules, job)


@njit
def _change_machines(world: World, rules: Rules) -> None:
    """Nodes go away or come; jobs of a node that goes are interrupted, the youngest first."""
    book = world.book
    while (
        world.count[_CHANGE] < len(world.change_s)
        and world.change_s[world.count[_CHANGE]] <= world.now_s[0]
    ):
        i = world.count[_CHANGE]
        world.count[_CHANGE] += 1
        node, kind, milli = world.change_node[i], world.change_type[i], world.change_milli[i]
        if milli < 0:
            _clear(world, rules, node, kind, milli)
        book.free[kind] += milli
        book.capacity[kind] += milli
        if world.placement != Placement.COUNT:
            world.nodes.up[node] = milli > 0


@njit
def _clear(world: World, rules: Rules, node: int, kind: int, milli: int) -> None:
    """Interrupt whoever is on a node; where GPUs are only counted, the youngest until it fits."""
    book = world.book
    while True:
        youngest = -1
        for i in range(book.running_n[0]):
            job = book.running[i]
            if _touches(world, job, node, kind) and (
                youngest < 0 or book.since_s[job] >= book.since_s[youngest]
            ):
                youngest = job
        if youngest < 0 or (
            world.placement == Placement.COUNT and book.free[kind] + milli >= 0
        ):
            return
        interrupt(world, rules, youngest)


@njit
def _touches(world: World, job: int, node: int, kind: int) -> bool:
    if world.placement == Placement.COUNT:
        return bool(world.book.held_type[job] == kind and world.book.need[job] > 0)
    row = world.slot[job]
    for i in range(world.slot_n[row]):
        if world.slot_node[row, i] == node:
            return True
    return False


@njit
def _arrivals(world: World, rules: Rules) -> int:
    """Let due jobs come in; return how many came."""
    came = 0
    while (
        world.count[_NEXT] < len(world.submit_s)
        and world.submit_s[world.count[_NEXT]] <= world.now_s[0]
    ):
        job = world.count[_NEXT]
        world.count[_NEXT] += 1
        came += 1
        if world.needs[job] == 0:
            arrive(world, rules, job)
    return came


@njit
def _rank_running(world: World, rules: Rules) -> None:
    """Ranks that fall while a job runs are brought up to date."""
    book = world.book
    for i in range(book.running_n[0]):
        job = book.running[i]
        bring_up_to_date(world, job)
        book.key[job] = rank(world, rules, job)


@njit
def _carry_out(world: World, rules: Rules) -> None:
    """Start and stop as the pass has said; nobody is stopped for a job that does not fit anyway."""
    book = world.book
    stop_n = book.answer_n[1]
    stopped = 0
    for i in range(book.answer_n[0]):
        job = book.start[i]
        freed = freed_for(world, job, stop_n - stopped)
        if freed >= 0:
            stopped += freed
            start(world, rules, job)
    first = stop_n - stopped
    world.count[_FRONT] -= stopped
    for i in range(first, stop_n):
        stop(world, rules, book.stop[i], i - first)


@njit
def _list_running(world: World, walked: int) -> None:
    """Write down who runs now: in the order of the walk, then whoever was spared."""
    book = world.book
    n = 0
    if walked > 0:
        for i in range(book.running_n[0]):
            book.walked[walked + i] = book.running[i]
        for i in range(walked + book.running_n[0]):
            job = book.walked[i]
            if book.runs[job] == 1:
                book.runs[job] = 2
                book.running[n] = job
                n += 1
        for i in range(n):
            book.runs[book.running[i]] = 1
        book.running_n[0] = n
        return
    for i in range(book.running_n[0]):
        if book.runs[book.running[i]] == 1:
            book.running[n] = book.running[i]
            n += 1
    for i in range(book.answer_n[0]):
        if book.runs[book.start[i]] == 1:
            book.running[n] = book.start[i]
            n += 1
    book.running_n[0] = n


@njit
def _no_longer_late(world: World, came: int) -> None:
    book = world.book
    for i in range(book.running_n[0]):
        book.late[book.running[i]] = 0
    for job in range(max(world.count[_NEXT] - came, 0), world.count[_NEXT]):
        book.late[job] = 0


@njit
def _look(world: World, rules: Rules) -> None:
    """One look by the policy."""
    book = world.book
    world.count[_PASSES] += 1
    if rules.preempts:
        if rules.law == Law.REMAINING:
            _rank_running(world, rules)
        reorder(book, rules.ties)
        _carry_out(world, rules)
        _list_running(world, book.answer_n[2])
    else:
        fill(book, rules.walk)
        _carry_out(world, rules)
        _list_running(world, 0)


@njit
def advance(world: World, rules: Rules, turns: int) -> int:
    """Go on until all is done, room is short, or so many instants have passed."""
    return _advance(by_reference(world), rules, turns)


@njit
def _advance(world: World, rules: Rules, turns: int) -> int:
    heap, spans, book = world.heap, world.spans, world.book
    for _ in range(turns):
        room = len(book.running) + 64
        if spans.n[0] + room > len(spans.job) or heap.size[0] + 4 * room > len(heap.time_s):
            return Pause.ROOM.value
        now = _next_s(world)
        if now == np.inf:
            return Pause.FINISHED.value
        world.now_s[0] = now
        _happen(world, rules, Rank.END, Rank.END)
        _change_machines(world, rules)
        came = _arrivals(world, rules)
        _happen(world, rules, Rank.LEVEL, Rank.REVIEW)
        if world.count[_WAITING] > 0:
            _look(world, rules)
        elif rules.law == Law.LEVEL:
            sort_running(book)  # who fell a level now stands behind those that were there
        _no_longer_late(world, came)
    return Pause.TURN.value
