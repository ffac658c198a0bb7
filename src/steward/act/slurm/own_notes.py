"""What this process itself has noted on jobs: it counts more than their comments.

The owner of a job may change its comment at any time. Without this, who writes the time anew
before each look is never stopped, and who removes a note keeps a nice value that was lent for one
start. With a folder, notes of open decisions outlive a restart there; what was killed before it
could write that goes by the comment, where the note has its seal.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from steward.act.slurm.plan import Plan
from steward.act.slurm.seals import Seals
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
    """The notes of decisions that are open. `file` keeps them over a restart."""

    def __init__(self, file: Path | None = None, seals: Seals | None = None) -> None:
        self.seals = seals or Seals()
        self._file = file
        self._by_decision = _read(file) if file is not None else {}

    def recalled(self, job: QueueEntry, decision: Decision) -> QueueEntry:
        """Return a job with our own note of a decision instead of what its comment says.

        A new priority that only the comment knows of is set again: that does no harm.
        """
        note, did = self._by_decision.get(decision.id), job.mark.did
        if note is not None and note.address == job.address:
            return replace(job, mark=replace(job.mark, did=note.did, save_s=note.save_s))
        if did is None or did.id != decision.id:
            return job
        if isinstance(decision.action, Reprioritise) or not self.seals.fits(job.address, did):
            return replace(job, mark=replace(job.mark, did=None))
        save_s = job.mark.save_s if did.save_s is None else did.save_s
        return replace(job, mark=replace(job.mark, save_s=save_s))

    def keep(self, decision: Decision, plan: Plan) -> None:
        """Keep what a plan has noted for as long as its decision is open."""
        if plan.result != "begun":
            if self._by_decision.pop(decision.id, None) is not None:
                self._write()
            return
        job = plan.noted
        did = None if job is None else job.mark.did
        if job is None or did is None:
            return
        known = self._by_decision.get(decision.id)
        if known is not None and known.address == job.address:
            nice = did.nice if known.did.nice is None else known.did.nice
            did = replace(did, t_s=min(did.t_s, known.did.t_s), nice=nice)
        note = _Note(address=job.address, did=did, save_s=job.mark.save_s)
        if note != known:
            self._by_decision[decision.id] = note
            self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        notes = {id_: asdict(note) for id_, note in self._by_decision.items()}
        draft = self._file.with_suffix(".part")
        with open(draft, "w", opener=_private) as opened:
            json.dump(notes, opened)
        draft.replace(self._file)

    def address_of(self, decision: Decision) -> str:
        """Return the job or the task with which a decision was begun; empty if unknown."""
        note = self._by_decision.get(decision.id)
        return "" if note is None else note.address

    @property
    def raised(self) -> frozenset[str]:
        """The addresses of jobs whose nice value this process has changed for a start."""
        notes = self._by_decision.values()
        return frozenset(each.address for each in notes if each.did.nice is not None)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(file: Path) -> dict[DecisionId, _Note]:
    """Return what was written; nothing of a file that is not there, or was damaged."""
    try:
        return {
            DecisionId(id_): _Note(**{**note, "did": LastDecision(**note["did"])})
            for id_, note in json.loads(file.read_bytes()).items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
