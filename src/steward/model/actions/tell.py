"""Tell somebody what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from steward.model.actions.checks import Budget
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.view import ClusterView
from steward.model.yardstick import EFFECT

__all__ = ["OPERATORS", "Tell"]

OPERATORS = "operators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Send advice to the owner of a job, or to the operators. It changes nothing."""

    to: str  # a user, a tenant, or `operators`
    about: str  # the entity
    text: str
    job: JobId | None = None
    type: Literal["tell"] = "tell"

    budget: ClassVar = Budget.NONE
    yardstick: ClassVar = EFFECT
    returns: ClassVar = False
    lasts: ClassVar = False
    gpus: ClassVar[tuple[GpuId, ...]] = ()

    @property
    def acts_on(self) -> None:
        """No job starts or stops by it."""
        return

    @property
    def affects(self) -> JobId | None:
        """The job whose owner gets the advice: not again for a while when a person refuses."""
        return self.job

    @property
    def claims(self) -> frozenset[str]:
        """It claims nothing: advice does not exclude anything."""
        return frozenset()

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        return f"Tell {self.to} about {self.about}: {self.text}"

    def undo(self, _: DecisionId) -> None:
        """Return None: advice cannot be taken back."""
        return

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        job = view.details.get(self.job) if self.job is not None else None
        over = self.job is not None and (job is None or job.state.ended)
        return f"{self.job} has ended" if over else ""

    def may_be_done(self, _: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        return False

    @classmethod
    def for_finding(cls, finding: Finding, view: ClusterView) -> Tell:
        """Return the advice of the rule behind a finding, to whom it concerns."""
        job = view.details.get(finding.job) if finding.job is not None else None
        advice = finding.treatment.advice if finding.treatment is not None else finding.title
        to = (job.user or job.tenant) if job is not None else OPERATORS
        return cls(to=to, about=finding.subject, text=advice, job=finding.job)
