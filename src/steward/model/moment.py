"""Keeps the moment up to date: folds each observation into columns and hands out views of them.

Costs grow with what changed, not with what is there: a job's row is written when the job changes,
a GPU's when it says something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.model.actions import Action, CallBack, Drain, Lend, Reboot, Reset, Undrain
from steward.model.allocations import AllocationTable
from steward.model.cluster import Cluster, Health
from steward.model.decision import Decision, Receipt
from steward.model.event import Observation
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.identity import DecisionId, GpuId, JobId, NodeId, TenantId
from steward.model.job import Job, JobState, Tenant
from steward.model.job_rows import JOB_LEVELS, PROGRESS_LEVELS, JobRows
from steward.model.view import (
    BORROWER,
    HEALTH_CODES,
    OWNER,
    QUEUED,
    AllocationColumns,
    ClusterView,
    GpuColumns,
    JobColumns,
    LinkColumns,
    Loan,
    NodeColumns,
    SwitchColumns,
    TenantColumns,
    frozen,
)

__all__ = ["Moment"]

Floats = NDArray[np.float64]
NONE = -1
GOOD = HEALTH_CODES[Health.GOOD]
UNKNOWN = HEALTH_CODES[Health.UNKNOWN]
_WELL = (GOOD, HEALTH_CODES[Health.WORN])
_GPU_LEVELS = {
    "gpu.busy_share": "busy_share",
    "gpu.memory.used_bytes": "memory_used_bytes",
    "gpu.power_watts": "power_watts",
    "gpu.power.limit_watts": "power_limit_watts",
}
_MEAN_WATTS = ("gpu.energy.mean_watts", "gpu.power_watts")  # the first that is known counts
_HEARD = (*_GPU_LEVELS, *_MEAN_WATTS[:1], "share.busy_share", *JOB_LEVELS, *PROGRESS_LEVELS)
_AGE = "\0age"  # no metric is called that
_GPU_FLOATS = (
    "memory_used_bytes",
    "power_watts",
    "power_limit_watts",
    "busy_share",
    "owner_busy_share",
    "borrower_busy_share",
    "seen_s",
    "quiet_since_s",
)
_GPU_SUMS = ("drawn_joules", "drawn_s")


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
        self._reserved: frozenset[str] = frozenset()
        self._draining: set[NodeId] = set()
        self._drained_s: dict[NodeId, float] = {}  # nodes that steward drained, and when
        self._reset_s: dict[NodeId, float] = {}  # of those, whose GPUs it has reset since
        self._rebooted_s: dict[NodeId, float] = {}
        self._set_cluster(Cluster(id="empty"))

    # -- what comes in -------------------------------------------------------------------------

    def fold(self, seen: Observation) -> None:
        """Take in one observation."""
        if seen.tenants is not None:
            self._tenants = {tenant.id: tenant for tenant in sorted(seen.tenants, key=_tenant_name)}
            self._jobs.retenant(self._tenant_row)
        if seen.cluster is not None:
            self._set_cluster(seen.cluster)
        self._fold_machines(seen)
        for loan in seen.loans:  # before its borrower is seen to run
            self.lend(loan)
        for job in seen.jobs:
            self._put(job)
        self._fold_tables(seen.tables)

    def _fold_machines(self, seen: Observation) -> None:
        for gpu, health in seen.health.items():
            if gpu in self._gpu_row:
                self._health[self._gpu_row[gpu]] = HEALTH_CODES[health]
                self._reported[self._gpu_row[gpu]] = True
        for node, draining in seen.draining.items():
            (self._draining.add if draining else self._draining.discard)(node)
            if not draining:
                self._forget_drain(node)

    def lend(self, loan: Loan) -> None:
        """Record a loan that was carried out; it is dropped when either side leaves the GPUs."""
        self._loans[loan.id] = loan
        self._loan_on.update(dict.fromkeys(loan.gpus, loan))
        borrower, owner = self._jobs.slot(loan.borrower), self._jobs.slot(loan.owner)
        for row in (self._gpu_row[gpu] for gpu in loan.gpus if gpu in self._gpu_row):
            if self._table.holds(borrower, row) and self._table.holds(owner, row):
                self._table.remove(borrower, row)  # it was seen to run before the loan was known
                self._table.add(borrower, row, role=BORROWER)

    def give_back(self, loan: DecisionId) -> None:
        """Drop a loan that was called back before its borrower ever ran."""
        if loan in self._loans and loan not in self._begun:
            self._drop(self._loans[loan])

    def apply(self, decision: Decision, receipt: Receipt) -> None:
        """Take in what was done where observations show it later, or not who did it."""
        action = decision.action
        if receipt.result == "begun":
            return
        if isinstance(action, Lend):
            self.lend(
                Loan(
                    id=decision.id,
                    owner=action.owner,
                    borrower=action.borrower,
                    gpus=receipt.gpus,
                    since_s=receipt.t_s,
                    until_s=None if action.for_s is None else receipt.t_s + action.for_s,
                    shared=action.way == "shared",
                )
            )
        elif isinstance(action, CallBack):
            self.give_back(action.loan)
        else:
            self._apply_to_node(action, receipt.t_s)

    def _apply_to_node(self, action: Action, t_s: float) -> None:
        match action:
            case Drain():
                self._drained_s[action.node] = t_s
            case Undrain():
                self._forget_drain(action.node)
            case Reboot():
                self._rebooted_s[action.node] = t_s
            case Reset():
                rows = {
                    self._gpu_node[self._gpu_row[gpu]]
                    for gpu in action.gpus
                    if gpu in self._gpu_row
                }
                self._reset_s.update((NodeId(str(self._nodes.ids[row])), t_s) for row in rows)
            case _:
                pass

    def _forget_drain(self, node: NodeId) -> None:
        for times in (self._drained_s, self._reset_s, self._rebooted_s):
            times.pop(node, None)

    def reserve(self, claims: Iterable[str]) -> None:
        """Set about which GPUs (`gpu:ID`) and jobs (`job:ID`) nothing new should be decided."""
        self._reserved = frozenset(claims)

    # -- what goes out -------------------------------------------------------------------------

    def view(self, t_s: float) -> ClusterView:
        """Return the moment as it is now. Sensors silent for too long are unknown in it."""
        stale = ~(self._gpu["seen_s"] >= t_s - self.stale_after_s)
        for name in ("busy_share", "owner_busy_share", "borrower_busy_share", "quiet_since_s"):
            self._gpu[name][stale] = np.nan
        self._health_seen_s[self._reported] = t_s
        self._reported[:] = False
        self._close_loans(t_s)
        ended, self._ended = tuple(self._ended), []
        borrowers = {loan.borrower for loan in self._loans.values()}
        reserved = {JobId(each[4:]) for each in self._reserved if each.startswith("job:")}
        jobs, row_of = self._jobs.columns(reserved | borrowers)
        silent = stale & ~(self._health_seen_s >= t_s - self.stale_after_s)
        gpus = self._gpu_columns(row_of, jobs, silent=silent)
        allocations = self._table.columns(row_of, self._gpu["busy_share"])
        return ClusterView(
            t_s=t_s,
            cluster=self._cluster,
            models=self._models,
            gpus=gpus,
            jobs=jobs,
            allocations=allocations,
            nodes=self._node_columns(gpus, jobs, allocations),
            tenants=self._tenant_columns(gpus, jobs),
            links=self._links,
            switches=self._switches,
            gpu_row=self._gpu_row_view,
            node_row=self._node_row,
            details=MappingProxyType(dict(self._jobs.jobs)),
            ended=ended,
            loans=tuple(self._loans.values()),
        )

    # -- the cluster ---------------------------------------------------------------------------

    def _set_cluster(self, cluster: Cluster) -> None:
        before = getattr(self, "_gpu_row", {})
        old = getattr(self, "_gpu", None)
        old_health = getattr(self, "_health", None)
        old_health_seen_s = getattr(self, "_health_seen_s", None)
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
        self._node_row = MappingProxyType(node_row)
        self._nodes = _node_constants(cluster)
        self._links, self._switches = _links(cluster), _switches(cluster)
        self._gpu = {name: np.full(size, np.nan) for name in _GPU_FLOATS}
        self._gpu |= {name: np.zeros(size) for name in _GPU_SUMS}
        self._quiet_joules = np.zeros(size)  # sum of power readings while quiet
        self._quiet_count = np.zeros(size)
        self._health = np.full(size, HEALTH_CODES[Health.UNKNOWN], dtype=np.int64)
        self._health_seen_s = np.full(size, np.nan)  # when a collector last reported its health
        self._reported = np.zeros(size, dtype=bool)  # since the last view
        self._table = AllocationTable(size)
        for gpu, row in self._gpu_row.items():
            if old is None or old_health is None or old_health_seen_s is None or gpu not in before:
                continue
            for name in (*_GPU_FLOATS, *_GPU_SUMS):
                self._gpu[name][row] = old[name][before[gpu]]
            self._health[row] = old_health[before[gpu]]
            self._health_seen_s[row] = old_health_seen_s[before[gpu]]
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
        for at, gpu in enumerate(job.gpus):
            row = self._gpu_row.get(gpu)
            if row is None or self._table.holds(slot, row):
                continue
            loan = self._loan_on.get(gpu)
            role = BORROWER if loan is not None and loan.borrower == job.id else OWNER
            share = job.gpu_shares[at] if at < len(job.gpu_shares) else 1.0
            self._table.add(slot, row, role=role, share=share)
            if role == OWNER:
                self._gpu["quiet_since_s"][row] = np.nan

    def _let_go(self, job: JobId, gpus: Iterable[GpuId]) -> None:
        """Free GPUs of a job; a borrower that outstays the last owner holds them from then on."""
        slot = self._jobs.slot(job)
        for gpu in gpus:
            row = self._gpu_row.get(gpu)
            loan = self._loan_on.get(gpu)
            if loan is not None and loan.owner == job:
                del self._loan_on[gpu]  # who comes now, or stays, holds it in its own right
            if row is None:
                continue
            role = self._table.remove(slot, row)
            if role != NONE:
                self._gpu["borrower_busy_share"][row] = np.nan
            if role == OWNER:
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
        rows = cast("Mapping[str, int]", self._gpu_row)
        row = np.array([rows.get(name, NONE) for name in names])
        heard = (row >= 0) & ~np.isnan(columns["gpu.busy_share"])
        heard[heard] = ~(
            columns[T_S][heard] < self._gpu["seen_s"][row[heard]]
        )  # late: known better
        if not newest:  # what each job has of a shared GPU is told once per look
            heard[heard] = self._table.users[row[heard]] < 2
        at = np.flatnonzero(heard)
        row = row[at]
        state = self._gpu
        state["owner_busy_share"][row] = columns["gpu.busy_share"][at]  # mended where it is shared
        for metric, column in _GPU_LEVELS.items():
            if metric in columns:
                state[column][row] = columns[metric][at]
        self._add_energy(row, at, columns)
        state["seen_s"][row] = columns[T_S][at]
        self._health[row[self._health[row] == HEALTH_CODES[Health.UNKNOWN]]] = GOOD
        if bool((self._table.users[row] > 1).any()):
            self._fold_shares(row, names, columns)
        self._fold_quiet(row, columns[T_S][at])

    def _add_energy(
        self, row: NDArray[np.int64], at: NDArray[np.int64], columns: Mapping[str, Floats]
    ) -> None:
        """Add what GPUs drew since their last sample, where both the time and the power are known.

        A gap counts as no time at all, rather than as time without power.
        """
        passed_s = columns[T_S][at] - self._gpu["seen_s"][row]
        watts = np.full(len(at), np.nan)
        for metric in _MEAN_WATTS:
            if metric in columns:
                watts = np.where(np.isnan(watts), columns[metric][at], watts)
        known = ~np.isnan(watts) & (passed_s <= self.stale_after_s)
        self._gpu["drawn_joules"][row[known]] += (watts * passed_s)[known]
        self._gpu["drawn_s"][row[known]] += passed_s[known]

    def _fold_shares(
        self, heard: NDArray[np.int64], names: list[str], columns: Mapping[str, Floats]
    ) -> None:
        """On shared GPUs, the device's busy share is no job's own: each job has a row."""
        shared = heard[self._table.users[heard] > 1]
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
            self._table.use(slot, row, busy[i])
            if self._table.owner[row] == slot:
                self._gpu["owner_busy_share"][row] = busy[i]
            elif self._table.borrower[row] == slot:
                self._gpu["borrower_busy_share"][row] = busy[i]

    def _fold_quiet(self, row: NDArray[np.int64], t_s: Floats) -> None:
        state = self._gpu
        quiet = (state["owner_busy_share"][row] < self.quiet_share) & (self._table.owner[row] >= 0)
        new = quiet & np.isnan(state["quiet_since_s"][row])
        begins = row[new]
        state["quiet_since_s"][begins] = t_s[new]
        state["quiet_since_s"][row[~quiet]] = np.nan
        self._quiet_joules[begins] = 0.0
        self._quiet_count[begins] = 0.0
        alone = row[quiet & (self._table.users[row] < 2)]
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
            held = owner != NONE and all(self._table.owner[row] == owner for row in rows)
            used = borrower != NONE and all(self._table.borrower[row] == borrower for row in rows)
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

    def _gpu_columns(
        self, row_of: NDArray[np.int64], jobs: JobColumns, *, silent: NDArray[np.bool_]
    ) -> GpuColumns:
        owner = row_of[self._table.owner]
        borrower = row_of[self._table.borrower]
        health = np.where(silent & np.isin(self._health, _WELL), UNKNOWN, self._health)
        tenant = np.append(jobs.tenant, NONE)[owner]
        with np.errstate(invalid="ignore", divide="ignore"):
            quiet_watts = self._quiet_joules / self._quiet_count
        quiet_watts[np.isnan(self._gpu["quiet_since_s"])] = np.nan
        reserved = np.zeros(len(self._gpu_ids), dtype=bool)
        claimed = (GpuId(each[4:]) for each in self._reserved if each.startswith("gpu:"))
        about = (*claimed, *self._loan_on)
        reserved[[self._gpu_row[gpu] for gpu in about if gpu in self._gpu_row]] = True
        return GpuColumns(
            ids=self._gpu_ids,
            node=self._gpu_node,
            model=self._gpu_model,
            memory_bytes=self._gpu_memory,
            health=frozen(health),
            users=frozen(self._table.users),
            owner=frozen(owner),
            borrower=frozen(borrower),
            tenant=frozen(tenant),
            quiet_watts=frozen(quiet_watts),
            reserved=frozen(reserved),
            **{name: frozen(self._gpu[name]) for name in (*_GPU_FLOATS, *_GPU_SUMS)},
        )

    def _node_columns(
        self, gpus: GpuColumns, jobs: JobColumns, allocations: AllocationColumns
    ) -> NodeColumns:
        size = len(self._nodes.ids)
        draining = np.zeros(size, dtype=bool)
        draining[[self._node_row[node] for node in self._draining if node in self._node_row]] = True
        open_ = (gpus.users == 0) & (gpus.health == GOOD)
        free = np.bincount(self._gpu_node[open_], minlength=size)
        free[draining] = 0
        node = self._gpu_node[allocations.gpu]
        part = 1.0 / np.bincount(allocations.job, minlength=1)[allocations.job]
        cpus = np.bincount(node, part * jobs.cpus[allocations.job], minlength=size)
        memory = np.bincount(node, part * jobs.memory_bytes[allocations.job], minlength=size)
        return replace(
            self._nodes,
            free=frozen(free),
            draining=frozen(draining),
            drained_since_s=self._times_of_nodes(self._drained_s),
            reset_s=self._times_of_nodes(self._reset_s),
            rebooted_s=self._times_of_nodes(self._rebooted_s),
            cpus_allocated=frozen(cpus),
            memory_allocated_bytes=frozen(memory),
        )

    def _times_of_nodes(self, times_s: Mapping[NodeId, float]) -> Floats:
        return frozen(np.array([times_s.get(node, np.nan) for node in self._node_row], np.float64))

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


def _node_constants(cluster: Cluster) -> NodeColumns:
    """Return what nodes have; what changes is filled in per view."""
    nodes = cluster.nodes
    switch_row = {switch.id: row for row, switch in enumerate(cluster.switches)}
    zeros = frozen(np.zeros(len(nodes)))
    return NodeColumns(
        ids=np.array([node.id for node in nodes], dtype=object),
        gpus=np.array([len(node.gpus) for node in nodes], dtype=np.int64),
        free=frozen(np.zeros(len(nodes), dtype=np.int64)),
        draining=frozen(np.zeros(len(nodes), dtype=bool)),
        drained_since_s=zeros,
        reset_s=zeros,
        rebooted_s=zeros,
        cpus=np.array([node.cpus for node in nodes], dtype=np.int64),
        cpus_allocated=zeros,
        memory_bytes=np.array([node.memory_bytes for node in nodes], dtype=np.float64),
        memory_allocated_bytes=zeros,
        switch=np.array([switch_row.get(node.switch, NONE) for node in nodes], dtype=np.int64),
    )


def _links(cluster: Cluster) -> LinkColumns:
    links = cluster.links
    return LinkColumns(
        a=np.array([link.a for link in links], dtype=object),
        b=np.array([link.b for link in links], dtype=object),
        kind=np.array([link.kind.value for link in links], dtype=object),
        bytes_per_s=np.array([link.bytes_per_s for link in links], dtype=np.float64),
    )


def _switches(cluster: Cluster) -> SwitchColumns:
    switches = cluster.switches
    row = {switch.id: at for at, switch in enumerate(switches)}
    return SwitchColumns(
        ids=np.array([switch.id for switch in switches], dtype=object),
        tier=np.array([switch.tier for switch in switches], dtype=np.int64),
        parent=np.array([row.get(switch.parent, NONE) for switch in switches], dtype=np.int64),
    )
