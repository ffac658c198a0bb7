"""Slurm's states in the words that a job's life has on every engine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.model.managed_job import LifeState

__all__ = ["NEVER", "exit_status", "life_of", "story_of"]

NEVER = "BadConstraints"  # Slurm's reason for a job that no nodes of its cluster could ever run
_ENDS = {"COMPLETED": LifeState.FINISHED} | dict.fromkeys(
    ("CANCELLED", "REVOKED", "PREEMPTED"), LifeState.CANCELLED
)
_RUNS = {
    "CONFIGURING": (LifeState.STARTING, "its nodes are being prepared"),
    "COMPLETING": (LifeState.RUNNING, "its last processes are ending"),
    "SUSPENDED": (LifeState.SUSPENDED, "it was suspended"),
    "STOPPED": (LifeState.SUSPENDED, "it was stopped by a signal"),
}
_REASONS = {
    "Resources": "no room for it now",
    "Priority": "others are ahead of it",
    "BeginTime": "Slurm lets it start later",
    "Dependency": "it waits for other jobs",
    "DependencyNeverSatisfied": "the job that it waits for ended otherwise",
    "JobHeldUser": "held by its owner",
    "JobHeldAdmin": "held by an administrator",
    "JobArrayTaskLimit": "as many tasks as allowed run already",
    NEVER: "nothing here has what it asks for: it never starts",
    "PartitionConfig": "its partition does not have or allow what it asks for",
    "PartitionNodeLimit": "it asks for more nodes than its partition allows",
    "PartitionTimeLimit": "it asks for more time than its partition allows",
    "PartitionDown": "its partition starts no jobs now",
    "PartitionInactive": "its partition starts no jobs now",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "Licenses": "the licenses that it asks for are in use",
    "Reservation": "its reservation has not begun or is full",
    "InvalidAccount": "its account does not exist or may not run it",
    "InvalidQOS": "its QOS does not exist or may not run it",
}
_LIMITS = re.compile(
    r"(Assoc|QOS|Max)\w*(Limit|GRES|Jobs?|Cpu|Node|Mem|Minutes|Billing|PerUser)\w*"
)
_OVER = {
    "COMPLETED": "it ended by itself",
    "TIMEOUT": "it reached its time limit",
    "OUT_OF_MEMORY": "it used more memory than it asked for",
    "NODE_FAIL": "a node of it failed",
    "CANCELLED": "it was cancelled",
    "PREEMPTED": "it gave way to another job",
}
_REQUEUED = ("REQUEUED", "PREEMPTED", "NODE_FAIL", "RESIZING")  # what accounting calls such a run
MANY = 16


def life_of(job: ListedJob) -> tuple[LifeState, str]:
    """Return where a job is in its life, and why."""
    if job.ended:
        return _ENDS.get(job.state, LifeState.FAILED), _end_why(job)
    if job.is_lent and job.mark.lent is not None:
        return LifeState.RUNNING, f"in job {job.mark.lent.owner}, on GPUs that it was lent"
    if job.waits:
        return _waiting(job), _waits_for(job.reason)
    if job.state in _RUNS:
        return _RUNS[job.state]
    state = LifeState.RESUMED if job.restarts else LifeState.RUNNING
    return state, f"on {_places(job.nodes)}"


def _waits_for(reason: str) -> str:
    """Return a reason of Slurm's in words; one that is not known, as it is.

    >>> _waits_for("AssocGrpGRES"), _waits_for("Licenses")
    ('a limit of its account or QOS: AssocGrpGRES', 'the licenses that it asks for are in use')
    """
    if _LIMITS.fullmatch(reason):
        return f"a limit of its account or QOS: {reason}"
    known = _REASONS.get(reason.partition(",")[0])
    return known or reason or "not looked at yet"


def _waiting(job: ListedJob) -> LifeState:
    if job.held_by:
        return LifeState.HELD
    if job.reason.startswith("Dependency"):
        return LifeState.SUBMITTED
    return LifeState.PREEMPTED if job.restarts else LifeState.WAITING


def _end_why(job: ListedJob) -> str:
    known = _OVER.get(job.state)
    if known is not None:
        return known
    if job.signal:
        return f"it ended by signal {job.signal}"
    return f"it exited with {job.exit_code}" if job.exit_code else job.state.lower()


def _places(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MANY} more" if len(nodes) > MANY else ""
    return (", ".join(nodes[:MANY]) or "its nodes") + more


def exit_status(job: ListedJob) -> int | None:
    """Return the status as a shell gives it, 128 + N for a signal; None until a job has ended."""
    if not job.ended:
        return None
    if job.state == "COMPLETED":
        return 0
    return (128 + job.signal if job.signal else job.exit_code) or 1


def story_of(job: ListedJob, runs: Sequence[ListedJob]) -> list[tuple[float, LifeState, str]]:
    """Return a job's life. `runs` are what accounting has of its number, oldest first.

    A number that Slurm gave again is another job: its runs stand before one that was no requeue.
    """
    earlier: list[ListedJob] = []
    for each in reversed([run for run in runs if run.submit_s < job.submit_s]):
        if each.state not in _REQUEUED or (each.user, each.name) != (job.user, job.name):
            break
        earlier.insert(0, each)
    events: list[tuple[float, LifeState, str]] = []
    for number, each in enumerate((*earlier, job)):
        if not number:
            events.append((each.submit_s, LifeState.SUBMITTED, "submitted"))
        if each.start_s is not None and (each is not job or not each.waits):
            state = LifeState.RESUMED if number else LifeState.RUNNING
            events.append((each.start_s, state, f"on {_places(each.nodes)}"))
        if each is not job:
            why = each.state.lower().replace("_", " ")
            events.append((each.end_s or each.submit_s, LifeState.PREEMPTED, why))
    state, why = life_of(job)
    if job.ended or state is not events[-1][1]:
        at_s = job.end_s if job.ended else None
        events.append((at_s or events[-1][0], state, why))
    return events
