"""Asks attempts to save or to end, and remembers since when: TERM once, KILL after the grace.

One that has saved and was asked to stop exits by itself; it has the grace for that before TERM.
What is remembered here is lost with steward; `JobFollower` then asks again, which does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from steward.act.jobs.job_engine import JobEngine
from steward.model.identity import JobId
from steward.model.managed_job import ManagedJob
from steward.training.protocol import SaveRequest

__all__ = ["Stopping"]

SAVE_WITHIN_S = 300.0


@dataclass
class Stopping:
    """What this process has asked of attempts."""

    engine: JobEngine
    save_within_s: float = SAVE_WITHIN_S
    _requests: dict[JobId, str] = field(default_factory=dict)  # that this process has sent
    _asked: dict[JobId, tuple[int, float]] = field(default_factory=dict)  # attempt, and since when
    _saved: dict[JobId, tuple[int, float]] = field(default_factory=dict)  # as above

    def ask_to_save(self, job: ManagedJob, request: str, *, stop: bool, why: str) -> None:
        """Send a request; the same one again changes nothing."""
        self.engine.ask_to_save(
            job.id,
            SaveRequest(
                id=request,
                do="save-and-stop" if stop else "save",
                deadline_s=job.events[-1].t_s + self.save_within_s,
                reason=why,
            ),
        )
        self._requests[job.id] = request

    def has_asked(self, id_: JobId, request: str) -> bool:
        """Return whether this process has sent a request to a job."""
        return self._requests.get(id_) == request

    def request_of(self, id_: JobId) -> str | None:
        """Return the request that this process sent to a job last."""
        return self._requests.get(id_)

    def had_time_to_leave(self, job: ManagedJob, t_s: float) -> bool:
        """Return whether the grace is over since a job was first seen to have saved."""
        number = job.attempt.number if job.attempt is not None else 0
        known = self._saved.get(job.id)
        if known is None or known[0] != number or t_s < known[1]:  # or the clock was set back
            known = self._saved[job.id] = (number, t_s)
        return t_s - known[1] > self.engine.grace_s

    def stop(self, job: ManagedJob, t_s: float) -> None:
        """TERM once, KILL once when the grace is over."""
        if job.attempt is None:
            return
        number = job.attempt.number
        known = self._asked.get(job.id)
        since_s = self.since(job.id, number, t_s)
        if known is None or known[0] != number:
            self.engine.stop(job.id, number)
        elif t_s - since_s > self.engine.grace_s:
            self.engine.stop(job.id, number, force=True)

    def since(self, id_: JobId, number: int, t_s: float) -> float:
        """Return when this was asked for the first time, which may be now."""
        found = self._asked.get(id_)
        if found is None or found[0] != number or t_s < found[1]:  # or the clock was set back
            found = self._asked[id_] = (number, t_s)
        return found[1]

    def forget(self, id_: JobId) -> None:
        """Begin anew: the attempt is over."""
        self._asked.pop(id_, None)
        self._saved.pop(id_, None)
        self._requests.pop(id_, None)
