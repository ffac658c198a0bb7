"""`/healthz` and `/readyz`: is it alive, and can it be relied on?"""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter

from steward.service.api.replies import Reply, failures
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState

__all__ = ["health_routes"]


class AliveReply(Reply):
    """The loop's thread runs."""

    status: Literal["alive"] = "alive"


class ReadyReply(Reply):
    """The loop turns and what it decides can be written down."""

    status: Literal["ready"] = "ready"
    turns: int


def health_routes(live_state: LiveState) -> APIRouter:
    """Return the two routes that supervisors ask. They need no token."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", responses=failures())
    def alive() -> AliveReply:
        """Return 200 while the loop is alive; if not, restart steward."""
        if not live_state.alive():
            hint = "restart steward; its log has the reason"
            raise RefusedError(503, "the loop has stopped", where="loop", hint=hint)
        return AliveReply()

    @routes.get("/readyz", responses=failures())
    def ready() -> ReadyReply:
        """Return 200 if the loop has turned lately and the journal can be written."""
        reasons = live_state.unready()
        if reasons:
            hint = "GET /api/v1/cluster shows the loop's faults"
            raise RefusedError(503, "; ".join(reasons), where="loop", hint=hint)
        return ReadyReply(turns=live_state.snapshot.status.turns)

    return routes
