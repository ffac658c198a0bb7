"""Call lent GPUs back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget, gpu_claims, job_claim, plural
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.view import ClusterView
from steward.model.yardstick import RETURN_TIME

__all__ = ["CallBack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBack:
    """Save and stop the borrower of one loan, so that the owner has its GPUs alone again."""

    loan: DecisionId  # the decision that lent
    gpus: tuple[GpuId, ...]
    owner: JobId
    borrower: JobId
    type: Literal["call-back"] = "call-back"

    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = RETURN_TIME
    returns: ClassVar = True
    lasts: ClassVar = False

    @property
    def acts_on(self) -> JobId:
        """The job that stops by it."""
        return self.borrower

    @property
    def affects(self) -> JobId:
        """The job that gets its GPUs back."""
        return self.owner

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about."""
        return gpu_claims(self.gpus) | {job_claim(self.borrower)}

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(len(self.gpus), "GPU")
        return f"Give {gpus} back to job {self.owner} from job {self.borrower}"

    def undo(self, _: DecisionId) -> None:
        """Return None: it is itself a way back."""
        return

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        on_loan = any(loan.id == self.loan for loan in view.loans)
        return "" if on_loan else f"the loan {self.loan} has ended"

    def may_be_done(self, _: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return False

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> CallBack | None:
        """Return the call-back of the loan that a finding is about."""
        for loan in view.loans:
            if finding.job in (loan.owner, loan.borrower) or {*loan.gpus} & {*finding.gpus}:
                return cls(loan=loan.id, gpus=loan.gpus, owner=loan.owner, borrower=loan.borrower)
        return None
