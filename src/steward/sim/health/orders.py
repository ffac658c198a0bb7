"""What a policy may order in a simulated fleet, and what it may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from steward.model.event import LogLine

if TYPE_CHECKING:
    from steward.sim.health.fleet import Fleet

__all__ = ["FleetPolicy", "Order", "OrderKind"]


class OrderKind(Enum):
    """What can be done to a node."""

    DRAIN = "drain"
    RESET = "reset"
    REBOOT = "reboot"
    TEST = "test"
    REPLACE = "replace"
    UNDRAIN = "undrain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One thing to do to one node, by its row."""

    kind: OrderKind
    node: int


class FleetPolicy(Protocol):
    """Decides about a simulated fleet."""

    @property
    def name(self) -> str: ...

    def react(self, fleet: Fleet, lines: Sequence[LogLine], t_s: float) -> Iterable[Order]:
        """Return orders, given the lines since the last call. Called when there is news."""
        ...
