"""The clockwork: events in their order, one look by the policy per instant. Compiled."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.compiled import njit
from steward.decide.placement import Placement
from steward.decide.scheduling.passes.backfill import backfill_around_all, backfill_around_first
from steward.decide.scheduling.passes.book import Book, sort_running
from steward.decide.scheduling.passes.choose import choose
from steward.decide.scheduling.passes.ordered import Walk
from steward.decide.scheduling.ranking import Law, Sharing
from steward.sim.lab.rigid.heap import pop
from steward.sim.lab.rigid.moves import (
    Rank,
    arrive,
    bring_up_to_date,
    end,
    interrupt,
    move,
    promote,
    rank,
    rank_again,
    reach_level,
    start,
    stop,
)
from steward.sim.lab.rigid.places import freed_for
from steward.sim.lab.rigid.world import Rules, Tally, World, by_reference

__all__ = ["Pause", "advance"]

_TRIES = 16  # looks at one instant, where jobs find no place although there is room


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
    if world.tally[Tally.NEXT] < len(world.submit_s):
        soonest = min(soonest, world.submit_s[world.tally[Tally.NEXT]])
    if world.tally[Tally.CHANGE] < len(world.change_s):
        soonest = min(soonest, world.change_s[world.tally[Tally.CHANGE]])
    return float(soonest)


@njit
def _may_come(world: World, now_s: float) -> int:
    """Return how many jobs may come at an instant."""
    at = world.tally[Tally.NEXT]
    while at < len(world.submit_s) and world.submit_s[at] <= now_s:
        at += 1
    return int(at - world.tally[Tally.NEXT] + len(world.dependents))


@njit
def _only_a_level(world: World, now_s: float) -> bool:
    """Whether one job reaches its next level at an instant, and nothing else happens."""
    heap, tally = world.heap, world.tally
    if heap.size[0] == 0 or heap.time_s[0] > now_s or heap.rank[0] != Rank.LEVEL:
        return False
    for i in range(1, min(heap.size[0], 3)):
        if heap.time_s[i] <= now_s:
            return False
    if tally[Tally.NEXT] < len(world.submit_s) and world.submit_s[tally[Tally.NEXT]] <= now_s:
        return False
    return bool(
        tally[Tally.CHANGE] == len(world.change_s) or world.change_s[tally[Tally.CHANGE]] > now_s
    )


@njit
def _happen(world: World, rules: Rules, ranks_from: int, ranks_to: int) -> bool:
    """Let everything of these ranks happen that is due now; return whether it can matter."""
    heap, now = world.heap, world.now_s[0]
    book = world.book
    matters = False
    while heap.size[0] > 0 and heap.time_s[0] <= now and heap.rank[0] <= ranks_to:
        job, kind = heap.subject[0], heap.rank[0]
        current = _current(world, 0)
        pop(heap)
        if not current or kind < ranks_from:
            continue
        if kind == Rank.LEVEL:
            reach_level(world, rules, job)
            matters |= _may_be_passed(book, rules, job)
            continue
        matters = True
        if kind == Rank.END:
            end(world, rules, job)
        elif kind == Rank.PROMOTION:
            promote(world, rules, job)
        elif kind == Rank.REVIEW:
            rank_again(world, rules, job)
    return matters


@njit
def _may_be_passed(book: Book, rules: Rules, job: int) -> bool:
    """Whether somebody who waits may go before a running job: else it keeps what it has."""
    mine = book.key[job]
    if rules.choice == Sharing.COMMONS:  # weighed by at most what its tenant holds
        tenant = book.tenant[job]
        mine *= max(book.held[tenant] / max(book.quota[tenant], 1), 1.0)
    for q in range(len(book.length)):
        if book.length[q] == 0:
            continue
        theirs = book.key[book.waiting[book.first[q]]]
        if mine >= theirs and (
            rules.choice != Sharing.COMMONS
            or mine >= theirs * max(_held_before(book, q, theirs) / max(book.quota[q], 1), 1.0)
        ):
            return True
    return False


@njit
def _held_before(book: Book, tenant: int, key: float) -> int:
    """Return what running jobs of a tenant hold that rank before this."""
    held = 0
    for i in range(book.running_n[0]):
        job = book.running[i]
        if book.tenant[job] == tenant and book.key[job] <= key:
            held += book.need[job]
    return held


@njit
def _change_machines(world: World, rules: Rules) -> int:
    """Let nodes go away or come; jobs of one that goes are interrupted, the youngest first."""
    book = world.book
    changed = 0
    while (
        world.tally[Tally.CHANGE] < len(world.change_s)
        and world.change_s[world.tally[Tally.CHANGE]] <= world.now_s[0]
    ):
        i = world.tally[Tally.CHANGE]
        world.tally[Tally.CHANGE] += 1
        changed += 1
        node, kind, milli = world.change_node[i], world.change_type[i], world.change_milli[i]
        if milli < 0:
            _clear(world, rules, node, kind, milli, world.change_warning_s[i])
        book.free[kind] += milli
        book.capacity[kind] += milli
        if world.placement != Placement.COUNT:
            world.nodes.up[node] = milli > 0
    return changed


@njit
def _clear(world: World, rules: Rules, node: int, kind: int, milli: int, warning_s: float) -> None:
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
        if youngest < 0 or (world.placement == Placement.COUNT and book.free[kind] + milli >= 0):
            return
        interrupt(world, rules, youngest, warning_s)


@njit
def _touches(world: World, job: int, node: int, kind: int) -> bool:
    if world.placement == Placement.COUNT:
        return bool(world.book.held_type[job] == kind and world.book.need[job] > 0)
    row = world.slot[job]
    for i in range(world.slot_n[row]):  # noqa: SIM110 - compiled code has no generators
        if world.slot_node[row, i] == node:
            return True
    return False


@njit
def _arrivals(world: World, rules: Rules) -> int:
    """Let due jobs come in; return how many came."""
    came = 0
    while (
        world.tally[Tally.NEXT] < len(world.submit_s)
        and world.submit_s[world.tally[Tally.NEXT]] <= world.now_s[0]
    ):
        job = world.tally[Tally.NEXT]
        world.tally[Tally.NEXT] += 1
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
    candidates = book.answer_n[1]
    world.tally[Tally.FREED] = 0
    for i in range(book.answer_n[0]):
        job = book.start[i]
        left = freed_for(world, rules, job, candidates)
        if left >= 0:
            candidates = left
            start(world, rules, job)
            for k in range(world.tally[Tally.MOVED]):
                move(world, rules, world.moved[k])
            continue
        if world.tally[Tally.UNPLACED] < len(world.unplaced):
            book.unplaceable[job] = 1
            world.unplaced[world.tally[Tally.UNPLACED]] = job
            world.tally[Tally.UNPLACED] += 1
        if not rules.preempts and rules.walk != Walk.FIT:
            break  # nobody passes it
    freed = world.tally[Tally.FREED]
    world.tally[Tally.FRONT] -= freed
    for i in range(freed):  # who was freed last is worth most
        stop(world, rules, world.freed[freed - 1 - i], i)


@njit
def _list_running(world: World, walked: int) -> None:
    """Write down who runs now: in the order of the walk, then whoever was spared or is new."""
    book = world.book
    n = walked
    for i in range(book.running_n[0]):
        book.walked[n] = book.running[i]
        n += 1
    for i in range(book.answer_n[0]):
        book.walked[n] = book.start[i]
        n += 1
    listed = 0
    for i in range(n):
        job = book.walked[i]
        if book.runs[job] == 1:
            book.runs[job] = 2  # once is enough
            book.running[listed] = job
            listed += 1
    for i in range(listed):
        book.runs[book.running[i]] = 1
    book.running_n[0] = listed


@njit
def _no_longer_late(world: World, rules: Rules, came: int) -> None:
    book = world.book
    if rules.law == Law.LEVEL:
        for i in range(book.running_n[0]):
            book.late[book.running[i]] = 0
    for job in range(max(world.tally[Tally.NEXT] - came, 0), world.tally[Tally.NEXT]):
        book.late[job] = 0


@njit
def _remember_use(world: World, rules: Rules) -> None:
    """Add to each tenant's use, which fades by its half-life."""
    book = world.book
    elapsed = world.now_s[0] - world.now_s[2]
    fade = 2.0 ** (-elapsed / rules.half_life_s)
    for tenant in range(len(book.use)):
        book.use[tenant] = book.use[tenant] * fade + book.held[tenant] * elapsed
    world.now_s[2] = world.now_s[0]


