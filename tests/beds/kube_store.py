"""What an API server keeps and enforces: versions, uids, field managers, generations, schemas.

Objects are kept by plural and uid, with a log of changes for watches. `create` and `patch` answer
as the real server does: 409 for an old version, 404, 422 for what a schema or an immutable field
does not allow.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import Any

from beds.kube_schemas import wrong_field

KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "events": "Event",
    "jobs": "Job",
    "leases": "Lease",
    "workloadpriorityclasses": "WorkloadPriorityClass",
    "trainingjobs": "TrainingJob",
    "tenantshares": "TenantShare",
    "resourcepools": "ResourcePool",
    "optimizationpolicies": "OptimizationPolicy",
    "workloads": "Workload",
    "admissionchecks": "AdmissionCheck",
    "namespaces": "Namespace",
    "deployments": "Deployment",
}
FIXED_OF_JOBS = ("template", "selector", "completionMode")
Key = tuple[str, str, str]  # verb, resource with subresource, group


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, message: str, *, retry_after: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class KubeStore:
    """The state of a cluster."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.version = 100
        self.oldest = 100  # changes before this version are forgotten
        self.objects: dict[str, dict[str, dict[str, Any]]] = {plural: {} for plural in KINDS}
        self.log: list[tuple[int, str, str, dict[str, Any]]] = []
        self.now = "2026-01-01T00:00:00Z"
        self.made = 0
        self.blocked: dict[str, int] = {}  # by pod: how many evictions a budget refuses

    # -- by tests and controllers ------------------------------------------------------------------

    def put(self, plural: str, raw: dict[str, Any]) -> None:
        """Add an object, or change it, whatever anybody else did."""
        with self.lock:
            uid = raw["metadata"]["uid"]
            self._keep(plural, uid, {"kind": KINDS[plural], **copy.deepcopy(raw)})

    def delete(self, plural: str, uid: str) -> None:
        with self.lock:
            self.version += 1
            raw = self.objects[plural].pop(uid)
            self.log.append((self.version, plural, "DELETED", raw))
            self.lock.notify_all()

    def bookmark(self, plural: str) -> None:
        with self.lock:
            self.version += 1
            raw = {"kind": KINDS[plural], "metadata": {"resourceVersion": str(self.version)}}
            self.log.append((self.version, plural, "BOOKMARK", raw))
            self.lock.notify_all()

    def forget(self) -> None:
        """Compact: nobody can watch from an old version any more."""
        with self.lock:
            self.version += 1
            self.oldest = self.version
            self.log.clear()

    def all(self, plural: str) -> list[dict[str, Any]]:
        with self.lock:
            return list(self.objects[plural].values())

    def named(self, plural: str, name: str, namespace: str = "") -> dict[str, Any]:
        with self.lock:
            for raw in self.objects[plural].values():
                meta = raw["metadata"]
                if meta.get("name") == name and namespace in ("", meta.get("namespace", "")):
                    return raw
        raise ApiError(404, f'{plural} "{name}" not found')

    # -- by requests -------------------------------------------------------------------------------

    def create(
        self, plural: str, namespace: str, body: dict[str, Any], manager: str
    ) -> dict[str, Any]:
        with self.lock:
            self.made += 1
            meta = dict(body.get("metadata") or {})
            name = meta.get("name") or f"{meta.pop('generateName', 'made-')}{self.made:05d}"
            if any(
                each["metadata"].get("name") == name
                and each["metadata"].get("namespace", "") == namespace
                for each in self.objects[plural].values()
            ):
                raise ApiError(409, f'{plural} "{name}" already exists')
            uid = f"uid-{plural}-{self.made}"
            meta |= {"name": name, "uid": uid, "creationTimestamp": self.now, "generation": 1}
            meta |= {"namespace": namespace} if namespace else {}
            raw = {"kind": KINDS[plural], **copy.deepcopy(body), "metadata": meta}
            _note_manager(raw, {}, manager)
            self._validated(plural, raw, None)
            return self._keep(plural, uid, raw)

    def patch(
        self,
        plural: str,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        manager: str,
        below: str = "",
    ) -> dict[str, Any]:
        with self.lock:
            old = self.named(plural, name, namespace)
            meta = body.get("metadata") or {}
            version = meta.get("resourceVersion")
            if version is not None and version != old["metadata"]["resourceVersion"]:
                raise ApiError(409, f'"{name}": the object has been modified')
            if meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
                raise ApiError(409, f'"{name}": the uid in the precondition does not match')
            part = {"status": body.get("status", {})} if below == "status" else dict(body)
            if below != "status":
                part.pop("status", None)
            new = _merged(old, part)
            if _spec(new) != _spec(old):
                new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
                _note_manager(new, _spec(old), manager)
            self._validated(plural, new, old)
            if new == old:
                return old  # a patch that changes nothing makes no new version
            return self._keep(plural, old["metadata"]["uid"], new)

    def evict(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        with self.lock:
            pod = self.named("pods", name, namespace)
            wanted = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
            if wanted not in (None, pod["metadata"]["uid"]):
                raise ApiError(409, f'"{name}": the uid in the precondition does not match')
            if self.blocked.get(name, 0) > 0:
                self.blocked[name] -= 1
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                raise ApiError(429, message, retry_after="10")
            meta = {**pod["metadata"], "deletionTimestamp": self.now}
            disrupted = {"type": "DisruptionTarget", "status": "True"}
            status = {**pod.get("status", {}), "conditions": [disrupted]}
            self._keep("pods", meta["uid"], {**pod, "metadata": meta, "status": status})

    def remove(self, plural: str, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """Delete an object. With `Foreground` it stays until what it owns is gone."""
        with self.lock:
            old = self.named(plural, name, namespace)
            meta = old["metadata"]
            wanted = body.get("preconditions", {}).get("uid")
            if wanted not in (None, meta["uid"]):
                raise ApiError(409, f'"{name}": the uid in the precondition does not match')
            if body.get("propagationPolicy") != "Foreground":
                raise AssertionError("what it owns would be left behind, or go at once")
            meta = {**meta, "deletionTimestamp": self.now}
            self._keep(plural, meta["uid"], {**old, "metadata": meta})

    # -- rules -------------------------------------------------------------------------------------

    def _validated(
        self, plural: str, new: Mapping[str, Any], old: Mapping[str, Any] | None
    ) -> None:
        if fault := wrong_field(plural, new, old):
            raise ApiError(422, fault)
        if plural == "jobs" and not _spec(_spec(new).get("template", {})).get("containers"):
            raise ApiError(422, "spec.template.spec.containers: Required value")
        template = _spec(_spec(new).get("template", {}))
        ignores = plural == "jobs" and "podFailurePolicy" in _spec(new)
        if ignores and template.get("restartPolicy") != "Never":
            why = "only Never is supported when podFailurePolicy is specified"
            raise ApiError(422, f"spec.template.spec.restartPolicy: {why}")
        if plural != "jobs" or old is None:
            return
        spec, was = _spec(new), _spec(old)
        for name in FIXED_OF_JOBS:
            if spec.get(name) != was.get(name):
                raise ApiError(422, f"spec.{name}: field is immutable")
        together = spec.get("completions") == spec.get("parallelism")
        if spec.get("completions") != was.get("completions") and not together:
            raise ApiError(422, "spec.completions: field is immutable")

    def _keep(self, plural: str, uid: str, raw: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        known = uid in self.objects[plural]
        raw = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self.version)}}
        self.objects[plural][uid] = raw
        self.log.append((self.version, plural, "MODIFIED" if known else "ADDED", raw))
        self.lock.notify_all()
        return raw


