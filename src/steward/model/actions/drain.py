"""Take a node out of service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from steward.model.actions.checks import Budget, node_missing, plural
from steward.model.actions.traits import OnNode, node_gpus
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, NodeId
from steward.model.view import ClusterView
from steward.model.yardstick import SERVICE

if TYPE_CHECKING:
    from steward.model.actions.undrain import Undrain

__all__ = ["Drain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(OnNode):
    """Start nothing new on a node; what runs there runs to its end."""

    node: NodeId
    gpus: tuple[GpuId, ...]  # all that the node has
    type: Literal["drain"] = "drain"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = SERVICE
    lasts: ClassVar = True  # until the node is back

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Drain node {self.node} ({plural(len(self.gpus), 'GPU')})"

    def undo(self, _: DecisionId) -> Undrain:
        """Return what brings the node back."""
        from steward.model.actions.undrain import Undrain  # noqa: PLC0415 - they name each other

        return Undrain(node=self.node, gpus=self.gpus)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := node_missing(self.node, view):
            return reason
        draining = view.is_draining(self.node)
        return f"node {self.node} is draining already" if draining else ""

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return view.is_draining(self.node)

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> Drain | None:
        """Return the drain of the node that a finding is about."""
        found = node_gpus(finding, view)
        if found is None or view.is_draining(found[0]):
            return None
        return cls(node=found[0], gpus=found[1])
