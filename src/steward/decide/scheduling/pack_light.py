"""Lets light jobs that wait run beside light ones whose owners allow to be slowed down a little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steward.model.actions import Lend
from steward.model.decision import Decision, Expectation
from steward.model.forecast import BUSY_SHARE, About, ForecastColumn
from steward.model.frame import job_entity
from steward.model.identity import DecisionId, stable_id
from steward.model.job import Job
from steward.model.view import QUEUED, RUNNING, ClusterView

__all__ = ["PackLight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    """A running job that keeps its GPUs busy for a part of the time alone."""

    job: Job
    rows: list[int]
    level: float  # of its busiest GPU, what it stays below


@dataclass(frozen=True, slots=True, kw_only=True)
class PackLight:
    """Co-locates two light jobs: lends all GPUs of one, shared, to one that waits for as many.

    How busy they are: the running one by its own use over minutes (`use-levels`), the waiting one
    by a running job of the same user, account, name and size. Together they stay below `most_busy`,
    and the waiting one fits beside it in memory. The owner has to allow a slowdown
    (`--max-slowdown`), and count its steps, so that `separate-slowed` can end it: both belong
    together.
    """

    most_busy: float = 0.7
    memory_reserve_share: float = 0.1
    check_after_s: float = 600.0
    name: str = "pack-light"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return a shared loan for each waiting job that has a light twin and a light host."""
        levels = view.forecast(About.GPUS, BUSY_SHARE)
        return () if levels is None else tuple(self._decisions(view, levels))

    def _decisions(self, view: ClusterView, levels: ForecastColumn) -> Iterator[Decision]:
        hosts, twins = self._hosts(view, levels), _twins(view, levels)
        waiting = (view.jobs.state == QUEUED) & (view.jobs.gpus > 0) & ~view.jobs.reserved
        for row in np.flatnonzero(
            waiting & (view.jobs.checkpointable | view.jobs.endable)
        ).tolist():
            guest = view.details[view.job_id(row)]
            level = twins.get(_kind(guest))
            if level is None or guest.held:
                continue
            fitting = [each for each in hosts if self._fits(view, guest, level, each)]
            host = min(fitting, key=lambda each: (each.level, each.job.id), default=None)
            if host is not None:
                hosts.remove(host)
                yield self._decision(view, host, guest, level)

    def _hosts(self, view: ClusterView, levels: ForecastColumn) -> list[_Host]:
        """Return jobs that run alone and light on good GPUs, and whose slowdown would be seen."""
        jobs, found = view.jobs, list[_Host]()
        steps = ~np.isnan(jobs.step_count) & (jobs.max_slowdown_share > 0)
        in_loans = {id_ for loan in view.loans for id_ in (loan.owner, loan.borrower)}
        for row in np.flatnonzero((jobs.state == RUNNING) & steps & ~jobs.reserved).tolist():
            job = view.details[view.job_id(row)]
            rows = [view.gpu_row[gpu] for gpu in job.gpus if gpu in view.gpu_row]
            level = _level(levels, rows, job)
            alone = rows and bool((view.gpus.users[rows] == 1).all())
            busy = bool(
                (view.gpus.reserved[rows] | view.nodes.draining[view.gpus.node[rows]]).any()
            )
            if level is not None and alone and not busy and job.id not in in_loans and not job.held:
                found.append(_Host(job=job, rows=rows, level=level))
        return found

    def _fits(self, view: ClusterView, guest: Job, level: float, host: _Host) -> bool:
        if level + host.level > self.most_busy or not guest.may_borrow_from(host.job.user):
            return False
        gpus, rows = view.gpus, host.rows
        free = (
            gpus.memory_bytes[rows] * (1 - self.memory_reserve_share) - gpus.memory_used_bytes[rows]
        )
        needs = guest.shape.gpu_memory_bytes
        models = guest.shape.gpu_models
        of_kind = not models or {view.models[each] for each in gpus.model[rows]} <= {*models}
        memory = needs > 0 or bool((gpus.memory_bytes[rows] == 0).all())
        one_node = len({*gpus.node[rows].tolist()}) == 1
        if not (memory and of_kind and one_node and bool((free >= needs).all())):
            return False
        return not _loan(host, guest).unmet(view)

    def _decision(self, view: ClusterView, host: _Host, guest: Job, level: float) -> Decision:
        worth = level * self.check_after_s * len(host.rows)
        allowed = host.job.max_slowdown_share
        because = (
            f"job {host.job.id} keeps its GPUs below {host.level:.0%} busy, jobs like {guest.id} "
            f"below {level:.0%}, and it may be {allowed:.0%} slower: {guest.id} can work beside it"
        )
        return Decision(
            id=DecisionId(stable_id("d", self.name, host.job.id, guest.id, guest.past.stops)),
            t_s=view.t_s,
            policy=self.name,
            action=_loan(host, guest),
            because=because,
            expects=Expectation(low=0.0, mid=worth / 2, high=worth),
            check_after_s=self.check_after_s,
            tenant=host.job.tenant,
            subject=job_entity(host.job.id),
        )


def _loan(host: _Host, guest: Job) -> Lend:
    return Lend(gpus=host.job.gpus, owner=host.job.id, borrower=guest.id, way="shared")


def _kind(job: Job) -> tuple[str, str, str, int]:
    return (job.user, job.tenant, job.name, job.shape.gpus)


def _level(levels: ForecastColumn, rows: list[int], job: Job) -> float | None:
    """Return what a job's use of its busiest GPU stays below; None where that is unknown."""
    high = levels.high[rows]
    whole = len(rows) == len(job.gpus) > 0 and not np.isnan(high).any()
    return float(high.max()) if whole else None


def _twins(view: ClusterView, levels: ForecastColumn) -> dict[tuple[str, str, str, int], float]:
    """Return how busy running jobs are, the busiest of each kind that has a user and a name."""
    found: dict[tuple[str, str, str, int], float] = {}
    for row in np.flatnonzero(view.jobs.state == RUNNING).tolist():
        job = view.details[view.job_id(row)]
        rows = [view.gpu_row[gpu] for gpu in job.gpus if gpu in view.gpu_row]
        owned = bool((view.gpus.owner[rows] == row).all())
        level = _level(levels, rows, job) if owned and job.user and job.name else None
        if level is not None:
            found[_kind(job)] = max(level, found.get(_kind(job), 0.0))
    return found
