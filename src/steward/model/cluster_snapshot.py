"""One snapshot of the moment, made once per turn and shown to everybody who asks.

The view is arrays; people and JSON want rows. NaN becomes None here and nowhere later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import isnan

import numpy as np
from numpy.typing import NDArray

from steward.model.cluster import Health
from steward.model.frame import steps_of
from steward.model.identity import GpuId
from steward.model.view import QUEUED, RUNNING, ClusterView, TenantColumns

__all__ = [
    "ClusterSnapshot",
    "GpuRow",
    "GpuState",
    "NodeRow",
    "QueuedJob",
    "RunningJobRow",
    "TenantRow",
    "cluster_snapshot",
    "fair_shares",
]

NONE = -1
_HEALTH = tuple(Health)


class GpuState(Enum):
    """What one GPU is for at this moment. The first that applies counts."""

    FAILED = "failed"
    UNKNOWN = "unknown"
    LENT = "lent"
    IDLE = "idle"  # held, but its owner does not use it
    BUSY = "busy"
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One GPU, as people see it. `tenant` is the owner's."""

    id: str
    node: str
    model: str
    state: GpuState
    health: Health
    busy_share: float | None
    owner: str | None
    borrower: str | None
    tenant: str | None
    borrower_tenant: str | None
    idle_s: float | None
    power_watts: float | None
    memory_used_bytes: float | None
    memory_bytes: float
    loan: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node with its GPUs, in the cluster's order. Nothing new starts where it is draining."""

    id: str
    gpus: tuple[GpuRow, ...]
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """One job that waits."""

    id: str
    name: str
    user: str
    tenant: str | None
    gpus: int
    priority: int
    waiting_s: float
    deadline_s: float | None
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobRow:
    """One job that runs, with the nodes where it does, also where it holds no GPU."""

    id: str
    name: str
    user: str
    tenant: str | None
    gpus: int
    nodes: tuple[str, ...]
    ran_s: float = 0.0
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One tenant against its share. All but `weight` are GPUs."""

    id: str
    weight: float
    guaranteed: int
    held: int
    borrowed: int
    waiting: int
    fair_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The cluster at `t_s`. `queue` is ordered by who waits longest."""

    t_s: float
    nodes: tuple[NodeRow, ...]
    queue: tuple[QueuedJob, ...]
    running: tuple[RunningJobRow, ...]
    tenants: tuple[TenantRow, ...]
    states: Mapping[GpuState, int]

    @property
    def gpus(self) -> Iterator[GpuRow]:
        """Walk over all GPUs, node by node."""
        return (gpu for node in self.nodes for gpu in node.gpus)


def cluster_snapshot(view: ClusterView) -> ClusterSnapshot:
    """Turn a view into rows."""
    gpus = list(_gpu_rows(view))
    by_node: dict[int, list[GpuRow]] = {}
    for node, gpu in zip(view.gpus.node.tolist(), gpus, strict=True):
        by_node.setdefault(node, []).append(gpu)
    return ClusterSnapshot(
        t_s=view.t_s,
        nodes=tuple(
            NodeRow(id=str(id_), gpus=tuple(by_node.get(row, ())), draining=draining)
            for row, (id_, draining) in enumerate(
                zip(view.nodes.ids, view.nodes.draining.tolist(), strict=True)
            )
        ),
        queue=_queue(view),
        running=_running(view),
        tenants=_tenants(view),
        states=Counter(gpu.state for gpu in gpus),
    )


def fair_shares(tenants: TenantColumns, gpus: int) -> list[float]:
    """Return the GPUs each tenant is due: its guarantee, and its weight's part of the rest.

    Guarantees that do not fit into the cluster are cut in proportion.
    """
    guaranteed = tenants.guaranteed.astype(np.float64)
    promised = float(guaranteed.sum())
    if promised > gpus:
        return [float(each) for each in guaranteed * (gpus / promised)]
    rest = gpus - promised
    total = float(tenants.weight.sum())
    return [float(each) for each in guaranteed + rest * tenants.weight / total] if total else []


