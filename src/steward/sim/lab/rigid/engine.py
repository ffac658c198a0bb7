"""The clockwork: events in their order, one look by the policy per instant. Compiled."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.compiled import njit
from steward.decide.placement import Placement
from steward.decide.scheduling.kernels.backfill import backfill_around_all, backfill_around_first
from steward.decide.scheduling.kernels.choose import choose
from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.kernels.queue_state import QueueState, sort_running
from steward.decide.scheduling.ranking import Law, Sharing
from steward.sim.lab.rigid.allocation import freed_for
from steward.sim.lab.rigid.heap import pop
from steward.sim.lab.rigid.replay_state import Counter, PolicyParameters, ReplayState, by_reference
from steward.sim.lab.rigid.transitions import (
    EventOrder,
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

__all__ = ["Pause", "advance"]

_TRIES = 16  # looks at one instant, where jobs find no place although there is room


class Pause(IntEnum):
    """Why `advance` came back."""

    FINISHED = 0
    ROOM = 1  # for spans or events is short
    TURN = 2  # so many instants have passed: time to show progress


@njit
def _current(state: ReplayState, i: int) -> bool:
    """Whether an event still counts: nothing has happened to its job since."""
    return bool(state.heap.stamp[i] == state.stamp[state.heap.subject[i]])


@njit
def _next_s(state: ReplayState) -> float:
    """Return when something happens next; infinity: never."""
    heap = state.heap
    while heap.size[0] > 0 and not _current(state, 0):
        pop(heap)
    soonest = heap.time_s[0] if heap.size[0] > 0 else np.inf
    if state.counters[Counter.NEXT] < len(state.submit_s):
        soonest = min(soonest, state.submit_s[state.counters[Counter.NEXT]])
    if state.counters[Counter.CHANGE] < len(state.change_s):
        soonest = min(soonest, state.change_s[state.counters[Counter.CHANGE]])
    return float(soonest)


@njit
def _may_come(state: ReplayState, now_s: float) -> int:
    """Return how many jobs may come at an instant."""
    at = state.counters[Counter.NEXT]
    while at < len(state.submit_s) and state.submit_s[at] <= now_s:
        at += 1
    return int(at - state.counters[Counter.NEXT] + len(state.dependents))


@njit
def _only_a_level(state: ReplayState, now_s: float) -> bool:
    """Whether one job reaches its next level at an instant, and nothing else happens."""
    heap, counters = state.heap, state.counters
    if heap.size[0] == 0 or heap.time_s[0] > now_s or heap.rank[0] != EventOrder.LEVEL:
        return False
    for i in range(1, min(heap.size[0], 3)):
        if heap.time_s[i] <= now_s:
            return False
    if (
        counters[Counter.NEXT] < len(state.submit_s)
        and state.submit_s[counters[Counter.NEXT]] <= now_s
    ):
        return False
    return bool(
        counters[Counter.CHANGE] == len(state.change_s)
        or state.change_s[counters[Counter.CHANGE]] > now_s
    )


@njit
def _happen(state: ReplayState, policy: PolicyParameters, ranks_from: int, ranks_to: int) -> bool:
    """Let everything of these ranks happen that is due now; return whether it can matter."""
    heap, now = state.heap, state.now_s[0]
    queue = state.queue
    matters = False
    while heap.size[0] > 0 and heap.time_s[0] <= now and heap.rank[0] <= ranks_to:
        job, kind = heap.subject[0], heap.rank[0]
        current = _current(state, 0)
        pop(heap)
        if not current or kind < ranks_from:
            continue
        if kind == EventOrder.LEVEL:
            reach_level(state, policy, job)
            matters |= _may_be_passed(queue, policy, job)
            continue
        matters = True
        if kind == EventOrder.END:
            end(state, policy, job)
        elif kind == EventOrder.PROMOTION:
            promote(state, policy, job)
        elif kind == EventOrder.REVIEW:
            rank_again(state, policy, job)
    return matters


@njit
def _may_be_passed(queue: QueueState, policy: PolicyParameters, job: int) -> bool:
    """Whether somebody who waits may go before a running job: else it keeps what it has."""
    mine = queue.key[job]
    if policy.choice == Sharing.COMMONS:  # weighed by at most what its tenant holds
        tenant = queue.tenant[job]
        mine *= max(queue.held[tenant] / max(queue.quota[tenant], 1), 1.0)
    for q in range(len(queue.length)):
        if queue.length[q] == 0:
            continue
        theirs = queue.key[queue.waiting[queue.first[q]]]
        if mine >= theirs and (
            policy.choice != Sharing.COMMONS
            or mine >= theirs * max(_held_before(queue, q, theirs) / max(queue.quota[q], 1), 1.0)
        ):
            return True
    return False


@njit
def _held_before(queue: QueueState, tenant: int, key: float) -> int:
    """Return what running jobs of a tenant hold that rank before this."""
    held = 0
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        if queue.tenant[job] == tenant and queue.key[job] <= key:
            held += queue.need[job]
    return held


@njit
def _change_machines(state: ReplayState, policy: PolicyParameters) -> int:
    """Let nodes go away or come; jobs of one that goes are interrupted, the youngest first."""
    queue = state.queue
    changed = 0
    while (
        state.counters[Counter.CHANGE] < len(state.change_s)
        and state.change_s[state.counters[Counter.CHANGE]] <= state.now_s[0]
    ):
        i = state.counters[Counter.CHANGE]
        state.counters[Counter.CHANGE] += 1
        changed += 1
        node, kind, milli = state.change_node[i], state.change_type[i], state.change_milli[i]
        if milli < 0:
            _clear(state, policy, node, kind, milli, state.change_warning_s[i])
        queue.free[kind] += milli
        queue.capacity[kind] += milli
        if state.placement != Placement.COUNT:
            state.nodes.up[node] = milli > 0
    return changed


@njit
def _clear(
    state: ReplayState, policy: PolicyParameters, node: int, kind: int, milli: int, warning_s: float
) -> None:
    """Interrupt whoever is on a node; where GPUs are only counted, the youngest until it fits."""
    queue = state.queue
    while True:
        youngest = -1
        for i in range(queue.running_n[0]):
            job = queue.running[i]
            if _touches(state, job, node, kind) and (
                youngest < 0 or queue.since_s[job] >= queue.since_s[youngest]
            ):
                youngest = job
        if youngest < 0 or (state.placement == Placement.COUNT and queue.free[kind] + milli >= 0):
            return
        interrupt(state, policy, youngest, warning_s)


@njit
def _touches(state: ReplayState, job: int, node: int, kind: int) -> bool:
    if state.placement == Placement.COUNT:
        return bool(state.queue.held_type[job] == kind and state.queue.need[job] > 0)
    row = state.slot[job]
    for i in range(state.slot_n[row]):  # noqa: SIM110 - compiled code has no generators
        if state.slot_node[row, i] == node:
            return True
    return False


@njit
def _arrivals(state: ReplayState, policy: PolicyParameters) -> int:
    """Let due jobs come in; return how many came."""
    came = 0
    while (
        state.counters[Counter.NEXT] < len(state.submit_s)
        and state.submit_s[state.counters[Counter.NEXT]] <= state.now_s[0]
    ):
        job = state.counters[Counter.NEXT]
        state.counters[Counter.NEXT] += 1
        came += 1
        if state.needs[job] == 0:
            arrive(state, policy, job)
    return came


@njit
def _rank_running(state: ReplayState, policy: PolicyParameters) -> None:
    """Ranks that fall while a job runs are brought up to date."""
    queue = state.queue
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        bring_up_to_date(state, job)
        queue.key[job] = rank(state, policy, job)


@njit
def _carry_out(state: ReplayState, policy: PolicyParameters) -> None:
    """Start and stop as the pass has said; nobody is stopped for a job that does not fit anyway."""
    queue = state.queue
    candidates = queue.answer_n[1]
    state.counters[Counter.FREED] = 0
    for i in range(queue.answer_n[0]):
        job = queue.start[i]
        left = freed_for(state, policy, job, candidates)
        if left >= 0:
            candidates = left
            start(state, policy, job)
            for k in range(state.counters[Counter.MOVED]):
                move(state, policy, state.moved[k])
            continue
        if state.counters[Counter.UNPLACED] < len(state.unplaced):
            queue.unplaceable[job] = 1
            state.unplaced[state.counters[Counter.UNPLACED]] = job
            state.counters[Counter.UNPLACED] += 1
        if not policy.preempts and policy.walk != Walk.FIT:
            break  # nobody passes it
    freed = state.counters[Counter.FREED]
    state.counters[Counter.FRONT] -= freed
    for i in range(freed):  # who was freed last is worth most
        stop(state, policy, state.freed[freed - 1 - i], i)


@njit
def _list_running(state: ReplayState, walked: int) -> None:
    """Write down who runs now: in the order of the walk, then whoever was spared or is new."""
    queue = state.queue
    n = walked
    for i in range(queue.running_n[0]):
        queue.walked[n] = queue.running[i]
        n += 1
    for i in range(queue.answer_n[0]):
        queue.walked[n] = queue.start[i]
        n += 1
    listed = 0
    for i in range(n):
        job = queue.walked[i]
        if queue.runs[job] == 1:
            queue.runs[job] = 2  # once is enough
            queue.running[listed] = job
            listed += 1
    for i in range(listed):
        queue.runs[queue.running[i]] = 1
    queue.running_n[0] = listed


@njit
def _no_longer_late(state: ReplayState, policy: PolicyParameters, came: int) -> None:
    queue = state.queue
    if policy.law == Law.LEVEL:
        for i in range(queue.running_n[0]):
            queue.late[queue.running[i]] = 0
    for job in range(max(state.counters[Counter.NEXT] - came, 0), state.counters[Counter.NEXT]):
        queue.late[job] = 0


@njit
def _remember_use(state: ReplayState, policy: PolicyParameters) -> None:
    """Add to each tenant's use, which fades by its half-life."""
    queue = state.queue
    elapsed = state.now_s[0] - state.now_s[2]
    fade = 2.0 ** (-elapsed / policy.half_life_s)
    for tenant in range(len(queue.use)):
        queue.use[tenant] = queue.use[tenant] * fade + queue.held[tenant] * elapsed
    state.now_s[2] = state.now_s[0]


