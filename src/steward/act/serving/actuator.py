"""Carries out decisions about model servers: the gateway first, then whatever runs them.

An instance is registered when it answers, and drained before it is stopped. How far a decision is
can be read from gateway and fleet alone, so each call does what is next: a restart in between
changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steward.act.serving.fleet import Fleet, FleetState, Order
from steward.clients.gateway import GatewayClient
from steward.errors import PermanentError
from steward.model.actions import (
    SERVING_ACTIONS,
    Action,
    DrainInstance,
    SetLimit,
    SetRole,
    StartInstance,
    SwapModel,
    Tell,
)
from steward.model.decision import Decision, Receipt
from steward.model.event import Availability
from steward.model.identity import DecisionId

__all__ = ["ServingActuator", "ServingPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPlan:
    """How instances of one type are started and stopped."""

    fleet: Fleet
    start_within_s: float = 900.0  # what does not answer by then is stopped again
    drain_within_s: float = 600.0  # what is in flight by then is cut off
    limit: int = 256  # of requests in flight, when it is new
    kv_tokens: int = 524_288


class ServingActuator:
    """One gateway and the fleets of the types that may be scaled behind it."""

    name = "serving"

    def __init__(self, gateway: GatewayClient, plans: Mapping[str, ServingPlan]) -> None:
        self._gateway = gateway
        self._plans = plans
        self._since_s: dict[DecisionId, float] = {}  # when a step that may take too long was begun

    def available(self) -> Availability:
        """Say which types can be started, and which not."""
        states = {name: plan.fleet.available() for name, plan in self._plans.items()}
        bad = {name: each for name, each in states.items() if each.status != "ok"}
        reason = "; ".join(f"{name}: {each.reason}" for name, each in sorted(states.items()))
        status = "ok" if states and not bad else "limited" if len(bad) < len(states) else "missing"
        hint = next((each.hint for each in bad.values()), "")
        return Availability(
            status=status,
            reason=reason or "no type may be scaled",
            hint=hint if states else "add a table [instances.NAME] to the configuration",
        )

    def actions(self) -> tuple[type[Action], ...]:
        """Return what is done to model servers; advice is written down."""
        return (*SERVING_ACTIONS, Tell)

    def carry_out(self, decision: Decision, t_s: float) -> Receipt:
        """Do what is next."""
        match decision.action:
            case StartInstance() as action:
                order = _order(decision, action)
                return self._receipt(decision, self._started(order, decision.id, t_s), t_s)
            case DrainInstance() as action:
                order = _order(decision, action)
                return self._receipt(decision, self._drained(order, decision.id, t_s), t_s)
            case SwapModel() as action:
                return self._receipt(decision, self._swapped(decision, action, t_s), t_s)
            case SetLimit() | SetRole() as action:
                return self._receipt(decision, self._configured(action), t_s)
            case Tell() as action:
                told = FleetState(state="gone", text=f"told {action.to}: {action.text}")
                return self._receipt(decision, told, t_s)
            case action:
                raise PermanentError(f"model servers cannot {action.type}")

    def progress(self, decision: Decision, t_s: float) -> Receipt:
        """Do what is next: how far it is can be read, so this is the same."""
        return self.carry_out(decision, t_s)

    # -- the steps -----------------------------------------------------------------------------

    def _started(self, order: Order, decision: DecisionId, t_s: float) -> FleetState:
        plan = self._plan(order.type)
        found = plan.fleet.start(order, t_s)
        if found.state == "coming":
            waited_s = t_s - self._since_s.setdefault(decision, t_s)
            if waited_s <= plan.start_within_s:
                return found
            text = f"{order.instance} did not answer within {plan.start_within_s:.0f} s"
            found = FleetState(state="failed", text=f"{text}: {found.text}")
        if found.state == "failed":
            plan.fleet.stop(order, t_s)  # leave nothing behind that nobody would use
            return found
        self._register(order, found.url, plan, t_s)
        return FleetState(state="ready", text=f"{order.instance} serves at {found.url}")

    def _register(self, order: Order, url: str, plan: ServingPlan, t_s: float) -> None:
        """Add an instance to the gateway, unless it is there: its requests would be let go."""
        server = self._gateway.snapshot(t_s).server(order.instance)
        there = server is not None and (server.url, server.type) == (url, order.type)
        if server is not None and there and server.state != "draining":
            return
        self._gateway.register(
            order.instance,
            url=url,
            models=[order.model],
            type=order.type,
            role=order.role,
            limit=plan.limit,
            gpus=max(1, order.gpus),
            kv_tokens=plan.kv_tokens,
        )

    def _drained(self, order: Order, decision: DecisionId, t_s: float) -> FleetState:
        plan = self._plan(order.type)
        there = self._gateway.drain(order.instance)
        server = self._gateway.snapshot(t_s).server(order.instance) if there else None
        waited_s = t_s - self._since_s.setdefault(decision, t_s)
        flying = server.in_flight if server is not None else 0
        if flying and waited_s <= plan.drain_within_s:
            text = f"{order.instance} has {flying} requests to end"
            return FleetState(state="leaving", text=text)
        found = plan.fleet.stop(replace(order, url=server.url if server is not None else ""), t_s)
        if found.state == "gone" and there:
            self._gateway.remove(order.instance)
        cut = f", {flying} requests were cut off after {waited_s:.0f} s" if flying else ""
        return FleetState(state=found.state, text=found.text + cut)

    def _swapped(self, decision: Decision, action: SwapModel, t_s: float) -> FleetState:
        """Drain and stop what is there, then start the other under the same name."""
        after = _order(decision, action)
        server = self._gateway.snapshot(t_s).server(action.instance)
        if server is not None and server.type == action.before_type:
            before = Order(
                decision=f"{decision.id}.stop",
                instance=action.instance,
                type=action.before_type,
                model=action.before_model,
                gpus=action.gpu_count,
                count=0,
            )
            found = self._drained(before, DecisionId(before.decision), t_s)
            if found.state != "gone":
                return FleetState(state="leaving", text=found.text)
        return self._started(after, decision.id, t_s)

    def _configured(self, action: SetLimit | SetRole) -> FleetState:
        if isinstance(action, SetLimit):
            there = self._gateway.configure(action.instance, limit=action.limit)
        else:
            there = self._gateway.configure(action.instance, role=action.role)
        if not there:
            return FleetState(state="failed", text=f"the gateway has no {action.instance} any more")
        return FleetState(state="gone", text=action.sentence)

    def _plan(self, type_: str) -> ServingPlan:
        if type_ not in self._plans:
            hint = f"add a table [instances.{type_}] to the configuration"
            raise PermanentError(f"nobody says how instances of type {type_} start", hint=hint)
        return self._plans[type_]

    def _receipt(self, decision: Decision, found: FleetState, t_s: float) -> Receipt:
        begun = found.state in ("coming", "leaving")
        failed = found.state == "failed"
        if not begun:
            self._since_s.pop(decision.id, None)
        return Receipt(
            decision=decision.id,
            t_s=t_s,
            result="begun" if begun else "failed" if failed else "done",
            gpus=() if failed else decision.action.gpus,
            text=found.text,
        )


def _order(decision: Decision, action: StartInstance | DrainInstance | SwapModel) -> Order:
    return Order(
        decision=decision.id,
        instance=action.instance,
        type=action.instance_type,
        model=action.model,
        gpus=action.gpu_count,
        count=1 if isinstance(action, SwapModel) else action.count,
        role=action.role if isinstance(action, StartInstance) else "any",
    )
