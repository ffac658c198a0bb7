"""Start a waiting job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steward.model.actions.checks import plural
from steward.model.actions.traits import StartsJob
from steward.model.identity import GpuId, JobId

__all__ = ["Start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(StartsJob):
    """Start a waiting job on these GPUs."""

    job: JobId
    gpus: tuple[GpuId, ...]
    type: Literal["start"] = "start"

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Start job {self.job} on {plural(len(self.gpus), 'GPU')}"
