"""`/api/v1/agents`: where agents bring their parcels, and how each of them is doing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from math import ceil
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from steward.errors import StewardError, TemporaryError
from steward.observe.agent.authorisation import ANY_NODE, check_authorised, check_times
from steward.observe.agent.parcel import Parcel, ParcelHeader, read_header
from steward.observe.intake import AgentRegistry, Intake, StreamPosition
from steward.service.api.replies import Number, Reply, failures
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.service.pushed_body import announced_bytes, read_body

__all__ = ["PARCELS", "agent_routes"]

PARCELS = "/api/v1/agents/parcels"
WAIT_S = 5
PARCEL_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/vnd.steward.parcel": {"schema": {"type": "string"}}},
    }
}
Seconds = Annotated[float, Field(description="seconds since 1970, by the server's clock")]


class TimeReply(Reply):
    """When a request came and was answered: agents compute the error of their clock from it."""

    received_s: Seconds
    answered_s: Seconds
    server: str = Field(description="another one after each start of the server")


class ParcelReply(TimeReply):
    """The parcel is safe: its sender may forget it."""

    repeated: bool = Field(description="it had been taken before, and was not taken again")


class AgentReply(Reply):
    """One agent, by its newest parcel."""

    node: str
    agent: str
    version: str
    heard_s: float
    newest_s: float = Field(description="the newest sample that it has sent")
    offset_s: Number = Field(description="how far the server's clock is ahead of its own")
    round_trip_s: Number
    shift_s: Number = Field(description="what is added to its times")
    buffered_bytes: int
    samples_per_s: Number
    gaps: int = Field(description="parcels that it had to give up")
    parcels: int


class AgentList(Reply):
    """All agents by the name of their node."""

    items: list[AgentReply]


def agent_routes(
    intake: Intake, roster: AgentRegistry, *, now_s: Callable[[], float] = time.time
) -> APIRouter:
    """Return the routes that agents use, and the one that shows those in the roster."""
    routes = APIRouter(tags=["agents"])
    desk = _ParcelHandler(intake, roster, now_s=now_s)

    @routes.post("/agents/parcels", responses=failures(), openapi_extra=PARCEL_BODY)
    async def parcels(request: Request) -> ParcelReply:
        """Accept a parcel. It is on disk when this answers 200."""
        received_s = now_s()
        user: User = request.state.user  # an agent: the middleware refuses others
        try:
            with intake.budget.reserve(announced_bytes(request)) as reservation:
                body = await read_body(request, reservation)
                repeated = await run_in_threadpool(desk.take, user, body)
        except TemporaryError as fault:
            raise _later(fault) from fault
        return ParcelReply(
            received_s=received_s, answered_s=now_s(), server=desk.name, repeated=repeated
        )

    @routes.get("/agents/time", responses=failures())
    async def server_time() -> TimeReply:
        """Return the server's time."""
        received_s = now_s()
        return TimeReply(received_s=received_s, answered_s=now_s(), server=desk.name)

    @routes.get("/agents", responses=failures())
    def agents() -> AgentList:
        """List the agents that have sent something since the server was started."""
        items = [AgentReply.model_validate(each) for each in roster.all()]
        return AgentList(items=items)

    return routes


class _ParcelHandler:
    """Accepts parcels of users who may send them."""

    def __init__(
        self, intake: Intake, roster: AgentRegistry, *, now_s: Callable[[], float]
    ) -> None:
        self.name = secrets.token_hex(8)
        self._intake = intake
        self._roster = roster
        self._now_s = now_s

    def take(self, user: User, body: bytes) -> bool:
        """Make a parcel durable; return whether it was a repetition."""
        try:
            label = read_header(body)
            _check_node(user, label)
            position = StreamPosition(
                stream=f"{user.name}/{label.agent}/{label.run}", number=label.sequence
            )
            check = self._check(user, label)
            new = self._intake.accept("parcel", body, position=position, check=check)
        except RefusedError:
            raise
        except TemporaryError as fault:
            raise _later(fault) from fault
        except StewardError as fault:
            raise RefusedError(400, fault.problem, where="parcel", hint=fault.hint) from fault
        if new:
            for event in self._roster.record(label, self._now_s()):
                self._intake.add_event(event)
        return not new

    def _check(self, user: User, label: ParcelHeader) -> Callable[[object], None]:
        def check(seen: object) -> None:
            if isinstance(seen, Parcel):
                check_times(seen, self._now_s())
                if user.node != ANY_NODE:
                    check_authorised(seen, label.node)

        return check


def _later(fault: TemporaryError) -> RefusedError:
    wait_s = WAIT_S if fault.retry_after_s is None else ceil(fault.retry_after_s)
    return RefusedError(
        503,
        fault.problem,
        where=fault.where,
        hint=fault.hint,
        headers={"Retry-After": str(wait_s)},
    )


def _check_node(user: User, label: ParcelHeader) -> None:
    if user.node not in ("", ANY_NODE, label.node):
        raise RefusedError(
            403,
            f"the token '{user.name}' is for node '{user.node}', not for '{label.node}'",
            where="Authorization header",
            hint="give each node its own token, or make one without --node for all of them",
        )
