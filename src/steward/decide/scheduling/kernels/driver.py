"""The live loop's way into the passes: one look at a queue, with places for those that start.

The lab's engine does the same around its own clock, and calls the same passes and placements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.placement.gangs import packed
from steward.decide.placement.state import Demand, NodeOccupancy, take
from steward.decide.scheduling.kernels.backfill import backfill_around_all, backfill_around_first
from steward.decide.scheduling.kernels.choose import choose
from steward.decide.scheduling.kernels.ordered import Walk, fits
from steward.decide.scheduling.kernels.queue_state import QueueState, by_reference, leave

__all__ = ["JobLocations", "PlanParameters", "SchedulePlan", "empty_plan", "plan_starts_and_stops"]

Array = NDArray[Any]

_WHOLE = 1000  # of the queue's units make a GPU
_TRIES = 16  # as in the lab: who finds no place keeps nobody else from starting


class PlanParameters(NamedTuple):
    """What of a `Ranking` the passes have to know, and the time."""

    sharing: int
    walk: int
    ties: int
    preempts: int
    depth: int
    lead: float
    now_s: float


class JobLocations(NamedTuple):
    """Nodes, and where running jobs are: job i has rows `first[i]` .. `first[i + 1]`."""

    nodes: NodeOccupancy
    first: Array
    node: Array
    gpus: Array
    may_stop: Array  # by job
    to_node: Array  # room for an answer of placement
    to_gpus: Array


class SchedulePlan(NamedTuple):
    """The answer: who stops, and who starts where, one row per node that a job starts on."""

    job: Array
    node: Array
    gpus: Array
    after: Array  # how many of `stop` have to be stopped before this one starts
    stop: Array
    n: Array  # rows, and how many in `stop`


def empty_plan(*, rows: int, jobs: int) -> SchedulePlan:
    """Make room for an answer."""
    ints = np.int64
    return SchedulePlan(
        job=np.zeros(rows, ints),
        node=np.zeros(rows, ints),
        gpus=np.zeros(rows, ints),
        after=np.zeros(rows, ints),
        stop=np.zeros(jobs, ints),
        n=np.zeros(2, ints),
    )


@njit
def plan_starts_and_stops(
    queue: QueueState, places: JobLocations, rule: PlanParameters, plan: SchedulePlan
) -> None:
    """Write into `plan` who stops and who starts where. QueueState and places are used up by it."""
    _plan(by_reference(queue), places, rule, plan)


@njit
def _plan(
    queue: QueueState, places: JobLocations, rule: PlanParameters, plan: SchedulePlan
) -> None:
    for _ in range(_TRIES):
        choose(queue, rule.sharing, rule.walk, rule.ties, rule.preempts, rule.now_s)
        if _carry_out(queue, places, rule, plan) == 0:
            break
    if rule.walk == Walk.EASY:
        backfill_around_first(queue, rule.now_s)
        _carry_out(queue, places, rule, plan)
    elif rule.walk == Walk.CONSERVATIVE:
        backfill_around_all(queue, rule.now_s, rule.depth)
        _carry_out(queue, places, rule, plan)


@njit
def _carry_out(
    queue: QueueState, places: JobLocations, rule: PlanParameters, plan: SchedulePlan
) -> int:
    """Find places for those to start, and stop whom that takes; return how many found none."""
    stop_n = _only_stoppable(queue, places)
    unplaced = 0
    for i in range(queue.answer_n[0]):
        job = queue.start[i]
        before = stop_n
        used, stop_n = _find_place(queue, places, job, stop_n)
        if used == 0:
            queue.unplaceable[job] = 1
            unplaced += 1
            if not rule.preempts and rule.walk != Walk.FIT:
                break  # nobody passes it
            continue
        for k in range(before - 1, stop_n - 1, -1):
            _stop(queue, queue.stop[k], plan)
        _start(queue, places, job, rule)
        _write_down(places, job, used, plan)
    return unplaced


@njit
def _only_stoppable(queue: QueueState, places: JobLocations) -> int:
    """Leave those out of the list of stops that must not be stopped; return how many stay."""
    n = 0
    for i in range(queue.answer_n[1]):
        if places.may_stop[queue.stop[i]]:
            queue.stop[n] = queue.stop[i]
            n += 1
    return n


@njit
def _want(queue: QueueState, job: int) -> Demand:
    return Demand(queue.need[job] // _WHOLE, 0, 0.0, 0.0, queue.types[job])


@njit
def _find_place(queue: QueueState, places: JobLocations, job: int, stop_n: int) -> tuple[int, int]:
    """Hold nodes for a job; free those that are to stop one by one, from the last, if needed.

    Returns how many nodes it uses and how many of those to stop are left. No nodes: it does not
    fit even so, and nothing has changed.
    """
    used, left = 0, stop_n
    while True:
        if fits(queue, queue.free, job) >= 0:
            used = packed(places.nodes, _want(queue, job), places.to_node, places.to_gpus)
        if used > 0 or left == 0:
            break
        left -= 1
        _vacate(queue, places, queue.stop[left], 1)
    if used > 0:
        take(places.nodes, _want(queue, job), places.to_node, places.to_gpus, used)
        return used, left
    for i in range(left, stop_n):
        _vacate(queue, places, queue.stop[i], -1)
    return 0, stop_n


@njit
def _vacate(queue: QueueState, places: JobLocations, job: int, sign: int) -> None:
    """Free what a running job holds, or (-1) hold it again."""
    queue.free[queue.held_type[job]] += sign * queue.need[job]
    for i in range(places.first[job], places.first[job + 1]):
        places.nodes.free[places.node[i]] += sign * places.gpus[i]


@njit
def _stop(queue: QueueState, job: int, plan: SchedulePlan) -> None:
    """Note that a running job stops. It has no part in what else is decided at this look."""
    queue.runs[job] = 0
    queue.held[queue.tenant[job]] -= queue.need[job]
    n = 0
    for i in range(queue.running_n[0]):
        if queue.running[i] != job:
            queue.running[n] = queue.running[i]
            n += 1
    queue.running_n[0] = n
    plan.stop[plan.n[1]] = job
    plan.n[1] += 1


@njit
def _start(queue: QueueState, places: JobLocations, job: int, rule: PlanParameters) -> None:
    """Note that a waiting job runs from now on."""
    leave(queue, job)
    kind = places.nodes.type[places.to_node[0]]
    queue.free[kind] -= queue.need[job]
    queue.held[queue.tenant[job]] += queue.need[job]
    queue.runs[job], queue.held_type[job], queue.since_s[job] = 1, kind, rule.now_s
    queue.key[job] /= rule.lead
    queue.running[queue.running_n[0]] = job
    queue.running_n[0] += 1


@njit
def _write_down(places: JobLocations, job: int, used: int, plan: SchedulePlan) -> None:
    for i in range(used):
        row = plan.n[0] + i
        plan.job[row], plan.after[row] = job, plan.n[1]
        plan.node[row], plan.gpus[row] = places.to_node[i], places.to_gpus[i]
    plan.n[0] += used
