"""Loans: what must hold for one to be made, and the exact account of what each was worth.

A loan gains what its borrower did while it could not have run elsewhere, less what the owner lost
by being slowed down, less what the borrower has to do again, less the time it will take to restore
when it was called back. From the first sample at which some node has had enough free GPUs for a
minute, the borrower could have run anyway: from then on a loan gains nothing, but it still costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from steward.errors import PermanentError
from steward.model.cluster import GIB
from steward.model.identity import DecisionId, GpuId, JobId
from steward.sim.cluster import BORROWER, NOBODY, OWNER, ClusterState
from steward.sim.meter import Sums, WorkMeter
from steward.sim.program import SimulatedJob, Use

__all__ = ["Ledger", "LoanAccount", "SimulatedLoan", "agreed_loan"]

Ints = NDArray[np.int64]


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedLoan:
    """An open loan, with what is known of its account so far, in busy GPU-seconds."""

    id: DecisionId
    owner: SimulatedJob
    borrower: SimulatedJob
    gpus: Ints
    owner_loss: float = 0.0
    weight: float = 0.0  # part of the owner's slowdown that is this loan's doing
    work_elsewhere: float | None = None  # what was done when it could first have run elsewhere

    @property
    def called_back(self) -> bool:
        """Whether the borrower is saving itself to leave."""
        overlay = self.borrower.overlay
        return overlay is not None and overlay.use is Use.SAVE


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanAccount:
    """What loans were worth, in GPU-seconds."""

    gross: float = 0.0
    owner_loss: float = 0.0
    redo: float = 0.0
    restore: float = 0.0

    @property
    def gained(self) -> float:
        return self.gross - self.owner_loss - self.redo - self.restore

    def __add__(self, other: LoanAccount) -> LoanAccount:
        return LoanAccount(
            gross=self.gross + other.gross,
            owner_loss=self.owner_loss + other.owner_loss,
            redo=self.redo + other.redo,
            restore=self.restore + other.restore,
        )


class Ledger:
    """All loans: open ones by decision, and what the closed ones were worth."""

    def __init__(self, meter: WorkMeter) -> None:
        self._meter = meter
        self.open: dict[DecisionId, SimulatedLoan] = {}
        self.gained: dict[DecisionId, float] = {}  # by closed loans
        self.closed = LoanAccount()
        # Busy seconds since the last sample, of jobs that shared a GPU and are gone from it.
        self.lately: dict[tuple[int, JobId], float] = {}

    @property
    def made(self) -> int:
        """Return the number of loans ever made."""
        return len(self.open) + len(self.gained)

    def begin(self, loan: SimulatedLoan) -> None:
        """Open an account. The owner is settled, and its loss is split."""
        self.open[loan.id] = loan
        loan.owner.loans.append(loan)

    def split_loss(self, owner: SimulatedJob) -> None:
        """Put what a settled owner has lost down to its loans, by their present weights."""
        loss = self._meter.loss(owner) - owner.split_loss
        owner.split_loss += loss
        for loan in owner.loans:
            loan.owner_loss += loss * loan.weight

    def look_elsewhere(self, fits: Callable[[int, int], bool], t_s: float) -> None:
        """Note which borrowers could run elsewhere now."""
        has_room = cache(fits)
        for loan in self.open.values():
            need = (loan.borrower.job.shape.gpus, loan.borrower.mask)
            if loan.work_elsewhere is None and has_room(*need):
                self._meter.settle(loan.borrower, t_s)
                loan.work_elsewhere = self._meter.work(loan.borrower)

    def close(self, loan: SimulatedLoan, *, redo: float = 0.0, restore: float = 0.0) -> None:
        """End a loan. Both sides are settled, and the owner's loss is split."""
        account = _account(loan, self._meter.work(loan.borrower)) + LoanAccount(
            redo=redo, restore=restore
        )
        self.closed += account
        self.gained[loan.id] = account.gained
        del self.open[loan.id]
        loan.owner.loans.remove(loan)
        for row in loan.gpus.tolist():
            for life in (loan.owner, loan.borrower):
                self.lately.setdefault((row, life.id), 0.0)

    def remember(self, life: SimulatedJob) -> None:
        """Keep what a leaving job did in this period on GPUs that it shared."""
        for row in life.gpus.tolist():
            if (row, life.id) in self.lately:
                self.lately[row, life.id] += float(self._meter.period[life.seat, row, 0])

    def accounts(self, sums: Sums) -> dict[DecisionId, LoanAccount]:
        """Return the accounts of the open loans at the time of some sums."""
        return {loan.id: self._so_far(loan, sums) for loan in self.open.values()}

    @staticmethod
    def _so_far(loan: SimulatedLoan, sums: Sums) -> LoanAccount:
        unsplit = float(sums.loss[loan.owner.slot]) - loan.owner.split_loss
        account = _account(loan, float(sums.work[loan.borrower.slot]))
        return account + LoanAccount(owner_loss=unsplit * loan.weight)


