"""What this process itself has noted on jobs: it counts more than their comments.

The owner of a job may change its comment at any time. Without this, who writes the time anew
before each look is never stopped, and who removes a note keeps a nice value that was lent for one
start. Only after a restart the comment is all there is, as far as it can be true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from steward.act.slurm.plan import Plan
from steward.clients.slurm.job_mark import LastDecision
from steward.clients.slurm.queue_entry import QueueEntry
from steward.model.actions import Reprioritise
from steward.model.decision import Decision
from steward.model.identity import DecisionId

__all__ = ["OwnNotes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    address: str
    did: LastDecision
    save_s: float | None  # what the job said when it was asked


class OwnNotes:
    """The notes of decisions that are open."""

    def __init__(self) -> None:
        self._by_decision: dict[DecisionId, _Note] = {}

    def recalled(self, job: QueueEntry, decision: Decision) -> QueueEntry:
        """Return a job with our own note of a decision instead of what its comment says.

        A new priority that only the comment knows of is set again: that does no harm.
        """
        note, did = self._by_decision.get(decision.id), job.mark.did
        if note is not None and note.address == job.address:
            return replace(job, mark=replace(job.mark, did=note.did, save_s=note.save_s))
        claimed = did is not None and did.id == decision.id
        if claimed and isinstance(decision.action, Reprioritise):
            return replace(job, mark=replace(job.mark, did=None))
        return job

    def keep(self, decision: Decision, plan: Plan) -> None:
        """Keep what a plan has noted for as long as its decision is open."""
        if plan.result != "begun":
            self._by_decision.pop(decision.id, None)
            return
        job = plan.noted
        did = None if job is None else job.mark.did
        if job is None or did is None:
            return
        known = self._by_decision.get(decision.id)
        if known is not None and known.address == job.address:
            nice = did.nice if known.did.nice is None else known.did.nice
            did = replace(did, t_s=min(did.t_s, known.did.t_s), nice=nice)
        self._by_decision[decision.id] = _Note(address=job.address, did=did, save_s=job.mark.save_s)

    def address_of(self, decision: Decision) -> str:
        """Return the job or the task with which a decision was begun; empty if unknown."""
        note = self._by_decision.get(decision.id)
        return "" if note is None else note.address

    @property
    def raised(self) -> frozenset[str]:
        """The addresses of jobs whose nice value this process has changed for a start."""
        notes = self._by_decision.values()
        return frozenset(each.address for each in notes if each.did.nice is not None)
