"""What to run next for a decision, and what to report about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from steward.clients.slurm.changes import Command
from steward.clients.slurm.job_mark import LastDecision
from steward.clients.slurm.queue_entry import QueueEntry
from steward.clients.slurm.rights import Level, Rights
from steward.model.decision import Decision
from steward.model.identity import JobId

__all__ = [
    "SKEW_S",
    "Plan",
    "begun",
    "credible",
    "done",
    "failed",
    "other_job",
    "refused_owner",
    "was_requeued",
]

SKEW_S = 5.0  # by how much the controller's clock may differ from ours
STEWARDS_SKEW_S = 60.0  # between the clocks of two machines that ran steward


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The commands to run now, in this order, and the receipt if all succeed."""

    result: Literal["begun", "done", "failed"]
    text: str
    commands: tuple[Command, ...] = ()
    next_s: float | None = None  # when the decision has to be looked at again; None: next turn
    over: bool = False  # a collector cannot see it as undone any more
    job: JobId | None = None  # what it is about, if not the job that the decision names
    noted: QueueEntry | None = None  # the job, with what its comment says then
    races: bool = False  # with what it ends: a command may come too late, which is no fault
    beside: Callable[[], None] | None = None  # what is done after the commands that is none
    later: tuple[Command, ...] = ()  # what a person would type once the job waits again


def begun(text: str, *commands: Command, next_s: float | None = None) -> Plan:
    """Return a plan after which the decision has to be looked at again."""
    return Plan(result="begun", text=text, commands=commands, next_s=next_s)


def done(text: str, *commands: Command) -> Plan:
    """Return a plan after which the decision is carried out."""
    return Plan(result="done", text=text, commands=commands)


def failed(text: str, *commands: Command) -> Plan:
    """Return that the decision cannot be carried out, with what takes back its beginning."""
    return Plan(result="failed", text=text, commands=commands)


def credible(did: LastDecision, decision: Decision, t_s: float) -> LastDecision:
    """Return steward's note of a decision with a time that can be true.

    The owner of a job may write any time into its comment. One in the future would keep the
    decision open as long as they like, and nothing was begun before it was decided: it counts from
    there then.
    """
    possible = decision.t_s - STEWARDS_SKEW_S <= did.t_s <= t_s + STEWARDS_SKEW_S
    return replace(did, t_s=min(did.t_s, t_s) if possible else min(decision.t_s, t_s))


def was_requeued(job: QueueEntry, did: LastDecision, decision: Decision) -> bool:
    """Return whether a job was put back into the queue since a decision was begun.

    The run in the comment may be forged; that a job counts restarts and was submitted anew since
    the decision cannot.
    """
    since = job.restarts > 0 and job.submit_s >= decision.t_s - SKEW_S
    return since and job.submit_s != did.run


def other_job(job: QueueEntry, decision: Decision) -> Plan | None:
    """Return a refusal if the id was given to another job after the decision was made.

    Slurm gives ids again when they overflow, and from 1 on when its state was lost. A job that was
    requeued since has a new submit time too, and counts its restarts.
    """
    if job.restarts or job.submit_s <= decision.t_s + SKEW_S:
        return None
    return failed(f"job {job.id} is another one now: it was submitted after {decision.id} was made")


def refused_owner(job: QueueEntry, rights: Rights) -> Plan | None:
    """Return a refusal if the job is somebody else's, and the rights do not reach so far."""
    if rights.may_change(job.user):
        return None
    need = Level.OPERATOR.value
    return failed(f"job {job.id} is {job.user}'s: {rights.user} is no {need} and may not change it")
