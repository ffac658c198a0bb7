"""Which jobs of Slurm run inside another job of the same user, by steward's notes and its steps.

Slurm calls such a job pending and held. Its note says whose GPUs it has; that it really runs there
is believed only where Slurm lists the step, or steward has just begun it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from steward.clients.slurm import SlurmJob
from steward.clients.slurm.jobs import WAITING
from steward.clients.slurm.syntax import holder
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.model.job import Job, JobState
from steward.model.view import Loan

__all__ = ["has_loans", "inside", "loans_of"]

_WORD = "steward:lent="  # most comments have none: they are not read whole
BEGINS_S = 90.0  # after the decision: its step may not be there yet


def has_loans(jobs: Iterable[SlurmJob]) -> bool:
    """Return whether steps have to be listed at all."""
    return any(_may_be_lent(job) for job in jobs)


def loans_of(jobs: Iterable[SlurmJob], steps: Set[tuple[str, str]], t_s: float) -> dict[str, Loan]:
    """Return the loans by borrower. `steps` has the borrower and the owner of each that runs."""
    known = {job.id: job for job in jobs}
    found = {}
    for job in known.values():
        lent = job.mark.lent if _may_be_lent(job) else None
        if lent is None:
            continue
        owner = known.get(lent.owner)
        runs = (job.id, lent.owner) in steps
        if owner is None or "RUNNING" not in owner.states or owner.user != job.user:
            continue
        if not runs and ("CANCELLED" in job.states or t_s - lent.t_s < BEGINS_S):
            continue
        found[job.id] = Loan(
            id=DecisionId(lent.id),
            owner=JobId(owner.id),
            borrower=JobId(job.id),
            gpus=tuple(GpuId(f"{lent.node}/gpu{each}") for each in lent.gpus),
            since_s=lent.t_s,
            wanted=_why_over(job, runs=runs),
        )
    return found


def inside(job: Job, loan: Loan) -> Job:
    """Return a job as one that runs on what it has borrowed."""
    nodes = {gpu.rpartition("/gpu")[0] for gpu in loan.gpus}
    return replace(
        job,
        state=JobState.RUNNING,
        gpus=loan.gpus,
        nodes=tuple(map(NodeId, sorted(nodes))),
        start_s=loan.since_s,
        end_s=None,
        held=False,
    )


def _may_be_lent(job: SlurmJob) -> bool:
    """Return whether a job waits as it does while it is lent GPUs, or was cancelled meanwhile."""
    if _WORD not in job.comment:
        return False
    held = not WAITING.isdisjoint(job.states) and holder(job.reason) == "user"
    return held or "CANCELLED" in job.states


def _why_over(job: SlurmJob, *, runs: bool) -> str:
    if "CANCELLED" in job.states:
        return f"job {job.id} was cancelled"
    return "" if runs else f"the step of job {job.id} is over"
