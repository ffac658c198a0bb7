"""What several actions have in common, by what they act on. Traits have no fields of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from steward.model.actions.checks import (
    Budget,
    gpu_claims,
    gpus_unfit,
    job_claim,
    node_claim,
    node_missing,
    not_queued,
)
from steward.model.finding import Finding
from steward.model.frame import steps_of
from steward.model.identity import DecisionId, GpuId, JobId, NodeId
from steward.model.job import JobState
from steward.model.view import ClusterView
from steward.model.yardstick import RUN

if TYPE_CHECKING:
    from steward.model.actions.preempt import Preempt

__all__ = ["OnJob", "OnNoJob", "OnNode", "StartsJob", "node_gpus", "node_unready"]


class _HasJob(Protocol):
    @property
    def job(self) -> JobId: ...

    @property
    def gpus(self) -> tuple[GpuId, ...]: ...


class _HasNode(Protocol):
    @property
    def node(self) -> NodeId: ...


class OnJob:
    """An action on one job and the GPUs in `gpus`."""

    __slots__ = ()

    returns: ClassVar = False
    lasts: ClassVar = False

    @property
    def acts_on(self: _HasJob) -> JobId:
        """The job that it starts, stops or changes."""
        return self.job

    @property
    def affects(self: _HasJob) -> JobId:
        """The job that is left alone for a while when a person refuses."""
        return self.job

    @property
    def claims(self: _HasJob) -> frozenset[str]:
        """What no other open decision may be about."""
        return gpu_claims(self.gpus) | {job_claim(self.job)}

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> Self | None:
        """Return None: a finding does not say which GPUs, or how many."""
        return None


class StartsJob(OnJob):
    """An action that lets a waiting job run on the GPUs in `gpus`."""

    __slots__ = ()

    budget: ClassVar = Budget.START
    yardstick: ClassVar = RUN

    def undo(self: _HasJob, _: DecisionId) -> Preempt:
        """Return what stops the job again."""
        from steward.model.actions.preempt import Preempt  # noqa: PLC0415 - they name each other

        return Preempt(job=self.job, gpus=self.gpus)

    def unmet(self: _HasJob, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_queued(self.job, view):
            return reason
        return gpus_unfit(view.details[self.job], self.gpus, view)

    def may_be_done(self: _HasJob, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.job)
        return job is not None and job.state is not JobState.QUEUED


class OnNoJob:
    """An action by which no job starts, stops or is disturbed."""

    __slots__ = ()

    returns: ClassVar = False

    @property
    def acts_on(self) -> None:
        """No job starts or stops by it."""
        return

    @property
    def affects(self) -> None:
        """No job is disturbed by it."""
        return


class OnNode(OnNoJob):
    """An action on a whole node."""

    __slots__ = ()

    @property
    def claims(self: _HasNode) -> frozenset[str]:
        """What no other open decision may be about."""
        return frozenset({node_claim(self.node)})


def node_gpus(finding: Finding, view: ClusterView) -> tuple[NodeId, tuple[GpuId, ...]] | None:
    """Return the node that a finding is about and all GPUs that it has."""
    name = steps_of(finding.subject)[0]
    node = next((each for each in view.cluster.nodes if each.id == name), None)
    return None if node is None else (node.id, tuple(gpu.id for gpu in node.gpus))


def node_unready(node: NodeId, view: ClusterView) -> str:
    """Return why a node cannot be restarted or tested: it has to be drained and empty."""
    if reason := node_missing(node, view):
        return reason
    if not view.is_draining(node):
        return f"node {node} is in service"
    row = view.node_row[node]
    used = bool((view.gpus.users[view.gpus.node == row] > 0).any())
    return f"jobs run on node {node} still" if used else ""
