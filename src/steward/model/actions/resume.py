"""Resume a preempted job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import (
    Budget,
    gpu_claims,
    gpus_unfit,
    job_claim,
    not_queued,
    plural,
)
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import JobState
from steward.model.view import ClusterView
from steward.model.yardstick import RUN

if TYPE_CHECKING:
    from steward.model.actions.preempt import Preempt

__all__ = ["Resume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Let a job that was stopped go on from what it saved, on these GPUs."""

    job: JobId
    gpus: tuple[GpuId, ...]
    type: Literal["resume"] = "resume"

    budget: ClassVar = Budget.START
    yardstick: ClassVar = RUN
    returns: ClassVar = False
    lasts: ClassVar = False

    @property
    def acts_on(self) -> JobId:
        """The job that starts by it."""
        return self.job

    @property
    def affects(self) -> JobId:
        """The job that is left alone for a while when a person refuses."""
        return self.job

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about."""
        return gpu_claims(self.gpus) | {job_claim(self.job)}

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Resume job {self.job} on {plural(len(self.gpus), 'GPU')}"

    def undo(self, _: DecisionId) -> Preempt:
        """Return what stops the job again."""
        from steward.model.actions.preempt import Preempt  # noqa: PLC0415 - they name each other

        return Preempt(job=self.job, gpus=self.gpus)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_queued(self.job, view):
            return reason
        return gpus_unfit(view.details[self.job], self.gpus, view)

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.job)
        return job is not None and job.state is not JobState.QUEUED

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> None:
        """Return None: a finding does not say where a job should run."""
        return