def _account(loan: SimulatedLoan, work: float) -> LoanAccount:
    gross = work if loan.work_elsewhere is None else loan.work_elsewhere
    return LoanAccount(gross=gross, owner_loss=loan.owner_loss)


def agreed_loan(
    id_: DecisionId,
    cluster: ClusterState,
    gpus: Sequence[GpuId],
    *,
    owner: SimulatedJob | None,
    borrower: SimulatedJob | None,
) -> SimulatedLoan:
    """Return a loan that can be made, else say all that speaks against it."""
    rows = np.array([cluster.row.get(gpu, NOBODY) for gpu in gpus], dtype=np.int64)
    faults = [f"there is no {gpu}" for gpu in gpus if gpu not in cluster.row]
    if owner is None or not owner.running:
        faults.append("the owner does not run")
    if borrower is None or borrower.running:
        faults.append("the borrower does not wait")
    if not faults and owner is not None and borrower is not None:
        faults += _unlendable(cluster, rows, owner)
        faults += _misfits(cluster, rows, owner=owner, borrower=borrower)
    if faults or owner is None or borrower is None:
        raise PermanentError(
            f"{', '.join(gpus) or 'nothing'} can't be lent: {'; '.join(faults)}",
            where=f"decision {id_}",
            hint="the cluster has changed since this was decided; decide anew",
        )
    return SimulatedLoan(id=id_, owner=owner, borrower=borrower, gpus=rows)


def _unlendable(cluster: ClusterState, rows: Ints, owner: SimulatedJob) -> list[str]:
    faults = []
    for row in rows.tolist():
        if cluster.seats[OWNER, row] != owner.slot:
            faults.append(f"{cluster.ids[row]} is not held by job {owner.id}")
        elif cluster.seats[BORROWER, row] != NOBODY:
            faults.append(f"{cluster.ids[row]} is lent already")
    return faults


def _misfits(
    cluster: ClusterState, rows: Ints, *, owner: SimulatedJob, borrower: SimulatedJob
) -> list[str]:
    shape = borrower.job.shape
    faults = []
    got = len({*rows.tolist()})
    if got != shape.gpus or got != len(rows):
        faults.append(f"job {borrower.id} needs {shape.gpus} GPUs and would get {got}")
    if any(not borrower.mask >> int(model) & 1 for model in cluster.model[rows]):
        faults.append(f"job {borrower.id} can't run on this model of GPU")
    need_bytes = owner.peak_bytes + shape.gpu_memory_bytes
    if bool((cluster.memory_bytes[rows] < need_bytes).any()):
        faults.append(
            f"the two jobs need {need_bytes / GIB:.0f} GiB of the "
            f"{float(cluster.memory_bytes[rows].min()) / GIB:.0f} GiB of a GPU"
        )
    return faults
