"""One walk along a replay's events that adds up queue, use, fragments and fair shares.

Fair shares, at every instant: a tenant's demand is what it holds and what its waiting jobs ask
for. Its guarantee is the smaller of demand and quota (all quotas shrink together while less than
their sum is there). What is then left is filled up by weight (the quota) among those who want
more. A tenant is short while it has a waiting job that would fit between what it holds and its
target, and holds less than 95 % of the target.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.sim.lab.judge.timeline_events import CAPACITY, READY, START, STOP, EventTape

__all__ = ["Integrals", "walk"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BUCKETS = 500
WITHIN = 0.95  # of the target is good enough
CLOSE = 1e-6  # GPUs: sums of fractions are not exact
# What a bucket adds up, and what the whole walk adds up.
QUEUE, ALLOCATED, THERE, DEMAND, SHORT, SHARE_SHORT = range(6)
TOTAL_FRAGMENT, TOTAL_HELD, TOTAL_ARRIVAL_ALLOCATED, TOTAL_ARRIVAL_THERE = range(4)


class Integrals(NamedTuple):
    """Sums over time. Rows of `bucket` and `total` are named above."""

    edges_s: Floats
    bucket: Floats  # (6, buckets)
    queue_min: Floats
    queue_max: Floats
    total: Floats
    demand_s: Floats  # per tenant: time with waiting jobs
    short_s: Floats  # per tenant, below its guarantee
    shortfall_gpu_s: Floats  # per tenant: how far below, while short


def walk(tape: EventTape, *, from_s: float, to_s: float, last_submit_s: float) -> Integrals:
    """Walk along the tape once."""
    tenants = len(tape.quota)
    walked = Integrals(
        edges_s=np.linspace(from_s, to_s if to_s > from_s else from_s + 1.0, BUCKETS + 1),
        bucket=np.zeros((6, BUCKETS)),
        queue_min=np.full(BUCKETS, np.inf),
        queue_max=np.zeros(BUCKETS),
        total=np.zeros(4),
        demand_s=np.zeros(tenants),
        short_s=np.zeros(tenants),
        shortfall_gpu_s=np.zeros(tenants),
    )
    _walk(tape, walked, to_s, last_submit_s)
    return walked


@njit
def _walk(  # noqa: C901, PLR0912, PLR0915 - calls with many arrays cost more than all the rest
    tape: EventTape, walked: Integrals, to_s: float, last_submit_s: float
) -> None:
    t_s, kind, event_job, event_gpus = tape.t_s, tape.kind, tape.job, tape.gpus
    job_tenant, job_size, sizes, quota = tape.tenant, tape.size, tape.sizes, tape.quota
    edges_s, bucket = walked.edges_s, walked.bucket
    queue_min, queue_max, total = walked.queue_min, walked.queue_max, walked.total
    tenants, many, events = len(quota), len(sizes), len(t_s)
    weight = quota + CLOSE  # tenants without a quota share what the others leave
    quotas = quota.sum()
    running = np.zeros(len(job_tenant), np.int64)  # spans that a job is in
    present = np.zeros(len(job_tenant), np.bool_)
    held, asked = np.zeros(tenants), np.zeros(tenants)  # asked: by waiting jobs
    waiting = np.zeros((tenants + 1, many), np.int64)  # jobs by size; the last row is everybody
    least = np.full(tenants + 1, many, np.int64)  # smallest size that waits
    target, unmet = np.zeros(tenants), np.zeros(tenants)
    active, place = np.zeros(tenants, np.int64), np.full(tenants, -1, np.int64)
    attending = np.zeros(tenants, np.int64)  # jobs that are there; active tenants have some
    rates = np.zeros(6)
    actives, queue, bin_now = 0, 0, 0
    capacity, all_held = 0.0, 0.0
    i = 0
    while i < events:
        now_s = t_s[i]
        while i < events and t_s[i] == now_s:
            what, job, gpus = kind[i], event_job[i], event_gpus[i]
            i += 1
            if what == CAPACITY:
                capacity += gpus
                continue
            tenant = job_tenant[job]
            was_waiting = running[job] == 0 and present[job]
            if what in (STOP, START):
                sign = 1 if what == START else -1
                held[tenant] += sign * gpus
                all_held += sign * gpus
                running[job] += sign
            else:
                present[job] = what == READY
                actives = _attend(
                    tenant, 1 if what == READY else -1, attending, active, place, actives
                )
            change = int(running[job] == 0 and present[job]) - int(was_waiting)
            if change != 0:
                queue += change
                size = job_size[job]
                if sizes[size] > 0.0:  # a job without GPUs has no share of them
                    asked[tenant] += change * sizes[size]
                    _requeue(waiting, least, tenant, size, change)
                    _requeue(waiting, least, tenants, size, change)
        next_s = min(t_s[i], to_s) if i < events else to_s
        dt_s = next_s - now_s
        if dt_s <= 0.0:
            continue
        allocated = min(all_held, capacity)  # jobs that share GPUs hold them twice
        rates[QUEUE], rates[ALLOCATED], rates[THERE] = queue, allocated, capacity
        rates[DEMAND] = rates[SHORT] = rates[SHARE_SHORT] = 0.0
        total[TOTAL_HELD] += all_held * dt_s
        before_last_s = min(next_s, last_submit_s) - now_s
        if before_last_s > 0.0:
            total[TOTAL_ARRIVAL_ALLOCATED] += allocated * before_last_s
            total[TOTAL_ARRIVAL_THERE] += capacity * before_last_s
        if least[tenants] < many:
            free = capacity - allocated
            if free > CLOSE and sizes[least[tenants]] <= free + CLOSE:
                total[TOTAL_FRAGMENT] += free / capacity * dt_s
            shrink = min(1.0, capacity / quotas) if quotas > 0.0 else 1.0
            left = capacity
            for k in range(actives):
                one = active[k]
                target[one] = min(held[one] + asked[one], quota[one] * shrink)
                unmet[one] = held[one] + asked[one] - target[one]
                left -= target[one]
                if least[one] < many:
                    rates[DEMAND] += 1.0
                    walked.demand_s[one] += dt_s
                    if _is_short(target[one], held[one], sizes[least[one]]):
                        rates[SHORT] += 1.0
                        walked.short_s[one] += dt_s
                        walked.shortfall_gpu_s[one] += (target[one] - held[one]) * dt_s
            _fill_up(target, unmet, weight, active[:actives], left)
            for k in range(actives):
                one = active[k]
                if least[one] < many and _is_short(target[one], held[one], sizes[least[one]]):
                    rates[SHARE_SHORT] += 1.0
        while True:  # add the span to the buckets that it touches
            last = bin_now == len(edges_s) - 2
            until_s = next_s if last else min(next_s, edges_s[bin_now + 1])
            span_s = until_s - max(now_s, edges_s[bin_now])
            if span_s > 0.0:
                for row in range(6):
                    bucket[row, bin_now] += rates[row] * span_s
                queue_min[bin_now] = min(queue_min[bin_now], rates[QUEUE])
                queue_max[bin_now] = max(queue_max[bin_now], rates[QUEUE])
            if last or next_s <= edges_s[bin_now + 1]:
                break
            bin_now += 1


@njit
def _attend(
    tenant: int, change: int, attending: Ints, active: Ints, place: Ints, actives: int
) -> int:
    """Keep the list of tenants that have jobs; return how long it is."""
    attending[tenant] += change
    if attending[tenant] == change:  # the first to come
        place[tenant] = actives
        active[actives] = tenant
        return actives + 1
    if attending[tenant] == 0:
        last = active[actives - 1]
        active[place[tenant]] = last
        place[last] = place[tenant]
        return actives - 1
    return actives


@njit
def _requeue(waiting: Ints, least: Ints, row: int, size: int, change: int) -> None:
    """Count a job of some size in or out, and keep the smallest that waits."""
    waiting[row, size] += change
    if change > 0:
        least[row] = min(least[row], size)
        return
    while least[row] < waiting.shape[1] and waiting[row, least[row]] == 0:
        least[row] += 1


@njit
def _is_short(target: float, held: float, least: float) -> bool:
    return held < WITHIN * target - CLOSE and least <= target - held + CLOSE


@njit
def _fill_up(target: Floats, unmet: Floats, weight: Floats, active: Ints, left: float) -> None:
    """Raise the targets with what is left, by weight, nobody beyond its demand."""
    while left > CLOSE:
        weights = 0.0
        for one in active:
            if unmet[one] > CLOSE:
                weights += weight[one]
        if weights == 0.0:
            return
        level, met = left / weights, 0.0
        for one in active:
            if CLOSE < unmet[one] <= level * weight[one]:
                met += unmet[one]
                target[one] += unmet[one]
                unmet[one] = 0.0
        if met == 0.0:
            _raise(target, unmet, weight, active, level)
            return
        left -= met


@njit
def _raise(target: Floats, unmet: Floats, weight: Floats, active: Ints, level: float) -> None:
    for one in active:
        if unmet[one] > CLOSE:
            target[one] += level * weight[one]
