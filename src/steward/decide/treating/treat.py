"""Does what rules say about what they found, or tells those concerned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steward.model.actions import ACTIONS, Action, Tell
from steward.model.decision import Decision
from steward.model.finding import Finding
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.treatment import Treatment
from steward.model.view import ClusterView

__all__ = ["Treat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Treat:
    """Decides once for each finding whose rule names an action.

    An action that does not fit what was found, as to preempt a job that has ended, becomes advice.
    What may be lent is left to `lend-idle`, which sees the same finding. A node is drained only
    when its finding has lasted for `drain_after_s`: seconds of trouble are no reason to lose a
    node.
    """

    drain_after_s: float = 120.0
    name: str = "treat"

    def decide(self, view: ClusterView) -> tuple[Decision, ...]:
        """Return what the rules behind the findings of this moment ask for."""
        return tuple(self._decisions(view))

    def _decisions(self, view: ClusterView) -> Iterator[Decision]:
        for finding in view.findings:
            treatment = finding.treatment
            if treatment is not None and treatment.action != "lend":
                yield self._decision(finding, treatment, view)

    def _decision(self, finding: Finding, treatment: Treatment, view: ClusterView) -> Decision:
        action = self._action(finding, treatment, view)
        return Decision(
            id=DecisionId(stable_id("d", self.name, finding.id, action.type)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=f"{finding.title}, says rule {finding.rule}",
            findings=(finding.id,),
            check_after_s=treatment.check_after_s,
            tenant=finding.tenant or TenantId(""),
            subject=finding.subject,
            treatment=treatment,
            trusted=finding.is_trusted,
        )

    def _action(self, finding: Finding, treatment: Treatment, view: ClusterView) -> Action:
        young = view.t_s - finding.since_s < self.drain_after_s
        if treatment.action == "drain" and young:
            return Tell.for_finding(finding, view)
        found = ACTIONS[treatment.action].for_finding(finding, view)
        return found if found is not None else Tell.for_finding(finding, view)
