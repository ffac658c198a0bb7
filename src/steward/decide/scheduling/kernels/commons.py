"""The commons: guarantees first, then the idle rest by rank, weighed by who already has a lot.

A call has two rounds. In the first, every tenant's jobs (those that run and those that wait, in
the order of their ranks) are promised GPUs within the tenant's guarantee. In the second, what is
left is common: it goes job by job to the best rank, where a rank is multiplied by how far its
tenant is above its entitlement: its guarantee and its part, by weight, of what no active tenant is
guaranteed. A running job that is promised nothing is stopped, but only if its GPUs are promised to
another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steward.compiled import njit
from steward.decide.scheduling.kernels.ordered import fits
from steward.decide.scheduling.kernels.queue_state import QueueState, sort_running

__all__ = ["entitlements", "share_commons"]

Array = NDArray[Any]

_WHOLE = 1000.0  # of the queue's units make a GPU
_LOOK_PAST = 4096  # waiting jobs of one tenant that may be passed over in one round


@njit
def entitlements(queue: QueueState) -> Array:
    """Return each tenant's guarantee and its part by weight of what no active tenant is guaranteed.

    Active tenants have jobs that run or wait. A tenant without a guarantee is entitled to at least
    one GPU, so that its second GPU doubles its ranks instead of burying them.
    """
    tenants = len(queue.held)
    rest, weights = float(queue.capacity.sum()), 0.0
    for tenant in range(tenants):
        if queue.held[tenant] > 0 or queue.length[tenant] > 0:
            rest -= queue.quota[tenant]
            weights += queue.weight[tenant]
    entitled = np.empty(tenants)
    for tenant in range(tenants):
        share = max(rest, 0.0) * queue.weight[tenant] / max(weights, 1e-9)
        entitled[tenant] = max(queue.quota[tenant] + share, _WHOLE)
    return entitled


@njit
def _by_tenant(queue: QueueState, first: Array, jobs: Array) -> None:
    """List running jobs by tenant, in the order of their ranks."""
    running, tenant_of = (queue.running, queue.tenant)
    sort_running(queue, by_loss=True)
    for i in range(queue.running_n[0]):
        first[tenant_of[running[i]] + 1] += 1
    for tenant in range(len(queue.held)):
        first[tenant + 1] += first[tenant]
    at = first.copy()
    for i in range(queue.running_n[0]):
        job = running[i]
        jobs[at[tenant_of[job]]] = job
        at[tenant_of[job]] += 1


# The rounds below are whole on purpose: they run a hundred thousand times in a replay, and handing
# arrays from one compiled function to another costs more than what the function does.


@njit
def _guarantee(queue: QueueState, free: Array, promised: Array, first: Array, jobs: Array) -> int:
    """Promise GPUs within each tenant's guarantee to its best ranks; return how many are to start.

    A running job that is promised its GPUs is marked by `runs` = 2, a waiting one by 3.
    """
    key, needs, marks, waiting, held_type, quotas, length, queue_first = (
        queue.key,
        queue.need,
        queue.runs,
        queue.waiting,
        queue.held_type,
        queue.quota,
        queue.length,
        queue.first,
    )
    start_n, grain = 0, queue.grain[0]
    for tenant in range(len(queue.held)):
        quota = quotas[tenant] // grain * grain
        r, r_end = first[tenant], first[tenant + 1]
        w = queue_first[tenant]
        w_end = w + min(length[tenant], start_n + _LOOK_PAST)
        while promised[tenant] < quota and (r < r_end or w < w_end):
            if w >= w_end or (r < r_end and key[jobs[r]] <= key[waiting[w]]):
                job, mark = jobs[r], 2
                r += 1
                kind = held_type[job]
            else:
                job, mark = waiting[w], 3
                w += 1
                kind = fits(queue, free, job)
            need = needs[job]
            if kind < 0 or promised[tenant] + need > quota or free[kind] < need:
                continue
            free[kind] -= need
            promised[tenant] += need
            marks[job] = mark
            if mark == 3:
                queue.start[start_n] = job
                start_n += 1
    return start_n


@njit
def _share_rest(  # noqa: C901, PLR0912, PLR0915 - see above
    queue: QueueState, free: Array, promised: Array, first: Array, jobs: Array, start_n: int
) -> int:
    """Give what is left, job by job, to the best weighed rank; return how many are to start.

    Weighed: at twice its entitlement, a tenant's ranks count double.
    """
    key, needs, marks, waiting, held_type, length, queue_first = (
        queue.key,
        queue.need,
        queue.runs,
        queue.waiting,
        queue.held_type,
        queue.length,
        queue.first,
    )
    tenants, entitled = len(queue.held), entitlements(queue)
    r, w = first[:-1].copy(), queue_first.copy()
    job = np.empty(tenants, np.int64)  # each tenant's best candidate
    score = np.empty(tenants)  # and its weighed rank
    left = free.sum()
    best, second = -1, np.inf
    ask_from, ask_to = 0, tenants  # whose candidates are to be found
    while left > 0:
        for tenant in range(ask_from, ask_to):
            while r[tenant] < first[tenant + 1] and marks[jobs[r[tenant]]] == 2:
                r[tenant] += 1
            w_end = queue_first[tenant] + min(length[tenant], start_n + _LOOK_PAST)
            while w[tenant] < w_end and marks[waiting[w[tenant]]] == 3:
                w[tenant] += 1
            found = -1
            if w[tenant] < w_end:
                found = waiting[w[tenant]]
            if r[tenant] < first[tenant + 1]:
                runs = jobs[r[tenant]]
                if found < 0 or key[runs] <= key[found]:
                    found = runs
            job[tenant] = found
            score[tenant] = np.inf
            if found >= 0:
                share = (promised[tenant] + needs[found]) / entitled[tenant]
                score[tenant] = key[found] * max(share, 1.0) if key[found] > 0.0 else key[found]
        if best < 0 or score[best] > second:  # otherwise the same tenant goes on
            best, second = 0, np.inf
            for tenant in range(1, tenants):
                if score[tenant] < score[best]:
                    best, second = tenant, score[best]
                elif score[tenant] < second:
                    second = score[tenant]
        if score[best] == np.inf:
            break
        chosen = job[best]
        ask_from, ask_to = best, best + 1
        need = needs[chosen]
        if marks[chosen] == 0:
            w[best] += 1
            kind = fits(queue, free, chosen)
        else:
            r[best] += 1
            kind = held_type[chosen]
        if kind < 0 or free[kind] < need:
            continue
        free[kind] -= need
        left -= need
        promised[best] += need
        if marks[chosen] == 0:
            queue.start[start_n] = chosen
            start_n += 1
            marks[chosen] = 3
        else:
            marks[chosen] = 2
    return start_n


@njit
def share_commons(queue: QueueState) -> None:
    """Decide who runs: guarantees, then the commons."""
    tenants = len(queue.held)
    first = np.zeros(tenants + 1, np.int64)
    jobs = np.empty(max(queue.running_n[0], 1), np.int64)
    _by_tenant(queue, first, jobs)
    free = queue.capacity.copy()
    promised = np.zeros(tenants, np.int64)
    start_n = _guarantee(queue, free, promised, first, jobs)
    start_n = _share_rest(queue, free, promised, first, jobs, start_n)
    stop_n = 0
    for i in range(queue.running_n[0]):  # best ranks first: the worst are stopped first
        job = queue.running[i]
        if queue.runs[job] == 1:
            queue.stop[stop_n] = job
            stop_n += 1
        else:
            queue.runs[job] = 1
    for i in range(start_n):
        queue.runs[queue.start[i]] = 0
    queue.answer_n[0], queue.answer_n[1] = start_n, stop_n
