"""Jobs that were submitted by a plan: where they ran, how far they are, when they will end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from steward.model.planning.plan import Choice, PlanRequest, Range, Way

__all__ = [
    "MOST_MARKS",
    "Expected",
    "FollowedJob",
    "JobEnd",
    "Mark",
    "Offer",
    "RunState",
    "SiteLook",
    "SiteReport",
    "SiteRun",
]

MOST_MARKS = 64  # of a run; when there are more, every other one is dropped


class RunState(Enum):
    """Where one submission of a job is. The last four are ends of it."""

    ASKED = "asked"  # the site was asked, and has not answered with an id yet
    HELD = "held"  # the site has it, and starts it once the run before has ended
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"  # by steward or a person
    LOST = "lost"  # its site does not answer any more, and the job goes on elsewhere

    @property
    def ended(self) -> bool:
        return self in (RunState.COMPLETED, RunState.FAILED, RunState.STOPPED, RunState.LOST)


class JobEnd(Enum):
    """How a job ended, once."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"  # by a person, at its site


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Which share of its work a job has reported done, and when."""

    t_s: float
    done_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRun:
    """One submission of a job, to one site."""

    site: str  # as the catalogue calls it
    queue: str
    way: Way
    expected_run_s: Range  # of all the work, as planned there
    submitted_s: float
    endpoint: str = ""  # `[sites.NAME]` of the configuration; empty is the main one
    options: Mapping[str, str] = field(default_factory=dict)  # of `steward jobs submit`
    token: str = ""  # the same at each try: the site has one job with it
    usd_per_h: float | None = None
    job: str = ""  # the engine's id; empty until it has answered
    state: RunState = RunState.ASKED
    held: bool = False  # it may start only when the run before it has ended
    began_s: float | None = None
    ended_s: float | None = None
    seen_s: float | None = None  # when its site, or its own files, last showed it
    folder: str = ""  # of the job there, with its checkpoints
    can_save: bool = False
    checkpoint: str = ""  # that it began with
    from_share: float = 0.0  # of the work that was saved when it began
    marks: tuple[Mark, ...] = ()  # ascending in time
    to_end: bool = False  # its site has to end it, if need be when it answers again
    decision: str = ""  # by which it went there
    why: str = ""  # it went there, or ended so

    @property
    def place(self) -> tuple[str, str]:
        return self.site, self.queue

    def with_mark(self, mark: Mark) -> SiteRun:
        """Return it with one more report; of many, the newest and a sample of the others."""
        if self.marks and mark.t_s <= self.marks[-1].t_s:
            return self
        marks = (*self.marks, mark)
        return replace(self, marks=marks if len(marks) <= MOST_MARKS else marks[1::2])

    def hours(self, now_s: float) -> float:
        """Return how long it has run."""
        if self.began_s is None:
            return 0.0
        until_s = now_s if self.ended_s is None else self.ended_s
        return max(until_s - self.began_s, 0.0) / 3600.0

    def spent_usd(self, now_s: float) -> float:
        """Return what it has cost, where that is known in money."""
        return (self.usd_per_h or 0.0) * self.hours(now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedJob:
    """A job and all that became of it.

    At most one of its runs may start or run: a second is held until the first has ended.
    """

    id: str
    name: str
    request: PlanRequest
    runs: tuple[SiteRun, ...] = ()
    steps: float | None = None  # of all the work; None: unless it reports that itself
    saved_share: float = 0.0  # of the work that the newest checkpoint kept here holds
    checkpoint: str = ""  # that, verified
    save_asked_s: float | None = None  # of the run that is to be moved
    campaign: str = ""  # of the application that it is a run of
    corrected: Mapping[str, float] = field(default_factory=dict)  # its plan, by GPU: times this
    waits: Mapping[str, Range] = field(default_factory=dict)  # that a person gave, by place
    end: JobEnd | None = None
    ended_s: float | None = None

    @property
    def run(self) -> SiteRun | None:
        """Return the run that may start or run."""
        return next((each for each in self.runs if not (each.state.ended or each.held)), None)

    @property
    def coming(self) -> SiteRun | None:
        """Return the run that is held until another has ended."""
        return next((each for each in self.runs if each.held and not each.state.ended), None)

    @property
    def has_copies(self) -> bool:
        """Whether a run is left that has to be ended: the job is over, or goes on elsewhere."""
        return any(
            each.to_end or (self.end is not None and not each.state.ended) for each in self.runs
        )

    def number_of(self, run: SiteRun) -> int:
        """Return the place of a run among all, from 0."""
        return self.runs.index(run)

    def with_run(self, number: int, run: SiteRun) -> FollowedJob:
        """Return it with another value of one run."""
        runs = (*self.runs[:number], run, *self.runs[number + 1 :])
        return replace(self, runs=runs)

    def spent_usd(self, now_s: float) -> float:
        """Return what all its runs have cost so far."""
        return sum(each.spent_usd(now_s) for each in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLook:
    """What a site shows of one run. `state` None: it does not know that job."""

    job: str  # the followed one
    run: int  # the place of the run among its runs
    state: RunState | None
    began_s: float | None = None
    ended_s: float | None = None
    folder: str = ""
    can_save: bool = False
    step: float | None = None
    steps: float | None = None  # of all the work, as the job says
    progress_s: float | None = None  # when it said that
    complete: bool = False  # the job's own word that its work is done
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """What one site answered at one time; `problem`: it did not.

    Looks of a site that does not answer are from files of its jobs that can be read without it.
    """

    endpoint: str
    t_s: float
    looks: tuple[SiteLook, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """When a job will end where it is, and what is left to pay."""

    end_s: Range
    left_s: Range  # of run time
    usd_left: Range | None
    deadline_chance: float | None
    basis: str
    outside: bool = False  # it is slower or faster than its plan's range: that was wrong
    done_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A choice for what is left of a job, with how it is submitted there."""

    choice: Choice
    endpoint: str
    options: Mapping[str, str]
