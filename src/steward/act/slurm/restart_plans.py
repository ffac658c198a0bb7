"""Plans that save a running job, change what it asks for while it waits, and let it go on.

That is how a job comes to other nodes, or to another number of GPUs, where Slurm cannot change a
running one. It is requeued held, so that Slurm does not start it before it was changed; how far it
is can be read from the job itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from steward.act.slurm.job_plans import JobPlans
from steward.act.slurm.plan import Plan, begun, credible, done, failed
from steward.act.slurm.stopped_jobs import REST_S
from steward.clients.slurm import changes
from steward.clients.slurm.asked_gpus import AskedGpus
from steward.clients.slurm.changes import Command
from steward.clients.slurm.queue_entry import QueueEntry
from steward.model.actions import Migrate, Resize
from steward.model.decision import Decision
from steward.model.identity import GpuId

__all__ = ["RestartPlans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlans:
    """Moves and resizes jobs by a save and a start."""

    plans: JobPlans
    asked_gpus: Callable[[str], AskedGpus | None]
    excluded_nodes: Callable[[str], tuple[str, ...]]

    def migrate(self, job: QueueEntry, decision: Decision, action: Migrate, t_s: float) -> Plan:
        """Let a job go on on other nodes than those that it leaves."""
        left = tuple(sorted({*_nodes_of(action.source)} - {*_nodes_of(action.target)}))
        if not left:
            text = "Slurm chooses the GPUs of a node itself: it moves jobs to other nodes alone"
            return failed(f"job {job.id} stays: {text}")
        where = ", ".join(left)

        def change() -> Command:
            without = sorted({*self.excluded_nodes(job.address), *left})
            return changes.exclude(job.address, without, start_in_s=REST_S)

        plan = self._restart(job, decision, t_s, change, text=f"may start anywhere but on {where}")
        if plan.result != "done" or not {*job.nodes} & {*left}:
            return plan
        return failed(f"job {job.id} runs on {', '.join(job.nodes)} again")

    def resize(self, job: QueueEntry, decision: Decision, action: Resize, t_s: float) -> Plan:
        """Let a job go on with another number of GPUs."""
        count, now = len(action.then), len(action.now)
        asked = self.asked_gpus(job.address)
        begun_before = job.mark.did is not None and job.mark.did.id == decision.id
        total = asked.total if asked is not None else 0
        wanted = asked.instead(count) if asked is not None else ""
        if not wanted or (not begun_before and total != now):
            text = f"asks for its GPUs in a way that cannot become {count}"
            return failed(f"job {job.id} {text}")

        def change() -> Command:
            return changes.ask_for(job.address, wanted, start_in_s=REST_S)

        return self._restart(job, decision, t_s, change, text=f"asks for {count} GPUs now")

    def _restart(
        self,
        job: QueueEntry,
        decision: Decision,
        t_s: float,
        change: Callable[[], Command],
        *,
        text: str,
    ) -> Plan:
        did = job.mark.did
        if did is None or did.id != decision.id:
            first = self._held.preempt(job, decision, t_s)
            return replace(first, later=(change(), changes.release(job.address)))
        did = credible(did, decision, t_s)
        known = replace(job, mark=replace(job.mark, did=did))
        if job.waits and job.held_by == "requeue":
            plan = begun(f"job {job.id} {text}", change(), changes.release(job.address))
            return replace(plan, noted=known)
        if job.waits:
            return self._waiting(known, did.t_s + (did.save_s or 0.0), t_s)
        if job.runs and job.restarts and job.submit_s != did.run:
            return done(f"job {job.id} runs on {', '.join(job.nodes)}")
        return self._held.preempt(job, decision, t_s)

    def _waiting(self, job: QueueEntry, since_s: float, t_s: float) -> Plan:
        """Return that a job waits for its start; failed when that takes too long."""
        within_s = self.plans.start_within_s
        if job.held_by:
            return failed(f"job {job.id} was held ({job.reason}) before it went on")
        if t_s - since_s < within_s:
            return replace(begun(f"job {job.id} waits in Slurm: {job.reason}"), noted=job)
        return failed(f"Slurm did not start job {job.id} within {within_s:.0f} s: {job.reason}")

    @property
    def _held(self) -> JobPlans:
        return replace(self.plans, hold_preempted=True, requeue_unsaved=False)


def _nodes_of(gpus: tuple[GpuId, ...]) -> tuple[str, ...]:
    return tuple(gpu.partition("/")[0] for gpu in gpus)
