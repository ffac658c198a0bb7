"""Reset GPUs that nobody uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, gpu_claims, plural
from steward.model.actions.traits import OnNoJob
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId
from steward.model.view import ClusterView
from steward.model.yardstick import SERVICE

__all__ = ["Reset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(OnNoJob):
    """Reset GPUs that no job uses, as a driver does to clear errors."""

    gpus: tuple[GpuId, ...]
    type: Literal["reset"] = "reset"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = SERVICE
    lasts: ClassVar = False

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about."""
        return gpu_claims(self.gpus)

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Reset {plural(len(self.gpus), 'GPU')} ({', '.join(self.gpus)})"

    def undo(self, _: DecisionId) -> None:
        """Return None: a reset cannot be taken back."""
        return

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        rows = [view.gpu_row.get(gpu, -1) for gpu in self.gpus]
        if -1 in rows:
            return "one of the GPUs is not in the cluster any more"
        return "one of the GPUs is in use" if bool((view.gpus.users[rows] > 0).any()) else ""

    def may_be_done(self, _: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return False

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> Reset | None:
        """Return the reset of the GPUs that a finding is about, if nobody uses them."""
        action = cls(gpus=finding.gpus) if finding.gpus else None
        return action if action is not None and not action.unmet(view) else None
