"""Move a running job to other GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import (
    Budget,
    gpus_unfit,
    lends_or_borrows,
    not_running,
    plural,
)
from steward.model.actions.traits import OnJob
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.view import ClusterView
from steward.model.yardstick import STOP_COST

__all__ = ["Migrate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate(OnJob):
    """Save a running job and let it go on on other GPUs."""

    job: JobId
    source: tuple[GpuId, ...]
    target: tuple[GpuId, ...]
    type: Literal["migrate"] = "migrate"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = STOP_COST

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """All GPUs that it touches."""
        return (*self.source, *self.target)

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(len(self.target), "other GPU")
        return f"Save job {self.job} and let it go on on {gpus} ({', '.join(self.target)})"

    def undo(self, _: DecisionId) -> Migrate:
        """Return the way back."""
        return replace(self, source=self.target, target=self.source)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_running(self.job, view):
            return reason
        job = view.details[self.job]
        if not job.checkpointing.able:
            return f"{self.job} cannot save its work"
        if {*job.gpus} != {*self.source}:
            return f"{self.job} holds other GPUs now"
        if reason := lends_or_borrows(self.job, view):
            return reason
        return gpus_unfit(job, self.target, view, own=job.gpus)

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.job)
        return job is not None and {*job.gpus} == {*self.target}
