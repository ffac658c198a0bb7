"""Virtual queues: an order of request groups for each instance, and the search for a good one.

The order is the plan: an instance pulls from the head of its queue, and loads another model when
the next group needs it. A plan's penalty counts the requests that are expected to begin too late,
once by the mean of their waiting time and once by its bound; the seconds of lateness break ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.serving.request_groups import Groups

__all__ = ["Plan", "Queues", "edf_plan", "improved", "penalty", "searched_plan"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PER_LATE_SECOND = 1e-5  # so that 1,000 requests an hour late still count less than one request
_LONGEST_S = 3600.0
_EVALUATIONS = 200  # of the local search: a bound on its time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Queues:
    """One row per instance that takes requests, or will."""

    row: Ints  # of the view's instances
    model: Ints  # that is loaded
    backlog_s: Floats  # until it begins the next request; below zero what fits before anybody waits
    variance: Floats  # of the backlog
    swap_s: Floats  # [queue, model]; infinite where it cannot load a model

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """`group[q, :count[q]]` is the order of queue q; groups that nobody can serve are in none."""

    group: Ints
    count: Ints
    penalty: float


def penalty(groups: Groups, queues: Queues, plan: Plan, bound: tuple[float, float]) -> float:
    """Return a plan's penalty: half a point for each request late by mean, half by the bound."""
    total = 0.0
    for q in range(len(queues)):
        total += _queue_penalty(_of(groups), _at(queues), q, plan.group[q, : plan.count[q]], bound)
    placed = plan.group[np.arange(plan.group.shape[1]) < plan.count[:, None]]
    left_out = np.setdiff1d(np.arange(len(groups)), placed)
    sizes = np.diff(groups.begin)
    return total + float(sizes[left_out].sum()) * (1.0 + _PER_LATE_SECOND * _LONGEST_S)


def edf_plan(groups: Groups, queues: Queues, bound: tuple[float, float]) -> Plan:
    """Return the groups by their first deadline, each on the queue that is over first."""
    return _made(groups, queues, bound, _edf(_of(groups), _at(queues)))


def searched_plan(groups: Groups, queues: Queues, bound: tuple[float, float]) -> Plan:
    """Return the better of two list schedules, improved by local search: never worse than EDF.

    The second schedule takes groups with little work for each request first, and puts those that
    would make others late at the end: what cannot all be in time costs the fewest requests.
    """
    edf = edf_plan(groups, queues, bound)
    if edf.penalty < 0.5:
        return edf
    other = _made(groups, queues, bound, _insertion(_of(groups), _at(queues), bound))
    best = edf if edf.penalty <= other.penalty else other
    return improved(groups, queues, best, bound)


def improved(groups: Groups, queues: Queues, plan: Plan, bound: tuple[float, float]) -> Plan:
    """Move single groups to other places as long as the penalty falls."""
    group, count = plan.group.copy(), plan.count.copy()
    _local_search(_of(groups), _at(queues), (group, count), bound)
    found = _made(groups, queues, bound, (group, count))
    return found if found.penalty < plan.penalty else plan


def _of(groups: Groups) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    return groups.begin, groups.model, groups.work_s, groups.variance, groups.slack_s


def _at(queues: Queues) -> tuple[Ints, Floats, Floats, Floats]:
    return queues.model, queues.backlog_s, queues.variance, queues.swap_s


def _made(
    groups: Groups, queues: Queues, bound: tuple[float, float], order: tuple[Ints, Ints]
) -> Plan:
    unmeasured = Plan(group=order[0], count=order[1], penalty=0.0)
    found = penalty(groups, queues, unmeasured, bound)
    return Plan(group=order[0], count=order[1], penalty=found)


_Groups = tuple[Ints, Ints, Floats, Floats, Floats]
_Queues = tuple[Ints, Floats, Floats, Floats]


@njit
def _queue_penalty(
    groups: _Groups, queues: _Queues, q: int, order: Ints, bound: tuple[float, float]
) -> float:
    begin, model, work_s, variance, slack_s = groups
    loaded, backlog_s, backlog_variance, swap_s = queues
    share, sds = bound
    t_s, v, late, late_s = backlog_s[q], backlog_variance[q], 0.0, 0.0
    current = loaded[q]
    for place in range(len(order)):
        g = order[place]
        if model[g] != current:
            t_s = max(t_s, 0.0) + swap_s[q, model[g]]
            current = model[g]
            if t_s == np.inf:
                return np.inf  # an order that the queue cannot serve
        for m in range(begin[g], begin[g + 1]):
            mean_s = max(0.0, t_s)
            upper_s = max(0.0, t_s * (1.0 + share) + sds * math.sqrt(v))
            late += 0.5 * (mean_s > slack_s[m]) + 0.5 * (upper_s > slack_s[m])
            late_s += min(_LONGEST_S, max(0.0, mean_s - slack_s[m]))
            t_s += work_s[m]
            v += variance[m]
    return late + _PER_LATE_SECOND * late_s


@njit
def _first_slack(groups: _Groups) -> Floats:
    begin, model, _, _, slack_s = groups
    found = np.zeros(len(model))
    for g in range(len(model)):
        found[g] = slack_s[begin[g] : begin[g + 1]].min()
    return found


@njit
def _total_work(groups: _Groups) -> Floats:
    begin, model, work_s, _, _ = groups
    found = np.zeros(len(model))
    for g in range(len(model)):
        found[g] = work_s[begin[g] : begin[g + 1]].sum()
    return found


