"""Bring a drained node back into service."""

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
    from steward.model.actions.drain import Drain

__all__ = ["Undrain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrain(OnNode):
    """Let jobs start on a node again that was drained."""

    node: NodeId
    gpus: tuple[GpuId, ...]  # all that the node has
    type: Literal["undrain"] = "undrain"

    budget: ClassVar = Budget.START
    yardstick: ClassVar = SERVICE
    lasts: ClassVar = False

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Bring back node {self.node} ({plural(len(self.gpus), 'GPU')})"

    def undo(self, _: DecisionId) -> Drain:
        """Return what drains the node again."""
        from steward.model.actions.drain import Drain  # noqa: PLC0415 - they name each other

        return Drain(node=self.node, gpus=self.gpus)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := node_missing(self.node, view):
            return reason
        draining = view.is_draining(self.node)
        return "" if draining else f"node {self.node} is not draining any more"

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return not view.is_draining(self.node)

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> Undrain | None:
        """Return what brings back the node that a finding is about."""
        found = node_gpus(finding, view)
        if found is None or not view.is_draining(found[0]):
            return None
        return cls(node=found[0], gpus=found[1])
