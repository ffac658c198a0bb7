"""What can happen to a job: it arrives, starts, stops, ends, or loses its machine. Compiled."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from steward.compiled import njit
from steward.decide.placement import locality
from steward.decide.scheduling.kernels.allocation import release_gpus
from steward.decide.scheduling.kernels.ordered import TieOrder
from steward.decide.scheduling.kernels.queue_state import enter, leave
from steward.decide.scheduling.ranking import ABOUT_TO_END_GPU_S, Law
from steward.learn.experience import (
    age_factor,
    mean_left,
    median_left,
    rank_of,
    remember,
)
from steward.sim.lab.rigid.heap import push
from steward.sim.lab.rigid.replay_state import (
    DONE,
    RUNS,
    WAITS,
    Counter,
    PolicyParameters,
    ReplayState,
)

__all__ = [
    "EventOrder",
    "arrive",
    "bring_up_to_date",
    "end",
    "move",
    "rank",
    "renew_ranks",
    "start",
    "stop",
]


class EventOrder(IntEnum):
    """What goes first at one instant."""

    END = 0
    CHANGE = 1
    ARRIVAL = 2
    LEVEL = 3
    PROMOTION = 4
    REVIEW = 5


@njit
def bring_up_to_date(state: ReplayState, job: int) -> None:
    """Count what a running job has done."""
    state.attained_s[job] = state.before_s[job] + _ran_here(state, job)


@njit
def _size(state: ReplayState, job: int) -> float:
    """Return the GPUs of a job; one without any counts as a thousandth, so that time counts."""
    return float(max(state.queue.need[job], 1) / 1000.0)


@njit
def _counted(state: ReplayState, policy: PolicyParameters, job: int) -> float:
    """Return the attained time, or service, that thresholds are compared with."""
    attained = state.attained_s[job] - state.forgiven_s[job]
    return float(attained * _size(state, job) if policy.by_gpus else attained)


@njit
def rank(state: ReplayState, policy: PolicyParameters, job: int) -> float:
    """Return a job's rank by the policy's law, at this moment."""
    size = state.queue.need[job] / 1000.0 if policy.by_gpus else 1.0
    if policy.law == Law.DURATION:
        return float(state.known_s[job] * size)
    if policy.law == Law.REMAINING:
        known = state.known_s[job]
        left = known + state.lost_s[job] - state.attained_s[job]
        return float(max(left, 1e-3 * known) * size)
    if policy.law == Law.LEVEL:
        return float(state.level[job])
    if policy.law == Law.EXPERIENCE:
        return _experienced(state, policy, job)
    if policy.law == Law.PREDICTED:
        return float(state.predicted_s[job])
    return 0.0


@njit
def _experienced(state: ReplayState, policy: PolicyParameters, job: int) -> float:
    """Return what similar jobs took for each that ended, weighed by class and long waiting."""
    if urgent_s(state, job) <= state.now_s[0] < state.due_s[job]:
        return ABOUT_TO_END_GPU_S
    known = rank_of(state.experience, state.leaf[job], state.level[job])
    return float(known / state.weight[job] / age_factor(waited_s(state, job), policy.old_s))


@njit
def waited_s(state: ReplayState, job: int) -> float:
    """Return how long a job has waited in all."""
    waits = state.now_s[0] - state.queue.queued_s[job] if state.job_state[job] == WAITS else 0.0
    return float(state.waited_s[job] + waits)


@njit
def urgent_s(state: ReplayState, job: int) -> float:
    """Return from when on a job can miss its deadline, by what similar jobs took; infinity: never.

    From then until it is due it ranks like a job that is about to end.
    """
    if state.due_s[job] == np.inf:
        return np.inf
    left = median_left(state.experience, state.leaf[job], state.level[job])
    return float(state.due_s[job] - left / _size(state, job))


@njit
def _level(state: ReplayState, policy: PolicyParameters, job: int) -> int:
    level = 0
    counted = _counted(state, policy, job)
    while level < len(policy.thresholds) and counted >= policy.thresholds[level]:
        level += 1
    return level


@njit
def _next_level_s(state: ReplayState, policy: PolicyParameters, job: int) -> float:
    """Return when a running job reaches its next level; infinity: never."""
    level = state.level[job]
    if policy.law == Law.EXPERIENCE:
        if level + 1 >= len(state.experience.edges):
            return np.inf
        threshold = state.experience.edges[level + 1] / _size(state, job)
    elif level >= len(policy.thresholds):
        return np.inf
    else:
        threshold = policy.thresholds[level]
        if policy.by_gpus:
            threshold /= _size(state, job)
        threshold += state.forgiven_s[job]
    return _reached_s(state, job, threshold)


@njit
def _reached_s(state: ReplayState, job: int, attained_s: float) -> float:
    """Return when a running job will have attained so much.

    Counted from its start, not from now: sums of steps would put two jobs that get there at one
    instant a rounding error apart, and the policy would be called between them.
    """
    return float(state.queue.since_s[job] + (attained_s - state.before_s[job]) / state.rate[job])


@njit
def watch_level(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Ask to be told when a running job reaches its next level, if it will get that far."""
    if policy.law in (Law.LEVEL, Law.EXPERIENCE):
        at = _next_level_s(state, policy, job)
        if at < _reached_s(state, job, state.work_s[job]):
            push(state.heap, at, EventOrder.LEVEL, job, state.stamp[job])


