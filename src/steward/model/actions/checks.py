"""Preconditions that several actions share. Each returns what is not so, or an empty text."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import numpy as np

from steward.model.cluster import Health
from steward.model.identity import GpuId, JobId, NodeId
from steward.model.job import Job, JobState
from steward.model.view import HEALTH_CODES, ClusterView

__all__ = [
    "Budget",
    "gpu_claims",
    "gpus_unfit",
    "job_claim",
    "lends_or_borrows",
    "node_claim",
    "node_missing",
    "not_queued",
    "not_running",
    "plural",
    "span",
    "unhealthy",
    "unusable",
]

USABLE = (HEALTH_CODES[Health.GOOD], HEALTH_CODES[Health.WORN])


class Budget(Enum):
    """Which of the guard's budgets an action is charged to."""

    NONE = "none"  # it changes nothing, or gives back
    START = "start"  # it starts something that waited
    DISTURB = "disturb"  # it changes something that runs


def job_claim(job: JobId) -> str:
    """Return the name under which a job can be claimed by one open decision."""
    return f"job:{job}"


def gpu_claims(gpus: Iterable[GpuId]) -> frozenset[str]:
    """Return the names under which GPUs can be claimed."""
    return frozenset(f"gpu:{gpu}" for gpu in gpus)


def node_claim(node: NodeId) -> str:
    """Return the name under which a node can be claimed."""
    return f"node:{node}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, as `1 GPU` or `3 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def not_queued(job: JobId, view: ClusterView) -> str:
    """Return why a job cannot be started: it ended or runs."""
    found = view.details.get(job)
    waits = found is not None and found.state is JobState.QUEUED
    return "" if waits else f"{job} is not waiting any more"


def not_running(job: JobId, view: ClusterView) -> str:
    """Return why a running job cannot be changed: it ended or waits."""
    found = view.details.get(job)
    runs = found is not None and found.state is JobState.RUNNING
    return "" if runs else f"{job} is not running any more"


def node_missing(node: NodeId, view: ClusterView) -> str:
    """Return whether a node has left the cluster."""
    known = any(each.id == node for each in view.cluster.nodes)
    return "" if known else f"node {node} is not in the cluster any more"


def lends_or_borrows(job: JobId, view: ClusterView) -> str:
    """Return why a job cannot be stopped or moved: it is part of a loan."""
    in_loan = any(job in (loan.owner, loan.borrower) for loan in view.loans)
    return f"{job} lends or borrows GPUs now" if in_loan else ""


def span(least: int, most: int) -> str:
    """Return a range as `2` or `1 to 4`."""
    return f"{least}" if least == most else f"{least} to {most}"


def gpus_unfit(
    job: Job, gpus: tuple[GpuId, ...], view: ClusterView, *, own: tuple[GpuId, ...] = ()
) -> str:
    """Return why a job cannot have these GPUs for itself; it uses those that are its `own`."""
    rows = [view.gpu_row[gpu] for gpu in gpus if gpu in view.gpu_row]
    if len(rows) != len(gpus):
        return "one of the GPUs is not in the cluster any more"
    if len(rows) != job.shape.gpus:
        return f"{job.id} asks for {job.shape.gpus} GPUs now"
    return unusable([view.gpu_row[gpu] for gpu in gpus if gpu not in own], view)


def unusable(rows: list[int], view: ClusterView) -> str:
    """Return why GPUs, by their rows, cannot be given to a job."""
    in_use = bool((view.gpus.users[rows] > 0).any())
    return unhealthy(rows, view) or ("one of the GPUs is in use" if in_use else "")


def unhealthy(rows: list[int], view: ClusterView) -> str:
    """Return why GPUs, by their rows, should not be given to anybody."""
    if not np.isin(view.gpus.health[rows], USABLE).all():
        return "one of the GPUs is not healthy"
    if bool(view.nodes.draining[view.gpus.node[rows]].any()):
        return "one of the nodes is draining"
    return ""
