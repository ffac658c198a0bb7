"""Hands a pushed body to the intake, and says what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from steward.errors import StewardError
from steward.observe.receive import PushedBody, Readings, pack_body
from steward.service.authentication import User
from steward.service.failures import RefusedError
from steward.store.tokens import Role

__all__ = ["PushReceiver", "PushResult", "accept_pushed", "check_may_send"]

ANY_NODE = "*"
AHEAD_S = 600.0


class PushReceiver(Protocol):
    """What makes a body durable and lets the loop see it: the intake."""

    def accept(self, kind: str, body: bytes, *, check: Callable[[Any], None] = ...) -> bool:
        """Take a body; durable when it returns. `check` sees what was in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """What became of a body: how many samples were refused, and why."""

    refused: int
    why: str = ""


def accept_pushed(reception: PushReceiver, kind: str, given: PushedBody) -> PushResult:
    """Make a body durable; raises what the intake raises."""
    seen: list[Readings] = []

    def look(at: object) -> None:
        if isinstance(at, Readings):
            _check_not_ahead(at)
            seen.append(at)

    reception.accept(kind, pack_body(given), check=look)
    refused = sum(each.refused for each in seen)
    why = "; ".join(event.text for each in seen for event in each.events)
    return PushResult(refused=refused, why=why)


def _check_not_ahead(readings: Readings) -> None:
    """Refuse samples of a time to come: nothing that comes later would be newer than they are."""
    ahead_s = float(readings.t_ms.max(initial=0)) / 1000.0 - time.time()
    if ahead_s > AHEAD_S:
        raise StewardError(
            f"a sample is {ahead_s:.0f} s ahead of this machine's clock",
            where="pushed samples",
            hint="look at the time synchronisation of both machines",
        )


def check_may_send(user: User | None) -> str:
    """Return the sender's name, or refuse one who may not speak of all nodes."""
    if user is not None and user.role is Role.AGENT and user.node == ANY_NODE:
        return user.name
    raise RefusedError(
        403,
        f"{user.name if user else 'nobody'} may not send telemetry of all nodes",
        where="Authorization header",
        hint="make a token with `steward token new NAME --role agent --node '*'`",
    )
