"""Many tenants from one real trace: slices of it are dealt out, jobs stay as they were.

A slice is what one virtual cluster submitted in one week (or, where that is more than a tenant's
size, a part of it made of whole bursts). Slices keep their hour of the week and land on a week
and a tenant of the scenario, so that in any week some tenants have much to do and others nothing:
that is what quotas that cannot be lent waste.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.trace import RowFault, Trace
from steward.sim.lab.generate.bursts import bursts

__all__ = ["fair_quota", "tenants_scenario"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_WEEK_S = 7 * 86400.0
_LONGEST_S = _WEEK_S  # a job of several weeks would be a tenant of its own
# A tenant is far smaller than the cluster: no job is larger than a 32nd of it, and those larger
# than a 64th belong to every tenth tenant.
_LARGEST_SHARE = 1 / 32
_LARGE_SHARE = 1 / 64
_LARGE_TENANTS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    rows: Ints
    gpu_s: float
    large: bool  # only for a large tenant


def tenants_scenario(
    trace: Trace, *, tenants: int = 50, gpus: int = 512, seed: int = 0, load: float = 0.95
) -> Trace:
    """Deal a trace to so many tenants of a cluster of so many GPUs.

    The scenario lasts as many whole weeks as the trace can fill with `load` of the cluster. What
    is too large or too long for a tenant, or beyond the load, is left out and counted.
    """
    if tenants < 2 or gpus < 32 or load <= 0:
        problem = f"cannot deal to {tenants} tenants on {gpus} GPUs at load {load}"
        raise StewardError(problem, where=trace.name, hint="2 tenants, 32 GPUs, a positive load")
    rng = np.random.default_rng(seed)
    usable, faults = _usable(trace, gpus)
    week_work = gpus * _WEEK_S * load
    weeks = max(int(usable.gpu_seconds / week_work), 1)
    slices = _slices(usable, most_gpu_s=2 * week_work / tenants, large=gpus * _LARGE_SHARE)
    dealt = _within(rng, slices, weeks * week_work)
    tenant, week = _deal(rng, dealt, tenants, weeks)
    owner, moved_s = np.full(len(usable), -1, np.int64), np.zeros(len(usable))
    for i, part in enumerate(dealt):
        owner[part.rows] = tenant[i]
        moved_s[part.rows] = usable.submit_s[part.rows] % _WEEK_S + week[i] * _WEEK_S
    if usable.gpu_seconds < week_work:
        reason = f"the trace has work for {usable.gpu_seconds / week_work:.0%} of that load only"
        faults = (*faults, RowFault(reason=reason, rows=0, kept=True))
    beyond = int((owner < 0).sum())
    if beyond:
        reason = "beyond the load asked for: left out of the scenario"
        faults = (*faults, RowFault(reason=reason, rows=beyond))
    kept = np.flatnonzero(owner >= 0)
    rows = kept[np.argsort(moved_s[kept], kind="stable")]
    return replace(
        replace(usable, after=np.empty((0, 2), np.int64)).rows(rows),
        name=f"{trace.name}-{tenants}-tenants",
        origin=f"{trace.name} dealt to {tenants} tenants on {gpus} GPUs at load {load:g} "
        f"over {weeks} weeks, seed {seed}",
        synthetic=True,
        submit_s=moved_s[rows],
        tenant=owner[rows],
        tenants=tuple(f"tenant-{i:02d}" for i in range(tenants)),
        user=np.full(len(rows), -1, np.int64),
        users=(),
        faults=faults,
    )


def fair_quota(trace: Trace, gpus: int) -> Floats:
    """Return whole GPUs per tenant that add up to `gpus`.

    Every tenant gets its largest job; what is left goes to those whose share of the work is more.
    """
    count = len(trace.tenants)
    work = np.bincount(trace.tenant, trace.duration_s * trace.gpus, minlength=count)
    least = np.zeros(count)
    np.maximum.at(least, trace.tenant, np.ceil(trace.gpus))
    if least.sum() >= gpus:
        return _whole(least / least.sum() * gpus, gpus)
    wish = np.maximum(work / work.sum() * gpus - least, 1e-9)
    return _whole(least + wish / wish.sum() * (gpus - least.sum()), gpus)


def _whole(shares: Floats, total: int) -> Floats:
    """Round so that the sum is kept: the largest remainders are rounded up."""
    quota = np.floor(shares + 1e-9)
    up = np.argsort(quota - shares, kind="stable")[: total - int(quota.sum())]
    quota[up] += 1
    return quota


def _within(rng: np.random.Generator, slices: list[_Slice], most_gpu_s: float) -> list[_Slice]:
    """Return slices, by lot, as long as they do not go beyond the work asked for."""
    taken, total = [], 0.0
    for i in rng.permutation(len(slices)).tolist():
        if total + slices[i].gpu_s <= most_gpu_s:
            taken.append(slices[i])
            total += slices[i].gpu_s
    return taken or slices[:1]


def _usable(trace: Trace, gpus: int) -> tuple[Trace, tuple[RowFault, ...]]:
    large = trace.gpus > gpus * _LARGEST_SHARE
    long = ~large & (trace.duration_s > _LONGEST_S)
    idle = ~large & ~long & (trace.gpus <= 0)
    faults = tuple(
        RowFault(reason=reason, rows=int(which.sum()))
        for reason, which in (
            (f"larger than {gpus * _LARGEST_SHARE:g} GPUs: left out of the scenario", large),
            ("longer than a week: left out of the scenario", long),
            ("a CPU job: left out of the scenario", idle),
        )
        if which.any()
    )
    kept = ~(large | long | idle)
    if not kept.any():
        raise StewardError("no job of it fits the scenario", where=trace.name, hint="more GPUs")
    return replace(trace.rows(kept), submit_s=trace.submit_s[kept]), faults


def _slices(trace: Trace, *, most_gpu_s: float, large: float) -> list[_Slice]:
    """Cut by tenant and week, large jobs apart; too much for one tenant is cut burst by burst."""
    week = (trace.submit_s // _WEEK_S).astype(np.int64)
    work = trace.duration_s * trace.gpus
    burst, big = bursts(trace), trace.gpus > large
    key = np.lexsort((np.arange(len(trace)), burst, week, trace.tenant, big))
    group = np.stack((big[key], trace.tenant[key], week[key]))
    edges = np.flatnonzero((np.diff(group, axis=1) != 0).any(axis=0)) + 1
    found = []
    for rows in np.split(key, edges):
        parts = max(int(np.ceil(work[rows].sum() / most_gpu_s)), 1)
        number = np.unique(burst[rows], return_inverse=True)[1].reshape(-1) % parts
        mine = [rows[number == part] for part in range(parts)]
        found += [
            _Slice(rows=r, gpu_s=float(work[r].sum()), large=bool(big[rows[0]]))
            for r in mine
            if len(r)
        ]
    return found


def _deal(
    rng: np.random.Generator, slices: list[_Slice], tenants: int, weeks: int
) -> tuple[Ints, Ints]:
    """Give each slice a tenant and a week: weeks end up equally full, tenants do not.

    The largest slice first, to the emptiest week, and there to a tenant that has the fewest
    slices in that week, by lot. Large jobs go to large tenants only.
    """
    tenant, week = np.empty(len(slices), np.int64), np.empty(len(slices), np.int64)
    full = np.zeros(weeks)
    has = np.zeros((weeks, tenants), np.int64)
    few = max(int(tenants * _LARGE_TENANTS), 1)
    for i in sorted(range(len(slices)), key=lambda i: (not slices[i].large, -slices[i].gpu_s)):
        w = int(np.argmin(full))
        open_to = has[w, :few] if slices[i].large else has[w]
        tenant[i], week[i] = int(rng.choice(np.flatnonzero(open_to == open_to.min()))), w
        full[w] += slices[i].gpu_s
        has[w, tenant[i]] += 1
    return tenant, week
