"""`GET /api/v1/nodes`: every node as it is now, with all that is in it."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from steward.errors import did_you_mean
from steward.service.api.replies import Number, Reply, failures
from steward.service.api.telemetry.query_parameters import (
    From,
    MetricNames,
    SeriesList,
    Step,
    To,
    check_metrics,
    read,
    time_range,
)
from steward.service.failures import RefusedError
from steward.service.live_state import LiveState
from steward.service.telemetry import NodeSummary

__all__ = ["node_routes"]


class NodeLine(Reply):
    """One node. Null means not reported."""

    id: str
    gpus: list[str]
    gpu_busy_share: Number = Field(description="mean of the GPUs that report it")
    cpu_busy_share: Number
    memory_used_bytes: Number
    memory_limit_bytes: Number
    jobs: list[str] = Field(description="those that hold or borrow a GPU, or have processes here")


class CollectorReply(Reply):
    """One of this steward's own collectors; ticks are null where it has no steady pace."""

    name: str
    ticks: int | None
    missed: int | None
    failed: int | None
    fault: str = Field(description="what went wrong at the last turn, or empty")
    missing: str = Field(description="why it has nothing to read here, or empty")


class NodeList(Reply):
    """All nodes."""

    t_s: float
    items: list[NodeLine]
    collectors: list[CollectorReply]


class PartReply(Reply):
    """A GPU, disk, network card, ... with its newest values by canonical name."""

    entity: str
    values: dict[str, float]


class WholeNode(NodeLine):
    """One node with everything that is known of it."""

    t_s: float
    values: dict[str, float] = Field(description="newest values by canonical name")
    parts: list[PartReply]


def node_routes(live_state: LiveState) -> APIRouter:
    """Return the routes about nodes."""
    routes = APIRouter(tags=["telemetry"])

    @routes.get("/nodes", responses=failures())
    def nodes() -> NodeList:
        """List all nodes that are known or that samples came from lately."""
        shown = live_state.refresh().cluster
        return NodeList(
            t_s=shown.t_s,
            items=[NodeLine.model_validate(_line(each)) for each in live_state.latest.nodes(shown)],
            collectors=[
                CollectorReply.model_validate(each) for each in live_state.latest.collectors()
            ],
        )

    @routes.get("/nodes/{node}", responses=failures(404))
    def node(node: str) -> WholeNode:
        """Show one node with the newest value of everything in it."""
        shown = live_state.refresh().cluster
        state = _find(live_state, node)
        parts = [PartReply(entity=name, values=dict(each)) for name, each in state.parts.items()]
        said = {"t_s": shown.t_s, "values": dict(state.values), "parts": parts}
        return WholeNode.model_validate({**_line(state), **said})

    @routes.get("/nodes/{node}/series", responses=failures(404))
    def series(
        node: str, metric: MetricNames, from_s: From = None, to: To = None, step: Step = None
    ) -> SeriesList:
        """Return metrics of a node over time, in at most 2,000 points each."""
        _find(live_state, node)
        check_metrics(metric, "node")
        return read(live_state, node, metric, time=time_range(live_state, from_s, to), step_s=step)

    return routes


def _find(live_state: LiveState, name: str) -> NodeSummary:
    shown = live_state.refresh().cluster
    state = live_state.latest.node(shown, name)
    if state is None:
        there = [each.id for each in live_state.latest.nodes(shown)]
        hint = did_you_mean(name, there) or "GET /api/v1/nodes lists them"
        raise RefusedError(404, f"there is no node called '{name}'", where="path.node", hint=hint)
    return state


def _line(state: NodeSummary) -> dict[str, object]:
    return {
        "id": state.id,
        "gpus": [gpu.id for gpu in state.gpus] or list(state.of_kind("gpu")),
        "gpu_busy_share": state.busy_share,
        "cpu_busy_share": state.values.get("host.cpu.busy_share"),
        "memory_used_bytes": state.values.get("host.memory.used_bytes"),
        "memory_limit_bytes": state.values.get("host.memory.limit_bytes"),
        "jobs": list(state.jobs),
    }
