"""End a run of a followed job that goes on elsewhere, or is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.actions.on_followed import OnFollowed
from steward.model.identity import JobId
from steward.model.planning.followed import RunState
from steward.model.planning.view import PlanningView, followed_claim
from steward.model.yardstick import PLANS

__all__ = ["EndCopy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCopy(OnFollowed):
    """End one run at a site that answers again: its job must not run twice."""

    job: str
    run: int
    place: str  # SITE/QUEUE
    type: Literal["end-copy"] = "end-copy"

    returns: ClassVar = True  # what steward has doubled itself is always ended
    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = PLANS

    @property
    def affects(self) -> JobId | None:
        """Nobody is disturbed: the job goes on elsewhere, or is over."""
        return None

    @property
    def claims(self) -> frozenset[str]:
        """The run alone: the job itself may be moved meanwhile."""
        return frozenset({followed_claim(f"{self.job}.{self.run}")})

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"End run {self.run + 1} of {self.job} at {self.place}: it goes on elsewhere"

    def unmet_in(self, view: PlanningView) -> str:
        """Return why it cannot be done now, or an empty text."""
        job = view.job(self.job)
        return "" if job is not None and self.run < len(job.runs) else "that run is not known"

    def seems_done_in(self, view: PlanningView) -> bool:
        """Return whether that run has ended."""
        job = view.job(self.job)
        if job is None or self.run >= len(job.runs):
            return False
        run = job.runs[self.run]
        return run.state.ended and run.state is not RunState.LOST
