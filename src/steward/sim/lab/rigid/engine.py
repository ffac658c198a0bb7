"""The clockwork: events in their order, one look by the policy per instant. Compiled."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.compiled import njit
from steward.decide.scheduling.kernels.commons import entitlements
from steward.decide.scheduling.kernels.driver import PlanChange, plan_changes
from steward.decide.scheduling.kernels.ordered import Walk
from steward.decide.scheduling.kernels.overdue_gangs import ITS_TURN, keeps_its_turn
from steward.decide.scheduling.kernels.queue_state import QueueState, sort_running
from steward.decide.scheduling.ranking import Law, Sharing
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
    renew_ranks,
    start,
    stop,
)

__all__ = ["Pause", "advance"]

_LOOKS = 4  # at one instant: jobs that were stopped may find room elsewhere


class Pause(IntEnum):
    """Why `advance` came back."""

    FINISHED = 0
    ROOM = 1  # for spans or events is short
    TURN = 2  # so many instants have passed: time to show progress


@njit
def _current(state: ReplayState, i: int) -> bool:
    """Whether an event still counts: nothing has happened to its job since.

    A review counts only at the time that was found last: with other beliefs, or at another level,
    a job can miss its deadline from another moment on, and nothing happens at the old one.
    """
    heap = state.heap
    job = heap.subject[i]
    if heap.rank[i] == EventOrder.REVIEW and heap.time_s[i] != state.review_s[job]:
        return False
    return bool(heap.stamp[i] == state.stamp[job])


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
    return float(min(soonest, state.now_s[3]))


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
            before = queue.key[job]
            reach_level(state, policy, job)
            matters |= (
                policy.every_level != 0
                or _crosses(queue, policy, job, before)
                or _may_be_passed(queue, policy, job)
            )
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
def _crosses(queue: QueueState, policy: PolicyParameters, job: int, before: float) -> bool:
    """Return True if a new rank changes what its tenant's other jobs are promised first.

    It does where a running job gets ahead of others, or falls behind a waiting job of its tenant.
    """
    if policy.sharing != Sharing.COMMONS:
        return False
    if queue.key[job] < before:
        return True
    q = queue.queue_of[job]
    low, high = queue.first[q], queue.first[q] + queue.length[q]
    end = high
    while low < high:
        mid = (low + high) // 2
        if queue.key[queue.waiting[mid]] < before:
            low = mid + 1
        else:
            high = mid
    return bool(low < end and queue.key[queue.waiting[low]] < queue.key[job])


@njit
def _may_be_passed(queue: QueueState, policy: PolicyParameters, job: int) -> bool:
    """Whether somebody who waits may go before a running job: else it keeps what it has."""
    mine = queue.key[job]
    commons = policy.sharing == Sharing.COMMONS
    entitled = entitlements(queue) if commons else queue.weight
    if commons:  # weighed by at most what its tenant holds
        tenant = queue.tenant[job]
        mine *= max(queue.held[tenant] / entitled[tenant], 1.0)
    for q in range(len(queue.length)):
        if queue.length[q] == 0:
            continue
        theirs = queue.key[queue.waiting[queue.first[q]]]
        if mine >= theirs and (
            not commons or mine >= theirs * max(_held_before(queue, q, theirs) / entitled[q], 1.0)
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
        if state.alloc.placed:
            state.alloc.nodes.up[node] = milli > 0
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
        if youngest < 0 or (not state.alloc.placed and queue.free[kind] + milli >= 0):
            return
        interrupt(state, policy, youngest, warning_s)


@njit
def _touches(state: ReplayState, job: int, node: int, kind: int) -> bool:
    alloc = state.alloc
    if not alloc.placed:
        return bool(state.queue.held_type[job] == kind and state.queue.need[job] > 0)
    row = alloc.slot[job]
    for i in range(alloc.slot_n[row]):  # noqa: SIM110 - compiled code has no generators
        if alloc.slot_node[row, i] == node:
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
def _carry_out(state: ReplayState, policy: PolicyParameters) -> bool:
    """Let happen what was planned; return True if jobs stopped, which may start elsewhere.

    Jobs that stop at once go by when they began to run, those of levels last first.
    """
    log = state.log
    by_start = policy.every_level != 0 or policy.law != Law.LEVEL
    stopped = np.empty(log.n[0], np.int64)
    n = 0
    for i in range(log.n[0]):
        job = log.job[i]
        if log.kind[i] == PlanChange.START:
            start(state, policy, job)
        elif log.kind[i] == PlanChange.MOVE:
            move(state, policy, job, log.old_type[i])
        else:
            at = n
            while by_start and at > 0 and _began_first(state.queue, job, stopped[at - 1]):
                stopped[at] = stopped[at - 1]
                at -= 1
            stopped[at] = job
            n += 1
    if not by_start:  # the job that was freed last is worth most
        stopped[:n] = stopped[:n][::-1].copy()
    state.counters[Counter.FRONT] -= n
    for i in range(n):
        stop(state, policy, stopped[i], i)
    return n > 0


@njit
def _began_first(queue: QueueState, job: int, other: int) -> bool:
    """Return True if a job last began to run before another; among equals by arrival."""
    if queue.since_s[job] != queue.since_s[other]:
        return bool(queue.since_s[job] < queue.since_s[other])
    return job < other


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
    """Rank jobs first whose stops would cost too much of their run, or whose turn it still is."""
    queue, now = state.queue, state.now_s[0]
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        ran_s = state.before_s[job] + (now - queue.since_s[job]) * state.rate[job]
        cost_s = state.price_s[job] * (state.stops[job] + 1)
        if _keeps_its_turn(state, policy, job):
            queue.key[job] = ITS_TURN
        elif cost_s > policy.patience * ran_s:
            queue.key[job] = 0.0
        elif queue.key[job] <= 0.0:  # no longer
            queue.key[job] = rank(state, policy, job) / policy.lead


@njit
def _keeps_its_turn(state: ReplayState, policy: PolicyParameters, job: int) -> bool:
    """Return True if a running gang was overdue when it started, and its turn is not over."""
    queue = state.queue
    return bool(
        state.alloc.gpus[job] > 1
        and keeps_its_turn(
            queue.since_s[job], queue.queued_s[job], state.now_s[0], policy.gang_wait_s
        )
    )


@njit
def _look(state: ReplayState, policy: PolicyParameters) -> None:
    """Call the policy once, and let happen what follows from it."""
    state.counters[Counter.PASSES] += 1
    if policy.law == Law.REMAINING and policy.preempts:
        _rank_running(state, policy)
    for _ in range(_LOOKS):
        if policy.sharing == Sharing.COMMONS:
            _shield(state, policy)
        plan_changes(state.queue, state.alloc, policy, state.log, _may_backfill(state, policy))
        stopped = _carry_out(state, policy)
        # Published simulators call a policy once at an instant; a loop of turns calls it again.
        # Who made room for an overdue gang may be guaranteed what is free elsewhere, at once.
        again = policy.every_level or state.alloc.placed or policy.gang_wait_s < np.inf
        if not stopped or not again:
            break
        # Who runs now stands before who does not. `every_level` compares with views of one time, in
        # which who fell a level still does.
        if policy.law == Law.LEVEL and not policy.every_level:
            for i in range(state.queue.running_n[0]):
                state.queue.late[state.queue.running[i]] = 0


@njit
def _may_backfill(state: ReplayState, policy: PolicyParameters) -> int:
    """Return 1 if jobs may pass others now: dates for all are made every `interval_s` only."""
    if policy.walk != Walk.CONSERVATIVE:
        return 1
    if state.now_s[0] < state.now_s[1] + policy.interval_s:
        state.now_s[3] = state.now_s[1] + policy.interval_s  # then it is done
        return 0
    state.now_s[1] = state.now_s[0]
    return 1


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
        events = 4 * room + _may_come(state, now) + state.counters[Counter.WAITING]
        if spans.n[0] + room > len(spans.job) or heap.size[0] + events > len(heap.time_s):
            return Pause.ROOM.value
        state.now_s[0] = now
        _pass_instant(state, policy)
    return Pause.TURN.value


@njit
def _pass_instant(state: ReplayState, policy: PolicyParameters) -> None:
    """Let happen what is due now, and call the policy if that can change anything."""
    queue, now = state.queue, state.now_s[0]
    if policy.sharing == Sharing.FAIR_TREE:
        _remember_use(state, policy)  # of what was held until now
    if policy.law == Law.EXPERIENCE and _only_a_level(state, now):  # most instants are that
        level = EventOrder.LEVEL
        if _happen(state, policy, level, level) and state.counters[Counter.WAITING] > 0:
            _look(state, policy)
        return
    matters = _jobs_end(state, policy)
    matters |= _change_machines(state, policy) > 0
    came = _arrivals(state, policy)
    matters |= _happen(state, policy, EventOrder.LEVEL, EventOrder.REVIEW) or came > 0
    if state.counters[Counter.WAITING] > 0 and matters:
        _look(state, policy)
    elif policy.law == Law.LEVEL:
        sort_running(queue, by_loss=False)  # jobs that fell a level now stand last in it
    _no_longer_late(state, policy, came)


@njit
def _jobs_end(state: ReplayState, policy: PolicyParameters) -> bool:
    """Let jobs end, and ranks follow from what that teaches; return True if it can matter."""
    matters = state.now_s[0] >= state.now_s[3]
    if matters:
        state.now_s[3] = np.inf
    believed = state.experience.finished[1]
    matters |= _happen(state, policy, EventOrder.END, EventOrder.END)
    if policy.law == Law.EXPERIENCE and state.experience.finished[1] != believed:
        renew_ranks(state, policy)
    return bool(matters)
