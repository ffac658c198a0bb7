"""Let a followed job go on at another site."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_followed import OnFollowed
from steward.model.identity import GpuId
from steward.model.planning.followed import FollowedJob
from steward.model.planning.plan import Range, Way
from steward.model.planning.view import PlanningView
from steward.model.yardstick import PLANS

__all__ = ["MoveJob", "Stay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """What was forecast without the move: that is what it is measured against."""

    usd: Range | None = None
    late_chance: float = 0.0
    usd_if_late: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJob(OnFollowed):
    """Save a job, submit it elsewhere, and stop it where it is once it is accepted there.

    `lost`: its site does not answer. It goes on from the last verified checkpoint, and where it was
    it is ended when that site answers again.
    """

    job: str
    source: str  # SITE/QUEUE
    site: str
    queue: str
    endpoint: str
    way: Way
    options: tuple[tuple[str, str], ...] = ()  # of the submission there
    run_s: Range  # of all the work there
    usd_per_h: float | None = None
    lost: bool = False
    stay: Stay = field(default_factory=Stay)
    type: Literal["move-job"] = "move-job"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = PLANS

    @property
    def gpus(self) -> tuple[GpuId, ...]:  # type: ignore[override]
        """Return its GPUs by position: budgets count them; the site knows which."""
        return tuple(GpuId(f"{self.job}/gpu{index}") for index in range(max(self.way.gpus, 1)))

    @property
    def target(self) -> str:
        return f"{self.site}/{self.queue}"

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        if self.lost:
            return (
                f"Let {self.job} go on at {self.target} from its last checkpoint, and end it at "
                f"{self.source} when that answers again"
            )
        return f"Save {self.job}, and let it go on at {self.target} instead of {self.source}"

    def unmet_in(self, view: PlanningView) -> str:
        """Return why it cannot be done now, or an empty text."""
        job = view.job(self.job)
        if job is None:
            return f"{self.job} is not followed any more"
        if job.end is not None:
            return f"{self.job} has ended: {job.end.value}"
        here = job.run
        if here is not None and f"{here.site}/{here.queue}" not in (self.source, self.target):
            return f"{self.job} is at {here.site}/{here.queue} now"
        return ""

    def seems_done_in(self, view: PlanningView) -> bool:
        """Return whether the job is there already."""
        job = view.job(self.job)
        return job is not None and _is_at(job, self.site, self.queue)


def _is_at(job: FollowedJob, site: str, queue: str) -> bool:
    return job.run is not None and job.run.place == (site, queue)
