"""Plans for jobs: start, preempt, save, reprioritise, resize.

Each is a function of what squeue lists, so the same call begins a decision, follows it, and goes on
with it after a restart: how far it is can be read from the job's comment (`JobMark`). The owner of
the job may have written that: it is believed only as far as it can be true and harms nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf

from steward.act.slurm.plan import Plan, begun, credible, done, failed, was_requeued
from steward.act.slurm.stopped_jobs import REST_S
from steward.clients.slurm import changes
from steward.clients.slurm.changes import Command
from steward.clients.slurm.job_mark import MOST_NICE, JobMark, LastDecision
from steward.clients.slurm.queue_entry import QueueEntry
from steward.clients.slurm.rights import Level, Rights
from steward.model.actions import Reprioritise, Resize
from steward.model.decision import Decision
from steward.model.identity import GpuId

__all__ = ["JobPlans"]

ASK_TO_SAVE = "USR2"  # NCCL once took USR1 for itself
BEFORE_END_S = 2.0  # before its time limit: who is requeued later is ended by it, and is over
LOWEST_PRIORITY = 2  # what Slurm shows for all that is not above it
COMPLETES_S = 1.5  # after a requeue, nodes are seldom free earlier
_PASSES = {"", "Resources", "Priority", "BeginTime", "Cleaning", "Prolog"}  # reasons to wait


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlans:
    """How jobs are handled: options of the site.

    `start_within_s`: how long Slurm has to start what was released or raised. `hold_preempted`:
    keep a preempted job held until a decision resumes it. `requeue_unsaved`: also preempt jobs that
    have not said that they can save.
    """

    start_within_s: float = 300.0
    hold_preempted: bool = False
    requeue_unsaved: bool = False

    # -- starting ------------------------------------------------------------------------------

    def start(
        self,
        job: QueueEntry,
        decision: Decision,
        rights: Rights,
        t_s: float,
        *,
        top: int,
        rest_s: int | None = None,
    ) -> Plan:
        """Let a waiting job run as soon as Slurm has room.

        `top` is the highest priority there; `rest_s`, how long a stopped one must not start yet.
        """
        if not job.waits:
            return _started(job, decision)
        did = _ours(job, decision, t_s)
        nice = _nice_to_be_next(job, rights, top)
        if did is not None:
            late = t_s - did.t_s >= self.start_within_s
            if late or not (job.held_by and job.mark.hold):
                return self._follow_start(job, did, t_s, nice=nice)
        if nice is None:
            return failed(f"job {job.id} waits behind others, and only an operator may raise it")
        if why := _keeps_waiting(job):
            return failed(why)
        noted = _noted(job, decision, t_s, nice=job.nice if nice != job.nice else None)
        update = changes.update_job(
            job.address,
            comment=noted.comment,
            nice=nice if nice != job.nice else None,
            start_in_s=_start_in_s(job, rest_s),
        )
        first = _released(job, decision, t_s) if job.held_by else ()
        plan = begun(f"job {job.id} may start: Slurm chooses when and where", *first, update)
        return replace(plan, noted=replace(job, mark=noted))

    def _follow_start(
        self, job: QueueEntry, did: LastDecision, t_s: float, *, nice: int | None
    ) -> Plan:
        """Keep a job first in line: others may have come to be before it since it was let go."""
        if job.held_by:
            text = f"job {job.id} was held again ({job.reason}) after it was released"
            return failed(text, *_lowered(job, did))
        waited_s = t_s - did.t_s
        if waited_s < self.start_within_s:
            text = f"job {job.id} waits in Slurm: {job.reason or 'not looked at yet'}"
            noted, raise_to = replace(job.mark, hold=False, did=did), None
            if nice is not None and nice < job.nice:
                before = job.nice if did.nice is None else did.nice
                noted, raise_to = replace(noted, did=replace(did, nice=before)), nice
            same = raise_to is None and not job.mark.hold
            update = changes.update_job(job.address, comment=noted.comment, nice=raise_to)
            plan = begun(text, *(() if same else (update,)))
            return replace(plan, noted=replace(job, mark=noted))
        why = f"Slurm did not start job {job.id} within {self.start_within_s:.0f} s: {job.reason}"
        if did.nice is None:
            return failed(why)
        nice = max(did.nice, 0)  # of the comment, which its owner may write as well
        back = changes.update_job(job.address, nice=nice)
        return failed(f"{why}; its nice is {nice} again", back)

    # -- stopping ------------------------------------------------------------------------------

    def preempt(self, job: QueueEntry, decision: Decision, t_s: float) -> Plan:
        """Let a running job save, then put it back into the queue."""
        did = _ours(job, decision, t_s)
        if did is not None:
            plan = self._follow_preempt(job, did, decision, t_s)
            return replace(plan, noted=replace(job, mark=replace(job.mark, did=did)))
        if why := self._unfit_for_preempt(job, decision, t_s):
            return failed(f"job {job.id} {why}")
        before = job.mark.did
        raised = before.nice if before is not None else None  # it was, to start: not again
        noted = _noted(job, decision, t_s, held=self.hold_preempted, nice=raised)
        if noted.did is not None:
            noted = replace(noted, did=replace(noted.did, save_s=job.mark.save_s))
        note = changes.update_job(job.address, comment=noted.comment)
        if job.mark.save_s is None:
            requeue = changes.requeue(job.address, hold=self.hold_preempted)
            plan = begun(f"job {job.id} is stopped without saving", note, requeue)
            return replace(plan, noted=replace(job, mark=noted))
        ask = changes.signal_batch(job.address, ASK_TO_SAVE)  # first: asked twice does no harm
        text = f"job {job.id} was asked to save; it is requeued in {job.mark.save_s:.0f} s"
        plan = begun(text, ask, note, next_s=_tenths(t_s) + job.mark.save_s)
        return replace(plan, noted=replace(job, mark=noted))

    def _unfit_for_preempt(self, job: QueueEntry, decision: Decision, t_s: float) -> str:
        """Return why a job cannot be preempted, or an empty text."""
        left_s = _left_s(job, t_s)
        faults = {
            **_not_the_run(job, decision),
            "is no batch job: Slurm does not requeue it": not job.batch,
            "was submitted with --no-requeue": not job.requeue,
            "has not said that it can save (steward:saves in its comment)": (
                job.mark.save_s is None and not self.requeue_unsaved
            ),
            f"is ended by its time limit in {left_s:.0f} s, before it can have saved": (
                left_s < (job.mark.save_s or 0.0)
            ),
        }
        return next((text for text, holds in faults.items() if holds), "")

    def _follow_preempt(
        self, job: QueueEntry, did: LastDecision, decision: Decision, t_s: float
    ) -> Plan:
        if job.state == "COMPLETING":
            text = f"job {job.id} is completing: its nodes are not free yet"
            return begun(text, next_s=t_s + COMPLETES_S)
        if job.waits or (job.runs and was_requeued(job, did, decision)):
            text = f"job {job.id} was put back into the queue and is {job.state.lower()}"
            return done(text, *_lowered(job, did))
        if job.ended:
            why = f"job {job.id} ended by itself ({job.state.lower()}) before it was requeued"
            return failed(f"{why}: it is not in the queue; a job goes on after {ASK_TO_SAVE}")
        left_s = did.t_s + (job.mark.save_s or 0.0) - t_s
        left_s = min(left_s, _left_s(job, t_s))  # somebody may have shortened its limit since
        if not job.runs:
            return begun(f"job {job.id} is {job.state.lower()}")
        if left_s > 0:
            text = f"job {job.id} saves; it is requeued in {left_s:.0f} s"
            return begun(text, next_s=t_s + left_s)
        requeue = changes.requeue(job.address, hold=did.held)
        text = f"job {job.id} is put back into the queue"
        return begun(text, requeue, next_s=t_s + COMPLETES_S)

    def go_on(self, job: QueueEntry, rest_s: int | None) -> Plan:
        """Let Slurm start a stopped job again where it has room: whom it was stopped for runs.

        Before that it would take back the GPUs that it has made free.
        """
        if not job.waits or job.reason != "BeginTime" or rest_s is None:
            return done(f"job {job.id} is {job.state.lower()}")
        return done(f"job {job.id} may go on", changes.update_job(job.address, start_in_s=rest_s))

    # -- saving --------------------------------------------------------------------------------

    def save(self, job: QueueEntry, decision: Decision, t_s: float) -> Plan:
        """Ask a running job to save and go on, once. Slurm does not say whether it has saved."""
        did = job.mark.did
        if did is not None and did.id == decision.id:
            return replace(done(f"job {job.id} was asked to save"), over=True)
        if why := _unfit_to_save(job, decision):
            return failed(f"job {job.id} {why}")
        ask = changes.signal_batch(job.address, ASK_TO_SAVE)  # first: asked twice does no harm
        raised = did.nice if did is not None else None
        noted = _noted(job, decision, t_s, nice=raised)
        note = changes.update_job(job.address, comment=noted.comment)
        plan = done(f"job {job.id} was asked to save", ask, note)
        return replace(plan, over=True, noted=replace(job, mark=noted))

    # -- changing ------------------------------------------------------------------------------

    def reprioritise(
        self, job: QueueEntry, decision: Decision, action: Reprioritise, rights: Rights, t_s: float
    ) -> Plan:
        """Change a waiting job's place by its nice value: Slurm computes its priority anew."""
        if job.mark.did is not None and job.mark.did.id == decision.id:
            return done(f"job {job.id} has nice {job.nice} and priority {job.priority}")
        if not job.waits or job.held_by:
            state = f"held ({job.reason})" if job.held_by else job.state.lower()
            return failed(f"job {job.id} is {state}: it has no place in the queue")
        if _is_at_floor(job):
            text = f"job {job.id} shows no priority with nice {job.nice}: it gets 0 first"
            return begun(text, changes.update_job(job.address, nice=0))
        nice = _nice_for(job, action.priority)
        if nice < min(0, job.nice) and not rights.at_least(Level.OPERATOR):
            return failed(f"job {job.id} would need nice {nice}: only an operator may go below 0")
        noted = _noted(job, decision, t_s, nice=job.nice)
        update = changes.update_job(job.address, nice=nice, comment=noted.comment)
        plan = done(f"job {job.id} has nice {nice} instead of {job.nice}", update)
        return replace(plan, noted=replace(job, mark=noted))

    def resize(self, job: QueueEntry, action: Resize) -> Plan:
        """Take whole nodes from a running job: Slurm can do no more."""
        keep = _nodes_of(action.then)
        changed = _nodes_of({*action.now} ^ {*action.then})
        partly = {*changed} & {*keep} & {*_nodes_of(action.now)}
        if {*job.nodes} == {*keep} and not partly:
            return done(f"job {job.id} has {', '.join(keep)}")
        first = job.nodes[0] if job.nodes else ""
        faults = {
            f"job {job.id} is {job.state.lower()}, not running": not job.runs,
            f"Slurm does not give a running job more nodes (job {job.id})": bool(
                {*keep} - {*job.nodes}
            ),
            f"Slurm takes whole nodes from a job, not single GPUs (job {job.id})": bool(
                partly or not keep
            ),
            f"job {job.id} cannot give up {first}, where its batch script runs": first not in keep,
        }
        why = next((text for text, holds in faults.items() if holds), "")
        if why:
            return failed(why)
        text = f"job {job.id} goes on with {', '.join(keep)}"
        return done(text, changes.update_job(job.address, nodes=keep))


