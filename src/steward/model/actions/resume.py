"""Resume a preempted job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steward.model.actions.checks import plural
from steward.model.actions.traits import StartsJob
from steward.model.identity import GpuId, JobId

__all__ = ["Resume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(StartsJob):
    """Let a job that was stopped go on from what it saved, on these GPUs."""

    job: JobId
    gpus: tuple[GpuId, ...]
    type: Literal["resume"] = "resume"

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Resume job {self.job} on {plural(len(self.gpus), 'GPU')}"
