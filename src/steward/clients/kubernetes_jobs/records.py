"""Jobs of Kubernetes as JSON, in the shape that jobs have on every engine."""

from __future__ import annotations

from typing import Any

from steward.clients.kubernetes.objects import map_in, maps_in
from steward.clients.kubernetes_jobs.job_life import (
    exit_status,
    life_of,
    pod_life,
    task_life,
    task_status,
)
from steward.clients.kubernetes_jobs.listed_job import KubeJob

__all__ = ["array_record", "long_record", "short_record", "task_record", "why_record"]


def short_record(job: KubeJob) -> dict[str, Any]:
    """Return one line of a list. Kubernetes names nodes, not the single GPUs of a pod."""
    state, why = life_of(job)
    pods = [each.pod for each in job.tasks]
    starts = [pod.start_s for pod in job.live if pod.start_s is not None]
    end_s = job.job.end_s if job.job else None
    since_s = end_s if job.ended else min(starts, default=None) or job.preempted_s
    return {
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "tenant": job.namespace,
        "state": state.value,
        "why": why,
        "since_s": since_s or job.submit_s,
        "submit_s": job.submit_s,
        "priority": max((pod.priority for pod in pods), default=0),
        "asks_for": job.gpus,
        "gpus": [],
        "nodes": list(job.nodes),
        "partition": job.job.queue if job.job else "",
        "exit_code": exit_status(job),
        "attempts": max((len(_attempts(job, each.index)) for each in job.tasks), default=0),
    }


def task_record(job: KubeJob, index: int) -> dict[str, Any]:
    """Return one line for one index of a Job."""
    state, why = task_life(job, index)
    pod = job.newest(index)
    return {
        **short_record(job),
        "id": f"{job.id}_{index}",
        "state": state.value,
        "why": why,
        "since_s": (pod.end_s or pod.start_s or pod.created_s) if pod else job.submit_s,
        "asks_for": job.gpus // max(job.pods, 1),
        "nodes": [pod.node] if pod and pod.node and pod.phase == "Running" else [],
        "exit_code": task_status(job, index),
        "attempts": len(_attempts(job, index)),
    }


def long_record(job: KubeJob, *, index: int | None = None) -> dict[str, Any]:
    """Return all of a job, or of one of its indices."""
    record = short_record(job) if index is None else task_record(job, index)
    container = next(iter(maps_in(job.template, "containers")), {})
    command = [*_words(container, "command"), *_words(container, "args")]
    first = job.newest(0 if index is None else index)
    return {
        **record,
        "attempts": _attempts(job, index),
        "events": _events(job, record),
        "notes": [],
        "loans": [],
        "command": command,
        "spec": {
            "folder": str(container.get("workingDir") or "that of the image"),
            "kind": "TrainingJob" if job.training else "Job",
            "object": job.submitted.path,
            "job": job.job_name,
            "image": str(container.get("image") or ""),
            "pods": job.pods,
            "limits": dict(map_in(map_in(container, "resources"), "limits")),
        },
        "checkpoints": [],
        "can_save": job.job.save_s is not None if job.job else None,
        "job_folder": None,
        "log": f"pod {first.name}" if first else "no pod yet",
        "fault": None,
        "giving_back": None,
        "power": None,
    }


def _words(container: Any, key: str) -> list[str]:  # noqa: ANN401 - JSON
    said = container.get(key)
    return [str(each).replace("$$", "$") for each in said] if isinstance(said, list) else []


def _attempts(job: KubeJob, index: int | None) -> list[dict[str, Any]]:
    """Return the pods that there still are, oldest first: one that was deleted is forgotten."""
    pods = [each.pod for each in job.tasks if index is None or each.index in (index, None)]
    return [
        {
            "number": number,
            "began_s": pod.start_s,
            "ended_s": pod.end_s,
            "nodes": [pod.node] if pod.node else [],
            "state": pod_life(pod)[0].value,
            "pod": pod.name,
        }
        for number, pod in enumerate(sorted(pods, key=lambda pod: pod.created_s), 1)
    ]


def _events(job: KubeJob, record: dict[str, Any]) -> list[dict[str, Any]]:
    did = job.job.did if job.job else None
    found: list[tuple[float, str, str, str | None]] = [
        (job.submit_s, "submitted", "submitted", None)
    ]
    if did is not None:
        found.append((did.t_s, did.did, f"by steward: {did.why}".rstrip(": "), did.id))
    if job.preempted_s is not None:
        found.append((job.preempted_s, "preempted", "stopped by a person", None))
    starts = [pod.start_s for pod in (each.pod for each in job.tasks) if pod.start_s is not None]
    if starts:
        found.append((min(starts), "running", "its first pod started", None))
    if record["state"] != found[-1][1]:
        found.append((max(record["since_s"], found[-1][0]), record["state"], record["why"], None))
    return [
        {"t_s": t_s, "state": state, "why": why, "decision": decision}
        for t_s, state, why, decision in sorted(found, key=lambda each: each[0])
    ]


def array_record(job: KubeJob) -> dict[str, Any]:
    """Return an array with a line for each of its tasks."""
    return {
        "id": job.id,
        "state": life_of(job)[0].value,
        "exit_code": exit_status(job),
        "gpus": [],
        "attempts": [],
        "checkpoints": [],
        "tasks": [task_record(job, index) for index in range(job.pods)],
    }


def why_record(job: KubeJob, reasons: list[str], now_s: float) -> dict[str, Any]:
    """Return why a job does not run, as far as Kubernetes says it."""
    state, why = life_of(job)
    return {
        "id": job.id,
        "state": state.value,
        "summary": f"{state.value}: {why}",
        "limits": reasons,
        "holders": [],
        "ahead": [],
        "eta": None,
        "now_s": now_s,
        "changes": [],
    }
