"""One moment of the system, read-only and columnar: what every policy looks at.

Rows of one table point into another by position; -1 is "none". NaN is "unknown", which is never
the same as zero. The live loop and the simulator hand the same view to the same policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steward.model.cluster import Cluster, Health
from steward.model.finding import Finding
from steward.model.forecast import About, ForecastColumn
from steward.model.identity import DecisionId, GpuId, JobId, NodeId, TenantId
from steward.model.job import Job, JobState

__all__ = [
    "BORROWER",
    "HEALTH_CODES",
    "OWNER",
    "QUEUED",
    "RUNNING",
    "AllocationColumns",
    "ClusterAction",
    "ClusterView",
    "GpuColumns",
    "JobColumns",
    "LinkColumns",
    "Loan",
    "NodeColumns",
    "SwitchColumns",
    "TenantColumns",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Names = NDArray[np.object_]

QUEUED, RUNNING = 0, 1  # codes of JobColumns.state: ended jobs are not in the view
OWNER, BORROWER = 0, 1  # codes of AllocationColumns.role
HEALTH_CODES: Mapping[Health, int] = MappingProxyType({h: i for i, h in enumerate(Health)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """GPUs that a borrower uses by decision `id` while their owner does not."""

    id: DecisionId
    owner: JobId
    borrower: JobId
    gpus: tuple[GpuId, ...]
    since_s: float
    until_s: float | None = None  # when it ends at the latest
    wanted: str = ""  # why its engine wants it to end; empty: it does not
    shared: bool = False  # its owner works on them, too: that it does ends no loan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuColumns:
    """One row per GPU, in the cluster's order."""

    ids: Names
    node: Ints
    model: Ints  # position in ClusterView.models
    memory_bytes: Floats
    memory_used_bytes: Floats
    power_watts: Floats
    power_limit_watts: Floats  # that the driver holds it to
    drawn_joules: Floats  # energy since steward began to look, while its power was known
    drawn_s: Floats  # for how long that was
    busy_share: Floats  # by anybody
    owner_busy_share: Floats  # by the job that holds it
    borrower_busy_share: Floats
    health: Ints  # HEALTH_CODES
    users: Ints  # allocations on it: 0 is free, more than one is shared or lent
    owner: Ints  # the job that holds it; where several do, the one that came first
    borrower: Ints  # the job that runs on it by a loan
    tenant: Ints  # of the owner
    seen_s: Floats  # time of its newest sample
    quiet_since_s: Floats  # since when its owner has used it less than `quiet_share`
    quiet_watts: Floats  # mean power since then
    reserved: Bools  # lent, or an open decision is about it, or its owner is left alone

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobColumns:
    """One row per job that waits or runs."""

    ids: Names
    tenant: Ints
    state: Ints  # QUEUED or RUNNING
    gpus: Ints
    cpus: Ints
    memory_bytes: Floats  # of the host
    gpu_memory_bytes: Floats  # on each of its GPUs
    model_mask: Ints  # bit i: may run on ClusterView.models[i]
    submit_s: Floats
    start_s: Floats
    priority: Ints
    deadline_s: Floats
    checkpointable: Bools
    endable: Bools  # its user allows that it is ended and run again
    save_s: Floats
    restore_s: Floats
    ran_s: Floats  # in stretches that are over; one that goes on began at `start_s`
    stops: Ints  # how often it was sent back into the queue
    queued_s: Floats  # when it last came into the queue
    began_s: Floats  # when it last began to run
    cpu_busy_cores: Floats
    read_bytes_per_s: Floats
    write_bytes_per_s: Floats
    step_count: Floats  # steps of its training, by its own count
    step_s: Floats  # when it counted them
    max_slowdown_share: Floats  # that its owner allows for saving energy
    seen_s: Floats
    reserved: Bools

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllocationColumns:
    """One row per job and GPU that it runs on: whole GPUs, MIG slices, time-shared ones, loans."""

    job: Ints  # row in `jobs`
    gpu: Ints  # row in `gpus`
    share: Floats  # of the GPU that the job was given: 1 unless it is sliced or time-shared
    role: Ints  # OWNER holds it in its own right, BORROWER by a loan
    busy_share: Floats  # of the GPU's time that this job used; NaN where nobody can tell

    def __len__(self) -> int:
        return len(self.job)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeColumns:
    """One row per node, in the cluster's order."""

    ids: Names
    gpus: Ints
    free: Ints  # GPUs that are healthy and unused, on nodes that are not draining
    draining: Bools  # nothing new may start there
    drained_since_s: Floats  # when steward drained it; NaN where somebody else did, or nobody
    reset_s: Floats  # when steward last had GPUs of it reset, since it was drained
    rebooted_s: Floats  # the same of restarts
    cpus: Ints
    cpus_allocated: Floats  # what its jobs asked for; a job on several nodes counts by its GPUs
    memory_bytes: Floats
    memory_allocated_bytes: Floats
    switch: Ints  # row in `switches` of the one above it

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkColumns:
    """One row per link of the cluster. Ends are ids of GPUs, nodes or switches."""

    a: Names
    b: Names
    kind: Names  # values of LinkKind
    bytes_per_s: Floats

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SwitchColumns:
    """One row per switch of the cluster; `tier` 0 is nearest to the nodes."""

    ids: Names
    tier: Ints
    parent: Ints  # row of the switch above

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TenantColumns:
    """One row per tenant, by name."""

    ids: Names
    weight: Floats
    guaranteed: Ints
    held: Ints  # GPUs that its jobs hold
    borrowed: Ints  # GPUs that its jobs use by a loan
    waiting: Ints  # GPUs that its queued jobs ask for

    def __len__(self) -> int:
        return len(self.ids)


