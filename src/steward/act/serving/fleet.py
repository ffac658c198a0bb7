"""What a fleet is: an engine that can start and stop instances of one type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from steward.model.event import Availability

__all__ = ["Fleet", "FleetState", "Order"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One instance to start or to stop. The same order may come any number of times."""

    decision: str
    instance: str
    type: str
    model: str
    gpus: int
    count: int  # instances of this type when it is carried out
    role: str = "any"  # for the gateway
    url: str = ""  # of an instance to stop, as the gateway knows it


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetState:
    """How far an order is."""

    state: Literal["coming", "ready", "leaving", "gone", "failed"]
    text: str
    url: str = ""  # of one that is ready


class Fleet(Protocol):
    """Starts and stops instances. Raises `TemporaryError` or `PermanentError`, nothing else."""

    def available(self) -> Availability:
        """Say whether instances can be started here, without starting one."""
        ...

    def start(self, order: Order, t_s: float) -> FleetState:
        """Begin a start unless it was begun; return `coming`, `ready` or `failed`."""
        ...

    def stop(self, order: Order, t_s: float) -> FleetState:
        """Begin to stop an instance unless that was begun; return `leaving` or `gone`."""
        ...
