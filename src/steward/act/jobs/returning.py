"""The way back of a loan: the borrower stops, and the owner gets its GPUs.

The borrower saves, or is ended where that was allowed. The owner loses nothing: at worst it waits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from steward.errors import PermanentError
from steward.model.identity import DecisionId
from steward.model.job_loan import JobLoan
from steward.model.managed_job import Attempt, LifeState, ManagedJob
from steward.model.yielding import Measured

if TYPE_CHECKING:
    from steward.act.jobs.lending import Lending

__all__ = ["Returning"]

WATCH_EVERY_S = 1.0
RETRY_S = 5.0
LONGEST_RETRY_S = 600.0  # each request to save is two lines of the job's life
WAKE_CPU_S = 0.3  # processor time by which a suspended owner shows that it goes on
WAKE_CORES = 0.02  # and what one that only polls may use all the time
WAKE_LOOKS = 3  # in a row that find its first thread waiting in something else
LAST_PART = 0.5  # of the promise that is kept for ending a borrower, at most


class Returning:
    """Watches loans for reasons to end, and ends them."""

    def __init__(self, lending: Lending) -> None:
        self._lending = lending
        self._watched_s: dict[DecisionId, float] = {}
        self._elsewhere: dict[DecisionId, int] = {}  # looks in a row
        self._tried_s: dict[tuple[DecisionId, str], float] = {}

    # -- while it is lent ------------------------------------------------------------------------

    def watch(self, loan: JobLoan, t_s: float) -> JobLoan:
        """Look for an end of either side, a lost GPU, and reasons to call back."""
        store = self._lending.controller.store
        owner, borrower = store.job(loan.owner), store.job(loan.borrower)
        attempt = _attempt(borrower, loan)
        if attempt.ended_s is not None:
            text = f"job {borrower.id} is {borrower.state.value}"
            return self._free(loan, attempt, text, t_s)
        if not owner.state.holds_gpus:
            text = f"job {owner.id} is {owner.state.value}; job {borrower.id} holds them now"
            return self._over(loan, text, t_s)
        if loan.called_s is not None:
            return self._ask(loan, borrower, t_s)
        last_s = self._watched_s.get(loan.id)
        if last_s is not None and 0.0 <= t_s - last_s < WATCH_EVERY_S:
            return loan
        self._watched_s[loan.id] = t_s
        if any(self._lending.is_lost(gpu) for gpu in loan.gpus):
            return self._lose(loan, owner, borrower, t_s)
        why = "" if loan.wanted else self._why_wanted(loan, owner, t_s)
        return self._lending.put(loan.noted(t_s, why, wanted=why)) if why else loan

    def _why_wanted(self, loan: JobLoan, owner: ManagedJob, t_s: float) -> str:
        if loan.until_s is not None and t_s >= loan.until_s:
            return "the time that it was lent for is over"
        if owner.state is LifeState.SUSPENDED and self._woke(loan, owner, t_s):
            return f"job {owner.id} woke up and waits for its GPU"
        return ""

    def _woke(self, loan: JobLoan, owner: ManagedJob, t_s: float) -> bool:
        """Return whether a suspended owner goes on: by its processor time, or where it waits."""
        if owner.attempt is None or loan.cpu_s is None:
            return False
        number = owner.attempt.number
        cpu_s, where = self._lending.suspender.activity(owner.id, number, loan.pid)
        elapsed_s = max(t_s - (loan.since_s or t_s), 0.0)
        known = loan.waits_in not in ("", "running")  # one look may find it between two waits
        elsewhere = known and where not in ("", "running", loan.waits_in)
        looks = self._elsewhere.get(loan.id, 0) + 1 if elsewhere else 0
        self._elsewhere[loan.id] = looks
        return cpu_s - loan.cpu_s > WAKE_CPU_S + WAKE_CORES * elapsed_s or looks >= WAKE_LOOKS

    # -- the borrower ----------------------------------------------------------------------------

    def _ask(self, loan: JobLoan, borrower: ManagedJob, t_s: float) -> JobLoan:
        """Ask the borrower to save and stop; one that cannot is ended, if that was allowed."""
        jobs = self._lending.controller
        times = loan.asked_times + 1
        request = DecisionId(f"{loan.call_back or loan.id}.{times}")
        why = f"job {loan.owner} gets its GPUs back"
        loan = self._lending.put(replace(loan, phase="returning", asked_times=times))
        if borrower.attempt is not None and borrower.attempt.stop == "cancel":
            return loan
        try:
            jobs.preempt(borrower.id, decision=request, t_s=t_s, why=why)
        except PermanentError as fault:
            if not loan.may_end:
                text = f"job {borrower.id} cannot be stopped: {fault.problem}"
                if loan.notes[-1].text != text:
                    loan = self._lending.put(loan.noted(t_s, text))
                return loan
            self._end_borrower(loan, borrower, why, t_s)
        return loan

    def follow(self, loan: JobLoan, t_s: float) -> JobLoan:
        """Wait for the borrower's end; after its part of the promise it is ended, if allowed."""
        borrower = self._lending.controller.store.job(loan.borrower)
        attempt = _attempt(borrower, loan)
        if attempt.ended_s is not None:
            return self._free(loan, attempt, f"job {borrower.id} has stopped", t_s)
        if attempt.stop == "cancel" or (attempt.stop and attempt.stop_decision == _ending(loan)):
            return loan  # TERM and KILL are on their way
        called_s = loan.called_s if loan.called_s is not None else t_s
        if loan.may_end and t_s - called_s >= self._save_within_s(loan):
            why = f"it did not save within {t_s - called_s:.1f} s of being called back"
            self._end_borrower(loan, borrower, why, t_s)
            return self._lending.put(loan.noted(t_s, f"job {borrower.id} is ended: {why}"))
        asked = bool(attempt.stop) or not borrower.state.runs
        every_s = min(RETRY_S * 2**loan.asked_times, LONGEST_RETRY_S)
        if asked or not self._may_retry(loan, t_s, "ask", every_s):
            return loan
        return self._ask(loan, borrower, t_s)

    def _save_within_s(self, loan: JobLoan) -> float:
        """Return how much of the promise a borrower has before it is ended."""
        grace_s = self._lending.controller.engine.grace_s + 1.0
        return max(loan.promised_s - grace_s, LAST_PART * loan.promised_s)

    def _end_borrower(self, loan: JobLoan, borrower: ManagedJob, why: str, t_s: float) -> None:
        jobs = self._lending.controller
        if borrower.state is LifeState.SAVING:  # it is not saving any more: TERM, then KILL
            jobs.store.put(borrower.moved(t_s, LifeState.RUNNING, why))
        jobs.preempt(borrower.id, decision=_ending(loan), t_s=t_s, why=why, force=True)

    def _free(self, loan: JobLoan, attempt: Attempt, text: str, t_s: float) -> JobLoan:
        """Note when the GPUs were free, and begin to restore the owner."""
        free_s = t_s if attempt.ended_s is None else min(attempt.ended_s, t_s)
        called_s = loan.called_s
        if called_s is not None:
            free_s = max(free_s, called_s)
            took_s = free_s - called_s
            text = f"{text}; free after {took_s:.1f} s, promised were {loan.promised_s:.1f} s"
            known = Measured(kind="call-back", seconds=took_s, t_s=t_s, promised_s=loan.promised_s)
            self._lending.controller.store.loans.measure(loan.borrower, known)
        loan = self._lending.put(loan.noted(t_s, text, phase="restoring", free_s=free_s))
        return self.restore(loan, t_s)

    # -- the owner -------------------------------------------------------------------------------

    def restore(self, loan: JobLoan, t_s: float) -> JobLoan:
        """Bring the owner back to where it was."""
        owner = self._lending.controller.store.job(loan.owner)
        if owner.state is LifeState.SUSPENDED:
            return self._resume(loan, owner, t_s)
        if owner.state is LifeState.LENT:
            back = DecisionId(f"{loan.id}.back")
            try:
                self._lending.controller.start(
                    owner.id, loan.gpus, decision=back, t_s=t_s, lender=loan.borrower
                )
            except PermanentError as fault:
                why = f"it cannot have its GPUs back: {fault.problem}; it goes on from its save"
                self._lending.controller.store.put(owner.moved(t_s, LifeState.PREEMPTED, why))
                return self._over(loan, f"job {owner.id}: {why}", t_s)
            return loan
        if owner.state is LifeState.STARTING and loan.way == "saved":
            return loan
        return self._over(loan, f"job {owner.id} is {owner.state.value}", t_s)

    def _resume(self, loan: JobLoan, owner: ManagedJob, t_s: float) -> JobLoan:
        suspender, attempt = self._lending.suspender, owner.attempt
        if attempt is None or attempt.stop:
            return loan  # it is being ended
        if suspender.going(owner.id) != "resume":
            if not self._may_retry(loan, t_s, "resume"):
                return loan
            try:
                suspender.begin("resume", owner.id, attempt.number, loan.pid)
            except PermanentError:
                why = "its suspended process is gone; what is left of it goes on"
                moved = owner.moved(t_s, LifeState.RESUMED, why, decision=loan.call_back)
                self._lending.controller.store.put(moved)
                return self._over(loan, f"job {owner.id}: {why}", t_s)
        answer = suspender.poll("resume", owner.id)
        if answer is None:
            return loan
        if not answer.ok:
            return self._not_resumed(loan, owner, answer.why, t_s)
        known = Measured(kind="resume", seconds=answer.seconds, t_s=t_s, size_bytes=loan.size_bytes)
        self._lending.controller.store.loans.measure(owner.id, known)
        why = f"it has its GPU back from job {loan.borrower}"
        moved = owner.moved(t_s, LifeState.RESUMED, why, decision=loan.call_back)
        self._lending.controller.store.put(moved)
        return self._over(loan, f"job {owner.id} goes on after {answer.seconds:.1f} s", t_s)

    def _not_resumed(self, loan: JobLoan, owner: ManagedJob, why: str, t_s: float) -> JobLoan:
        """Try again, unless the driver has given the process up: then it goes on from its save."""
        text = f"job {owner.id} could not be resumed: {why}"
        if self._lending.suspender.state(loan.pid) != "failed":
            return loan if loan.notes[-1].text == text else self._lending.put(loan.noted(t_s, text))
        self._end_lost(owner, "the driver could not resume it", t_s)
        return self._over(loan, text, t_s)

    def unwind(self, loan: JobLoan, owner: ManagedJob) -> None:
        """Undo a suspension that was refused half-way, if the driver says that it was begun."""
        suspender = self._lending.suspender
        if owner.attempt is not None and suspender.state(loan.pid) in ("locked", "suspended"):
            suspender.begin("resume", owner.id, owner.attempt.number, loan.pid)

    # -- a lost GPU ------------------------------------------------------------------------------

    def _lose(self, loan: JobLoan, owner: ManagedJob, borrower: ManagedJob, t_s: float) -> JobLoan:
        """End a loan of a GPU that is gone: what ran on it is ended and goes on from its save."""
        why = f"{', '.join(loan.gpus)} was lost while it was lent"
        if owner.state is LifeState.LENT:
            moved = owner.moved(t_s, LifeState.PREEMPTED, f"{why}; it goes on from its save")
            self._lending.controller.store.put(moved)
        elif owner.state is LifeState.SUSPENDED:
            self._end_lost(owner, why, t_s)
        self._end_lost(borrower, why, t_s)
        # The loan last: what fails before is done again, and nobody looks at one that is over.
        return self._over(replace(loan, wanted=why), why, t_s)

    def _end_lost(self, job: ManagedJob, why: str, t_s: float) -> None:
        """End processes whose GPU is gone; who can go on goes back into the queue."""
        jobs, attempt = self._lending.controller, job.attempt
        if attempt is None or attempt.ended_s is not None or attempt.stop == "cancel":
            return
        goes_on = job.spec.requeue or job.checkpointing.able
        if job.state is LifeState.SAVING:
            job = job.moved(t_s, LifeState.RUNNING, why)
        kept = replace(
            attempt,
            stop="preempt" if goes_on else "",
            stop_why=why,
            stop_decision=DecisionId(f"{attempt.decision}.lost"),
        )
        jobs.store.put(job.with_attempt(kept))
        jobs.engine.stop(job.id, attempt.number, force=True)

    # -- ends ------------------------------------------------------------------------------------

    def _over(self, loan: JobLoan, text: str, t_s: float) -> JobLoan:
        self._watched_s.pop(loan.id, None)
        self._elsewhere.pop(loan.id, None)
        for what in ("ask", "resume"):
            self._tried_s.pop((loan.id, what), None)
        return self._lending.put(loan.noted(t_s, text, phase="over", over_s=t_s))

    def _may_retry(self, loan: JobLoan, t_s: float, what: str, every_s: float = RETRY_S) -> bool:
        last_s = self._tried_s.get((loan.id, what))
        if last_s is not None and 0.0 <= t_s - last_s < every_s:
            return False
        self._tried_s[loan.id, what] = t_s
        return True


def _attempt(borrower: ManagedJob, loan: JobLoan) -> Attempt:
    found = next((each for each in borrower.attempts if each.decision == loan.id), None)
    assert found is not None  # noqa: S101 - a loan is lent from its attempt on
    return found


def _ending(loan: JobLoan) -> DecisionId:
    return DecisionId(f"{loan.id}.end")
