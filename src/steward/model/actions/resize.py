"""Give a running job more or fewer GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from steward.model.actions.checks import (
    Budget,
    lends_or_borrows,
    not_running,
    plural,
    span,
    unusable,
)
from steward.model.actions.traits import OnJob
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import JobShape
from steward.model.view import ClusterView
from steward.model.yardstick import RUN

__all__ = ["Resize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(OnJob):
    """Let a job that can do so go on with more or fewer GPUs."""

    job: JobId
    now: tuple[GpuId, ...]
    then: tuple[GpuId, ...]
    type: Literal["resize"] = "resize"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = RUN

    @property
    def gpus(self) -> tuple[GpuId, ...]:
        """The GPUs that it takes or frees."""
        return tuple(sorted({*self.now} ^ {*self.then}))

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Resize job {self.job} from {len(self.now)} to {plural(len(self.then), 'GPU')}"

    def undo(self, _: DecisionId) -> Resize:
        """Return the way back."""
        return replace(self, now=self.then, then=self.now)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_running(self.job, view):
            return reason
        job = view.details[self.job]
        if not job.checkpointing.able:
            return f"{self.job} cannot save its work"
        if {*job.gpus} != {*self.now}:
            return f"{self.job} holds other GPUs now"
        return lends_or_borrows(self.job, view) or self._unfit(job.shape, view)

    def _unfit(self, shape: JobShape, view: ClusterView) -> str:
        new = [view.gpu_row.get(gpu, -1) for gpu in sorted({*self.then} - {*self.now})]
        if not self.then or -1 in new:
            return (
                "one of the GPUs is not in the cluster any more" if self.then else "no GPU is left"
            )
        least, most = shape.gpu_range
        if not least <= len(self.then) <= most:
            return f"{self.job} runs on {span(least, most)} GPUs"
        return unusable(new, view)

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.job)
        return job is not None and {*job.gpus} == {*self.then}