@njit
def _shield(state: ReplayState, policy: PolicyParameters) -> None:
    """EventOrder those first that just started, or whose stops would cost too much of their run."""
    queue, now = state.queue, state.now_s[0]
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        ran_s = state.attained_s[job] + (now - state.updated_s[job]) * state.rate[job]
        cost_s = state.price_s[job] * (state.stops[job] + 1)
        if queue.since_s[job] == now or cost_s > policy.patience * ran_s:
            queue.key[job] = 0.0
        elif queue.key[job] == 0.0:  # no longer
            queue.key[job] = rank(state, policy, job) / policy.lead


@njit
def _look(state: ReplayState, policy: PolicyParameters) -> None:
    """One look by the policy, and what follows from it."""
    state.counters[Counter.PASSES] += 1
    if policy.choice == Sharing.FAIR_TREE:
        _remember_use(state, policy)
    elif policy.law == Law.REMAINING and policy.preempts:
        _rank_running(state, policy)
    state.counters[Counter.UNPLACED] = 0
    for _ in range(_TRIES):
        before = state.counters[Counter.UNPLACED]
        if policy.choice == Sharing.COMMONS:
            _shield(state, policy)
        walked = choose(
            state.queue, policy.choice, policy.walk, policy.ties, policy.preempts, state.now_s[0]
        )
        _carry_out(state, policy)
        _list_running(state, walked)
        if state.counters[Counter.UNPLACED] == before:
            break  # otherwise those that found no place keep nobody else from starting
    if policy.walk >= Walk.EASY:
        _backfill(state, policy)
    for i in range(state.counters[Counter.UNPLACED]):
        state.queue.unplaceable[state.unplaced[i]] = 0


