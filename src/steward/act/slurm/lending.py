"""Plans for loans: a waiting job runs as an overlapping step in another job of the same user.

Slurm lets nobody else into an allocation, not even root: steward lends among the jobs of the
account that it runs as. How far a loan is can be read from the borrower's comment and from the
files of its run, so the same call begins it, follows it, and goes on with it after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from steward.act.slurm.plan import Plan, begun, done, failed
from steward.clients.slurm import changes
from steward.clients.slurm.changes import Command
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.job_mark import Borrowed
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.clients.slurm_jobs.loan_run import LoanRun, loan_run
from steward.clients.slurm_jobs.queue import JobQueue
from steward.errors import PermanentError, StewardError
from steward.model.actions import CallBack, Lend
from steward.model.decision import Decision

__all__ = ["SlurmLending"]

BEGIN_WITHIN_S = 60.0
LOOK_S = 1.0
RESUMES_S = 120.0  # from a call-back on, after which the shell beside the step is not there
AGAIN_S = 30.0  # before a holder that was not resumed is tried again
LEAST_LEFT_S = 60.0  # of the owner's time: less is not worth a start
WAYS = {
    "saved": "a job that is requeued gives its GPUs back to Slurm, which lends them to anybody",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLending:
    """Lends and calls back among the jobs of one account. `library` is the driver's, on nodes."""

    slurm: SlurmControl
    library: str = "libcuda.so.1"
    wall_s: Callable[[], float] = time.time  # the clock of files, which nodes and this share

    # -- lending -------------------------------------------------------------------------------

    def lend(self, action: Lend, decision: Decision, t_s: float) -> Plan:
        """Keep Slurm from starting the borrower, then run it inside the owner's job."""
        queue = JobQueue(self.slurm)
        borrower, owner = _one(queue, action.borrower), _one(queue, action.owner)
        lent = borrower.mark.lent
        if lent is not None and lent.id == decision.id:
            return self._follow(loan_run(borrower, lent), owner, queue, t_s, way=action.way)
        if why := self._unfit(action, borrower, owner):
            return failed(why)
        if action.way == "suspended" and len(queue.details(owner)[2]) != 1:
            return failed(f"job {owner.id} has several GPUs: the driver suspends jobs with one")
        node, gpus = _place(action)
        lent = Borrowed(id=decision.id, owner=owner.id, t_s=round(t_s, 1), node=node, gpus=gpus)
        loan_run(borrower, lent).command(owner, queue.details(owner)[2])  # it has all that it needs
        noted = replace(borrower.mark, lent=lent).comment
        note = changes.update_job(borrower.address, comment=noted)
        text = f"job {borrower.id} is kept from starting elsewhere"
        return begun(text, note, changes.hold(borrower.address), next_s=t_s + LOOK_S)

    def _unfit(self, action: Lend, borrower: ListedJob, owner: ListedJob) -> str:
        """Return why a loan cannot be, or an empty text."""
        user, mark = self.slurm.user, borrower.mark
        other = next((each for each in (owner, borrower) if each.user != user), None)
        if other is not None:
            return (
                f"job {other.id} is {other.user}'s and steward runs as {user}: Slurm lets nobody "
                f"else run steps there, not even root; a steward of {other.user}'s own can lend"
            )
        if action.way in WAYS:
            return f"job {owner.id} cannot be {action.way} to lend its GPUs: {WAYS[action.way]}"
        nodes = {gpu.rpartition("/gpu")[0] for gpu in action.gpus}
        left_s = (owner.end_s or float("inf")) - self.wall_s()
        faults = {
            f"job {owner.id} is {owner.state.lower()}, not running": owner.state != "RUNNING",
            f"job {owner.id} is ended by its time limit in {left_s:.0f} s": left_s < LEAST_LEFT_S,
            f"job {owner.id} has not said that it may be suspended (steward:suspend)": (
                action.way == "suspended" and not owner.mark.suspend
            ),
            f"job {owner.id} was lent GPUs itself": owner.mark.lent is not None and owner.waits,
            f"job {borrower.id} is {borrower.state.lower()}: it does not wait": not borrower.waits,
            f"job {borrower.id} has not said that it may run inside another (steward:inside)": (
                mark.inside_bytes is None
            ),
            f"job {borrower.id} is held ({borrower.reason})": bool(borrower.held_by)
            and not (mark.hold or mark.lent is not None),
            f"job {borrower.id} waits for other jobs": bool(borrower.dependency),
            f"job {borrower.id} is a part of an array": "_" in borrower.id,
            "a step runs on one node": len(nodes) != 1,
        }
        return next((text for text, holds in faults.items() if holds), "")

    def _follow(
        self, run: LoanRun, owner: ListedJob, queue: JobQueue, t_s: float, *, way: str
    ) -> Plan:
        borrower = run.borrower
        if over := _over_before(run, owner, self.wall_s()):
            return replace(failed(over, *_released(run)), over=True, races=True)
        if run.status:
            plan = done(f"job {borrower.id} has run", *_released(run))
            return replace(plan, over=True, races=True)
        if run.step:
            how = "beside it" if way != "suspended" else "whose process the driver has suspended"
            return done(f"job {borrower.id} runs as step {run.step} of job {owner.id}, {how}")
        if run.launched_s is not None:
            return begun(f"job {borrower.id} begins inside job {owner.id}", next_s=t_s + LOOK_S)
        command = run.command(owner, queue.details(owner)[2])
        hold = () if borrower.held_by else (changes.hold(borrower.address),)
        plan = begun(f"job {borrower.id} is started in job {owner.id}", *hold, next_s=t_s + LOOK_S)
        programs = self.slurm.programs
        suspends = way == "suspended"
        files = run.holder_files(owner, self.library, programs.path("srun")) if suspends else None
        return replace(plan, beside=partial(run.launch, programs, command, files))

    # -- calling back --------------------------------------------------------------------------

    def call_back(self, action: CallBack, decision: Decision, t_s: float) -> Plan:
        """Let the borrower save, end its step, and let Slurm start it wherever it has room."""
        borrower = _one(JobQueue(self.slurm), action.borrower)
        lent = borrower.mark.lent
        if lent is None or lent.id != action.loan:
            return done(f"the loan {action.loan} is over")
        run = loan_run(borrower, lent)
        if not run.step or run.status or not self._is_listed(run.step):
            if run.is_held_up and self._is_there(lent.owner):
                return self._resuming(run, lent.owner, decision, t_s)
            after = "it has ended by itself" if run.ended else f"job {borrower.id} waits again"
            plan = done(f"step {run.step or 'none'} is over; {after}", *_released(run))
            return replace(plan, races=True)
        return self._ask_and_end(run, decision, t_s)

    def _resuming(self, run: LoanRun, owner: str, decision: Decision, t_s: float) -> Plan:
        """Wait until the driver has resumed a holder; begin that again where it ended without."""
        plan = begun(f"the driver resumes job {owner}", next_s=t_s + LOOK_S)
        if not run.status and t_s - decision.t_s < RESUMES_S:
            return plan
        refused = f": {run.refusal}" if run.refusal else ""
        plan = begun(f"job {owner} is not resumed yet{refused}", next_s=t_s + AGAIN_S)
        return replace(plan, beside=partial(run.resume_holder, self.slurm.programs))

    def _is_there(self, owner: str) -> bool:
        """Return whether a holder still runs: nothing is left to resume of one that is over."""
        found = self.slurm.jobs({owner}).get(owner)
        return found is not None and found.runs

    def _ask_and_end(self, run: LoanRun, decision: Decision, t_s: float) -> Plan:
        job, save_s, asked_s = run.borrower, run.borrower.mark.save_s, run.asked_s(decision.id)
        if save_s is not None and asked_s is None:
            text = f"job {job.id} was asked to save; it is ended in {save_s:.0f} s at the latest"
            plan = begun(text, next_s=t_s + LOOK_S)
            return replace(plan, beside=partial(run.ask, decision.id, decision.because))
        answer = run.answer(decision.id)
        left_s = 0.0 if save_s is None else (asked_s or 0.0) + save_s - self.wall_s()
        if left_s > 0 and not answer:
            text = f"job {job.id} saves; it is ended in {left_s:.0f} s at the latest"
            return begun(text, next_s=t_s + min(left_s, LOOK_S))
        why = answer or ("it cannot save" if save_s is None else f"not saved in {save_s:.0f} s")
        end = changes.cancel(run.step)
        plan = begun(f"step {run.step} is ended: {why}", end, next_s=t_s + LOOK_S)
        return replace(plan, races=True)

    def _is_listed(self, step: str) -> bool:
        how = ("--noheader", "--steps", f"--jobs={step.partition('.')[0]}", "--format=%i")
        try:
            return step in self.slurm.change(("squeue", *how)).split()
        except PermanentError:  # the owner's job is over and forgotten
            return False


