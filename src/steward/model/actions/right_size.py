"""Change what a waiting job asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, not_queued, plural
from steward.model.actions.traits import OnJob
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.view import ClusterView
from steward.model.yardstick import WAITING

__all__ = ["RightSize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSize(OnJob):
    """Change how many GPUs a waiting job asks for, to what jobs like it have used."""

    job: JobId
    before: int
    count: int
    type: Literal["right-size"] = "right-size"

    budget: ClassVar = Budget.START
    yardstick: ClassVar = WAITING
    gpus: ClassVar[tuple[GpuId, ...]] = ()

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Let job {self.job} ask for {plural(self.count, 'GPU')} instead of {self.before}"

    def undo(self, _: DecisionId) -> RightSize:
        """Return the way back."""
        return replace(self, before=self.count, count=self.before)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_queued(self.job, view):
            return reason
        if self.count < 1:
            return f"{self.count} GPUs are not a size"
        found = view.details[self.job].shape.gpus
        return "" if found == self.before else f"{self.job} asks for {found} GPUs now"

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.job)
        return job is not None and job.shape.gpus == self.count