class ClusterAction(Protocol):
    """What a moment of a cluster needs to know of an action: see `steward.model.actions`."""

    @property
    def gpus(self) -> tuple[GpuId, ...]: ...

    def unmet(self, view: ClusterView, /) -> str: ...

    def may_be_done(self, view: ClusterView, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterView:
    """The moment. Nothing in it can be changed."""

    t_s: float
    cluster: Cluster
    models: tuple[str, ...]
    gpus: GpuColumns
    jobs: JobColumns
    allocations: AllocationColumns
    nodes: NodeColumns
    tenants: TenantColumns
    links: LinkColumns
    switches: SwitchColumns
    gpu_row: Mapping[GpuId, int]  # where each GPU is in `gpus`
    node_row: Mapping[NodeId, int]  # where each node is in `nodes`
    details: Mapping[JobId, Job]  # what the columns leave out: names, users, history
    ended: tuple[Job, ...] = ()  # since the view before this one
    loans: tuple[Loan, ...] = ()
    findings: tuple[Finding, ...] = ()
    forecasts: Mapping[tuple[About, str], ForecastColumn] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def with_forecasts(self, columns: Iterable[ForecastColumn]) -> ClusterView:
        """Return this moment with what the estimators believe about it."""
        named = {(column.about, column.quantity): column for column in columns}
        return replace(self, forecasts=MappingProxyType({**self.forecasts, **named}))

    def with_findings(self, findings: tuple[Finding, ...]) -> ClusterView:
        """Return this moment with what was noticed in it."""
        return replace(self, findings=findings)

    @property
    def lasting(self) -> Mapping[DecisionId, JobId]:
        """Decisions whose effect lasts, each with the job that it affects."""
        return {loan.id: loan.owner for loan in self.loans}

    def unmet(self, action: ClusterAction) -> str:
        """Return why an action cannot be done in this moment, or an empty text."""
        return action.unmet(self)

    def may_be_done(self, action: ClusterAction) -> bool:
        """Return whether this moment looks as if an action had been carried out already."""
        return action.may_be_done(self)

    def is_lost(self, action: ClusterAction) -> bool:
        """Return whether a GPU that an action names is bad: waiting for it does not help."""
        rows = [self.gpu_row[gpu] for gpu in action.gpus if gpu in self.gpu_row]
        return bool((self.gpus.health[rows] == HEALTH_CODES[Health.BAD]).any())

    def claims_of(self, job: JobId) -> frozenset[str]:
        """Return what is reserved while a job is left alone: its GPUs, or itself if it waits."""
        found = self.details.get(job)
        if found is None:
            return frozenset()
        waits = {f"job:{job}"} if found.state is JobState.QUEUED else set()
        return frozenset(f"gpu:{gpu}" for gpu in found.gpus) | waits

    def is_draining(self, node: NodeId) -> bool:
        """Return whether nothing new may start on a node."""
        row = self.node_row.get(node)
        return row is not None and bool(self.nodes.draining[row])

    def forecast(self, about: About, quantity: str) -> ForecastColumn | None:
        """Return a column of forecasts, or None where nobody made one."""
        return self.forecasts.get((about, quantity))

    def job_id(self, row: int) -> JobId:
        """Name the job of a row of `jobs`."""
        return JobId(str(self.jobs.ids[row]))

    def gpu_id(self, row: int) -> GpuId:
        """Name the GPU of a row of `gpus`."""
        return GpuId(str(self.gpus.ids[row]))

    def tenant_id(self, row: int) -> TenantId:
        """Name the tenant of a row of `tenants`."""
        return TenantId(str(self.tenants.ids[row]))


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of an array that cannot be written to."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy
