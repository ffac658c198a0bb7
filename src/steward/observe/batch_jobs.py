"""Folds Jobs of Kubernetes and their pods into one job each.

A Job that is suspended has no pods, and still waits; one with four pods is one job, not four.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from steward.clients.kubernetes import ObjectChange, Pod
from steward.clients.kubernetes.batch_job import BatchJob
from steward.model.identity import GpuId, JobId, NodeId, TenantId
from steward.model.job import Checkpointing, Job, JobShape, JobState
from steward.observe.job_book import JobSighting
from steward.observe.pool_holds import WaitingJob

__all__ = ["BatchJobs", "batch_id"]

_ENDS = {"Complete": JobState.COMPLETED, "Failed": JobState.FAILED}


def batch_id(uid: str) -> JobId:
    """Return what steward calls a Job."""
    return JobId(f"batch:{uid}")


class BatchJobs:
    """The Jobs of a cluster that request GPUs, with the pods that they have now."""

    def __init__(self, *, all_jobs: bool) -> None:
        self._all_jobs = all_jobs
        self._jobs: dict[str, BatchJob] = {}
        self._pods: dict[str, dict[str, Pod]] = defaultdict(dict)  # by the uid of their Job
        self._runs: dict[str, str] = {}
        self._running: set[str] = set()
        self._changed: set[str] = set()
        self._holds: dict[str, str] = {}  # why a pool lets them not start

    @property
    def ids(self) -> set[JobId]:
        return {batch_id(uid) for uid in self._jobs}

    @property
    def namespaces(self) -> set[str]:
        return {job.namespace for job in self._jobs.values()}

    def fold(self, changes: Sequence[ObjectChange[BatchJob]]) -> list[JobId]:
        """Take in Jobs; return those that were deleted."""
        gone = []
        for change in changes:
            job = change.now
            if change.gone or job is None:
                if self._jobs.pop(change.uid, None) is not None:
                    gone.append(batch_id(change.uid))
                for kept in (self._pods, self._runs):
                    kept.pop(change.uid, None)
                self._running.discard(change.uid)
            elif self._all_jobs or job.gpus_per_pod or (job.pod and job.pod.slices):
                self._jobs[job.uid] = job
                self._changed.add(job.uid)
        return gone

    def fold_pod(self, pod: Pod, *, gone: bool) -> None:
        """Take in a pod that a Job has made."""
        if gone:
            self._pods[pod.owner_uid].pop(pod.uid, None)
        else:
            self._pods[pod.owner_uid][pod.uid] = pod
        self._changed.add(pod.owner_uid)

    def waiting(self) -> list[WaitingJob]:
        """Return the Jobs that steward could start."""
        return [_waiting(job) for job in self._jobs.values() if job.waits_for_us and not job.over]

    def hold(self, holds: dict[str, str]) -> None:
        """Set which of them may not be started now, and why."""
        before, self._holds = self._holds, {u: holds[u] for u in holds if u in self._jobs}
        both = {*before, *self._holds}
        self._changed |= {uid for uid in both if before.get(uid) != self._holds.get(uid)}

    def sightings(
        self, t_s: float, gpus_of: Callable[[Pod], tuple[GpuId, ...]]
    ) -> Iterable[JobSighting]:
        """Return the Jobs that have changed, as they are now."""
        changed, self._changed = self._changed, set()
        known = sorted(uid for uid in changed if uid in self._jobs)
        return [self._sighting(self._jobs[uid], t_s, gpus_of) for uid in known]

    def _sighting(
        self, job: BatchJob, t_s: float, gpus_of: Callable[[Pod], tuple[GpuId, ...]]
    ) -> JobSighting:
        pods = sorted(self._pods[job.uid].values(), key=_uid)
        live = [pod for pod in pods if pod.phase == "Running"]
        state = _ENDS.get(job.end) or (JobState.RUNNING if live else JobState.QUEUED)
        run = self._run(job, state, t_s)
        gpus = tuple(gpu for pod in live for gpu in gpus_of(pod))
        starts = [pod.start_s for pod in live if pod.start_s is not None]
        start_s = min(starts, default=job.start_s) if state is not JobState.QUEUED else None
        nodes = sorted({NodeId(pod.node) for pod in live if pod.node})
        places = [f"{pod.node}@pod:{pod.uid}" for pod in live if pod.node]
        return JobSighting(
            job=Job(
                id=batch_id(job.uid),
                tenant=TenantId(job.namespace),
                shape=_shape(job),
                submit_s=job.created_s,
                user=job.namespace,
                name=job.name,
                priority=max((pod.priority for pod in pods), default=0),
                state=state,
                gpus=gpus if state is JobState.RUNNING else (),
                nodes=tuple(nodes) if state is JobState.RUNNING else (),
                start_s=start_s,
                end_s=(job.end_s or t_s) if state.ended else None,
                checkpointing=Checkpointing(able=job.save_s is not None, save_s=job.save_s or 0.0),
                held=state is JobState.QUEUED and (not job.waits_for_us or job.uid in self._holds),
            ),
            places=(*places, *gpus),
            run=run,
            why=_why(job, state) + (f"; {hold}" if (hold := self._holds.get(job.uid)) else ""),
            about=_about(job),
        )

    def _run(self, job: BatchJob, state: JobState, t_s: float) -> str:
        """Return which of its runs this is; a Job that lost its pods begins another one."""
        run = self._runs.setdefault(job.uid, str(int(job.start_s or job.created_s)))
        if state is JobState.QUEUED and job.uid in self._running:
            run = self._runs[job.uid] = str(int(t_s))
        (self._running.add if state is JobState.RUNNING else self._running.discard)(job.uid)
        return run


def _waiting(job: BatchJob) -> WaitingJob:
    pods, pod = max(1, job.parallelism), job.pod
    each = pod.devices if pod else {}
    return WaitingJob(
        uid=job.uid,
        namespace=job.namespace,
        created_s=job.created_s,
        devices={name: count * pods for name, count in each.items()},
        selector=pod.node_selector if pod else {},
        priority_class=job.priority_class,
        save_s=job.save_s,
        end_s=job.grace_s,
    )


def _shape(job: BatchJob) -> JobShape:
    pod, pods = job.pod, max(1, job.parallelism)
    each = job.gpus_per_pod
    least, most = job.elastic or (0, 0)
    model = pod.gpu_product if pod else ""
    return JobShape(
        gpus=each * pods,
        cpus=int((pod.cpus if pod else 0.0) * pods + 0.999),
        memory_bytes=(pod.memory_bytes if pod else 0) * pods,
        gpu_models=(model,) if model else (),
        min_gpus=each * least,
        max_gpus=each * most,
    )


def _why(job: BatchJob, state: JobState) -> str:
    if state.ended:
        return f"{job.label}: {job.end.lower()}, {job.end_why}".rstrip(", ")
    if job.suspended:
        whose = "by or for steward" if job.waits_for_us else "by a person or a queue"
        return f"{job.label}: suspended {whose}"
    return f"{job.label}: {job.ready} of {job.parallelism} pods are ready"


def _about(job: BatchJob) -> dict[str, str]:
    parts = {
        "name": job.name,
        "namespace": job.namespace,
        "owner": job.owner_kind,
        "queue": job.queue,
        "decision": job.did.id if job.did else "",
    }
    return {name: value for name, value in parts.items() if value}


def _uid(pod: Pod) -> str:
    return pod.uid
