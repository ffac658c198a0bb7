"""What a gateway says about itself at one time: its model servers and its deadline classes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClassProgress", "ModelServer", "ServingSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """One instance as the gateway knows it."""

    name: str
    model: str
    type: str = ""  # name of an instance type; "" is one that nobody configured
    url: str = ""
    state: str = "serving"  # starting, serving, draining, down
    role: str = "any"  # any, interactive, batch
    running: int = 0
    waiting: int = 0  # sent there, not yet begun
    limit: int = 0  # of requests in flight
    tokens_per_s: float = 0.0

    @property
    def in_flight(self) -> int:
        """Return how many requests it has."""
        return self.running + self.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassProgress:
    """One deadline class; `done`, `met` and `missed` count since the gateway started."""

    name: str
    queued: int = 0
    in_flight: int = 0
    done: int = 0
    met: int = 0
    missed: int = 0
    oldest_wait_s: float = 0.0
    expected_wait_s: float | None = None  # of a request that came now
    deadline_s: float | None = None  # the first promise of the class


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSnapshot:
    """All of it. `t_s` is by the gateway's clock, `seen_s` by that of who asked."""

    t_s: float
    seen_s: float
    policy: str = ""
    servers: tuple[ModelServer, ...] = ()
    classes: tuple[ClassProgress, ...] = ()

    def server(self, name: str) -> ModelServer | None:
        """Return the instance of this name."""
        return next((each for each in self.servers if each.name == name), None)

    @property
    def met(self) -> int:
        """Return how many requests had what they were promised, of all classes."""
        return sum(each.met for each in self.classes)

    @property
    def judged(self) -> int:
        """Return how many requests ended and had been promised something."""
        return self.met + sum(each.missed for each in self.classes)
