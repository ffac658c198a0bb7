"""Lends GPUs that their holders leave idle to jobs that wait. `give-back` ends the loans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import Lend
from steward.model.cluster import Health
from steward.model.decision import Decision, Expectation
from steward.model.finding import Finding
from steward.model.forecast import (
    CHOICE_LEND,
    CHOICE_SHARES,
    LOAN_YIELD,
    REMAINING_S,
    About,
    Forecast,
    ForecastColumn,
)
from steward.model.identity import DecisionId, JobId, stable_id
from steward.model.job import Job
from steward.model.view import HEALTH_CODES, QUEUED, ClusterView

__all__ = ["LendIdle"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LendIdle:
    """Chooses the borrower that deserves it most, and the GPUs that can spare it longest.

    Higher priority first, then the tenant that uses least for its weight, then who has waited
    longest. A job gets GPUs of one holder, must be able to save its work or be allowed to be ended,
    and the loan must be expected to outlast what saving and restoring cost. It runs beside what the
    holder keeps in memory where it is known to fit; else the holder makes room, by the driver's
    suspension or by a save, where that can be done. Of several, the one that loses least lends.
    Where an engine lends among the jobs of one user alone, so does this. Where outcomes have been
    learnt from, GPUs are left alone for which nothing, or a later loan, was chosen.
    """

    check_after_s: float = 600.0
    memory_reserve_share: float = 0.05
    name: str = "lend-idle"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return loans, most deserving borrower first."""
        return tuple(self._loans(view))

    def _loans(self, view: ClusterView) -> Iterator[Decision]:
        remaining = view.forecast(About.GPUS, REMAINING_S)
        if remaining is None:
            return
        pools = self._pools(view, remaining.mid)
        hopeless = _Hopeless()
        for job, need in _most_deserving(view, _hopeful(view, pools, remaining)):
            if not pools:
                return
            if hopeless.covers(need):
                continue
            found = self._best_pool(view, need, pools, remaining)
            if found is None:
                hopeless.add(need)
                continue
            pool, room = found
            yield self._lend(view, job, pool, room, remaining)
            pool.rows = pool.rows[need.gpus :]
            if not pool.rows:
                pools.remove(pool)

    def _pools(self, view: ClusterView, remaining_s: Floats) -> list[_Pool]:
        """Gather idle GPUs by holder and node; those that stay idle longest come first."""
        gpus = view.gpus
        lendable = (
            (gpus.users == 1)
            & ~gpus.reserved
            & ~view.nodes.draining[gpus.node]
            & (gpus.health == HEALTH_CODES[Health.GOOD])
            & ~np.isnan(gpus.memory_used_bytes)
            & _chosen(view)
        ).tolist()
        whole = gpus.memory_bytes * (1 - self.memory_reserve_share)
        free = whole - gpus.memory_used_bytes
        pools = []
        taken: set[int] = set()  # several findings may be about one GPU
        for finding in (each for each in view.findings if each.offers_gpus):
            owner = view.details.get(_holder(finding))
            if owner is None or owner.held:
                continue  # its job has ended since, or nobody may touch it
            by_node: dict[int, list[int]] = {}
            for gpu in finding.gpus:
                row = view.gpu_row.get(gpu)
                if row is not None and lendable[row] and row not in taken:
                    taken.add(row)
                    by_node.setdefault(int(gpus.node[row]), []).append(row)
            for rows in by_node.values():
                rows.sort(key=lambda row: (-remaining_s[row], row))
                room = _room_made_by(owner, len(rows), view.t_s)
                pools.append(
                    _Pool(
                        finding=finding,
                        rows=rows,
                        beside=free,
                        whole=whole,
                        room=room,
                        user=owner.user,
                    )
                )
        return pools

    def _best_pool(
        self, view: ClusterView, need: _Need, pools: list[_Pool], remaining: ForecastColumn
    ) -> tuple[_Pool, _Room] | None:
        """Choose the pool whose owner loses least per GPU, then the one with fewest to spare."""
        share = _yield(view)
        fitting = [
            (pool, room)
            for pool in pools
            if len(pool.rows) >= need.gpus
            and need.job.may_borrow_from(pool.user)
            and (need.models >> int(view.gpus.model[pool.rows[0]])) & 1
            and (room := pool.room_for(need)) is not None
            and min(remaining.mid[row] for row in pool.rows[: need.gpus]) * share
            > need.cost_s + room.cost_s
        ]
        return min(
            fitting,
            key=lambda found: (
                found[1].loss_s / need.gpus,
                len(found[0].rows),
                -remaining.mid[found[0].rows[0]],
                found[0].rows[0],
            ),
            default=None,
        )

    def _lend(
        self, view: ClusterView, job: int, pool: _Pool, room: _Room, remaining: ForecastColumn
    ) -> Decision:
        need = int(view.jobs.gpus[job])
        rows = pool.rows[:need]
        gpus = tuple(view.gpu_id(row) for row in rows)
        owner, borrower = _holder(pool.finding), view.job_id(job)
        decision = DecisionId(stable_id("d", self.name, pool.finding.id, borrower, view.t_s))
        expects = self._expects(view, job, rows, remaining)
        for_s = None if room.way == "beside" else float(np.min(remaining.mid[rows]))
        promise = view.details[borrower].yielding.text
        waited_min = (view.t_s - view.jobs.submit_s[job]) / 60
        return Decision(
            id=decision,
            t_s=view.t_s,
            policy=self.name,
            action=Lend(gpus=gpus, owner=owner, borrower=borrower, way=room.way, for_s=for_s),
            because=(
                f"{owner} has left {', '.join(gpus)} idle since "
                f"{(view.t_s - pool.finding.since_s) / 60:.0f} min; {borrower} of "
                f"{view.details[borrower].tenant} has waited {waited_min:.0f} min for {need} and "
                f"{room.text}; {promise}; "
                f"worth about {expects.mid / 3600:.2f} GPU-hours by the first check"
            ),
            findings=(pool.finding.id,),
            forecasts=(
                *(remaining.row(row, gpu) for row, gpu in zip(rows, gpus, strict=True)),
                *_shares(view, rows[0]),
            ),
            expects=expects,
            check_after_s=self.check_after_s,
            tenant=view.details[owner].tenant,
            subject=pool.finding.subject,
            treatment=pool.finding.treatment,
            trusted=pool.finding.treatment is None or pool.finding.is_trusted,
        )

    def _expects(
        self, view: ClusterView, job: int, rows: list[int], remaining: ForecastColumn
    ) -> Expectation:
        """Return busy GPU-seconds by the check; the low end pays for a call-back before it."""
        share = _yield(view)
        low, mid, high = (
            float(np.sum(np.minimum(each[rows], self.check_after_s))) * share
            for each in (remaining.low, remaining.mid, remaining.high)
        )
        restore = float(view.jobs.restore_s[job]) * len(rows)
        return Expectation(low=min(low - restore, mid), mid=mid, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """What a waiting job asks of a loan."""

    gpus: int
    bytes: float
    models: int  # bit mask
    cost_s: float  # of saving and restoring: the loan must be worth more
    job: Job

    def at_least(self, other: _Need) -> bool:
        """Whether this asks for all that `other` asks for, or more."""
        return (
            self._lenders == other._lenders
            and self.models == other.models
            and self.gpus >= other.gpus
            and self.bytes >= other.bytes
            and self.cost_s >= other.cost_s
        )

    @property
    def _lenders(self) -> str:
        """The one user that may lend to it; empty: all."""
        return self.job.user if self.job.borrows == "own" else ""


class _Hopeless:
    """Needs that no pool meets this turn. Pools only shrink, so who asks for more need not try."""

    def __init__(self) -> None:
        self._needs: list[_Need] = []

    def covers(self, need: _Need) -> bool:
        return any(need.at_least(each) for each in self._needs)

    def add(self, need: _Need) -> None:
        self._needs = [each for each in self._needs if not each.at_least(need)] + [need]


@dataclass(slots=True, kw_only=True, eq=False)
class _Pool:
    """Idle GPUs of one holder on one node that can still be lent this turn."""

    finding: Finding
    rows: list[int]
    beside: Floats  # bytes that are free on each GPU of the cluster
    whole: Floats  # bytes that would be free without the holder
    room: _Room | None  # what the holder can do to make room
    user: str  # of the holder

    def room_for(self, need: _Need) -> _Room | None:
        """Return how a job can have its first GPUs; None if it does not fit."""
        rows = self.rows[: need.gpus]
        known = need.bytes > 0 or max(self.whole[rows]) == 0  # a CPU slot has no memory of its own
        if known and min(self.beside[rows]) >= need.bytes:
            return _BESIDE
        clears_all = self.room is not None and need.gpus == self.room.gpus
        return self.room if clears_all and min(self.whole[rows]) >= need.bytes else None

    def most_bytes(self) -> float:
        """Return the most that a job can have on one of its GPUs."""
        free = self.beside if self.room is None else self.whole
        return float(np.max(free[self.rows]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """How a holder makes room: what that costs in time, and what it may lose by it."""

    way: Literal["beside", "suspended", "saved"]
    text: str
    cost_s: float = 0.0
    loss_s: float = 0.0
    gpus: int = 0  # that are freed, all at once


_BESIDE = _Room(way="beside", text="fits beside it")


def _room_made_by(owner: Job, idle: int, t_s: float) -> _Room | None:
    """Return how a holder of `idle` idle GPUs can leave them all for a while; None if it cannot.

    A suspended process loses nothing. One that saves may lose what it did since its last verified
    checkpoint, should the save be of no use.
    """
    able, gpus = owner.checkpointing, len(owner.gpus)
    if idle != gpus:
        return None  # it works on others
    if owner.yielding.suspendable:
        suspend_s, resume_s = owner.yielding.suspend_s, owner.yielding.resume_s
        text = f"is let in by suspending it ({suspend_s:.1f} s, {resume_s:.1f} s to resume)"
        cost_s = suspend_s + resume_s
        return _Room(way="suspended", text=text, cost_s=cost_s, loss_s=cost_s, gpus=gpus)
    if not (able.able and owner.yielding.stoppable):
        return None
    began_s = owner.start_s if owner.start_s is not None else t_s
    saved_s = owner.yielding.saved_s
    unsaved_s = max(t_s - (began_s if saved_s is None else max(saved_s, began_s)), 0.0)
    cost_s = able.save_s + able.restore_s
    text = f"is let in by saving it, {unsaved_s / 60:.0f} min after its last verified save"
    return _Room(way="saved", text=text, cost_s=cost_s, loss_s=cost_s + unsaved_s, gpus=gpus)


def _holder(finding: Finding) -> JobId:
    assert finding.job is not None  # noqa: S101 - only findings about jobs have GPUs
    return finding.job


def _chosen(view: ClusterView) -> Bools:
    """Return the GPUs that may be lent as far as a choice by past outcomes says anything."""
    column = view.forecast(About.GPUS, CHOICE_LEND)
    return np.ones(len(view.gpus), np.bool_) if column is None else column.mid != 0.0


def _shares(view: ClusterView, row: int) -> tuple[Forecast, ...]:
    """Return the probabilities with which that choice was made: without them it proves nothing."""
    columns = [view.forecast(About.GPUS, quantity) for quantity in CHOICE_SHARES]
    known = [each for each in columns if each is not None and not np.isnan(each.mid[row])]
    return tuple(each.row(row, view.gpu_id(row)) for each in known)


def _yield(view: ClusterView) -> float:
    column = view.forecast(About.WHOLE, LOAN_YIELD)
    return 0.5 if column is None else float(column.mid[0])


def _hopeful(view: ClusterView, pools: list[_Pool], remaining: ForecastColumn) -> Bools:
    """Say of each job whether some pool might do for it: thousands wait, and few can be helped.

    Only the best GPU of a pool is looked at, since which of its GPUs are left will change.
    """
    best: dict[tuple[int, int], tuple[float, float]] = {}  # model and GPUs: free bytes, idle time
    for pool in pools:
        kind = int(view.gpus.model[pool.rows[0]]), len(pool.rows)
        free, idle_s = best.get(kind, (np.nan, np.nan))
        best[kind] = (
            float(np.fmax(pool.most_bytes(), free)),
            float(np.fmax.reduce(remaining.mid[pool.rows], initial=idle_s)),
        )
    jobs, share = view.jobs, _yield(view)
    found = np.zeros(len(jobs.gpus), bool)
    for (model, gpus), (free, idle_s) in best.items():
        found |= (
            (jobs.gpus <= gpus)
            & (jobs.model_mask >> model & 1).astype(bool)
            & (jobs.gpu_memory_bytes <= free)
            & (jobs.save_s + jobs.restore_s < idle_s * share)
        )
    return found


def _most_deserving(view: ClusterView, hopeful: Bools) -> Iterator[tuple[int, _Need]]:
    """Yield waiting jobs that can be stopped again: by priority, then tenant's use, then wait."""
    jobs, tenants = view.jobs, view.tenants
    waiting = np.flatnonzero(
        hopeful
        & (jobs.state == QUEUED)
        & (jobs.checkpointable | jobs.endable)
        & ~jobs.reserved
        & (jobs.tenant >= 0)
        & (jobs.gpus > 0)
    )
    use = (tenants.held + tenants.borrowed) / tenants.weight
    order = np.lexsort(
        (waiting, jobs.submit_s[waiting], use[jobs.tenant[waiting]], -jobs.priority[waiting])
    )
    rows = waiting[order]
    cost_s = jobs.save_s[rows] + jobs.restore_s[rows]
    columns = (jobs.gpus[rows], jobs.gpu_memory_bytes[rows], jobs.model_mask[rows], cost_s)
    wanted = zip(*(column.tolist() for column in columns), strict=True)
    for row, (gpus, bytes_, models, cost) in zip(rows.tolist(), wanted, strict=True):
        job = view.details[view.job_id(row)]
        if job.borrows != "no":
            yield row, _Need(gpus=gpus, bytes=bytes_, models=models, cost_s=cost, job=job)
