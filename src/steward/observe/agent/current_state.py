"""The state that an agent has sent and that still holds: a restarted server needs it again."""

from __future__ import annotations

from steward.model.cluster import Cluster, Health
from steward.model.event import Observation
from steward.model.identity import GpuId, JobId, NodeId
from steward.model.job import Job, Tenant
from steward.model.span import Span

__all__ = ["CurrentState"]


class CurrentState:
    """The machine's hardware, its health, and the jobs and spans that have not ended."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._tenants: tuple[Tenant, ...] | None = None
        self._health: dict[GpuId, Health] = {}
        self._draining: dict[NodeId, bool] = {}
        self._jobs: dict[JobId, Job] = {}
        self._spans: dict[str, Span] = {}

    def follow(self, seen: Observation) -> None:
        """Update the state with an observation."""
        self._cluster = seen.cluster or self._cluster
        self._tenants = seen.tenants or self._tenants
        self._health.update(seen.health)
        self._draining.update(seen.draining)
        for job in seen.jobs:
            self._jobs[job.id] = job
            if job.state.ended:
                del self._jobs[job.id]
        for span in seen.spans:
            self._spans[span.id] = span
            if span.to_s is not None:
                del self._spans[span.id]

    def all(self) -> Observation:
        """Return all of it, to be sent again."""
        return Observation(
            cluster=self._cluster,
            tenants=self._tenants,
            health=dict(self._health),
            draining=dict(self._draining),
            jobs=tuple(self._jobs.values()),
            spans=tuple(self._spans.values()),
        )
