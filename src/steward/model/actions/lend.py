"""Lend idle GPUs to a waiting job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from steward.model.actions.checks import Budget, gpu_claims, job_claim, not_queued, plural
from steward.model.cluster import Health
from steward.model.finding import Finding
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job import JobState
from steward.model.view import HEALTH_CODES, ClusterView
from steward.model.yardstick import PUT_TO_WORK

if TYPE_CHECKING:
    from steward.model.actions.call_back import CallBack

__all__ = ["Lend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lend:
    """Run `borrower` on GPUs that `owner` holds but does not use, until `owner` needs them.

    `way` is what becomes of the owner meanwhile: it idles `beside`, works on in its `shared` GPUs,
    is `suspended` by the driver, or is `saved` and stopped.
    """

    gpus: tuple[GpuId, ...]
    owner: JobId
    borrower: JobId
    way: Literal["beside", "shared", "suspended", "saved"] = "beside"
    for_s: float | None = None  # given back after so long at the latest
    type: Literal["lend"] = "lend"

    budget: ClassVar = Budget.DISTURB
    yardstick: ClassVar = PUT_TO_WORK
    returns: ClassVar = False
    lasts: ClassVar = True  # until the loan has ended

    @property
    def acts_on(self) -> JobId:
        """The job that starts by it."""
        return self.borrower

    @property
    def affects(self) -> JobId:
        """The job that is left alone for a while when the loan is over or was refused."""
        return self.owner

    @property
    def claims(self) -> frozenset[str]:
        """What no other open decision may be about."""
        return gpu_claims(self.gpus) | {job_claim(self.borrower)}

    @property
    def sentence(self) -> str:
        """Describe it for people."""
        gpus = plural(len(self.gpus), "GPU")
        return f"Lend {gpus} of job {self.owner} to job {self.borrower}"

    def undo(self, decision: DecisionId) -> CallBack:
        """Return the call-back of this loan."""
        from steward.model.actions.call_back import CallBack  # noqa: PLC0415 - they name each other

        return CallBack(loan=decision, gpus=self.gpus, owner=self.owner, borrower=self.borrower)

    def unmet(self, view: ClusterView) -> str:
        """Return why it cannot be done now, or an empty text."""
        if reason := not_queued(self.borrower, view):
            return reason
        if any(gpu not in view.gpu_row for gpu in self.gpus):
            return "one of the GPUs is not in the cluster any more"
        borrower, rows = view.details[self.borrower], [view.gpu_row[gpu] for gpu in self.gpus]
        owners = {view.job_id(int(row)) if row >= 0 else None for row in view.gpus.owner[rows]}
        if owners != {self.owner}:
            return f"{self.owner} does not hold these GPUs any more"
        if not borrower.may_borrow_from(view.details[self.owner].user):
            return f"{self.borrower} may not run on GPUs of {self.owner}: that is another user's"
        if len(rows) != borrower.shape.gpus:
            return f"{self.borrower} asks for {borrower.shape.gpus} GPUs now"
        return self._misfit(view, rows, need_bytes=borrower.shape.gpu_memory_bytes)

    def _misfit(self, view: ClusterView, rows: list[int], *, need_bytes: int) -> str:
        gpus = view.gpus
        on_loan = {gpu for loan in view.loans for gpu in (*loan.gpus, loan.borrower)}
        if bool((gpus.users[rows] > 1).any()) or on_loan & {*self.gpus, self.borrower}:
            return "one of the GPUs is shared or lent already, or the borrower has borrowed"
        used = gpus.memory_used_bytes[rows] if self.way in ("beside", "shared") else 0.0
        if bool((gpus.memory_bytes[rows] - used < need_bytes).any()):
            return f"{self.borrower} does not fit beside {self.owner} any more"
        if bool((gpus.health[rows] != HEALTH_CODES[Health.GOOD]).any()):
            return "one of the GPUs is not healthy"
        if self.way == "shared" and bool(np.isnan(gpus.owner_busy_share[rows]).any()):
            return f"nobody can see how much {self.owner} uses them"
        if self.way != "shared" and bool(np.isnan(gpus.quiet_since_s[rows]).any()):
            return f"{self.owner} uses them again, or its use is unknown"
        return ""

    def may_be_done(self, view: ClusterView) -> bool:
        """Return whether the view looks as if it had been carried out already."""
        job = view.details.get(self.borrower)
        return job is not None and job.state is not JobState.QUEUED

    @classmethod
    def for_finding(cls, _: Finding, __: ClusterView) -> None:
        """Return None: `lend-idle` chooses the borrower."""
        return
