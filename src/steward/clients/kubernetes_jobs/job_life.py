"""States of Kubernetes in the words that a job's life has on every engine."""

from __future__ import annotations

from steward.clients.kubernetes.objects import Pod
from steward.clients.kubernetes_jobs.listed_job import KubeJob
from steward.model.managed_job import LifeState

__all__ = ["exit_status", "life_of", "pod_life", "task_life", "task_status"]

Life = tuple[LifeState, str]
_BAD_STARTS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError",
               "CreateContainerConfigError", "CrashLoopBackOff")  # fmt: skip
MANY = 16


def life_of(job: KubeJob) -> Life:
    """Return where a job is in its life, and why."""
    if job.leaving:
        return LifeState.CANCELLED, "it is being deleted"
    if job.ended:
        return _end(job)
    if job.job is None:
        if job.held:
            return LifeState.HELD, f"held {job.held}"
        return LifeState.WAITING, "the operator has not made its Job yet"
    if job.job.suspended:
        return _stopped(job)
    return _unsuspended(job)


def _end(job: KubeJob) -> Life:
    made = job.job
    if made is not None and made.end == "Complete":
        return LifeState.FINISHED, "it ended by itself"
    if made is None or not made.end:
        training = job.training
        if training is not None and training.phase == "Succeeded":
            return LifeState.FINISHED, "it ended by itself"
        return LifeState.FAILED, _condition(job) or "its Job was deleted"
    for task in job.tasks:
        if task.pod.phase == "Failed":
            return LifeState.FAILED, _failure(task.pod)
    late = made.end_why.startswith("DeadlineExceeded")
    return LifeState.FAILED, "it reached its time limit" if late else made.end_why or "it failed"


def _condition(job: KubeJob) -> str:
    found = job.training.status.get("conditions") if job.training else None
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.get("type") == "Finished":
            return str(each.get("message") or "")
    return ""


def _failure(pod: Pod) -> str:
    if pod.reason == "DeadlineExceeded":
        return "it reached its time limit"
    if pod.ended_reason == "OOMKilled":
        return "it used more memory than it asked for"
    if pod.exit_code:
        return f"it exited with {pod.exit_code}"
    return f"{pod.reason}: {pod.message}".strip(": ") or "its pod failed"


def _stopped(job: KubeJob) -> Life:
    made = job.job
    assert made is not None  # noqa: S101 - of the caller
    if made.active or made.terminating or job.live:
        return LifeState.SAVING, "its pods have their grace period to save and end"
    if job.held:
        return LifeState.HELD, f"held {job.held}"
    if made.queue:
        return LifeState.WAITING, f"in queue {made.queue} of Kueue"
    if made.waits_for_us:
        state = LifeState.PREEMPTED if job.was_preempted else LifeState.WAITING
        return state, "steward starts it when there is room"
    if job.was_preempted:
        return LifeState.PREEMPTED, f"stopped; `steward jobs resume {job.id}` lets it go on"
    who = ", ".join(sorted(made.suspended_by)) or "somebody"
    return LifeState.HELD, f"suspended by {who}"


def _unsuspended(job: KubeJob) -> Life:
    live = job.live
    if live:
        state = LifeState.RESUMED if job.was_preempted else LifeState.RUNNING
        done = job.job.succeeded if job.job else 0
        some = f"{len(live)} of {job.pods - done} pods run " if len(live) < job.pods - done else ""
        return state, f"{some}on {_places(job)}"
    waiting = [each.pod for each in job.tasks if each.pod.phase == "Pending"]
    if not waiting:
        return LifeState.WAITING, "its pods are not made yet"
    return min((pod_life(pod) for pod in waiting), key=lambda each: each[0] is LifeState.STARTING)


def pod_life(pod: Pod) -> Life:
    """Return where a single pod is."""
    if pod.phase == "Succeeded":
        return LifeState.FINISHED, "it ended by itself"
    if pod.phase == "Failed":
        return LifeState.FAILED, _failure(pod)
    if pod.phase == "Running":
        return LifeState.RUNNING, f"on {pod.node or 'its node'}"
    if pod.gates:
        return LifeState.WAITING, f"waits for {', '.join(pod.gates)}"
    if pod.node:
        odd = pod.reason in _BAD_STARTS
        why = f"{pod.reason}: {pod.message}".strip(": ") if odd else "its containers are created"
        return LifeState.STARTING, why
    return LifeState.WAITING, _unscheduled(pod)


def _unscheduled(pod: Pod) -> str:
    if pod.reason == "Unschedulable":
        return f"no room for it now: {pod.message}".strip(": ")
    return f"{pod.reason}: {pod.message}".strip(": ") or "not looked at yet"


def _places(job: KubeJob) -> str:
    more = f" and {len(job.nodes) - MANY} more" if len(job.nodes) > MANY else ""
    return (", ".join(job.nodes[:MANY]) or "its nodes") + more


def exit_status(job: KubeJob) -> int | None:
    """Return the status as a shell gives it, of pods the greatest; None until it is over."""
    if not job.ended:
        return None
    if life_of(job)[0] is LifeState.FINISHED:
        return 0
    return max((each.pod.exit_code or 0 for each in job.tasks), default=0) or 1


def task_life(job: KubeJob, index: int) -> Life:
    """Return where one index of a Job is."""
    pod = job.newest(index)
    if index in job.completed:
        return LifeState.FINISHED, "it ended by itself"
    if pod is not None and not (job.job is not None and job.job.suspended):
        return pod_life(pod)
    if index in job.failed:
        return LifeState.FAILED, "it failed"
    state, why = life_of(job)
    if state.runs:
        return LifeState.WAITING, "its pod is not made yet"
    return state, why


def task_status(job: KubeJob, index: int) -> int | None:
    """Return the exit status of one index; None until it is over."""
    state, _ = task_life(job, index)
    if not state.ended:
        return None
    pod = job.newest(index)
    return 0 if state is LifeState.FINISHED else ((pod.exit_code if pod else None) or 1)
