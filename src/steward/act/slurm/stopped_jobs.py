"""The jobs that this process has stopped: how long each has to rest, and which starts it is for."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from steward.clients.slurm.queue_entry import QueueEntry
from steward.model.decision import Decision
from steward.model.identity import DecisionId, JobId

__all__ = ["REST_S", "StoppedJobs"]

# A node refuses to launch a job in the second in which it killed it, by its own clock: "Job
# credential revoked", and the job has failed. Slurm waits for 121 s because of that.
REST_S = 5
KEPT_S = 150.0  # longer than Slurm keeps a requeued job waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    job: JobId
    run: int  # its submit time, which each requeue sets anew
    t_s: float  # when its nodes were first found to be free


class StoppedJobs:
    """Remembers stops for as long as Slurm would keep the jobs from starting again.

    By our own clock, so that it does not matter how far those of Slurm are from it. A steward that
    was restarted knows none of them: the jobs then wait for a resume, or for Slurm's two minutes.
    """

    def __init__(self) -> None:
        self._by_job: dict[JobId, _Stop] = {}
        self._by_decision: dict[DecisionId, _Stop] = {}  # without those that may go on already

    def note(self, decision: Decision, job: QueueEntry, t_s: float) -> None:
        """Note that a decision has put a job back into the queue, and that its nodes are free."""
        old = {each.job for each in self._by_job.values() if t_s - each.t_s >= KEPT_S}
        self._by_job = {id_: each for id_, each in self._by_job.items() if id_ not in old}
        self._by_decision = {
            id_: each for id_, each in self._by_decision.items() if each.job not in old
        }
        stop = _Stop(job=JobId(job.id), run=job.submit_s, t_s=t_s)
        known = self._by_job.get(stop.job)
        if known is None or known.run != stop.run:
            self._by_job[stop.job] = self._by_decision[decision.id] = stop

    def rest_s(self, job: QueueEntry, t_s: float) -> int | None:
        """Return how long a job must not start yet; None: its last stop was not by this process."""
        stop = self._by_job.get(JobId(job.id))
        if stop is None or stop.run != job.submit_s:
            return None
        return max(0, ceil(stop.t_s + REST_S - t_s))

    def made_room(self, decision: Decision) -> tuple[JobId, ...]:
        """Return the jobs that were stopped for a start, once."""
        stops = [self._by_decision.pop(id_, None) for id_ in decision.after]
        return tuple(each.job for each in stops if each is not None)
