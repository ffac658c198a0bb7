"""Workloads and AdmissionChecks of Kueue, as far as they are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.clients.kubernetes.annotations import DOMAIN, save_time_s
from steward.clients.kubernetes.objects import map_in, maps_in, pod_from, quantity, time_s

__all__ = [
    "ADMISSION_CHECKS",
    "CONTROLLER",
    "WORKLOADS",
    "AdmissionCheck",
    "CheckState",
    "Workload",
    "admission_check_from",
    "workload_from",
]

_ROOT = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{_ROOT}/workloads"
ADMISSION_CHECKS = f"{_ROOT}/admissionchecks"
CONTROLLER = f"{DOMAIN}/lend"  # the name under which an AdmissionCheck is ours


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    """One check that is ours, for the pool that its parameters name."""

    uid: str
    name: str
    version: str
    generation: int
    refers_to: str  # "" or GROUP/KIND of its parameters
    pool: str
    status: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckState:
    """How a check stands for a workload: Pending, Ready, Retry or Rejected."""

    name: str
    state: str
    message: str
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload. `devices` are those of all its pods together, by resource name."""

    uid: str
    name: str
    namespace: str
    version: str
    created_s: float
    priority_class: str
    owner_uid: str
    owner_kind: str
    reserved: bool  # it has quota
    admitted_s: float | None  # since when; None: it is not
    evicted_s: float | None  # since when it is not gone yet, or waits to be queued again
    over: bool  # or about to be: finished, deactivated or deleted
    selector: Mapping[str, str]
    save_s: float | None
    grace_s: float
    pod_sets: Mapping[str, Mapping[str, str]]  # the node selector of each
    devices: Mapping[str, int] = field(default_factory=dict)
    checks: tuple[CheckState, ...] = ()
    raw_checks: tuple[Mapping[str, Any], ...] = ()  # as they were read: other controllers' too

    @property
    def evicted(self) -> bool:
        return self.evicted_s is not None

    @property
    def owner(self) -> tuple[str, str]:
        """To whom its pods belong; another namespace's object of that uid is another owner."""
        return self.namespace, self.owner_uid

    @property
    def can_save(self) -> bool:
        return self.save_s is not None and self.save_s <= self.grace_s

    @property
    def path(self) -> str:
        return f"{_ROOT}/namespaces/{self.namespace}/workloads/{self.name}"

    @property
    def label(self) -> str:
        """Name it for people."""
        return f"{self.namespace}/{self.name}"


def admission_check_from(raw: Mapping[str, Any]) -> AdmissionCheck | None:
    """Read a check; None when another controller's."""
    meta, spec = map_in(raw, "metadata"), map_in(raw, "spec")
    if not meta.get("uid") or spec.get("controllerName") != CONTROLLER:
        return None
    about = map_in(spec, "parameters")
    kind = f"{about.get('apiGroup') or ''}/{about.get('kind') or ''}" if about else ""
    return AdmissionCheck(
        uid=str(meta["uid"]),
        name=str(meta.get("name") or ""),
        version=str(meta.get("resourceVersion") or ""),
        generation=int(meta.get("generation") or 0),
        refers_to=kind,
        pool=str(about.get("name") or ""),
        status=map_in(raw, "status"),
    )


def workload_from(raw: Mapping[str, Any]) -> Workload | None:
    """Read a workload; None when it is not one."""
    meta, spec, status = map_in(raw, "metadata"), map_in(raw, "spec"), map_in(raw, "status")
    checks = maps_in(status, "admissionChecks")
    if not meta.get("uid"):
        return None
    since = {
        str(each.get("type")): time_s(each.get("lastTransitionTime")) or 0.0
        for each in maps_in(status, "conditions")
        if each.get("status") == "True"
    }
    owner = next((each for each in maps_in(meta, "ownerReferences")), {})
    templates = [map_in(each, "template") for each in maps_in(spec, "podSets")]
    pods = [map_in(each, "spec") for each in templates]
    notes = [map_in(map_in(each, "metadata"), "annotations") for each in templates]
    saves = [said for each in notes if (said := save_time_s(each)) is not None]
    graces = [each.get("terminationGracePeriodSeconds") for each in pods]
    classes = {str(each.get("priorityClassName") or "") for each in pods}
    return Workload(
        uid=str(meta["uid"]),
        name=str(meta.get("name") or ""),
        namespace=str(meta.get("namespace") or ""),
        version=str(meta.get("resourceVersion") or ""),
        created_s=time_s(meta.get("creationTimestamp")) or 0.0,
        priority_class=classes.pop() if len(classes) == 1 else "",
        owner_uid=str(owner.get("uid") or ""),
        owner_kind=str(owner.get("kind") or ""),
        reserved="QuotaReserved" in since,
        admitted_s=since.get("Admitted"),
        evicted_s=since.get("Evicted"),
        over="Finished" in since
        or spec.get("active") is False
        or bool(meta.get("deletionTimestamp")),
        selector=_common([map_in(each, "nodeSelector") for each in pods]),
        save_s=max(saves) if saves and len(saves) == len(templates) else None,
        grace_s=max((30.0 if each is None else float(each) for each in graces), default=30.0),
        pod_sets={
            str(each.get("name") or "main"): {
                str(k): str(v) for k, v in map_in(pod, "nodeSelector").items()
            }
            for each, pod in zip(maps_in(spec, "podSets"), pods, strict=True)
        },
        devices=_devices(spec, status),
        checks=tuple(
            CheckState(
                name=str(each.get("name") or ""),
                state=str(each.get("state") or ""),
                message=str(each.get("message") or ""),
                since_s=time_s(each.get("lastTransitionTime")) or 0.0,
            )
            for each in checks
        ),
        raw_checks=tuple(checks),
    )


def _common(selectors: list[Mapping[str, Any]]) -> dict[str, str]:
    """Return what all pod sets select: a pool has to have all of them."""
    first = selectors[0] if selectors else {}
    return {
        str(key): str(value)
        for key, value in first.items()
        if all(each.get(key) == value for each in selectors)
    }


def _devices(spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, int]:
    """Return what it was given quota for; what its pods ask for where that is not said."""
    found: dict[str, int] = {}
    assigned = {
        str(each.get("name") or "main"): each
        for each in maps_in(map_in(status, "admission"), "podSetAssignments")
    }
    for each in maps_in(spec, "podSets"):
        given = assigned.get(str(each.get("name") or "main"), {})
        usage = map_in(given, "resourceUsage")
        if usage:
            whole = {name: int(quantity(count)) for name, count in usage.items() if "/" in name}
        else:
            said = given.get("count", each.get("count"))
            pods = 1 if said is None else int(said)
            pod = pod_from(
                {"metadata": {"uid": "-"}, "spec": map_in(map_in(each, "template"), "spec")}
            )
            whole = {name: count * pods for name, count in (pod.devices if pod else {}).items()}
        for name, count in whole.items():
            found[name] = found.get(name, 0) + count
    return found