@njit
def reach_level(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Move a running job to its next level."""
    bring_up_to_date(state, job)
    if policy.law == Law.EXPERIENCE:
        state.level[job] += 1
    else:
        state.level[job] = max(state.level[job] + 1, _level(state, policy, job))
    state.queue.key[job] = rank(state, policy, job) / policy.lead
    if policy.law == Law.LEVEL:
        state.queue.late[job] = 1
    watch_level(state, policy, job)
    _watch_rank(state, policy, job)


@njit
def wait_in_line(state: ReplayState, policy: PolicyParameters, job: int, seq: float) -> None:
    """Put a job into its queue."""
    state.job_state[job] = WAITS
    state.queue.key[job] = rank(state, policy, job)
    state.queue.seq[job] = seq
    state.counters[Counter.WAITING] += 1
    enter(state.queue, job)


@njit
def arrive(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Let a job that depends on nobody any more come into the queue."""
    state.counters[Counter.BACK] += 1
    state.queue.late[job] = 1
    state.queue.since_s[job] = state.submit_s[job]  # while it waits: since when
    state.queue.queued_s[job] = state.now_s[0]
    if policy.law == Law.PREDICTED:
        state.predicted_s[job] = mean_left(state.experience, state.leaf[job], 0)
        if state.boosted_s[job] > 0.0:
            state.predicted_s[job] *= policy.rolling
            state.predicted_s[job] += (1.0 - policy.rolling) * state.boosted_s[job]
    wait_in_line(state, policy, job, float(state.counters[Counter.BACK]))
    _watch_rank(state, policy, job)


@njit
def _watch_rank(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Schedule a review for when a job's rank changes by the passing of time alone.

    It takes the place of the one that was scheduled before.
    """
    if policy.law != Law.EXPERIENCE:
        return
    now, at = state.now_s[0], np.inf
    if state.job_state[job] == WAITS and policy.old_s < np.inf:
        waited = waited_s(state, job)
        at = now + 2.0 * age_factor(waited, policy.old_s) * policy.old_s - waited
    overdue_s = np.inf
    if state.job_state[job] == WAITS and state.alloc.gpus[job] > 1:
        overdue_s = state.queue.queued_s[job] + policy.gang_wait_s
    for change in (urgent_s(state, job), state.due_s[job], overdue_s):
        if now < change < at:
            at = change
    state.review_s[job] = at
    if at < np.inf:
        push(state.heap, at, EventOrder.REVIEW, job, state.stamp[job])


@njit
def rank_again(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Give a job the rank that it has by now."""
    if state.job_state[job] == RUNS:
        state.queue.key[job] = rank(state, policy, job) / policy.lead
        _watch_rank(state, policy, job)
        return
    leave(state.queue, job)
    state.counters[Counter.WAITING] -= 1
    wait_in_line(state, policy, job, state.queue.seq[job])
    _watch_rank(state, policy, job)


@njit
def renew_ranks(state: ReplayState, policy: PolicyParameters) -> None:
    """Give all jobs the ranks that follow from renewed beliefs, and sort those that wait."""
    queue = state.queue
    for i in range(queue.running_n[0]):
        job = queue.running[i]
        queue.key[job] = rank(state, policy, job) / policy.lead
        _watch_rank(state, policy, job)
    for q in range(len(queue.length)):
        jobs = queue.waiting[queue.first[q] : queue.first[q] + queue.length[q]].copy()
        jobs = jobs[np.argsort(queue.seq[jobs], kind="mergesort")]
        for job in jobs:
            queue.key[job] = rank(state, policy, job)
            if state.due_s[job] < np.inf:
                _watch_rank(state, policy, job)
        jobs = jobs[np.argsort(queue.key[jobs], kind="mergesort")]
        queue.waiting[queue.first[q] : queue.first[q] + queue.length[q]] = jobs


@njit
def start(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Let a job that the driver has started begin to run, or go on."""
    state.counters[Counter.WAITING] -= 1
    state.waited_s[job] = waited_s(state, job)
    state.job_state[job] = RUNS
    _run(state, policy, job)


@njit
def _run(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    queue, alloc, now = state.queue, state.alloc, state.now_s[0]
    queue.since_s[job] = now
    queue.late[job] = 0  # whenever it came to its key, it was not by running
    state.before_s[job] = state.attained_s[job]
    if np.isnan(state.first_s[job]):
        state.first_s[job] = now
    rate = state.type_speed[queue.held_type[job]]
    node, nodes = -1, 0
    if alloc.placed:
        row = alloc.slot[job]
        node, nodes = alloc.slot_node[row, 0], alloc.slot_n[row]
        rate *= state.slowdown[locality(alloc.nodes, alloc.slot_node[row], nodes)]
    state.rate[job] = rate
    state.work_s[job] += _boot_s(state, job)
    state.lost_s[job] += _boot_s(state, job)
    state.stamp[job] += 1
    done = _reached_s(state, job, state.work_s[job])
    push(state.heap, done, EventOrder.END, job, state.stamp[job])
    if policy.law == Law.EXPERIENCE:
        queue.key[job] = rank(state, policy, job) / policy.lead
    watch_level(state, policy, job)
    _watch_rank(state, policy, job)
    _open_span(state, job, node, nodes)


@njit
def _open_span(state: ReplayState, job: int, node: int, nodes: int) -> None:
    spans = state.spans
    i = spans.n[0]
    spans.job[i], spans.start_s[i], spans.stop_s[i] = job, state.now_s[0], np.nan
    spans.node[i], spans.nodes[i], spans.speed[i] = node, nodes, state.rate[job]
    state.span[job] = i
    spans.n[0] += 1


@njit
def _boot_s(state: ReplayState, job: int) -> float:
    """Return the work that a running job's machines took to boot."""
    return float(state.boot_s[state.queue.held_type[job]] * state.rate[job])


@njit
def _ran_here(state: ReplayState, job: int) -> float:
    """Return the work of a running job since it last started, with booting."""
    return float((state.now_s[0] - state.queue.since_s[job]) * state.rate[job])


@njit
def _leave_machine(state: ReplayState, job: int) -> None:
    bring_up_to_date(state, job)
    not_booted = max(_boot_s(state, job) - _ran_here(state, job), 0.0)
    state.work_s[job] -= not_booted
    state.lost_s[job] -= not_booted
    state.stamp[job] += 1
    state.spans.stop_s[state.span[job]] = state.now_s[0]


@njit
def stop(state: ReplayState, policy: PolicyParameters, job: int, place_in_line: int) -> None:
    """Put a job that was stopped, and holds no GPUs any more, back into the queue.

    `place_in_line` is how many stopped at this instant come before it.
    """
    _leave_machine(state, job)
    state.stops[job] += 1
    state.work_s[job] += state.price_s[job]
    state.lost_s[job] += state.price_s[job]
    if policy.ties == TieOrder.RUNNING and state.queue.late[job] == 0:
        seq = float(state.counters[Counter.FRONT] + place_in_line)
    else:
        state.counters[Counter.BACK] += 1
        seq = float(state.counters[Counter.BACK])
    state.queue.queued_s[job] = state.now_s[0]
    wait_in_line(state, policy, job, seq)
    _watch_rank(state, policy, job)
    if policy.promote > 0.0 and state.level[job] > 0:
        counted = state.attained_s[job] - state.forgiven_s[job]
        at = state.now_s[0] + counted * policy.promote
        push(state.heap, at, EventOrder.PROMOTION, job, state.stamp[job])


@njit
def move(state: ReplayState, policy: PolicyParameters, job: int, old_type: int) -> None:
    """Let a running job go on where the driver has put it, for the price of a stop."""
    new_type = state.queue.held_type[job]
    state.queue.held_type[job] = old_type
    _leave_machine(state, job)
    state.queue.held_type[job] = new_type
    state.stops[job] += 1
    state.work_s[job] += state.price_s[job]
    state.lost_s[job] += state.price_s[job]
    _run(state, policy, job)


@njit
def promote(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Count a job that has waited long enough as new again."""
    leave(state.queue, job)
    state.counters[Counter.WAITING] -= 1
    state.forgiven_s[job] = state.attained_s[job]
    state.level[job] = 0
    state.stamp[job] += 1
    state.counters[Counter.BACK] += 1
    wait_in_line(state, policy, job, float(state.counters[Counter.BACK]))


@njit
def interrupt(state: ReplayState, policy: PolicyParameters, job: int, warning_s: float) -> None:
    """Stop a job whose machine went away: what it had not saved is lost, unless it was warned."""
    release_gpus(state.queue, state.alloc, job)
    bring_up_to_date(state, job)
    ran = max(_ran_here(state, job) - _boot_s(state, job), 0.0)
    every = state.every_s[job]
    unsaved = ran % every if every > 0.0 else ran
    if warning_s > 0.0 and warning_s >= state.price_s[job]:
        unsaved = 0.0
    state.work_s[job] += unsaved
    state.lost_s[job] += unsaved
    _forget_running(state, job)
    stop(state, policy, job, 0)


@njit
def _forget_running(state: ReplayState, job: int) -> None:
    """Take a job off the list of those that run."""
    queue = state.queue
    queue.runs[job] = 0
    queue.held[queue.tenant[job]] -= queue.need[job]
    n = queue.running_n[0]
    at = 0
    while queue.running[at] != job:
        at += 1
    for i in range(at, n - 1):
        queue.running[i] = queue.running[i + 1]
    queue.running_n[0] = n - 1


@njit
def end(state: ReplayState, policy: PolicyParameters, job: int) -> None:
    """Finish a job. Those that waited for it alone may come now."""
    release_gpus(state.queue, state.alloc, job)
    _forget_running(state, job)
    _leave_machine(state, job)
    state.job_state[job] = DONE
    state.end_s[job] = state.now_s[0]
    state.counters[Counter.FINISHED] += 1
    if policy.law in (Law.EXPERIENCE, Law.PREDICTED):
        gpu_s = state.duration_s[job] * _size(state, job)
        remember(state.experience, state.leaf[job], gpu_s)
    for i in range(state.dependents_from[job], state.dependents_from[job + 1]):
        other = state.dependents[i]
        state.needs[other] -= 1
        if (
            state.needs[other] == 0 and other < state.counters[Counter.NEXT]
        ):  # else it is yet to come
            arrive(state, policy, other)