@njit
def _shield(world: World, rules: Rules) -> None:
    """Rank those first that just started, or whose stops would cost too much of their run."""
    book, now = world.book, world.now_s[0]
    for i in range(book.running_n[0]):
        job = book.running[i]
        ran_s = world.attained_s[job] + (now - world.updated_s[job]) * world.rate[job]
        cost_s = world.price_s[job] * (world.stops[job] + 1)
        if book.since_s[job] == now or cost_s > rules.patience * ran_s:
            book.key[job] = 0.0
        elif book.key[job] == 0.0:  # no longer
            book.key[job] = rank(world, rules, job) / rules.lead


@njit
def _look(world: World, rules: Rules) -> None:
    """One look by the policy, and what follows from it."""
    world.tally[Tally.PASSES] += 1
    if rules.choice == Sharing.FAIR_TREE:
        _remember_use(world, rules)
    elif rules.law == Law.REMAINING and rules.preempts:
        _rank_running(world, rules)
    world.tally[Tally.UNPLACED] = 0
    for _ in range(_TRIES):
        before = world.tally[Tally.UNPLACED]
        if rules.choice == Sharing.COMMONS:
            _shield(world, rules)
        walked = choose(
            world.book, rules.choice, rules.walk, rules.ties, rules.preempts, world.now_s[0]
        )
        _carry_out(world, rules)
        _list_running(world, walked)
        if world.tally[Tally.UNPLACED] == before:
            break  # otherwise those that found no place keep nobody else from starting
    if rules.walk >= Walk.EASY:
        _backfill(world, rules)
    for i in range(world.tally[Tally.UNPLACED]):
        world.book.unplaceable[world.unplaced[i]] = 0