def _not_the_run(job: QueueEntry, decision: Decision) -> dict[str, bool]:
    """Return by text what would make the job another one than the run that was decided about."""
    again = bool(job.restarts) and job.submit_s > decision.t_s
    return {
        f"is {job.state.lower()}, not running": not job.runs,
        f"was requeued after {decision.id} was made": again,
    }


def _unfit_to_save(job: QueueEntry, decision: Decision) -> str:
    """Return why a job cannot be asked to save, or an empty text."""
    faults = {
        **_not_the_run(job, decision),
        "is no batch job: it has no shell that could be asked": not job.batch,
        "has not said that it can save (steward:saves in its comment)": job.mark.save_s is None,
    }
    return next((text for text, holds in faults.items() if holds), "")


def _left_s(job: QueueEntry, t_s: float) -> float:
    """Return how long a running job may still save before its time limit ends it."""
    return inf if job.end_s is None else job.end_s - BEFORE_END_S - t_s


def _ours(job: QueueEntry, decision: Decision, t_s: float) -> LastDecision | None:
    """Return the note of this decision on a job; None if it was not begun, or ended otherwise."""
    did = job.mark.did
    return None if did is None or did.id != decision.id else credible(did, decision, t_s)


def _started(job: QueueEntry, decision: Decision) -> Plan:
    """Return what became of a start of a job that does not wait any more.

    One that runs needs its nice value no longer: its owner would be first again by a requeue.
    """
    did = job.mark.did if job.mark.did is not None and job.mark.did.id == decision.id else None
    if job.runs:
        lowered = () if did is None else _lowered(job, did)
        return done(f"job {job.id} runs on {', '.join(job.nodes) or 'its nodes'}", *lowered)
    ours = did is not None and job.state != "CANCELLED"
    if job.state == "COMPLETED" or (job.ended and ours):
        return replace(done(f"job {job.id} has run, and is {job.state.lower()}"), over=True)
    report = failed if job.ended else begun  # one that completes may be on its way back
    return report(f"job {job.id} is {job.state.lower()}")


