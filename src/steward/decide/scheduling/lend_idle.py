"""Lends GPUs that their holders leave idle to jobs that wait. `give-back` ends the loans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.actions import Lend
from steward.model.cluster import Health
from steward.model.decision import Decision, Expectation
from steward.model.finding import Finding
from steward.model.forecast import LOAN_YIELD, REMAINING_S, About, ForecastColumn
from steward.model.identity import DecisionId, JobId, stable_id
from steward.model.view import HEALTH_CODES, QUEUED, ClusterView

__all__ = ["LendIdle"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LendIdle:
    """Chooses the borrower that deserves it most, and the GPUs that can spare it longest.

    Higher priority first, then the tenant that uses least for its weight, then who has waited
    longest. A job gets GPUs of one holder, needs to fit beside what that holder keeps in memory,
    must be able to save its work, and the loan must be expected to outlast what saving and
    restoring cost.
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
            pool = self._best_pool(view, need, pools, remaining)
            if pool is None:
                hopeless.add(need)
                continue
            yield self._lend(view, job, pool, remaining)
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
        ).tolist()
        free = gpus.memory_bytes * (1 - self.memory_reserve_share) - gpus.memory_used_bytes
        pools = []
        taken: set[int] = set()  # several findings may be about one GPU
        for finding in (each for each in view.findings if each.offers_gpus):
            if finding.job not in view.details:
                continue  # its job has ended since
            by_node: dict[int, list[int]] = {}
            for gpu in finding.gpus:
                row = view.gpu_row.get(gpu)
                if row is not None and lendable[row] and row not in taken:
                    taken.add(row)
                    by_node.setdefault(int(gpus.node[row]), []).append(row)
            for rows in by_node.values():
                rows.sort(key=lambda row: (-remaining_s[row], row))
                pools.append(_Pool(finding=finding, rows=rows, free_bytes=free))
        return pools

    def _best_pool(
        self, view: ClusterView, need: _Need, pools: list[_Pool], remaining: ForecastColumn
    ) -> _Pool | None:
        """Choose the pool with the fewest GPUs to spare; among those, the longest idle."""
        share = _yield(view)
        fitting = [
            pool
            for pool in pools
            if len(pool.rows) >= need.gpus
            and (need.models >> int(view.gpus.model[pool.rows[0]])) & 1
            and min(pool.free_bytes[row] for row in pool.rows[: need.gpus]) >= need.bytes
            and min(remaining.mid[row] for row in pool.rows[: need.gpus]) * share > need.cost_s
        ]
        return min(
            fitting,
            key=lambda pool: (len(pool.rows), -remaining.mid[pool.rows[0]], pool.rows[0]),
            default=None,
        )

    def _lend(
        self, view: ClusterView, job: int, pool: _Pool, remaining: ForecastColumn
    ) -> Decision:
        need = int(view.jobs.gpus[job])
        rows = pool.rows[:need]
        gpus = tuple(view.gpu_id(row) for row in rows)
        owner, borrower = _holder(pool.finding), view.job_id(job)
        decision = DecisionId(stable_id("d", self.name, pool.finding.id, borrower, view.t_s))
        expects = self._expects(view, job, rows, remaining)
        waited_min = (view.t_s - view.jobs.submit_s[job]) / 60
        return Decision(
            id=decision,
            t_s=view.t_s,
            policy=self.name,
            action=Lend(gpus=gpus, owner=owner, borrower=borrower),
            because=(
                f"{owner} has left {', '.join(gpus)} idle since "
                f"{(view.t_s - pool.finding.since_s) / 60:.0f} min; {borrower} of "
                f"{view.details[borrower].tenant} has waited {waited_min:.0f} min for {need} and "
                f"fits beside it; worth about {expects.mid / 3600:.2f} GPU-hours by the first check"
            ),
            findings=(pool.finding.id,),
            forecasts=tuple(remaining.row(row, gpu) for row, gpu in zip(rows, gpus, strict=True)),
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

    def at_least(self, other: _Need) -> bool:
        """Whether this asks for all that `other` asks for, or more."""
        return (
            self.models == other.models
            and self.gpus >= other.gpus
            and self.bytes >= other.bytes
            and self.cost_s >= other.cost_s
        )


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
    free_bytes: Floats


def _holder(finding: Finding) -> JobId:
    assert finding.job is not None  # noqa: S101 - only findings about jobs have GPUs
    return finding.job


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
            float(np.fmax.reduce(pool.free_bytes[pool.rows], initial=free)),
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
        & jobs.checkpointable
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
        yield row, _Need(gpus=gpus, bytes=bytes_, models=models, cost_s=cost)
