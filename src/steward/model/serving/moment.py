"""One moment of the serving domain: what the loop's policies, guard and verifier look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from steward.model.finding import Finding
from steward.model.forecast import ForecastColumn
from steward.model.identity import DecisionId, JobId
from steward.model.serving.instance_type import InstanceType
from steward.model.serving.snapshot import ModelServer, ServingSnapshot
from steward.model.serving.view import ServingView

__all__ = ["INSTANCE", "NOTHING_LASTS", "ScalableType", "ServingMoment", "Sought", "instance_claim"]

INSTANCE = "instance:"
NOTHING_LASTS: Mapping[DecisionId, JobId] = MappingProxyType({})


def instance_claim(name: str) -> str:
    """Return the name under which an instance can be claimed by one open decision."""
    return f"{INSTANCE}{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableType:
    """A type of which instances may be started and drained, between `least` and `most` of them."""

    type: InstanceType
    fleet: str  # the engine that starts them
    least: int = 0
    most: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """An instance whose start was begun, and that the gateway does not have yet."""

    name: str
    type: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingMoment:
    """A snapshot of a gateway, what may be scaled, and the same in columns for scalers.

    `rows` names the rows of `view.instances`. Where the gateway has not answered for too long,
    `unknown` says so: nothing is decided on what may not be so any more.
    """

    t_s: float
    snapshot: ServingSnapshot
    view: ServingView
    rows: tuple[str, ...]
    scalable: Mapping[str, ScalableType]
    tenant: str = ""  # whose GPUs instances run on
    sought: tuple[Sought, ...] = ()
    down_since_s: Mapping[str, float] = field(default_factory=dict)  # by instance
    changed_s: Mapping[str, float] = field(default_factory=dict)  # by type: when its number changed
    reserved: frozenset[str] = frozenset()
    unknown: str = ""
    findings: tuple[Finding, ...] = ()
    forecasts: tuple[ForecastColumn, ...] = ()

    @property
    def lasting(self) -> Mapping[DecisionId, JobId]:
        """Return nothing: what instances do is seen, not noted."""
        return NOTHING_LASTS

    def with_forecasts(self, columns: Iterable[ForecastColumn]) -> ServingMoment:
        """Return this moment with more forecasts."""
        return replace(self, forecasts=(*self.forecasts, *columns))

    def with_findings(self, findings: tuple[Finding, ...]) -> ServingMoment:
        """Return this moment with its findings."""
        return replace(self, findings=findings)

    def unmet(self, action: object) -> str:
        """Return why an action cannot be done in this moment, or an empty text."""
        from steward.model.actions.on_instance import OnInstance  # noqa: PLC0415 - a cycle

        if not isinstance(action, OnInstance):
            return "it is about a cluster, and this is a moment of model servers"
        return action.unmet(self)

    def may_be_done(self, action: object) -> bool:
        """Return whether this moment looks as if an action had been carried out already."""
        from steward.model.actions.on_instance import OnInstance  # noqa: PLC0415 - a cycle

        return isinstance(action, OnInstance) and action.may_be_done(self)

    def is_lost(self, _: object) -> bool:
        """Return False: an engine finds other GPUs for an instance."""
        return False

    def claims_of(self, affected: JobId) -> frozenset[str]:
        """Return what is reserved while an instance is left alone."""
        return frozenset({instance_claim(affected)})

    def server(self, name: str) -> ModelServer | None:
        """Return the instance of this name that the gateway has."""
        return self.snapshot.server(name)

    def is_named(self, name: str) -> bool:
        """Return whether an instance of this name is there, or on its way."""
        return self.server(name) is not None or any(each.name == name for each in self.sought)

    def count_of(self, type_: str, *, but: str = "") -> int:
        """Return how many instances of a type take requests or will, but for one of them."""
        there = [
            each.name
            for each in self.snapshot.servers
            if each.type == type_ and each.state in ("starting", "serving")
        ]
        coming = [each.name for each in self.sought if each.type == type_]
        return len({*there, *coming} - {but})

    def taken_of(self, type_: str, *, but: str = "") -> int:
        """Return how many instances of a type hold GPUs: also those that drain or are down."""
        there = {each.name for each in self.snapshot.servers if each.type == type_}
        coming = {each.name for each in self.sought if each.type == type_}
        return len((there | coming) - {but})

    def too_few_without(self, instance: str, kind: ScalableType) -> str:
        """Return that too few of a type would be left without an instance, or an empty text."""
        left = self.count_of(kind.type.name, but=instance)
        short = left < kind.least
        return f"{left} of {kind.type.name} would be left of at least {kind.least}" if short else ""
