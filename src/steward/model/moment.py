"""Keeps the moment up to date: folds each observation into columns and hands out views of them.

Costs grow with what changed, not with what is there: a job's row is written when the job changes,
a GPU's when it says something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.model.cluster import Cluster, Health
from steward.model.event import Observation
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.job import Job, JobState, Tenant
from steward.model.job_rows import JOB_LEVELS, JobRows
from steward.model.view import (
    HEALTH_CODES,
    QUEUED,
    ClusterView,
    GpuColumns,
    JobColumns,
    Loan,
    NodeColumns,
    TenantColumns,
    frozen,
)

__all__ = ["Moment"]

Floats = NDArray[np.float64]
NONE = -1
GOOD = HEALTH_CODES[Health.GOOD]
_GPU_LEVELS = {
    "gpu.busy_share": "busy_share",
    "gpu.memory.used_bytes": "memory_used_bytes",
    "gpu.power_watts": "power_watts",
}
_HEARD = (*_GPU_LEVELS, "share.busy_share", *JOB_LEVELS)
_AGE = "\0age"  # no metric is called that
_GPU_FLOATS = (
    "memory_used_bytes",
    "power_watts",
    "busy_share",
    "owner_busy_share",
    "borrower_busy_share",
    "seen_s",
    "quiet_since_s",
)


class Moment:
    """The one mutable place of the model. Below `quiet_share`, an owner does not use its GPU."""

    def __init__(self, *, quiet_share: float = 0.05, stale_after_s: float = 120.0) -> None:
        self.quiet_share = quiet_share
        self.stale_after_s = stale_after_s
        self._tenants: dict[TenantId, Tenant] = {}
        self._jobs = JobRows()
        self._ended: list[Job] = []
        self._loans: dict[DecisionId, Loan] = {}
        self._loan_on: dict[GpuId, Loan] = {}
        self._begun: set[DecisionId] = set()  # loans whose borrower was seen to run
        self._began_s = np.inf  # when the first view was asked for
        self._spoken_gpus: frozenset[GpuId] = frozenset()
        self._spoken_jobs: frozenset[JobId] = frozenset()
        self._set_cluster(Cluster(id="empty"))

    # -- what comes in -------------------------------------------------------------------------

    def fold(self, seen: Observation) -> None:
        """Take in one observation."""
        if seen.tenants is not None:
            self._tenants = {tenant.id: tenant for tenant in sorted(seen.tenants, key=_tenant_name)}
            self._jobs.retenant(self._tenant_row)
        if seen.cluster is not None:
            self._set_cluster(seen.cluster)
        for gpu, health in seen.health.items():
            if gpu in self._gpu_row:
                self._health[self._gpu_row[gpu]] = HEALTH_CODES[health]
        for job in seen.jobs:
            self._put(job)
        self._fold_tables(seen.tables)

    def lend(self, loan: Loan) -> None:
        """Remember a loan that was carried out; it is forgotten when either side lets go."""
        self._loans[loan.id] = loan
        self._loan_on.update(dict.fromkeys(loan.gpus, loan))

    def give_back(self, loan: DecisionId) -> None:
        """Forget a loan that was called back before its borrower ever ran."""
        if loan in self._loans and loan not in self._begun:
            self._drop(self._loans[loan])

    def reserve(self, gpus: Iterable[GpuId], jobs: Iterable[JobId]) -> None:
        """Say about which GPUs and jobs nothing new should be decided now."""
        self._spoken_gpus = frozenset(gpus)
        self._spoken_jobs = frozenset(jobs)

    # -- what goes out -------------------------------------------------------------------------

    def view(self, t_s: float) -> ClusterView:
        """Return the moment as it is now. Sensors silent for too long are unknown in it."""
        stale = ~(self._gpu["seen_s"] >= t_s - self.stale_after_s)
        for name in ("busy_share", "owner_busy_share", "borrower_busy_share", "quiet_since_s"):
            self._gpu[name][stale] = np.nan
        self._close_loans(t_s)
        ended, self._ended = tuple(self._ended), []
        borrowers = (loan.borrower for loan in self._loans.values())
        jobs, row_of = self._jobs.columns(self._spoken_jobs.union(borrowers))
        gpus = self._gpu_columns(row_of, jobs)
        return ClusterView(
            t_s=t_s,
            cluster=self._cluster,
            models=self._models,
            gpus=gpus,
            jobs=jobs,
            nodes=self._node_columns(),
            tenants=self._tenant_columns(gpus, jobs),
            gpu_row=self._gpu_row_view,
            details=MappingProxyType(dict(self._jobs.jobs)),
            ended=ended,
            loans=tuple(self._loans.values()),
        )

    # -- the cluster ---------------------------------------------------------------------------

    def _set_cluster(self, cluster: Cluster) -> None:
        before = getattr(self, "_gpu_row", {})
        old = getattr(self, "_gpu", None)
        old_health = getattr(self, "_health", None)
        self._cluster = cluster
        self._models = tuple(sorted({gpu.model.name for gpu in cluster.gpus}))
        self._gpu_row = {gpu.id: row for row, gpu in enumerate(cluster.gpus)}
        self._gpu_row_view = MappingProxyType(self._gpu_row)
        size = len(cluster.gpus)
        model_row = {name: row for row, name in enumerate(self._models)}
        node_row = {node.id: row for row, node in enumerate(cluster.nodes)}
        self._gpu_ids = np.array([gpu.id for gpu in cluster.gpus], dtype=object)
        self._gpu_node = np.array([node_row[gpu.node] for gpu in cluster.gpus], dtype=np.int64)
        self._gpu_model = np.array([model_row[gpu.model.name] for gpu in cluster.gpus], np.int64)
        self._gpu_memory = np.array([gpu.model.memory_bytes for gpu in cluster.gpus], np.float64)
        self._node_ids = np.array([node.id for node in cluster.nodes], dtype=object)
        self._node_gpus = np.array([len(node.gpus) for node in cluster.nodes], dtype=np.int64)
        self._gpu = {name: np.full(size, np.nan) for name in _GPU_FLOATS}
        self._quiet_joules = np.zeros(size)  # sum of power readings while quiet
        self._quiet_count = np.zeros(size)
        self._health = np.full(size, HEALTH_CODES[Health.UNKNOWN], dtype=np.int64)
        self._owner = np.full(size, NONE, dtype=np.int64)
        self._borrower = np.full(size, NONE, dtype=np.int64)
        for gpu, row in self._gpu_row.items():
            if old is not None and old_health is not None and gpu in before:
                for name in _GPU_FLOATS:
                    self._gpu[name][row] = old[name][before[gpu]]
                self._health[row] = old_health[before[gpu]]
        quiet_since_s = self._gpu["quiet_since_s"].copy()
        for job in self._jobs:
            self._put(job)
        self._gpu["quiet_since_s"] = quiet_since_s  # who holds what has not changed

    # -- jobs ----------------------------------------------------------------------------------

    def _put(self, job: Job) -> None:
        before = self._jobs.jobs.get(job.id)
        if before is not None:
            kept = () if job.state.ended else job.gpus
            self._let_go(job.id, [gpu for gpu in before.gpus if gpu not in kept])
        if job.state.ended:
            if before is not None:
                self._jobs.forget(job.id)
            self._ended.append(job)
            return
        tenant = self._tenant_row.get(job.tenant, NONE)
        slot = self._jobs.put(job, tenant=tenant, model_mask=self._mask(job.shape.gpu_models))
        if job.state is JobState.RUNNING:
            self._take(slot, job)

    def _mask(self, models: tuple[str, ...]) -> int:
        wanted = [i for i, name in enumerate(self._models) if not models or name in models]
        return sum(1 << i for i in wanted)

    def _take(self, slot: int, job: Job) -> None:
        for gpu in job.gpus:
            row = self._gpu_row.get(gpu)
            if row is None or slot in (self._owner[row], self._borrower[row]):
                continue
            loan = self._loan_on.get(gpu)
            if loan is not None and loan.borrower == job.id:
                self._borrower[row] = slot  # whoever is heard of first
            elif self._owner[row] == NONE:
                self._owner[row] = slot
                self._gpu["quiet_since_s"][row] = np.nan
            else:
                self._borrower[row] = slot

    def _let_go(self, job: JobId, gpus: Iterable[GpuId]) -> None:
        """Free GPUs of a job; a borrower that outstays the owner holds them from then on."""
        slot = self._jobs.slot(job)
        for gpu in gpus:
            row = self._gpu_row.get(gpu)
            loan = self._loan_on.get(gpu)
            if loan is not None and loan.owner == job:
                del self._loan_on[gpu]  # who comes now, or stays, holds it in its own right
            if row is None:
                continue
            if self._borrower[row] == slot:
                self._borrower[row] = NONE
                self._gpu["borrower_busy_share"][row] = np.nan
            elif self._owner[row] == slot:
                self._owner[row] = self._borrower[row]
                self._borrower[row] = NONE
                self._gpu["borrower_busy_share"][row] = np.nan
                self._gpu["quiet_since_s"][row] = np.nan

    # -- tenants -------------------------------------------------------------------------------

    @property
    def _tenant_row(self) -> Mapping[TenantId, int]:
        return {tenant: row for row, tenant in enumerate(self._tenants)}

    # -- samples -------------------------------------------------------------------------------

    def _fold_tables(self, tables: Sequence[Frame]) -> None:
        """Take samples in the order of their time, the n-th newest of all entities together."""
        parts = [
            table.select(T_S, ENTITY, *(name for name in _HEARD if name in table.columns))
            for table in tables
        ]
        parts = [part for part in parts if part.width > 2]
        if not parts:
            return
        frame = pl.concat(parts, how="diagonal")
        if frame[T_S].n_unique() == 1:
            self._fold_layer(frame, newest=True)
            return
        # A row of another sensor without a busy share must not pass for the newest of its GPU.
        busy = [pl.col(name).is_not_null() for name in frame.columns if name == "gpu.busy_share"]
        age = pl.col(T_S).rank("ordinal", descending=True).over(ENTITY, *busy).alias(_AGE)
        layers = frame.with_columns(age).partition_by(_AGE, as_dict=True, include_key=False)
        for (nth,) in sorted(layers, reverse=True):
            self._fold_layer(layers[nth,], newest=nth == 1)

    def _fold_layer(self, frame: Frame, *, newest: bool) -> None:
        names: list[str] = frame[ENTITY].to_list()
        columns = {name: frame[name].to_numpy() for name in frame.columns if name != ENTITY}
        self._jobs.hear(names, columns, columns[T_S])
        if "gpu.busy_share" in columns:
            self._fold_gpus(names, columns, newest=newest)

    def _fold_gpus(self, names: list[str], columns: Mapping[str, Floats], *, newest: bool) -> None:
        rows = self._gpu_row
        row = np.array([rows.get(GpuId(name), NONE) for name in names])
        heard = (row >= 0) & ~np.isnan(columns["gpu.busy_share"])
        heard[heard] = ~(
            columns[T_S][heard] < self._gpu["seen_s"][row[heard]]
        )  # late: known better
        if not newest:  # what each job has of a shared GPU is told once per look
            heard[heard] = self._borrower[row[heard]] < 0
        at = np.flatnonzero(heard)
        row = row[at]
        state = self._gpu
        state["owner_busy_share"][row] = columns["gpu.busy_share"][at]  # mended where it is shared
        for metric, column in _GPU_LEVELS.items():
            if metric in columns:
                state[column][row] = columns[metric][at]
        state["seen_s"][row] = columns[T_S][at]
        self._health[row[self._health[row] == HEALTH_CODES[Health.UNKNOWN]]] = GOOD
        if self._loans:
            self._fold_shares(row, names, columns)
        self._fold_quiet(row, columns[T_S][at])

    def _fold_shares(
        self, heard: NDArray[np.int64], names: list[str], columns: Mapping[str, Floats]
    ) -> None:
        """On shared GPUs, the device's busy share is nobody's: each job has a row of its own."""
        shared = heard[self._borrower[heard] >= 0]
        self._gpu["owner_busy_share"][shared] = np.nan
        self._gpu["borrower_busy_share"][shared] = np.nan
        if "share.busy_share" not in columns:
            return
        busy = columns["share.busy_share"]
        for i in [i for i, name in enumerate(names) if "@" in name]:
            gpu, _, job = names[i].partition("@")
            row, slot = self._gpu_row.get(GpuId(gpu), NONE), self._jobs.slot(JobId(job))
            if row < 0 or slot < 0:
                continue
            if self._owner[row] == slot:
                self._gpu["owner_busy_share"][row] = busy[i]
            elif self._borrower[row] == slot:
                self._gpu["borrower_busy_share"][row] = busy[i]

    def _fold_quiet(self, row: NDArray[np.int64], t_s: Floats) -> None:
        state = self._gpu
        quiet = (state["owner_busy_share"][row] < self.quiet_share) & (self._owner[row] >= 0)
        new = quiet & np.isnan(state["quiet_since_s"][row])
        begins = row[new]
        state["quiet_since_s"][begins] = t_s[new]
        state["quiet_since_s"][row[~quiet]] = np.nan
        self._quiet_joules[begins] = 0.0
        self._quiet_count[begins] = 0.0
        alone = row[quiet & (self._borrower[row] < 0)]
        alone = alone[~np.isnan(state["power_watts"][alone])]
        self._quiet_joules[alone] += state["power_watts"][alone]
        self._quiet_count[alone] += 1

    def _close_loans(self, t_s: float) -> None:
        """Forget loans that are over, on evidence: an end or a requeue that was seen.

        Engines take a while to start a borrower, and after a restart nobody is known at first.
        """
        self._began_s = min(self._began_s, t_s)
        for loan in list(self._loans.values()):
            owner, borrower = self._jobs.slot(loan.owner), self._jobs.slot(loan.borrower)
            rows = [self._gpu_row[gpu] for gpu in loan.gpus if gpu in self._gpu_row]
            unheard = owner == borrower == NONE and t_s - self._began_s <= self.stale_after_s
            held = owner != NONE and all(self._owner[row] == owner for row in rows)
            used = borrower != NONE and all(self._borrower[row] == borrower for row in rows)
            if rows and held and used:
                self._begun.add(loan.id)
            elif not unheard and (
                not (rows and held and borrower != NONE) or loan.id in self._begun
            ):
                self._drop(loan)

    def _drop(self, loan: Loan) -> None:
        del self._loans[loan.id]
        self._begun.discard(loan.id)
        for gpu in loan.gpus:
            if self._loan_on.get(gpu) is loan:
                del self._loan_on[gpu]

    # -- columns -------------------------------------------------------------------------------

    def _gpu_columns(self, row_of: NDArray[np.int64], jobs: JobColumns) -> GpuColumns:
        owner = row_of[self._owner]
        borrower = row_of[self._borrower]
        tenant = np.append(jobs.tenant, NONE)[owner]
        with np.errstate(invalid="ignore", divide="ignore"):
            quiet_watts = self._quiet_joules / self._quiet_count
        quiet_watts[np.isnan(self._gpu["quiet_since_s"])] = np.nan
        spoken = np.zeros(len(self._gpu_ids), dtype=bool)
        about = (*self._spoken_gpus, *self._loan_on)
        spoken[[self._gpu_row[gpu] for gpu in about if gpu in self._gpu_row]] = True
        return GpuColumns(
            ids=self._gpu_ids,
            node=self._gpu_node,
            model=self._gpu_model,
            memory_bytes=self._gpu_memory,
            health=frozen(self._health),
            owner=frozen(owner),
            borrower=frozen(borrower),
            tenant=frozen(tenant),
            quiet_watts=frozen(quiet_watts),
            reserved=frozen(spoken),
            **{name: frozen(self._gpu[name]) for name in _GPU_FLOATS},
        )

    def _node_columns(self) -> NodeColumns:
        open_ = (self._owner == NONE) & (self._health == GOOD)
        free = np.bincount(self._gpu_node[open_], minlength=len(self._node_ids))
        return NodeColumns(ids=self._node_ids, gpus=self._node_gpus, free=frozen(free))

    def _tenant_columns(self, gpus: GpuColumns, jobs: JobColumns) -> TenantColumns:
        tenants = list(self._tenants.values())
        size = len(tenants)
        waiting = (jobs.state == QUEUED) & (jobs.tenant >= 0)
        borrower_tenant = np.append(jobs.tenant, NONE)[gpus.borrower]
        return TenantColumns(
            ids=np.array([tenant.id for tenant in tenants], dtype=object),
            weight=np.array([tenant.weight for tenant in tenants], dtype=np.float64),
            guaranteed=np.array([tenant.guaranteed_gpus for tenant in tenants], dtype=np.int64),
            held=np.bincount(gpus.tenant[gpus.tenant >= 0], minlength=size),
            borrowed=np.bincount(borrower_tenant[borrower_tenant >= 0], minlength=size),
            waiting=np.bincount(
                jobs.tenant[waiting], weights=jobs.gpus[waiting], minlength=size
            ).astype(np.int64),
        )


def _tenant_name(tenant: Tenant) -> str:
    return tenant.id