@njit
def _append_in_order(  # noqa: C901 - one compiled pass
    groups: _Groups, queues: _Queues, order: Ints, plan: tuple[Ints, Ints]
) -> None:
    """Put groups at the end of the queue that could begin them first."""
    model = groups[1]
    loaded, backlog_s, _, swap_s = queues
    group, count = plan
    work = _total_work(groups)
    ends_s = backlog_s.copy()
    last = loaded.copy()
    for q in range(len(count)):
        for place in range(count[q]):
            g = group[q, place]
            if model[g] != last[q]:
                ends_s[q] = max(ends_s[q], 0.0) + swap_s[q, model[g]]
                last[q] = model[g]
            ends_s[q] += work[g]
    for g in order:
        chosen, soonest = -1, np.inf
        for q in range(len(count)):
            at_s = ends_s[q]
            if model[g] != last[q]:
                at_s = max(at_s, 0.0) + swap_s[q, model[g]]
            if at_s < soonest:
                chosen, soonest = q, at_s
        if chosen >= 0:
            group[chosen, count[chosen]] = g
            count[chosen] += 1
            ends_s[chosen] = soonest + work[g]
            last[chosen] = model[g]


@njit
def _edf(groups: _Groups, queues: _Queues) -> tuple[Ints, Ints]:
    size, queued = len(groups[1]), len(queues[0])
    group = np.zeros((queued, size), np.int64)
    count = np.zeros(queued, np.int64)
    order = np.argsort(_first_slack(groups), kind="mergesort")
    _append_in_order(groups, queues, order, (group, count))
    return group, count


@njit
def _insertion(groups: _Groups, queues: _Queues, bound: tuple[float, float]) -> tuple[Ints, Ints]:
    begin, model, _, _, _ = groups
    size, queued = len(model), len(queues[0])
    group = np.zeros((queued, size), np.int64)
    count = np.zeros(queued, np.int64)
    first_s = _first_slack(groups)
    sizes = begin[1:] - begin[:-1]
    each = _total_work(groups) / sizes
    now = np.zeros(queued)
    last = np.zeros(size, np.int64)
    left = 0
    for g in np.argsort(each, kind="mergesort"):
        chosen, where, least = -1, 0, np.inf
        if first_s[g] >= 0.0:
            for q in range(queued):
                place = 0
                while place < count[q] and first_s[group[q, place]] <= first_s[g]:
                    place += 1
                more = _with(groups, queues, q, group[q, : count[q]], (place, g), bound) - now[q]
                if more < least:
                    chosen, where, least = q, place, more
        if chosen < 0 or least > 0.75 * sizes[g]:
            last[left] = g
            left += 1
            continue
        for place in range(count[chosen], where, -1):
            group[chosen, place] = group[chosen, place - 1]
        group[chosen, where] = g
        count[chosen] += 1
        now[chosen] += least
    tail = last[:left][np.argsort(-first_s[last[:left]], kind="mergesort")]
    _append_in_order(groups, queues, tail, (group, count))
    return group, count


@njit
def _with(
    groups: _Groups,
    queues: _Queues,
    q: int,
    order: Ints,
    added: tuple[int, int],
    bound: tuple[float, float],
) -> float:
    """Return a queue's penalty with one more group at a place."""
    longer = np.zeros(len(order) + 1, np.int64)
    longer[: added[0]] = order[: added[0]]
    longer[added[0]] = added[1]
    longer[added[0] + 1 :] = order[added[0] :]
    return _queue_penalty(groups, queues, q, longer, bound)


@njit
def _without(order: Ints, place: int) -> Ints:
    shorter = np.zeros(len(order) - 1, np.int64)
    shorter[:place] = order[:place]
    shorter[place:] = order[place + 1 :]
    return shorter


@njit
def _local_search(  # noqa: C901 - one compiled pass
    groups: _Groups, queues: _Queues, plan: tuple[Ints, Ints], bound: tuple[float, float]
) -> None:
    group, count = plan
    model, swap_s = groups[1], queues[3]
    queued = len(count)
    now = np.zeros(queued)
    for q in range(queued):
        now[q] = _queue_penalty(groups, queues, q, group[q, : count[q]], bound)
    left = _EVALUATIONS
    moved = True
    while moved and left > 0:
        moved = False
        for q in range(queued):
            place = 0
            while place < count[q] and left > 0 and now[q] > 0.0:
                g = group[q, place]
                rest = _without(group[q, : count[q]], place)
                alone = _queue_penalty(groups, queues, q, rest, bound)
                best, to, where = 1e-9, -1, 0
                if now[q] - alone > 1e-9:  # it costs something to have it here
                    for other in range(queued):
                        if model[g] != queues[0][other] and swap_s[other, model[g]] == np.inf:
                            continue
                        order = rest if other == q else group[other, : count[other]].copy()
                        before = alone if other == q else now[other]
                        for at in range(len(order) + 1):
                            if left <= 0 or (other == q and at == place):
                                continue
                            left -= 1
                            more = _with(groups, queues, other, order, (at, g), bound) - before
                            gain = now[q] - alone - more
                            if gain > best:
                                best, to, where = gain, other, at
                if to >= 0:
                    group[q, : count[q] - 1] = rest
                    count[q] -= 1
                    order = group[to, : count[to]].copy()
                    group[to, :where] = order[:where]
                    group[to, where] = g
                    group[to, where + 1 : len(order) + 1] = order[where:]
                    count[to] += 1
                    now[q] = _queue_penalty(groups, queues, q, group[q, : count[q]], bound)
                    now[to] = _queue_penalty(groups, queues, to, group[to, : count[to]], bound)
                    moved = True
                place += 1
