"""Let a running job save, and go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, not_running
from steward.model.actions.traits import OnJob
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.view import ClusterView
from steward.model.yardstick import EFFECT

__all__ = ["Save"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Save(OnJob):
    """Ask a running job to save its work. It keeps its GPUs and goes on."""

    job: JobId
    type: Literal["save"] = "save"

    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = EFFECT
    gpus: ClassVar[tuple[GpuId, ...]] = ()

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Ask job {self.job} to save its work and to go on"

    def undo(self, _: DecisionId) -> None:
        """Return None: a save cannot be taken back."""
        return

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_running(self.job, view):
            return reason
        able = view.details[self.job].checkpointing.able
        return "" if able else f"{self.job} cannot save its work"

    def may_be_done(self, _: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return False

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> Save | None:
        """Return the request to the job that a finding is about, if that can save."""
        action = cls(job=finding.job) if finding.job is not None else None
        return action if action is not None and not action.unmet(view) else None
