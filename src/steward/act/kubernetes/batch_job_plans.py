"""Plans for Jobs of the group `batch`: start, preempt, reprioritise, resize.

Each is a function of the Job as the server lists it, so the same call begins a decision, follows
it, and goes on with it after a restart. The change and the note of the decision are one patch:
there is no moment in which one is done and the other is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steward.act.kubernetes.kube_plan import KubePlan, began_s, begun, done, failed, mark_of
from steward.clients.kubernetes.annotations import ELASTIC, SAVES
from steward.clients.kubernetes.batch_job import BatchJob
from steward.clients.kubernetes.changes import patch_job
from steward.model.actions import Reprioritise, Resize
from steward.model.decision import Decision

__all__ = ["BatchJobPlans"]

LONGEST_SAVE_S = 86_400.0  # as in the schema of TrainingJobs
LATE_S = 120.0  # a pod is gone some time after its grace period
PRIORITY = "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJobPlans:
    """How Jobs are handled: options of the site.

    `start_within_s`: how long Kubernetes has to run what was started. `preempt_unsaved`: also
    preempt Jobs that have not said that they can save.
    """

    start_within_s: float = 300.0
    preempt_unsaved: bool = False

    # -- starting ------------------------------------------------------------------------------

    def start(self, job: BatchJob, decision: Decision, t_s: float) -> KubePlan:
        """Let a suspended Job have pods, if it is suspended by steward or for it."""
        if job.over:
            return failed(f"{job.label} is over: {job.end_why or job.end or 'deleted'}")
        if job.did is not None and job.did.id == decision.id:
            return self._follow_start(job, began_s(decision, job.did, t_s), t_s)
        if not job.suspended:
            return self._unsuspended(job)
        if job.queue:
            return failed(f"{job.label} waits in queue {job.queue} of Kueue, which starts it")
        if not job.waits_for_us:
            who = ", ".join(sorted(job.suspended_by)) or "a person"
            return failed(f"{job.label} was suspended by {who}, who has to resume it")
        mark = mark_of(decision, t_s)
        change = patch_job(job, mark, spec={"suspend": False}, unhold=True)
        return begun(f"{job.label} may start: Kubernetes chooses when and where", change)

    def _unsuspended(self, job: BatchJob) -> KubePlan:
        if _runs(job):
            return done(f"{job.label} runs: {job.active} of {job.parallelism} pods")
        return failed(f"{job.label} is not suspended: it waits for room, which a start is not")

    def _follow_start(self, job: BatchJob, since_s: float, t_s: float) -> KubePlan:
        if job.suspended:
            return failed(f"{job.label} was suspended again after it was started")
        if _runs(job):
            return done(f"{job.label} runs: {job.ready} of {job.parallelism} pods")
        if t_s - since_s < self.start_within_s:
            return begun(f"{job.label} waits for its pods: {job.ready} of {job.parallelism} run")
        within = f"within {self.start_within_s:.0f} s"
        return failed(f"{job.label} did not run {within}: {job.ready} of {job.parallelism} pods")

    # -- stopping ------------------------------------------------------------------------------

    def preempt(self, job: BatchJob, decision: Decision, t_s: float) -> KubePlan:
        """Suspend a running Job: its pods are sent TERM, and have their grace period to save."""
        if job.did is not None and job.did.id == decision.id:
            return _follow_preempt(job, t_s - began_s(decision, job.did, t_s))
        if why := self._unfit_for_preempt(job):
            return failed(f"{job.label} {why}")
        change = patch_job(job, mark_of(decision, t_s), spec={"suspend": True})
        return begun(f"{job.label} has {job.grace_s:.0f} s to save and end", change)

    def _unfit_for_preempt(self, job: BatchJob) -> str:
        """Return why a Job cannot be preempted, or an empty text."""
        save_s = job.save_s
        faults = {
            f"is over: {job.end_why or job.end or 'deleted'}": job.over,
            "is suspended already": job.suspended,
            f"belongs to queue {job.queue} of Kueue, which would start it again at once": bool(
                job.queue
            ),
            f"has not said that it can save (annotation {SAVES})": (
                save_s is None and not self.preempt_unsaved
            ),
            f"needs {save_s or 0:.0f} s to save, and its terminationGracePeriodSeconds are "
            f"{job.grace_s:.0f}": (save_s or 0.0) > job.grace_s,
        }
        return next((text for text, holds in faults.items() if holds), "")

    # -- changing ------------------------------------------------------------------------------

    def reprioritise(
        self,
        job: BatchJob,
        decision: Decision,
        action: Reprioritise,
        t_s: float,
        *,
        classes: Mapping[str, int],
    ) -> KubePlan:
        """Give a waiting Job of Kueue another class; of others, the priority is fixed."""
        if job.did is not None and job.did.id == decision.id:
            return done(f"{job.label} was given another priority class")
        if not job.queue:
            why = "Kubernetes fixes the priority of pods when they are created"
            return failed(f"{job.label} keeps its priority: {why}")
        if not job.suspended:
            return failed(f"{job.label} runs: it has no place in queue {job.queue}")
        name = next((name for name, value in classes.items() if value == action.priority), None)
        if name is None:
            known = ", ".join(f"{name} ({value})" for name, value in classes.items()) or "none"
            return failed(f"there is no class of priority {action.priority}; known: {known}")
        change = patch_job(job, mark_of(decision, t_s), labels={PRIORITY: name})
        return done(f"{job.label} has priority class {name}", change)

    def resize(self, job: BatchJob, decision: Decision, action: Resize, t_s: float) -> KubePlan:
        """Change how many pods an elastic Job has."""
        if job.did is not None and job.did.id == decision.id:
            return _follow_resize(job, len(action.then))
        pods, rest = divmod(len(action.then), job.gpus_per_pod or 1)
        if why := _unfit_for_resize(job, pods, rest):
            return failed(f"{job.label} {why}")
        both = job.indexed and job.completions == job.parallelism
        spec = {"parallelism": pods, **({"completions": pods} if both else {})}
        change = patch_job(job, mark_of(decision, t_s), spec=spec)
        return begun(f"{job.label} is to have {pods} instead of {job.parallelism} pods", change)


def _runs(job: BatchJob) -> bool:
    return not job.suspended and job.ready + job.succeeded >= max(1, job.parallelism)


def _follow_preempt(job: BatchJob, for_s: float) -> KubePlan:
    if job.over:
        return failed(f"{job.label} ended by itself ({job.end_why or job.end}): it will not resume")
    if not job.suspended:
        return failed(f"{job.label} was resumed by another after it was suspended")
    pods = job.active + job.terminating
    if pods and for_s > min(job.grace_s, LONGEST_SAVE_S) + LATE_S:
        why = "is their node away, or do they have a finalizer?"
        return failed(f"{job.label}: {pods} pods are not gone after {for_s:.0f} s; {why}")
    if pods:
        return begun(f"{job.label} saves: {pods} pods are not gone yet")
    return done(f"{job.label} is suspended, and its pods are gone")


def _unfit_for_resize(job: BatchJob, pods: int, rest: int) -> str:
    least, most = job.elastic or (0, 0)
    indexed_fixed = job.indexed and job.completions not in (None, job.parallelism)
    faults = {
        f"is over: {job.end_why or job.end or 'deleted'}": job.over,
        "is suspended, not running": job.suspended,
        f"has not said with how many pods it can go on (annotation {ELASTIC})": not job.elastic,
        f"has {job.gpus_per_pod} GPUs in each pod: whole pods come and go": bool(rest),
        f"goes on with {least} to {most} pods, not with {pods}": not least <= pods <= most,
        "is indexed, and its completions are not its parallelism: Kubernetes allows no change": (
            indexed_fixed
        ),
    }
    return next((text for text, holds in faults.items() if holds), "")


def _follow_resize(job: BatchJob, gpus: int) -> KubePlan:
    pods = gpus // (job.gpus_per_pod or 1)
    if job.parallelism != pods:
        return failed(f"{job.label} was given {job.parallelism} pods by another since")
    if job.ready != pods and not job.over:
        return begun(f"{job.label} has {job.ready} of {pods} pods")
    return done(f"{job.label} has {pods} pods")
