"""What a site chooses: what steward may do by itself, how it reads rules, what GPU-hours cost.

Settings need these and nothing else of the model: this module imports no arrays and no tables, so
that a command that only sends a request starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Assumptions", "Autonomy", "Mode", "SiteHealth", "SiteState", "TenantCeiling"]


class Autonomy(Enum):
    """How much steward may do by itself. Granted, not assumed: `ADVISE` is the default."""

    OBSERVE = "observe"
    ADVISE = "advise"
    APPROVE = "approve"
    AUTO = "auto"

    @property
    def rank(self) -> int:
        return list(Autonomy).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCeiling:
    """What may be done with a tenant's running jobs, as its own engine says: never above the site.

    Waiting jobs are started by the site's autonomy: whoever submitted them asked for that.
    """

    autonomy: Autonomy = Autonomy.AUTO
    actions: frozenset[str] | None = None  # types of those that may be taken; None: all
    disturbed_per_job_per_day: int | None = None  # None: as often as the site allows
    source: str = ""  # named in reasons

    def with_stricter(self, other: TenantCeiling) -> TenantCeiling:
        """Return the stricter of both in each part."""
        both = [each for each in (self.actions, other.actions) if each is not None]
        times = [
            each
            for each in (self.disturbed_per_job_per_day, other.disturbed_per_job_per_day)
            if each is not None
        ]
        return TenantCeiling(
            autonomy=min(self.autonomy, other.autonomy, key=lambda level: level.rank),
            actions=frozenset.intersection(*both) if both else None,
            disturbed_per_job_per_day=min(times, default=None),
            source=", ".join(each for each in (self.source, other.source) if each),
        )

    @property
    def text(self) -> str:
        """Say it for people."""
        parts = [f"autonomy at most '{self.autonomy.value}'"]
        if self.actions is not None:
            parts.append(f"actions: {', '.join(sorted(self.actions)) or 'none'}")
        if self.disturbed_per_job_per_day is not None:
            parts.append(f"at most {self.disturbed_per_job_per_day} disturbances of a job in a day")
        return "; ".join(parts)


class Mode(Enum):
    """Semantics of rules: `STRICT` as the language defines, `PREQ` as preq runs them."""

    STRICT = "strict"
    PREQ = "preq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What turns GPU-hours into money, energy and carbon. A site sets its own."""

    price_per_gpu_hour: float = 2.5
    currency: str = "USD"
    host_watts_per_gpu: float = 150.0  # the part of a host that a GPU keeps powered
    power_usage_effectiveness: float = 1.4
    co2_kg_per_kwh: float = 0.4


class SiteState(Enum):
    """How one of several stewards does. An engine that is silent is not a steward that is."""

    FINE = "fine"
    STARTING = "starting"
    UNREACHABLE = "unreachable"  # it turns, but its engine does not answer
    FAILING = "failing"  # it does not turn, or cannot write its journal
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteHealth:
    """How a site does, as its steward reports it, or why that does not."""

    name: str
    state: SiteState
    text: str = ""  # what is wrong
    url: str = ""
    turns: int = 0
    last_turn_t_s: float | None = None
    since_s: float | None = None  # of the first engine that does not answer
    faults: int = 0  # recent ones

    @property
    def is_fine(self) -> bool:
        return self.state is SiteState.FINE
