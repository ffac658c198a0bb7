"""A Job of the group `batch`, as far as it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.clients.kubernetes.annotations import (
    HELD,
    HOLD,
    DecisionNote,
    annotations_of,
    decision_note,
    elastic_range,
    managers_of,
    save_time_s,
)
from steward.clients.kubernetes.api import MANAGER
from steward.clients.kubernetes.objects import Pod, map_in, maps_in, pod_from, time_s

__all__ = ["BatchJob", "batch_job_from"]

DEFAULT_GRACE_S = 30.0
DISRUPTED = "DisruptionTarget"  # condition of a pod that was evicted, not one that failed
QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One Job. `pod` is what its pods ask for, read from its template."""

    uid: str
    name: str
    namespace: str
    version: str
    suspended: bool
    suspended_by: frozenset[str]  # managers of the field
    parallelism: int
    completions: int | None
    indexed: bool
    active: int  # pods that run, wait to run, or end
    ready: int
    terminating: int
    succeeded: int
    end: str  # Complete, Failed, or empty while it is not over
    end_why: str
    created_s: float
    start_s: float | None
    end_s: float | None
    grace_s: float
    pod: Pod | None
    queue: str  # of Kueue
    priority_class: str
    owner_kind: str
    leaving: bool
    ignores_evictions: bool = False  # they cost it nothing of its backoffLimit
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{self.name}"

    @property
    def label(self) -> str:
        """Name it for people."""
        return f"Job {self.namespace}/{self.name}"

    @property
    def over(self) -> bool:
        return bool(self.end) or self.leaving

    @property
    def did(self) -> DecisionNote | None:
        return decision_note(self.annotations)

    @property
    def save_s(self) -> float | None:
        return save_time_s(self.annotations)

    @property
    def elastic(self) -> tuple[int, int] | None:
        return elastic_range(self.annotations)

    @property
    def waits_for_us(self) -> bool:
        """Whether it is suspended, and by steward or for steward: a person's word stays."""
        held_for_us = self.annotations.get(HOLD) == "true"
        ours = held_for_us or self.suspended_by == {MANAGER}
        return self.suspended and ours and HELD not in self.annotations

    @property
    def gpus_per_pod(self) -> int:
        return self.pod.gpus if self.pod else 0


def batch_job_from(raw: Mapping[str, Any]) -> BatchJob | None:
    """Read a Job; None when it is not one."""
    meta, spec, status = map_in(raw, "metadata"), map_in(raw, "spec"), map_in(raw, "status")
    if not meta.get("uid"):
        return None
    template = map_in(map_in(spec, "template"), "spec")
    end, why, end_s = _end(status)
    completions = spec.get("completions")
    owner = next(iter(maps_in(meta, "ownerReferences")), {})
    labels = map_in(meta, "labels")
    grace_s = template.get("terminationGracePeriodSeconds")
    return BatchJob(
        uid=str(meta["uid"]),
        name=str(meta.get("name") or ""),
        namespace=str(meta.get("namespace") or ""),
        version=str(meta.get("resourceVersion") or ""),
        suspended=bool(spec.get("suspend")),
        suspended_by=managers_of(meta, "suspend"),
        parallelism=int(1 if spec.get("parallelism") is None else spec["parallelism"]),
        completions=None if completions is None else int(completions),
        indexed=spec.get("completionMode") == "Indexed",
        active=int(status.get("active") or 0),
        ready=int(status.get("ready") or 0),
        terminating=int(status.get("terminating") or 0),
        succeeded=int(status.get("succeeded") or 0),
        end=end,
        end_why=why,
        created_s=time_s(meta.get("creationTimestamp")) or 0.0,
        start_s=time_s(status.get("startTime")),
        end_s=time_s(status.get("completionTime")) or end_s,
        grace_s=DEFAULT_GRACE_S if grace_s is None else float(grace_s),
        pod=pod_from({"metadata": {"uid": "template"}, "spec": template}),
        queue=str(labels.get(QUEUE) or ""),
        priority_class=str(template.get("priorityClassName") or ""),
        owner_kind=str(owner.get("kind") or ""),
        leaving=bool(meta.get("deletionTimestamp")),
        ignores_evictions=_ignores_evictions(spec),
        annotations=annotations_of(meta),
    )


def _ignores_evictions(spec: Mapping[str, Any]) -> bool:
    """Return whether an evicted pod is made anew without being counted as a failure.

    Rules are tried in order. Those before it could match the exit code after TERM.
    """
    for rule in maps_in(map_in(spec, "podFailurePolicy"), "rules"):
        if rule.get("action") != "Ignore":
            return False
        for each in maps_in(rule, "onPodConditions"):
            if each.get("type") == DISRUPTED and each.get("status", "True") == "True":
                return True
    return False


def _end(status: Mapping[str, Any]) -> tuple[str, str, float | None]:
    for each in maps_in(status, "conditions"):
        if each.get("type") in ("Complete", "Failed") and each.get("status") == "True":
            why = f"{each.get('reason') or ''}: {each.get('message') or ''}".strip(": ")
            return str(each["type"]), why, time_s(each.get("lastTransitionTime"))
    return "", "", None
