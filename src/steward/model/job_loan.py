"""A loan that the local engine carries out: who lent what to whom, how, and how it went back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job_cost import LoanSpan
from steward.model.managed_job import ManagedJob
from steward.model.view import Loan
from steward.model.yielding import Measured, Yielding, promise_s, quantile

__all__ = ["JobLoan", "LoanNote", "LoanPhase", "LoanWay", "yielding_of"]

LoanWay = Literal["beside", "shared", "suspended", "saved"]
LoanPhase = Literal["clearing", "starting", "lent", "returning", "restoring", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanNote:
    """One line of what happened to a loan."""

    t_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoan:
    """GPUs that a borrower has of an owner; `id` is the decision that lent.

    Phases: `clearing` while the owner is suspended or saves; `starting` until the borrower runs;
    `lent`; `returning` while the borrower saves and stops; `restoring` while the owner comes back.
    """

    id: DecisionId
    owner: JobId
    borrower: JobId
    gpus: tuple[GpuId, ...]
    way: LoanWay
    phase: LoanPhase
    asked_s: float
    promised_s: float
    may_end: bool  # the borrower's user allows that it is ended
    until_s: float | None = None  # when the owner wants it back at the latest
    since_s: float | None = None  # since when the borrower has run on them
    called_s: float | None = None
    free_s: float | None = None  # when the borrower's processes were gone
    over_s: float | None = None
    failed: str = ""  # why it never began
    wanted: str = ""  # why it has to end; empty: it has not
    call_back: DecisionId | None = None
    asked_times: int = 0  # how often the borrower was asked to save
    pid: int = 0  # of the owner's suspended process
    size_bytes: int = 0  # that it had on its GPU
    cpu_s: float | None = None  # of the owner when it was suspended
    waits_in: str = ""  # what the owner's first thread waited in then
    notes: tuple[LoanNote, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.phase == "over"

    @property
    def took_s(self) -> float | None:
        """Seconds from the call-back until the GPUs were free; None until then."""
        if self.called_s is None or self.free_s is None:
            return None
        return max(self.free_s - self.called_s, 0.0)

    def noted(self, t_s: float, text: str, **changes: object) -> JobLoan:
        """Return the loan changed, with one more line."""
        made: JobLoan = replace(self, **changes)  # type: ignore[arg-type]
        return replace(made, notes=(*self.notes, LoanNote(t_s=t_s, text=text)))

    @property
    def seen(self) -> Loan | None:
        """What policies see: from when the borrower runs until its processes are gone."""
        if self.since_s is None or self.phase in ("restoring", "over"):
            return None
        return Loan(
            id=self.id,
            owner=self.owner,
            borrower=self.borrower,
            gpus=self.gpus,
            since_s=self.since_s,
            until_s=self.until_s,
            wanted=self.wanted,
            shared=self.way == "shared",
        )

    @property
    def span(self) -> LoanSpan | None:
        """What it costs the one and saves the other; None where the borrower never ran."""
        if self.since_s is None:
            return None
        return LoanSpan(
            owner=self.owner,
            borrower=self.borrower,
            gpus=len(self.gpus),
            since_s=self.since_s,
            until_s=self.free_s if self.free_s is not None else self.over_s,
        )


def yielding_of(
    job: ManagedJob, measured: Sequence[Measured], *, step_s: float = 0.0, grace_s: float = 0.0
) -> Yielding:
    """Return what can be promised about a job that borrows."""
    times = [each.seconds for each in measured if each.kind == "call-back"]
    able, endable = job.checkpointing.able, job.spec.requeue
    saves = job.checkpoints
    size = max((each.size_bytes for each in saves), default=0) or job.spec.shape.gpu_memory_bytes
    save_s = max((job.checkpointing.save_s, *(each.seconds for each in saves)))
    promised = promise_s(
        times, size_bytes=size, save_s=save_s, step_s=step_s, end_s=grace_s if endable else 0.0
    )
    verified = [each.t_s for each in saves if each.verified]
    return Yielding(
        promised_s=ceil(10 * promised) / 10 if able or endable else None,
        p50_s=quantile(times, 0.5) if times else None,
        p95_s=quantile(times, 0.95) if times else None,
        measured=len(times),
        endable=endable,
        stoppable=able,
        saved_s=max(verified, default=None),
    )
