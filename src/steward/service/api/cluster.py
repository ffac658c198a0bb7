"""`GET /api/v1/cluster`: every GPU, the queue, tenants against their share, and the loop."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from steward.model.cluster import Health
from steward.model.cluster_snapshot import GpuState
from steward.model.decision import Autonomy
from steward.service.api.replies import Number, Reply, failures
from steward.service.live_state import LiveState

__all__ = ["ClusterReply", "cluster_routes"]


class GpuReply(Reply):
    """One GPU. `tenant` is the owner's; null means none, or unknown."""

    id: str
    model: str
    state: GpuState
    health: Health
    busy_share: Number
    owner: str | None
    borrower: str | None
    tenant: str | None
    borrower_tenant: str | None
    idle_s: Number = Field(description="how long its owner has not used it; null while it does")
    power_watts: Number
    memory_used_bytes: Number
    memory_bytes: Number
    loan: str | None = Field(description="the decision by which it is lent")


class NodeReply(Reply):
    """One node."""

    id: str
    gpus: list[GpuReply]


class QueuedReply(Reply):
    """One job that waits."""

    id: str
    name: str
    user: str
    tenant: str | None
    gpus: int
    priority: int
    waiting_s: Number
    deadline_s: Number
    time_limit_s: Number


class RunningReply(Reply):
    """One job that runs."""

    id: str
    name: str
    user: str
    tenant: str | None
    gpus: int
    nodes: list[str] = Field(description="where it runs, also where it holds no GPU")
    ran_s: Number = Field(description="in all, without work that has to be done again")
    time_limit_s: Number


class TenantReply(Reply):
    """One tenant. All but `weight` are GPUs."""

    id: str
    weight: Number
    guaranteed: int
    held: int
    borrowed: int
    waiting: int
    fair_share: Number = Field(description="its guarantee, and its weight's part of the rest")


class FaultReply(Reply):
    """Something that went wrong in the loop without stopping it."""

    t_s: Number
    where: str
    problem: str
    hint: str


class StatusReply(Reply):
    """State of the loop."""

    turns: int
    t_s: float
    last_turn_s: float
    autonomy: Autonomy
    breaker: str
    faults: list[FaultReply] = Field(description="the newest ones, newest last")
    behind_s: float


class ClusterReply(Reply):
    """The cluster at `t_s`."""

    site: str
    t_s: float
    simulated: bool
    nodes: list[NodeReply]
    queue: list[QueuedReply] = Field(description="who waits longest comes first")
    queue_length: int
    running: list[RunningReply] = Field(description="all that run, with or without a GPU")
    running_length: int
    tenants: list[TenantReply]
    status: StatusReply


def cluster_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about the cluster as a whole."""
    routes = APIRouter(tags=["cluster"])

    @routes.get("/cluster", responses=failures())
    def cluster(
        queue_limit: Annotated[
            int, Query(ge=0, le=10_000, description="how many waiting jobs to list")
        ] = 500,
        running_limit: Annotated[
            int, Query(ge=0, le=10_000, description="how many running jobs to list")
        ] = 500,
    ) -> ClusterReply:
        """Show what every GPU does now and for whom."""
        snapshot = live_state.refresh()
        shown = snapshot.cluster
        return ClusterReply(
            site=live_state.settings.site.name,
            t_s=shown.t_s,
            simulated=live_state.simulated,
            nodes=[NodeReply.model_validate(node) for node in shown.nodes],
            queue=[QueuedReply.model_validate(job) for job in shown.queue[:queue_limit]],
            queue_length=len(shown.queue),
            running=[RunningReply.model_validate(job) for job in shown.running[:running_limit]],
            running_length=len(shown.running),
            tenants=[TenantReply.model_validate(tenant) for tenant in shown.tenants],
            status=StatusReply.model_validate(snapshot.status),
        )

    return routes
