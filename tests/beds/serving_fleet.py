"""Moments of the serving domain, and a fleet that starts instances when it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from steward.act.serving.fleet import FleetState, Order
from steward.model.actions import DrainInstance, SetLimit, SetRole, StartInstance, SwapModel
from steward.model.event import Availability, Observation
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.moment import ScalableType, ServingMoment
from steward.model.serving.snapshot import ClassProgress, ModelServer, ServingSnapshot
from steward.model.serving.state import ServingState
from steward.model.serving.view import Scaling, ServingView

START = StartInstance(
    instance="chat-2", instance_type="chat", model="m", gpu_count=2, count=2, role="any"
)
DRAIN = DrainInstance(instance="chat-1", instance_type="chat", model="m", gpu_count=2, count=0)
LIMIT = SetLimit(instance="chat-1", before=16, limit=8)
ROLE = SetRole(instance="chat-1", before="any", role="batch")
SWAP = SwapModel(
    instance="chat-1",
    before_type="chat",
    before_model="m",
    instance_type="code",
    model="c",
    gpu_count=2,
)


def kind(name: str = "chat", model: str = "m", gpus: int = 2, **values: Any) -> InstanceType:
    return InstanceType(
        name=name, model=model, step_times=H200_LLAMA_8B.step_times, gpus=gpus, **values
    )


def scalable(name: str = "chat", model: str = "m", **values: Any) -> ScalableType:
    chosen = {"fleet": "f", "least": 0, "most": 3, **values}
    return ScalableType(type=kind(name, model, chosen.pop("gpus", 2)), **chosen)


def server(name: str = "chat-1", **values: Any) -> ModelServer:
    of = {"model": "m", "type": name.rpartition("-")[0], "limit": 16, **values}
    return ModelServer(name=name, **of)


def snapshot(*servers: ModelServer, t_s: float = 100.0, **counts: Any) -> ServingSnapshot:
    progress = ClassProgress(name="interactive", deadline_s=10.0, **counts)
    return ServingSnapshot(t_s=t_s, seen_s=t_s, servers=servers, classes=(progress,))


def moment(
    *servers: ModelServer,
    types: tuple[ScalableType, ...] = (scalable(), scalable("code", "c")),
    reserved: tuple[str, ...] = (),
    t_s: float = 100.0,
    **counts: Any,
) -> ServingMoment:
    state = ServingState(types, tenant="serving")
    state.fold(Observation(serving=snapshot(*servers, t_s=t_s, **counts)))
    state.reserve(f"instance:{name}" for name in reserved)
    return state.view(t_s)


@dataclass(kw_only=True)
class Wants:
    """A scaler that wants what a test says."""

    scaling: Scaling = field(default_factory=Scaling)
    name: str = "wants"
    every_s: float = 10.0
    seen: list[ServingView] = field(default_factory=list)

    def scale(self, view: ServingView) -> Scaling:
        self.seen.append(view)
        return self.scaling


@dataclass(kw_only=True)
class TinyFleet:
    """Instances that come and go when a test says so."""

    ready: bool = False
    broken: str = ""
    stubborn: bool = False
    running: dict[str, Order] = field(default_factory=dict)
    orders: list[tuple[str, Order]] = field(default_factory=list)

    def available(self) -> Availability:
        if self.broken:
            return Availability(status="missing", reason=self.broken, hint="mend it")
        return Availability(status="ok", reason="a test")

    def start(self, order: Order, t_s: float) -> FleetState:
        self.orders.append(("start", order))
        if self.broken:
            return FleetState(state="failed", text=self.broken)
        self.running[order.instance] = order
        if not self.ready:
            return FleetState(state="coming", text="it loads")
        return FleetState(state="ready", text="it answers", url="http://127.0.0.1:1")

    def stop(self, order: Order, t_s: float) -> FleetState:
        self.orders.append(("stop", order))
        if self.stubborn:
            return FleetState(state="leaving", text="it ends")
        self.running.pop(order.instance, None)
        return FleetState(state="gone", text="it has ended")
