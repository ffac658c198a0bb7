"""One moment of the fabric: links with what they carry, applications with what they send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from steward.model.fabric.topology import FabricTopology
from steward.model.finding import Finding
from steward.model.forecast import About, ForecastColumn
from steward.model.identity import DecisionId, JobId

__all__ = [
    "CAP_SENSITIVITY",
    "DELAY_SENSITIVITY",
    "NO_CAP",
    "ApplicationColumns",
    "CongestionRegion",
    "FabricView",
    "LinkColumns",
    "UseColumns",
    "traffic_claim",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Log of slowdown per millisecond of added delay on its paths, about APPLICATIONS.
DELAY_SENSITIVITY = "fabric.delay_sensitivity"
# By how much more or less a cap slows than `cap_loss` says: a factor, about APPLICATIONS.
CAP_SENSITIVITY = "fabric.cap_sensitivity"
NO_CAP = float("inf")
_NOTHING_LASTS: Mapping[DecisionId, JobId] = MappingProxyType({})


def traffic_claim(job: str) -> str:
    """Return the name under which a job's traffic can be claimed by one open decision."""
    return f"traffic:{job}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkColumns:
    """One row per link of the topology, over the last interval. NaN is unknown."""

    bytes_per_s: Floats
    load_share: Floats  # of the capacity
    stalled_share: Floats  # of the time in which something waited and could not be sent
    wait_s: Floats  # mean time in the queue
    ecn_share: Floats  # of packets that were marked
    pause_share: Floats  # of the time, by priority flow control
    retransmits_per_s: Floats
    errors_per_s: Floats

    @classmethod
    def unknown(cls, count: int) -> LinkColumns:
        """Return columns of links that nobody has measured."""
        return cls(**{name: np.full(count, np.nan) for name in cls.__dataclass_fields__})

    def __len__(self) -> int:
        return len(self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApplicationColumns:
    """One row per job that runs on endpoints of the fabric. NaN is unknown."""

    jobs: tuple[str, ...]
    applications: tuple[str, ...]  # what program each is; jobs of one learn from one another
    tenants: tuple[str, ...]
    gpus: Floats  # its weight in what is useful
    since_s: Floats
    bytes_per_s: Floats  # that all its endpoints send
    communication_share: Floats  # of its time; a static trait
    collective_share: Floats  # of its traffic; a static trait
    message_bytes: Floats  # median; a static trait
    overlap_share: Floats  # of communication that computing hides; a static trait
    delay_s: Floats  # of its paths now, weighted by traffic
    best_delay_s: Floats  # of the same paths without queues
    slowdown: Floats  # run time of a step against its best
    cap_bytes_per_s: Floats  # of each of its endpoints; infinite without a cap
    capped_since_s: Floats  # NaN without a cap

    def __len__(self) -> int:
        return len(self.jobs)

    @classmethod
    def empty(cls) -> ApplicationColumns:
        """Return columns without rows."""
        texts = ("jobs", "applications", "tenants")
        columns = {name: () if name in texts else np.zeros(0) for name in cls.__dataclass_fields__}
        return cls(**columns)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UseColumns:
    """Which application uses which link: one row per pair. No row of a job: paths are unknown."""

    application: Ints  # rows of ApplicationColumns
    link: Ints
    bytes_per_s: Floats

    @classmethod
    def empty(cls) -> UseColumns:
        """Return columns without rows."""
        return cls(
            application=np.zeros(0, np.int64), link=np.zeros(0, np.int64), bytes_per_s=np.zeros(0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionRegion:
    """Links next to one another that stall alike."""

    name: str
    links: tuple[int, ...]  # rows
    stalled_share: float  # mean over its links
    level: str  # low, moderate, high, severe
    since_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class FabricView:
    """Read-only. `unknown` says why nothing may be decided on this moment, where that is so."""

    t_s: float
    topology: FabricTopology
    links: LinkColumns
    applications: ApplicationColumns = field(default_factory=ApplicationColumns.empty)
    endpoints: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # rows, by job
    use: UseColumns = field(default_factory=UseColumns.empty)
    regions: tuple[CongestionRegion, ...] = ()
    reserved: frozenset[str] = frozenset()
    unknown: str = ""
    findings: tuple[Finding, ...] = ()
    forecasts: tuple[ForecastColumn, ...] = ()

    @property
    def lasting(self) -> Mapping[DecisionId, JobId]:
        """Return nothing: caps are seen, not noted."""
        return _NOTHING_LASTS

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Applications by job."""
        return MappingProxyType({job: at for at, job in enumerate(self.applications.jobs)})

    def forecast(self, about: About, quantity: str) -> ForecastColumn | None:
        """Return the latest forecast of a quantity."""
        return next(
            (
                each
                for each in reversed(self.forecasts)
                if each.about is about and each.quantity == quantity
            ),
            None,
        )

    def used_by(self, application: int) -> tuple[Ints, Floats]:
        """Return the links that an application uses, and bytes a second on each."""
        own = self.use.application == application
        return self.use.link[own], self.use.bytes_per_s[own]

    def users_of(self, links: Iterable[int]) -> Floats:
        """Return bytes a second that each application sends over these links, summed."""
        rows = np.isin(self.use.link, np.fromiter(links, np.int64))
        sent = np.zeros(len(self.applications))
        np.add.at(sent, self.use.application[rows], self.use.bytes_per_s[rows])
        return sent

    def with_forecasts(self, columns: Iterable[ForecastColumn]) -> FabricView:
        """Return this moment with more forecasts."""
        return replace(self, forecasts=(*self.forecasts, *columns))

    def with_findings(self, findings: tuple[Finding, ...]) -> FabricView:
        """Return this moment with its findings."""
        return replace(self, findings=findings)

    def unmet(self, action: object) -> str:
        """Return why an action cannot be done in this moment, or an empty text."""
        from steward.model.actions.on_traffic import OnTraffic  # noqa: PLC0415 - a cycle

        if not isinstance(action, OnTraffic):
            return "it is not about traffic, and this is a moment of a fabric"
        return action.unmet(self)

    def may_be_done(self, action: object) -> bool:
        """Return whether this moment looks as if an action had been carried out already."""
        from steward.model.actions.on_traffic import OnTraffic  # noqa: PLC0415 - a cycle

        return isinstance(action, OnTraffic) and action.may_be_done(self)

    def is_lost(self, _: object) -> bool:
        """Return False: a job that has ended is seen by what is unmet."""
        return False

    def claims_of(self, affected: JobId) -> frozenset[str]:
        """Return what is reserved while a job's traffic is left alone."""
        return frozenset({traffic_claim(affected)})
