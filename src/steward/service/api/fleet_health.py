"""`GET /api/v1/health`: faults of nodes and GPUs, as the health page shows them."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from steward.service.api.replies import Number, Reply, Text, failures
from steward.service.fleet_health import fleet_summary
from steward.service.live_state import LiveState

__all__ = ["fleet_health_routes"]


class GpuCellReply(Reply):
    """A GPU and the state of its health."""

    id: str
    state: str = Field(
        description="well, watched, faulty, drained, proven, away, failed or unknown"
    )


class NodeCellsReply(Reply):
    """A node with its GPUs."""

    node: str
    gpus: list[GpuCellReply]
    text: Text


class IncidentReply(Reply):
    """Faults of one code on one device that are one incident. Secondary ones follow from others."""

    id: str
    t_s: Number
    until_s: Number
    node: str
    gpu: str
    code: int | None
    meaning: Text
    primary: bool
    fatal: bool
    action: str
    why: Text
    part: str = Field(description="of the machine; `program`: it is no fault of the hardware")


class UnitReply(Reply):
    """A node that had faults: its rate a day with a 95 % interval."""

    node: str
    faults: int
    days: Number
    low: Number
    mid: Number
    high: Number
    lemon_probability: Number
    devices: list[str]
    state: str


class CodeRateReply(Reply):
    """How often a code came in 1,000 node-days, with a 95 % interval."""

    code: str
    count: int
    low: Number
    mid: Number
    high: Number


class FleetHealthReply(Reply):
    """Faults that are not over, incidents and rates. `enabled`: faults are looked for here."""

    t_s: Number
    enabled: bool
    states: dict[str, int] = Field(description="GPUs by state")
    nodes: list[NodeCellsReply]
    incidents: list[IncidentReply] = Field(description="newest first, at most 200")
    units: list[UnitReply] = Field(description="nodes that had faults, most suspicious first")
    rates: list[CodeRateReply]
    exposure_days: Number = Field(description="of all nodes together, in service")
    repeated_lines: int = Field(description="lines that were dumped again, and counted once")


def fleet_health_routes(live_state: LiveState) -> APIRouter:
    """Return the route about the fleet's health."""
    routes = APIRouter(tags=["health"])

    @routes.get("/health", responses=failures())
    def fleet_health() -> FleetHealthReply:
        """Return faults of nodes and GPUs, rates with their intervals, and what is suspicious."""
        return FleetHealthReply.model_validate(fleet_summary(live_state.loop))

    return routes
