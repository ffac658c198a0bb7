"""Hands a pushed body to the intake, and says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from steward.observe.receive import Parcelled, Readings, parcelled
from steward.service.access import User
from steward.service.failures import RefusedError

__all__ = ["Reception", "Taken", "check_may_send", "take"]

ANY_NODE = "*"


class Reception(Protocol):
    """What makes a body durable and lets the loop see it: the intake."""

    def accept(self, kind: str, body: bytes, *, check: Callable[[Any], None] = ...) -> bool:
        """Take a body; durable when it returns. `check` sees what was in it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of a body: how many samples were refused, and why."""

    refused: int
    why: str = ""


def take(reception: Reception, kind: str, given: Parcelled) -> Taken:
    """Make a body durable; raises what the intake raises."""
    seen: list[Readings] = []

    def look(at: object) -> None:
        if isinstance(at, Readings):
            seen.append(at)

    reception.accept(kind, parcelled(given), check=look)
    refused = sum(each.refused for each in seen)
    why = "; ".join(event.text for each in seen for event in each.events)
    return Taken(refused=refused, why=why)


def check_may_send(user: User | None) -> str:
    """Return the sender's name, or refuse one who may not speak of all nodes."""
    if user is not None and (user.may_decide or user.node == ANY_NODE):
        return user.name
    raise RefusedError(
        403,
        f"{user.name if user else 'nobody'} may not send telemetry of all nodes",
        where="Authorization header",
        hint="make a token with `steward token new NAME --role agent --node '*'`",
    )
