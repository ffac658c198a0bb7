"""What must still be true when a decision is carried out: the world moved on since it was made."""

from __future__ import annotations

from typing import assert_never

import numpy as np

from steward.model.cluster import Health
from steward.model.decision import Action, CallBack, Decision, Drain, Lend, Preempt, Start, Tell
from steward.model.frame import job_entity, steps_of
from steward.model.identity import GpuId, JobId
from steward.model.job import JobState
from steward.model.view import HEALTH_CODES, ClusterView

__all__ = ["about_of", "broken_precondition"]

_USABLE = (HEALTH_CODES[Health.GOOD], HEALTH_CODES[Health.WORN])


def about_of(decision: Decision) -> tuple[str, ...]:
    """Return the entities that a decision is about: its subject, then its job, GPUs and node."""
    action = decision.action
    jobs = [job_entity(job) for job in (action.disturbs,) if job is not None]
    entities = [decision.subject, *jobs, *action.gpus]
    nodes = [steps_of(each)[0] for each in entities if not each.startswith("job:")]
    return tuple(dict.fromkeys(each for each in (*entities, *nodes) if each))


def broken_precondition(action: Action, view: ClusterView) -> str:
    """Return what is no longer so, or nothing when the action can go ahead."""
    match action:
        case Lend():
            return _lend(action, view)
        case CallBack():
            on_loan = any(loan.id == action.loan for loan in view.loans)
            return "" if on_loan else f"the loan {action.loan} has ended"
        case Start():
            return _start(action, view)
        case Preempt():
            return _preempt(action, view)
        case Tell():
            return _tell(action, view)
        case Drain():
            known = any(node.id == action.node for node in view.cluster.nodes)
            return "" if known else f"node {action.node} is not in the cluster any more"
        case _:
            assert_never(action)


def _lend(action: Lend, view: ClusterView) -> str:
    if reason := _gone(action.borrower, action.gpus, view):
        return reason
    borrower, rows = view.details[action.borrower], [view.gpu_row[gpu] for gpu in action.gpus]
    owners = {view.job_id(int(row)) if row >= 0 else None for row in view.gpus.owner[rows]}
    if owners != {action.owner}:
        return f"{action.owner} does not hold these GPUs any more"
    if len(rows) != borrower.shape.gpus:
        return f"{action.borrower} asks for {borrower.shape.gpus} GPUs now"
    return _unfit(action, view, rows, need_bytes=borrower.shape.gpu_memory_bytes)


def _gone(job: JobId, gpus: tuple[GpuId, ...], view: ClusterView) -> str:
    """Say whether a job that was to start does not wait any more, or a GPU is not there."""
    waiting = view.details.get(job)
    if waiting is None or waiting.state is not JobState.QUEUED:
        return f"{job} does not wait any more"
    if any(gpu not in view.gpu_row for gpu in gpus):
        return "one of the GPUs is not in the cluster any more"
    return ""


def _start(action: Start, view: ClusterView) -> str:
    if reason := _gone(action.job, action.gpus, view):
        return reason
    job, rows = view.details[action.job], [view.gpu_row[gpu] for gpu in action.gpus]
    if len(rows) != job.shape.gpus:
        return f"{action.job} asks for {job.shape.gpus} GPUs now"
    if not np.isin(view.gpus.health[rows], _USABLE).all():
        return "one of the GPUs is not healthy"
    holders = {view.job_id(int(row)) for row in view.gpus.owner[rows] if row >= 0}
    if not holders <= {*action.after} or bool((view.gpus.borrower[rows] >= 0).any()):
        return "one of the GPUs is in use by a job that does not make room"
    return ""


def _preempt(action: Preempt, view: ClusterView) -> str:
    job = view.details.get(action.job)
    if job is None or job.state is not JobState.RUNNING:
        return f"{action.job} does not run any more"
    if not job.checkpointing.able:
        return f"{action.job} cannot save its work"
    if {*job.gpus} != {*action.gpus}:
        return f"{action.job} holds other GPUs now"
    if any(action.job in (loan.owner, loan.borrower) for loan in view.loans):
        return f"{action.job} lends or borrows GPUs now"
    return ""


def _tell(action: Tell, view: ClusterView) -> str:
    job = view.details.get(action.job) if action.job is not None else None
    over = action.job is not None and (job is None or job.state.ended)
    return f"{action.job} has ended" if over else ""


def _unfit(action: Lend, view: ClusterView, rows: list[int], *, need_bytes: int) -> str:
    gpus = view.gpus
    on_loan = {gpu for loan in view.loans for gpu in (*loan.gpus, loan.borrower)}
    if bool((gpus.borrower[rows] >= 0).any()) or on_loan & {*action.gpus, action.borrower}:
        return "one of the GPUs is lent already, or the borrower has borrowed"
    if bool((gpus.memory_bytes[rows] - gpus.memory_used_bytes[rows] < need_bytes).any()):
        return f"{action.borrower} does not fit beside {action.owner} any more"
    if bool((gpus.health[rows] != HEALTH_CODES[Health.GOOD]).any()):
        return "one of the GPUs is not healthy"
    if bool(np.isnan(gpus.quiet_since_s[rows]).any()):
        return f"{action.owner} uses them again, or nobody can see whether it does"
    return ""