@njit
def _backfill(state: ReplayState, policy: PolicyParameters) -> None:
    """Start jobs that move nobody's date."""
    queue, now = state.queue, state.now_s[0]
    if state.counters[Counter.WAITING] == 0 or not queue.free.any():
        return
    if policy.walk == Walk.EASY:
        backfill_around_first(queue, now)
    elif now >= state.now_s[1] + policy.interval_s:
        state.now_s[1] = now
        backfill_around_all(queue, now, policy.depth)
    else:
        return
    _carry_out(state, policy)
    _list_running(state, 0)


@njit
def advance(state: ReplayState, policy: PolicyParameters, turns: int) -> int:
    """Go on until all is done, room is short, or so many instants have passed."""
    return _advance(by_reference(state), policy, turns)


@njit
def _advance(state: ReplayState, policy: PolicyParameters, turns: int) -> int:
    heap, spans, queue = state.heap, state.spans, state.queue
    for _ in range(turns):
        now = _next_s(state)
        if now == np.inf:
            return Pause.FINISHED.value
        room = len(queue.running) + 64
        events = 4 * room + _may_come(state, now)
        if spans.n[0] + room > len(spans.job) or heap.size[0] + events > len(heap.time_s):
            return Pause.ROOM.value
        state.now_s[0] = now
        if policy.law == Law.EXPERIENCE and _only_a_level(state, now):  # most instants are that
            if (
                _happen(state, policy, EventOrder.LEVEL, EventOrder.LEVEL)
                and state.counters[Counter.WAITING] > 0
            ):
                _look(state, policy)
            continue
        matters = _happen(state, policy, EventOrder.END, EventOrder.END)
        matters |= _change_machines(state, policy) > 0
        came = _arrivals(state, policy)
        matters |= _happen(state, policy, EventOrder.LEVEL, EventOrder.REVIEW) or came > 0
        if state.counters[Counter.WAITING] > 0 and matters:
            _look(state, policy)
        elif policy.law == Law.LEVEL:
            sort_running(
                queue, by_start=False
            )  # who fell a level now stands behind those that were there
        _no_longer_late(state, policy, came)
    return Pause.TURN.value