def _gpu_rows(view: ClusterView) -> Iterator[GpuRow]:
    gpus = view.gpus
    jobs = [str(id_) for id_ in view.jobs.ids]
    job_tenant = view.jobs.tenant.tolist()
    tenants = [str(id_) for id_ in view.tenants.ids]
    nodes = [str(id_) for id_ in view.nodes.ids]
    loans = {gpu: loan.id for loan in view.loans for gpu in loan.gpus}
    idle = _numbers(view.t_s - gpus.quiet_since_s)
    columns = zip(
        gpus.ids,
        gpus.node.tolist(),
        gpus.model.tolist(),
        gpus.health.tolist(),
        gpus.owner.tolist(),
        gpus.borrower.tolist(),
        gpus.tenant.tolist(),
        _numbers(gpus.busy_share),
        idle,
        _numbers(gpus.power_watts),
        _numbers(gpus.memory_used_bytes),
        gpus.memory_bytes.tolist(),
        strict=True,
    )
    for id_, node, model, code, owner, borrower, tenant, busy, idle_s, watts, used, size in columns:
        health = _HEALTH[code]
        yield GpuRow(
            id=str(id_),
            node=nodes[node],
            model=view.models[model],
            state=_state(health, busy, idle_s, owner=owner, borrower=borrower),
            health=health,
            busy_share=busy,
            owner=_at(jobs, owner),
            borrower=_at(jobs, borrower),
            tenant=_at(tenants, tenant),
            borrower_tenant=_at(tenants, job_tenant[borrower]) if borrower != NONE else None,
            idle_s=idle_s,
            power_watts=watts,
            memory_used_bytes=used,
            memory_bytes=size,
            loan=loans.get(GpuId(str(id_))),
        )


def _state(
    health: Health, busy: float | None, idle_s: float | None, *, owner: int, borrower: int
) -> GpuState:
    if health is Health.BAD:
        return GpuState.FAILED
    if busy is None or health is Health.UNKNOWN:
        return GpuState.UNKNOWN
    if borrower != NONE:
        return GpuState.LENT
    if owner == NONE:
        return GpuState.FREE
    return GpuState.BUSY if idle_s is None else GpuState.IDLE


def _queue(view: ClusterView) -> tuple[QueuedJob, ...]:
    jobs = view.jobs
    tenants = [str(id_) for id_ in view.tenants.ids]
    waiting = np.flatnonzero(jobs.state == QUEUED)
    waiting = waiting[np.argsort(jobs.submit_s[waiting], kind="stable")]
    rows = []
    for row in waiting.tolist():
        id_ = view.job_id(row)
        detail = view.details.get(id_)
        deadline_s = float(jobs.deadline_s[row])
        rows.append(
            QueuedJob(
                id=id_,
                name=detail.name if detail else "",
                user=detail.user if detail else "",
                tenant=_at(tenants, int(jobs.tenant[row])),
                gpus=int(jobs.gpus[row]),
                priority=int(jobs.priority[row]),
                waiting_s=max(0.0, view.t_s - float(jobs.submit_s[row])),
                deadline_s=None if isnan(deadline_s) else deadline_s,
                time_limit_s=detail.time_limit_s if detail else None,
            )
        )
    return tuple(rows)


def _running(view: ClusterView) -> tuple[RunningJobRow, ...]:
    tenants = [str(id_) for id_ in view.tenants.ids]
    rows = []
    for row in np.flatnonzero(view.jobs.state == RUNNING).tolist():
        id_ = view.job_id(row)
        detail = view.details.get(id_)
        gpus = detail.gpus if detail else ()
        nodes = (*(detail.nodes if detail else ()), *(steps_of(gpu)[0] for gpu in gpus))
        rows.append(
            RunningJobRow(
                id=id_,
                name=detail.name if detail else "",
                user=detail.user if detail else "",
                tenant=_at(tenants, int(view.jobs.tenant[row])),
                gpus=len(gpus) or int(view.jobs.gpus[row]),
                nodes=tuple(dict.fromkeys(map(str, nodes))),
                ran_s=float(view.jobs.ran_s[row]) + _stretch_s(view, row),
                time_limit_s=detail.time_limit_s if detail else None,
            )
        )
    return tuple(rows)


def _stretch_s(view: ClusterView, row: int) -> float:
    """Return for how long a job has run since it last started; 0 where nobody knows."""
    start_s = float(view.jobs.start_s[row])
    return 0.0 if isnan(start_s) else max(view.t_s - start_s, 0.0)


def _tenants(view: ClusterView) -> tuple[TenantRow, ...]:
    tenants = view.tenants
    shares = fair_shares(tenants, len(view.gpus))
    return tuple(
        TenantRow(
            id=str(tenants.ids[row]),
            weight=float(tenants.weight[row]),
            guaranteed=int(tenants.guaranteed[row]),
            held=int(tenants.held[row]),
            borrowed=int(tenants.borrowed[row]),
            waiting=int(tenants.waiting[row]),
            fair_share=share,
        )
        for row, share in enumerate(shares)
    )


def _numbers(column: NDArray[np.float64]) -> list[float | None]:
    return [None if isnan(value) else value for value in column.tolist()]


def _at(names: list[str], row: int) -> str | None:
    return None if row == NONE else names[row]
