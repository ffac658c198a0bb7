"""Test a node that is out of service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, plural
from steward.model.actions.traits import OnNode, node_gpus, node_unready
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, NodeId
from steward.model.view import ClusterView
from steward.model.yardstick import SERVICE

__all__ = ["Diagnose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnose(OnNode):
    """Test the hardware of a drained node on which nothing runs any more."""

    node: NodeId
    gpus: tuple[GpuId, ...]  # all that the node has
    type: Literal["diagnose"] = "diagnose"

    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = SERVICE
    lasts: ClassVar = False

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Test node {self.node} ({plural(len(self.gpus), 'GPU')})"

    def undo(self, _: DecisionId) -> None:
        """Return None: a test changes nothing that could be taken back."""
        return

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        return node_unready(self.node, view)

    def may_be_done(self, _: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return False

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> Diagnose | None:
        """Return the test of the node that a finding is about, if nothing runs there."""
        found = node_gpus(finding, view)
        action = cls(node=found[0], gpus=found[1]) if found is not None else None
        return action if action is not None and not action.unmet(view) else None