def _spec(raw: Mapping[str, Any]) -> dict[str, Any]:
    return dict(raw.get("spec") or {})


def _merged(old: Any, part: Any) -> Any:
    """Merge as RFC 7386 does: null removes, lists are replaced."""
    if not isinstance(part, Mapping):
        return copy.deepcopy(part)
    new = dict(old) if isinstance(old, Mapping) else {}
    for key, value in part.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = _merged(new.get(key), value)
    return new


def _note_manager(new: dict[str, Any], before: Mapping[str, Any], manager: str) -> None:
    """Note who has changed which field of the spec, as the server does in managedFields."""
    spec = _spec(new)
    changed = {f"f:{key}" for key in {*spec, *before} if spec.get(key) != before.get(key)}
    kept: dict[str, set[str]] = {}
    for each in new["metadata"].get("managedFields", ()):
        kept[each["manager"]] = {*each["fieldsV1"].get("f:spec", {})} - changed
    kept.setdefault(manager, set()).update(
        name for name in changed if name.removeprefix("f:") in spec
    )
    new["metadata"]["managedFields"] = [
        {
            "manager": name,
            "operation": "Update",
            "fieldsV1": {"f:spec": {key: {} for key in fields}},
        }
        for name, fields in kept.items()
        if fields
    ]
