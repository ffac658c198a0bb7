"""Does what rules say about what they found, or says it to those concerned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steward.model.actions import Action, CallBack, Drain, Preempt, Start, Tell
from steward.model.decision import Decision, Expectation
from steward.model.finding import Finding
from steward.model.frame import steps_of
from steward.model.identity import DecisionId, TenantId, stable_id
from steward.model.job import JobState
from steward.model.treatment import Treatment
from steward.model.view import ClusterView

__all__ = ["Treat"]

OPERATORS = "operators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Treat:
    """Decides once for each finding whose rule names an action.

    An action that does not fit what was found, as to preempt a job that has ended, becomes advice.
    What may be lent is left to `lend-idle`, which sees the same finding.
    """

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
        action = _action(finding, treatment, view) or _tell(finding, treatment, view)
        return Decision(
            id=DecisionId(stable_id("d", self.name, finding.id)),
            t_s=view.t_s,
            policy=self.name,
            action=action,
            because=f"{finding.title}, says rule {finding.rule}",
            findings=(finding.id,),
            forecasts=(),
            expects=Expectation(low=0.0, mid=0.0, high=0.0),
            check_after_s=treatment.check_after_s,
            undo=_undo(action, treatment),
            tenant=finding.tenant or TenantId(""),
            subject=finding.subject,
            treatment=treatment,
            trusted=finding.is_trusted,
        )


def _action(finding: Finding, treatment: Treatment, view: ClusterView) -> Action | None:
    """Return what the rule asks for, or None where that cannot be done to this."""
    match treatment.action:
        case "drain":
            return _drain(finding, view)
        case "preempt":
            return _preempt(finding, view)
        case "call-back":
            return _call_back(finding, view)
        case _:  # to tell; and to start, for which a finding does not say where
            return None


def _drain(finding: Finding, view: ClusterView) -> Drain | None:
    name = steps_of(finding.subject)[0]
    node = next((each for each in view.cluster.nodes if each.id == name), None)
    if node is None:
        return None
    return Drain(node=node.id, gpus=tuple(gpu.id for gpu in node.gpus))


def _preempt(finding: Finding, view: ClusterView) -> Preempt | None:
    job = view.details.get(finding.job) if finding.job is not None else None
    if job is None or job.state is not JobState.RUNNING or not job.checkpointing.able:
        return None
    return Preempt(job=job.id, gpus=job.gpus)


def _call_back(finding: Finding, view: ClusterView) -> CallBack | None:
    for loan in view.loans:
        if finding.job in (loan.owner, loan.borrower) or {*loan.gpus} & {*finding.gpus}:
            return CallBack(loan=loan.id, gpus=loan.gpus, owner=loan.owner, borrower=loan.borrower)
    return None


def _tell(finding: Finding, treatment: Treatment, view: ClusterView) -> Tell:
    job = view.details.get(finding.job) if finding.job is not None else None
    return Tell(
        to=(job.user or job.tenant) if job is not None else OPERATORS,
        about=finding.subject,
        text=treatment.advice,
        job=finding.job,
    )


def _undo(action: Action, treatment: Treatment) -> Action | None:
    if isinstance(action, Preempt) and treatment.undo == "start":
        return Start(job=action.job, gpus=action.gpus)
    return None
