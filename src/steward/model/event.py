"""What happened, and what one look at the world brings back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from steward.model.cluster import Cluster, Health
from steward.model.frame import Frame, empty_frame, empty_other
from steward.model.identity import GpuId, NodeId, TenantId
from steward.model.job import Job, Tenant
from steward.model.memory.snapshot import MemorySnapshot
from steward.model.planning.followed import SiteReport
from steward.model.serving.snapshot import ServingSnapshot
from steward.model.site import TenantCeiling
from steward.model.span import Span
from steward.model.view import Loan

__all__ = ["Availability", "Event", "Fault", "LogLine", "Observation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to `subject` at one time, in the words of who saw it."""

    t_s: float
    kind: str  # dotted, e.g. `gpu.failed`, `telemetry.gap`, `clock.jumped-back`
    subject: str
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line that a program or the kernel wrote. Most mean nothing; those that do become events.

    `level` is syslog's: 0 emergency .. 7 debug; 6 where nobody said.
    """

    t_s: float
    entity: str  # whose line: a node, or `job:812`
    source: str  # what wrote it: `kernel`, a systemd unit, a file, a container
    text: str
    level: int = 6
    number: int = 0  # which line of its file; 0 where unknown, or where it is from none


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a collector saw: new samples, events, and whatever changed since its last look.

    `frame` has known metrics, one column each. Where a source has several kinds of entities with
    metrics of their own, `frames` has one more table for each, so that none is mostly empty.
    `other` is long (`t_s`, `entity`, `metric`, `value`) and has metrics that nobody has translated.
    `events` are few and mean something: the journal keeps them. `lines` may be many. `spans` say
    what samples belong to. `jobs` holds jobs that are new or different now. `cluster` and `tenants`
    are given when they changed. Everything not named is as it was.
    """

    frame: Frame = field(default_factory=empty_frame)
    frames: tuple[Frame, ...] = ()
    other: Frame = field(default_factory=empty_other)
    events: tuple[Event, ...] = ()
    lines: tuple[LogLine, ...] = ()
    spans: tuple[Span, ...] = ()
    jobs: tuple[Job, ...] = ()
    cluster: Cluster | None = None
    tenants: tuple[Tenant, ...] | None = None
    health: Mapping[GpuId, Health] = field(default_factory=dict)
    draining: Mapping[NodeId, bool] = field(default_factory=dict)  # nodes where that changed
    loans: tuple[Loan, ...] = ()  # that an engine carries out, new or changed
    ceilings: Mapping[TenantId, TenantCeiling] | None = None  # None: as they were
    serving: ServingSnapshot | None = None  # of a gateway in front of model servers
    memory: MemorySnapshot | None = None  # of one process
    site_reports: tuple[SiteReport, ...] = ()  # of sites where followed jobs are

    @property
    def tables(self) -> tuple[Frame, ...]:
        """All tables of samples that have any."""
        return tuple(table for table in (self.frame, *self.frames) if table.height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that steward itself could not do. The loop goes on and says so."""

    t_s: float
    where: str
    problem: str
    hint: str = ""

    def event(self) -> Event:
        """Return the fault as the journal keeps it."""
        text = f"{self.problem} ({self.hint})" if self.hint else self.problem
        return Event(
            t_s=self.t_s, kind="steward.fault", subject=self.where, text=text, source="steward"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether a plug can work on this machine, and if not, why and what would help."""

    status: str  # ok, limited, missing
    reason: str
    hint: str = ""