def _released(job: QueueEntry, decision: Decision, t_s: float) -> tuple[changes.Command, ...]:
    """Return how a job is released. A task of an array is told from the others before that.

    Else a steward that is killed after the release would release another one.
    """
    release = changes.release(job.address)
    if not job.array:
        return (release,)
    noted = replace(job.mark, did=_did(job, decision, t_s)).comment
    return (changes.update_job(job.address, comment=noted), release)


def _keeps_waiting(job: QueueEntry) -> str:
    """Return why a start would change nothing or may not: only what was held for us is released."""
    mark = job.mark
    for_us = {
        "user": mark.hold or mark.lent is not None,
        "requeue": mark.did is not None and mark.did.held,
        "admin": False,
    }
    if not for_us.get(job.held_by, True):
        return f"job {job.id} is held by a person ({job.reason}), who has to release it"
    if not job.held_by and job.reason not in _PASSES:
        return f"job {job.id} waits for something that a start does not change: {job.reason}"
    return ""


def _nice_to_be_next(job: QueueEntry, rights: Rights, top: int) -> int | None:
    """Return the nice value with which a job is first in line; None without the rights."""
    if job.held_by or job.reason != "Priority" or job.priority > top:
        return job.nice
    wanted = 0 if _is_at_floor(job) else _nice_for(job, top + 1)
    if rights.at_least(Level.OPERATOR):
        return wanted
    return max(0, wanted) if job.nice > 0 else None


