"""Save a running job and put it back into the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import Budget, lends_or_borrows, not_running, plural
from steward.model.actions.traits import OnJob
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import JobState
from steward.model.view import ClusterView
from steward.model.yardstick import STOP_COST

if TYPE_CHECKING:
    from steward.model.actions.resume import Resume

__all__ = ["Preempt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt(OnJob):
    """Save a running job, free these GPUs and put it back into the queue."""

    job: JobId
    gpus: tuple[GpuId, ...]
    type: Literal["preempt"] = "preempt"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = STOP_COST

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(len(self.gpus), "GPU")
        return f"Save job {self.job}, free its {gpus} and put it back into the queue"

    def undo(self, _: DecisionId) -> Resume:
        """Return what lets the job go on where it was."""
        from steward.model.actions.resume import Resume  # noqa: PLC0415 - they name each other

        return Resume(job=self.job, gpus=self.gpus)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_running(self.job, view):
            return reason
        job = view.details[self.job]
        if not job.checkpointing.able:
            return f"{self.job} cannot save its work"
        if {*job.gpus} != {*self.gpus}:
            return f"{self.job} holds other GPUs now"
        return lends_or_borrows(self.job, view)

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.job)
        return job is not None and job.state is not JobState.RUNNING

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> Preempt | None:
        """Return the preemption of the job that a finding is about, if that can be saved."""
        if finding.job is None or not_running(finding.job, view):
            return None
        job = view.details[finding.job]
        return cls(job=job.id, gpus=job.gpus) if job.checkpointing.able else None