@njit
def _backfill(world: World, rules: Rules) -> None:
    """Start jobs that move nobody's date."""
    book, now = world.book, world.now_s[0]
    if world.tally[Tally.WAITING] == 0 or not book.free.any():
        return
    if rules.walk == Walk.EASY:
        backfill_around_first(book, now)
    elif now >= world.now_s[1] + rules.interval_s:
        world.now_s[1] = now
        backfill_around_all(book, now, rules.depth)
    else:
        return
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
        now = _next_s(world)
        if now == np.inf:
            return Pause.FINISHED.value
        room = len(book.running) + 64
        events = 4 * room + _may_come(world, now)
        if spans.n[0] + room > len(spans.job) or heap.size[0] + events > len(heap.time_s):
            return Pause.ROOM.value
        world.now_s[0] = now
        if rules.law == Law.EXPERIENCE and _only_a_level(world, now):  # most instants are that
            if _happen(world, rules, Rank.LEVEL, Rank.LEVEL) and world.tally[Tally.WAITING] > 0:
                _look(world, rules)
            continue
        matters = _happen(world, rules, Rank.END, Rank.END)
        matters |= _change_machines(world, rules) > 0
        came = _arrivals(world, rules)
        matters |= _happen(world, rules, Rank.LEVEL, Rank.REVIEW) or came > 0
        if world.tally[Tally.WAITING] > 0 and matters:
            _look(world, rules)
        elif rules.law == Law.LEVEL:
            sort_running(
                book, by_start=False
            )  # who fell a level now stands behind those that were there
        _no_longer_late(world, rules, came)
    return Pause.TURN.value
