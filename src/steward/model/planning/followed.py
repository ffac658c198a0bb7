"""Jobs that were submitted by a plan: where they ran, how far they are, when they will end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from steward.model.planning.plan import Plan, PlanRequest, Range, Way
from steward.model.site import SiteHealth

__all__ = ["Expected", "FollowedJob", "Mark", "PlanningView", "RunState", "SiteRun"]


class RunState(Enum):
    """Where one submission of a job is. The last four are ends of it."""

    ASKED = "asked"  # the site was asked, and has not answered with an id yet
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"  # by steward or a person: it may go on elsewhere
    LOST = "lost"  # its site does not answer any more, and it goes on elsewhere

    @property
    def ended(self) -> bool:
        return self in (RunState.COMPLETED, RunState.FAILED, RunState.STOPPED, RunState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Which share of its work a job has reported done, and when."""

    t_s: float
    done_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRun:
    """One submission of a job, to one site."""

    site: str
    queue: str
    way: Way
    expected_run_s: Range  # of all the work, as planned there
    submitted_s: float
    job: str = ""  # the engine's id; empty until it has answered
    state: RunState = RunState.ASKED
    began_s: float | None = None
    ended_s: float | None = None
    from_share: float = 0.0  # of the work that was saved when it began
    marks: tuple[Mark, ...] = ()  # ascending in time
    why: str = ""  # it went there


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedJob:
    """A job and all that became of it. At most its last run has not ended."""

    id: str
    name: str
    request: PlanRequest
    runs: tuple[SiteRun, ...] = ()
    saved_share: float = 0.0  # of the work that the newest checkpoint holds
    spent_usd: float = 0.0  # by runs that have ended

    @property
    def run(self) -> SiteRun | None:
        """Return the run that has not ended."""
        return self.runs[-1] if self.runs and not self.runs[-1].state.ended else None

    @property
    def completed(self) -> bool:
        return bool(self.runs) and self.runs[-1].state is RunState.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """When a job will end where it is, and what is left to pay."""

    end_s: Range
    left_s: Range  # of run time
    usd_left: Range | None
    deadline_chance: float | None
    basis: str
    outside: bool = False  # it is slower or faster than its plan's range: that was wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningView:
    """One moment of all followed jobs: read-only."""

    t_s: float
    jobs: tuple[FollowedJob, ...]
    expected: Mapping[str, Expected] = field(default_factory=dict)  # by job
    elsewhere: Mapping[str, Plan] = field(default_factory=dict)  # what is left of it, planned anew
    sites: Mapping[str, SiteHealth] = field(default_factory=dict)
