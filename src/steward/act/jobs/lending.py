"""Lends GPUs of a running job to a waiting one and calls them back, step by step.

A loan is in the store before anything is done about it, and every step can be repeated: a steward
that was killed goes on with `advance` where it was. `returning.py` has the way back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from steward.act.jobs.returning import Returning
from steward.act.jobs.suspender import NoSuspender, Suspender
from steward.errors import PermanentError, StewardError
from steward.model.actions import CallBack, Lend
from steward.model.identity import DecisionId, GpuId, JobId
from steward.model.job_loan import JobLoan, yielding_of
from steward.model.managed_job import Attempt, LifeState, ManagedJob
from steward.model.yielding import Measured

if TYPE_CHECKING:
    from steward.act.jobs.controller import JobController

__all__ = ["Lending", "attempt_of"]

log = logging.getLogger(__name__)


class Lending:
    """All loans of one controller. Calls may come from any thread; `advance` has its lock."""

    def __init__(self, controller: JobController, lock: threading.RLock) -> None:
        self.controller = controller
        self.suspender: Suspender = NoSuspender()
        self.is_lost: Callable[[GpuId], bool] = lambda _: False
        self.faults: dict[DecisionId, StewardError] = {}
        self._lock = lock
        self._returning = Returning(self)

    # -- asked for -------------------------------------------------------------------------------

    def lend(self, action: Lend, *, decision: DecisionId, t_s: float) -> JobLoan:
        """Begin a loan. The same decision a second time returns what it began."""
        loans = self.controller.store.loans
        with self._lock:
            if (found := loans.find(decision)) is not None:
                return found
            owner, borrower = self._job(action.owner), self._job(action.borrower)
            self._check(action, owner, borrower)
            promised_s = self.promised_s(borrower)
            if promised_s is None:
                raise PermanentError(
                    "it can neither save its work nor be ended",
                    where=f"job {borrower.id}",
                    hint="docs/jobs/lending.md: three lines, or submit it with --requeue",
                )
            until_s = None if action.for_s is None else t_s + action.for_s
            loan = JobLoan(
                id=decision,
                owner=owner.id,
                borrower=borrower.id,
                gpus=action.gpus,
                way=action.way,
                phase="starting" if action.way in ("beside", "shared") else "clearing",
                asked_s=t_s,
                promised_s=promised_s,
                may_end=borrower.spec.requeue,
                until_s=until_s,
            )
            where, how = ", ".join(action.gpus), _HOW[action.way]
            text = f"{where} of job {owner.id} to job {borrower.id}, {how}"
            loan = loans.put(loan.noted(t_s, f"lends {text}; given back within {promised_s:.1f} s"))
            self._try(loan, t_s)  # it is in the store: what fails now is tried again
            return loans.find(loan.id) or loan

    def call_back(self, action: CallBack, *, decision: DecisionId, t_s: float, why: str) -> JobLoan:
        """End a loan: its borrower saves and stops, its owner comes back."""
        with self._lock:
            loan = self.controller.store.loans.find(action.loan)
            if loan is None:
                raise PermanentError("there is no such loan", where=action.loan)
            if loan.is_over or loan.called_s is not None:
                return loan
            loan = loan.noted(t_s, f"called back: {why}", called_s=t_s, call_back=decision)
            return self._step(self.controller.store.loans.put(loan), t_s)

    def want(self, job: JobId, *, t_s: float, why: str) -> JobLoan:
        """Note that an owner wants its GPUs back; `give-back` then calls them back."""
        with self._lock:
            for loan in self.controller.store.loans.open():
                if loan.owner == job:
                    made = self.controller.store.loans.put(loan.noted(t_s, why, wanted=why))
                    self.controller.changed()
                    return made
        raise StewardError("it has lent nothing", where=f"job {job}")

    def promised_s(self, borrower: ManagedJob) -> float | None:
        """Return within how long a job gives GPUs back, by its own saves and call-backs."""
        engine = self.controller.engine
        known = self.controller.store.loans.measured(borrower.id, "call-back")
        step_s = engine.step_s(borrower.id)
        return yielding_of(borrower, known, step_s=step_s, grace_s=engine.grace_s).promised_s

    def _job(self, id_: JobId) -> ManagedJob:
        found = self.controller.store.find(id_)
        if found is None:
            raise PermanentError("it is not run by this steward", where=f"job {id_}")
        return found

    def _check(self, action: Lend, owner: ManagedJob, borrower: ManagedJob) -> None:
        open_ = self.controller.store.loans.open()
        sides = {id_ for each in open_ for id_ in (each.owner, each.borrower)}
        if taken := sides & {owner.id, borrower.id}:
            raise PermanentError("it has a part in another loan", where=f"job {taken.pop()}")
        if not owner.state.runs or owner.state is LifeState.SAVING:
            problem = f"it is {owner.state.value}, not running"
            raise PermanentError(problem, where=f"job {owner.id}")
        if owner.attempt is not None and owner.attempt.stop:
            raise PermanentError("it is being stopped", where=f"job {owner.id}")
        if borrower.state not in (LifeState.WAITING, LifeState.PREEMPTED):
            raise PermanentError(f"it is {borrower.state.value}", where=f"job {borrower.id}")
        if len(action.gpus) != borrower.spec.shape.gpus:
            problem = f"it asks for {borrower.spec.shape.gpus} GPUs, not {len(action.gpus)}"
            raise PermanentError(problem, where=f"job {borrower.id}")
        if not {*action.gpus} <= {*owner.gpus}:
            raise PermanentError("it does not hold these GPUs", where=f"job {owner.id}")
        if reason := self._cannot_clear(action, owner):
            raise PermanentError(f"it cannot be {action.way}: {reason}", where=f"job {owner.id}")

    def _cannot_clear(self, action: Lend, owner: ManagedJob) -> str:
        if action.way in ("beside", "shared"):
            return ""
        if {*action.gpus} != {*owner.gpus}:
            return "some of its GPUs would stay with it"
        if action.way == "suspended":
            return self.suspender.refusal(owner)
        able = self.controller.engine.checkpointing(owner.id).able
        return "" if able else "it cannot save its work"

    # -- one pass --------------------------------------------------------------------------------

    def advance(self, t_s: float) -> None:
        """Move every open loan on, if it can be."""
        faults: dict[DecisionId, StewardError] = {}
        for loan in self.controller.store.loans.open():
            fault = self._try(loan, t_s)
            if fault is not None:
                faults[loan.id] = fault  # it is tried again in the next pass
        self.faults = faults

    def _try(self, loan: JobLoan, t_s: float) -> StewardError | None:
        """Move a loan on; return what went wrong: one loan must never stop the others."""
        try:
            self._step(loan, t_s)
        except StewardError as fault:
            return fault
        except Exception as fault:
            log.exception("loan %s could not be moved on; it is tried again", loan.id)
            return StewardError(f"an error in steward itself: {fault!r}", where=loan.id)
        return None

    def check_not_suspending(self, job: JobId) -> None:
        """Raise where a job is just being suspended: a process that stands still cannot save."""
        for loan in self.controller.store.loans.open():
            if (loan.owner, loan.way, loan.phase) == (job, "suspended", "clearing"):
                problem, hint = "it is being suspended to lend its GPU", "try again in a minute"
                raise PermanentError(problem, where=f"job {job}", hint=hint)

    def _step(self, loan: JobLoan, t_s: float) -> JobLoan:
        match loan.phase:
            case "clearing":
                return self._clear(loan, t_s)
            case "starting":
                return self._start(loan, t_s)
            case "lent":
                return self._returning.watch(loan, t_s)
            case "returning":
                return self._returning.follow(loan, t_s)
            case "restoring":
                return self._returning.restore(loan, t_s)
        return loan

    def put(self, loan: JobLoan) -> JobLoan:
        """Write a loan, and let policies look anew."""
        self.controller.store.loans.put(loan)
        self.controller.changed()
        return loan

    # -- clearing --------------------------------------------------------------------------------

    def _clear(self, loan: JobLoan, t_s: float) -> JobLoan:
        owner = self.controller.store.job(loan.owner)
        if owner.state.ended:
            return self._fail(loan, t_s, "its owner ended before it was lent")
        if loan.way == "suspended":
            return self._suspend(loan, owner, t_s)
        return self._stop_owner(loan, owner, t_s)

    def _suspend(self, loan: JobLoan, owner: ManagedJob, t_s: float) -> JobLoan:
        attempt = owner.attempt
        if attempt is None or attempt.ended_s is not None:
            return self._fail(loan, t_s, "its owner stopped before it was suspended")
        if self.suspender.going(owner.id) != "suspend":
            if not loan.pid:
                found = self.suspender.processes(owner.id, attempt)
                if len(found) != 1:
                    return self._fail(loan, t_s, f"{len(found)} processes are on its GPU")
                pid, size = next(iter(found.items()))
                text = f"process {pid} is being suspended"
                loan = self.put(loan.noted(t_s, text, pid=pid, size_bytes=size))
            try:
                self.suspender.begin("suspend", owner.id, attempt.number, loan.pid)
            except PermanentError as fault:  # as after a restart: another process is there now
                return self._fail(loan, t_s, f"its owner was not suspended: {fault.problem}")
        answer = self.suspender.poll("suspend", owner.id)
        if answer is None:
            return loan
        if not answer.ok:
            return self._undo_suspend(loan, owner, answer.why, t_s)
        self._measure(owner.id, "suspend", answer.seconds, loan, t_s)
        return self._suspended(loan, owner, attempt, t_s)

    def _suspended(self, loan: JobLoan, owner: ManagedJob, attempt: Attempt, t_s: float) -> JobLoan:
        if owner.state is not LifeState.SUSPENDED:
            why = f"its GPU is lent to job {loan.borrower}"
            moved = owner.moved(t_s, LifeState.SUSPENDED, why, decision=loan.id)
            self.controller.store.put(moved)
        cpu_s, waits_in = self.suspender.activity(owner.id, attempt.number, loan.pid)
        text = f"job {owner.id} is suspended"
        loan = self.put(loan.noted(t_s, text, phase="starting", cpu_s=cpu_s, waits_in=waits_in))
        return self._step(loan, t_s)

    def _undo_suspend(self, loan: JobLoan, owner: ManagedJob, why: str, t_s: float) -> JobLoan:
        """End a loan whose owner the driver refused to suspend, and make sure that it runs."""
        self._returning.unwind(loan, owner)
        return self._fail(loan, t_s, f"the driver did not suspend its owner: {why}")

    def _stop_owner(self, loan: JobLoan, owner: ManagedJob, t_s: float) -> JobLoan:
        asked = [each for each in owner.attempts if each.stop_decision == loan.id]
        if not asked:
            why = f"its GPUs are lent to job {loan.borrower}"
            self.controller.preempt(owner.id, decision=loan.id, t_s=t_s, why=why)
            return loan
        if asked[-1].ended_s is None:
            if asked[-1].stop:
                return loan  # it saves
            return self._fail(loan, t_s, f"its owner did not stop: {asked[-1].stop_why}")
        if owner.state is LifeState.PREEMPTED:
            why = f"its GPUs are lent to job {loan.borrower}"
            owner = owner.moved(t_s, LifeState.LENT, why, decision=loan.id)
            self.controller.store.put(owner)
        if owner.state is not LifeState.LENT:
            return self._fail(loan, t_s, f"its owner is {owner.state.value}")
        loan = self.put(loan.noted(t_s, f"job {owner.id} has saved and stopped", phase="starting"))
        return self._step(loan, t_s)

    # -- starting --------------------------------------------------------------------------------

    def _start(self, loan: JobLoan, t_s: float) -> JobLoan:
        borrower = self.controller.store.job(loan.borrower)
        attempt = attempt_of(borrower, loan.id)
        if attempt is None and loan.called_s is not None:
            return self._fail(loan, t_s, "it was called back before it began")
        if attempt is None:
            try:
                self.controller.start(
                    borrower.id, loan.gpus, decision=loan.id, t_s=t_s, lender=loan.owner
                )
            except PermanentError as fault:
                return self._fail(loan, t_s, f"its borrower was not started: {fault}")
            return loan
        ran = [x for x in borrower.events if x.decision == loan.id and x.state.runs]
        if not ran and attempt.ended_s is None:
            return loan
        if not ran:
            why = borrower.events[-1].why  # not the attempt's, which has what only its user may see
            return self._fail(loan, t_s, f"its borrower did not start: {why}")
        text = f"job {borrower.id} runs on them"
        loan = self.put(loan.noted(t_s, text, phase="lent", since_s=ran[0].t_s))
        return self._step(loan, t_s)

    # -- ends ------------------------------------------------------------------------------------

    def _fail(self, loan: JobLoan, t_s: float, why: str) -> JobLoan:
        """Give up a loan that never began; an owner that made room comes back first."""
        owner = self.controller.store.job(loan.owner)
        cleared = owner.state in (LifeState.SUSPENDED, LifeState.LENT)
        phase = "restoring" if cleared else "over"
        over_s = None if cleared else t_s
        loan = self.put(loan.noted(t_s, why, phase=phase, over_s=over_s, failed=why))
        return self._step(loan, t_s)

    def _measure(self, job: JobId, kind: str, seconds: float, loan: JobLoan, t_s: float) -> None:
        made = Measured(kind=kind, seconds=seconds, t_s=t_s, size_bytes=loan.size_bytes)
        self.controller.store.loans.measure(job, made)


_HOW = {
    "beside": "beside its owner",
    "shared": "beside its owner, which works on",
    "suspended": "whose owner is suspended",
    "saved": "whose owner saves and stops",
}


def attempt_of(job: ManagedJob, decision: DecisionId) -> Attempt | None:
    """Return the attempt that a decision began, if there is one."""
    return next((each for each in job.attempts if each.decision == decision), None)
