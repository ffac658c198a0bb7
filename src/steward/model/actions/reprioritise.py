"""Change the priority of a waiting job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, not_queued
from steward.model.actions.traits import OnJob
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.view import ClusterView
from steward.model.yardstick import WAITING

__all__ = ["Reprioritise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reprioritise(OnJob):
    """Change where a waiting job stands in the engine's own queue."""

    job: JobId
    before: int
    priority: int
    type: Literal["reprioritise"] = "reprioritise"

    budget: ClassVar = Budget.START
    yardstick: ClassVar = WAITING
    gpus: ClassVar[tuple[GpuId, ...]] = ()

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Change the priority of job {self.job} from {self.before} to {self.priority}"

    def undo(self, _: DecisionId) -> Reprioritise:
        """Return the way back."""
        return replace(self, before=self.priority, priority=self.before)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_queued(self.job, view):
            return reason
        found = view.details[self.job].priority
        return "" if found == self.before else f"{self.job} has priority {found} now"

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.job)
        return job is not None and job.priority == self.priority