def _over_before(run: LoanRun, owner: ListedJob, now_s: float) -> str:
    """Return why a loan never began, or an empty text."""
    job = run.borrower
    if run.step:
        return ""
    if run.status:
        return f"job {job.id} did not begin: {run.failure}"
    if not job.waits:
        return f"job {job.id} is {job.state.lower()}: Slurm was faster"
    if run.launched_s is None:
        return "" if owner.state == "RUNNING" else f"job {owner.id} is {owner.state.lower()}"
    late = now_s - run.launched_s > BEGIN_WITHIN_S
    return f"job {job.id} did not begin within {BEGIN_WITHIN_S:.0f} s" if late else ""


def _one(queue: JobQueue, id_: str) -> ListedJob:
    try:
        return queue.of(id_)[0]
    except PermanentError:
        raise
    except StewardError as fault:  # there is no such job: asking again does not help
        raise PermanentError(fault.problem, where=fault.where, hint=fault.hint) from fault


def _place(action: Lend) -> tuple[str, tuple[int, ...]]:
    node = action.gpus[0].rpartition("/gpu")[0]
    return node, tuple(sorted(int(gpu.rpartition("/gpu")[2]) for gpu in action.gpus))


def _released(run: LoanRun) -> tuple[Command, ...]:
    """Return what lets Slurm start the borrower again; one that has ended only reports its end.

    Released first: without the word in its comment, a person would have to.
    """
    job = run.borrower
    inside = None if run.ended else job.mark.inside_bytes
    mark = replace(job.mark, lent=None, hold=False, inside_bytes=inside)
    if job.ended:
        return ()
    shortest = "1" if run.ended and job.waits else ""
    note = changes.update_job(job.address, comment=mark.comment, time_limit=shortest)
    return (changes.release(job.address), note) if job.held_by else (note,)
