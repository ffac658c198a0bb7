"""Finds the object that a decision is about, as it is now.

The API addresses by name, and steward by uid, since names are used again. A name is looked up once
in a list of the turn; after that, one small request per decision reads the object itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from steward.act.kubernetes.save_plans import SavePods
from steward.clients.kubernetes import Api, KubeNode, Pod
from steward.clients.kubernetes.batch_job import BatchJob, batch_job_from
from steward.clients.kubernetes.custom_resources import OPTIMIZATION_POLICIES, RESOURCE_POOLS
from steward.clients.kubernetes.faults import ForbiddenError, MissingError
from steward.clients.kubernetes.objects import map_in, maps_in, node_from, pod_from
from steward.clients.kubernetes.optimization_policy import (
    ceilings_of,
    optimization_policy_from,
)
from steward.clients.kubernetes.resource_pool import (
    ResourcePool,
    pool_of,
    resource_pool_from,
)
from steward.clients.kubernetes_jobs.manifest import ARRAY
from steward.clients.kubernetes_jobs.request_file import can_be_asked
from steward.errors import PermanentError
from steward.model.identity import JobId, NodeId, TenantId
from steward.model.site import Autonomy, TenantCeiling

__all__ = ["ObjectLookup"]

CLASSES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"


class ObjectLookup:
    """Jobs and pods by uid, nodes by name."""

    def __init__(self, api: Api, *, namespace: str = "") -> None:
        self._api = api
        inside = f"/namespaces/{namespace}" if namespace else ""
        self._lists = {"jobs": f"/apis/batch/v1{inside}/jobs", "pods": f"/api/v1{inside}/pods"}
        self._paths: dict[str, dict[str, str]] = {"jobs": {}, "pods": {}}
        self._listed_s: dict[str, float] = {}
        self._pools: list[ResourcePool] = []
        self._ceilings: dict[TenantId, TenantCeiling] = {}

    def job(self, id_: JobId, t_s: float) -> BatchJob:
        """Return a Job; a refusal where there is none of that uid."""
        raw = self._object("jobs", id_.removeprefix("batch:"), t_s)
        found = batch_job_from(raw) if raw else None
        if found is None:
            hint = "it ended and was removed, or belongs to another cluster or namespace"
            raise PermanentError(f"Kubernetes has no Job {id_}", hint=hint)
        return found

    def pod(self, id_: JobId, t_s: float) -> Pod | None:
        """Return a pod, or None when it is gone."""
        raw = self._object("pods", id_.removeprefix("pod:"), t_s)
        found = pod_from(raw) if raw else None
        return self._with_job(found, t_s) if found else None

    def node(self, name: NodeId) -> KubeNode:
        """Return a node."""
        found = node_from(self._api.get(f"/api/v1/nodes/{name}"))
        if found is None:
            raise PermanentError(f"Kubernetes has no node {name}")
        return found

    def pods_on(self, node: NodeId, t_s: float, *, policies: bool = False) -> tuple[Pod, ...]:
        """Return the pods of a node that hold GPUs and have not ended.

        `policies`: with what OptimizationPolicies of their namespaces say about stopping them.
        """
        items, _ = self._api.list(self._lists["pods"], fields=f"spec.nodeName={node}")
        pods = [pod for pod in map(pod_from, items) if pod is not None]
        live = [pod for pod in pods if pod.gpus and pod.phase in ("Running", "Pending")]
        if policies and self._listed_s.get("optimizationpolicies") != t_s:
            found, _ = self._api.list(OPTIMIZATION_POLICIES)
            known = [each for each in map(optimization_policy_from, found) if each is not None]
            self._ceilings = ceilings_of(known, t_s)
            self._listed_s["optimizationpolicies"] = t_s
        return tuple(
            replace(self._with_job(pod, t_s), left_alone=self._left_alone(pod)) for pod in live
        )

    def save_pods(self, id_: JobId, t_s: float) -> tuple[SavePods, str]:
        """Return the pods of a Job, or one pod, that could save, and the container that answers."""
        if id_.startswith("pod:"):
            raw = self._object("pods", id_.removeprefix("pod:"), t_s)
            return _save_pods([raw] if raw else [], f"pod {id_.removeprefix('pod:')}")
        job = self.job(id_, t_s)
        items, _ = self._api.list(f"/api/v1/namespaces/{job.namespace}/pods")
        own = [
            each
            for each in items
            for owner in maps_in(map_in(each, "metadata"), "ownerReferences")
            if owner.get("uid") == job.uid
        ]
        return _save_pods(own, job.label, alone=job.annotations.get(ARRAY) == "true")

    def _left_alone(self, pod: Pod) -> str:
        ceiling = self._ceilings.get(TenantId(pod.namespace))
        if ceiling is None:
            return ""
        allowed = ceiling.actions is None or "preempt" in ceiling.actions
        return "" if ceiling.autonomy is Autonomy.AUTO and allowed else ceiling.source

    def call_back_s(self, pod: Pod, t_s: float) -> float | None:
        """Return the longest call-back of the pool that a pod is bound to, if it is to one."""
        if self._listed_s.get("resourcepools") != t_s:
            items, _ = self._api.list(RESOURCE_POOLS)
            self._pools = [each for each in map(resource_pool_from, items) if each is not None]
            self._listed_s["resourcepools"] = t_s
        pool = pool_of(pod.node_selector, self._pools)
        return pool.call_back_s if pool else None

    def priority_classes(self) -> dict[str, int]:
        """Return Kueue's classes with their values, the highest first."""
        items, _ = self._api.list(CLASSES)
        found = {
            str(map_in(each, "metadata").get("name")): int(each.get("value") or 0) for each in items
        }
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def _with_job(self, pod: Pod, t_s: float) -> Pod:
        """Return a pod with what an eviction costs its Job, if it has one."""
        if pod.owner_kind != "Job":
            return pod
        try:
            raw = self._object("jobs", pod.owner_uid, t_s)
        except ForbiddenError:
            raw = None
        job = batch_job_from(raw) if raw else None
        return replace(pod, counted=job is None or not job.ignores_evictions)

    def _object(self, plural: str, uid: str, t_s: float) -> dict[str, Any] | None:
        if uid not in self._paths[plural] and self._listed_s.get(plural) != t_s:
            self._list(plural)
            self._listed_s[plural] = t_s
        paths = self._paths[plural]
        if uid not in paths:
            return None
        try:
            raw = self._api.get(paths[uid])
        except MissingError:
            raw = {}
        if map_in(raw, "metadata").get("uid") != uid:  # gone, or made anew under the same name
            del paths[uid]
            return None
        return raw

    def _list(self, plural: str) -> None:
        items, _ = self._api.list(self._lists[plural])
        group = "/apis/batch/v1" if plural == "jobs" else "/api/v1"
        metas = [map_in(each, "metadata") for each in items]
        self._paths[plural] = {
            str(meta.get("uid")): (
                f"{group}/namespaces/{meta.get('namespace')}/{plural}/{meta.get('name')}"
            )
            for meta in metas
        }


def _save_pods(
    raws: Iterable[Mapping[str, Any]], label: str, *, alone: bool = False
) -> tuple[SavePods, str]:
    known = [(raw, pod) for raw in raws if (pod := pod_from(raw)) is not None]
    live = [(raw, pod) for raw, pod in known if pod.phase == "Running" and not pod.leaving]
    specs = [map_in(raw, "spec") for raw, _ in live]
    first = next((each for spec in specs for each in maps_in(spec, "containers")), {})
    pods = SavePods(
        label=label,
        running=tuple(pod for _, pod in live),
        can_be_asked=all(can_be_asked(spec) for spec in specs),
        alone=alone,
    )
    return pods, str(first.get("name") or "")