def _start_in_s(job: QueueEntry, rest_s: int | None) -> int | None:
    """Return when a job may start that Slurm makes wait after its requeue; None: it does not.

    How long ago that was is not read from its submit time: clocks may differ by more than a rest.
    """
    if job.reason != "BeginTime" and job.held_by != "requeue":
        return None
    if rest_s is not None:
        return rest_s
    return REST_S if job.restarts else 0


def _lowered(job: QueueEntry, did: LastDecision) -> tuple[Command, ...]:
    """Return what takes back the nice value with which a job was started before it was stopped.

    Else it would be first in line for the GPUs that it has just made free. Never below 0: its owner
    may have written the value into the comment, and could set that much themselves.
    """
    if did.nice is None or job.nice >= did.nice:
        return ()
    return (changes.update_job(job.address, nice=max(did.nice, 0)),)


def _is_at_floor(job: QueueEntry) -> bool:
    """Return whether a job's own nice value hides what its priority is without it.

    Slurm shows 1 or 2 for all that is lower. Whoever guesses the rest gives a job that was made as
    nice as possible more than any other has.
    """
    return job.priority <= LOWEST_PRIORITY and job.nice > 0


def _nice_for(job: QueueEntry, priority: int) -> int:
    """Return the nice value that gives a job this priority.

    The sum of a job's factors is at least 0: that is what it is where none is shown.
    """
    factors = job.priority + job.nice if job.priority > LOWEST_PRIORITY else 0
    return max(-MOST_NICE, min(factors - priority, MOST_NICE))


def _noted(
    job: QueueEntry, decision: Decision, t_s: float, *, held: bool = False, nice: int | None = None
) -> JobMark:
    """Return the comment with this decision as the last one; a hold for us is used up by it.

    Rounded up: a job has at least the time to save that it asked for.
    """
    did = _did(job, decision, t_s, held=held, nice=nice)
    return replace(job.mark, did=did, hold=False)


def _did(
    job: QueueEntry, decision: Decision, t_s: float, *, held: bool = False, nice: int | None = None
) -> LastDecision:
    at_s = _tenths(t_s)
    return LastDecision(id=decision.id, run=job.submit_s, t_s=at_s, held=held, nice=nice)


def _tenths(t_s: float) -> float:
    return ceil(t_s * 10.0 - 1e-6) / 10.0


def _nodes_of(gpus: tuple[GpuId, ...] | set[GpuId]) -> tuple[str, ...]:
    return tuple(sorted({gpu.partition("/")[0] for gpu in gpus}))
