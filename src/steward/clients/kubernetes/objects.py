"""Pods, nodes and warnings of Kubernetes, without the nine tenths that are not used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from steward.clients.kubernetes.annotations import annotations_of, managers_of

__all__ = [
    "WHOLE_GPUS",
    "KubeNode",
    "Pod",
    "WarningEvent",
    "map_in",
    "maps_in",
    "node_from",
    "pod_from",
    "quantity",
    "time_s",
    "warned_from",
]

WHOLE_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
_SLICES = ("nvidia.com/mig-", "nvidia.com/gpu.shared")
_QUANTITY = re.compile(r"([+-]?[\d.]+(?:[eE][+-]?\d+)?)(m|k|[KMGTPE]i?)?")
_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3} | {
    f"{letter}{binary}": (1024.0 if binary else 1000.0) ** (power + 1)
    for power, letter in enumerate("KMGTPE")
    for binary in ("", "i")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod. `exit_code` and `ended_reason` are those of the container that ended worst."""

    uid: str
    name: str
    namespace: str
    node: str
    phase: str
    reason: str  # why it waits or failed: Unschedulable, Evicted, ...
    message: str
    created_s: float
    start_s: float | None
    end_s: float | None
    owner_kind: str
    owner_name: str
    gpus: int
    slices: tuple[str, ...]
    gpu_product: str
    cpus: float
    memory_bytes: int
    memory_limit_bytes: int
    priority: int
    restarts: int
    exit_code: int | None
    ended_reason: str  # OOMKilled, Error, Completed, ...
    version: str = ""
    owner_uid: str = ""
    controlled: bool = False  # by something that replaces it when it is evicted
    left_alone: str = ""  # what of its namespace leaves stopping it to people
    counted: bool = False  # its Job counts an eviction as a failure, or cannot be read
    gates: tuple[str, ...] = ()  # it is not scheduled before these are removed
    leaving: bool = False  # it was deleted or evicted, and has its grace period
    grace_s: float = 30.0
    devices: Mapping[str, int] = field(default_factory=dict)  # by resource name
    node_selector: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """One node."""

    uid: str
    name: str
    ready: bool | None
    cordoned: bool
    reason: str
    gpus: int
    gpu_product: str
    gpu_memory_bytes: int
    cpus: int
    memory_bytes: int
    version: str = ""
    cordoned_by: frozenset[str] = frozenset()  # managers of the field
    devices: Mapping[str, int] = field(default_factory=dict)  # by resource name
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningEvent:
    """A warning that Kubernetes gave about something. It counts repeats instead of repeating."""

    uid: str
    t_s: float | None
    reason: str
    message: str
    kind: str
    name: str
    about_uid: str
    count: int


def pod_from(raw: Mapping[str, Any]) -> Pod | None:
    """Read a pod; None when it is not one."""
    meta, spec, status = map_in(raw, "metadata"), map_in(raw, "spec"), map_in(raw, "status")
    if not meta.get("uid"):
        return None
    containers = maps_in(spec, "containers")
    requests = [map_in(map_in(each, "resources"), "requests") for each in containers]
    limits = [map_in(map_in(each, "resources"), "limits") for each in containers]
    # GPUs are requested as limits; requests follow. Either may be all that is written.
    devices = [{**request, **limit} for request, limit in zip(requests, limits, strict=True)]
    owner = next(iter(maps_in(meta, "ownerReferences")), {})
    reason, message = _why(status)
    ends = [*_ends(status)]
    worst = max(ends, key=_badness, default={})
    phase = str(status.get("phase") or "Unknown")
    grace_s = spec.get("terminationGracePeriodSeconds")
    return Pod(
        uid=str(meta["uid"]),
        name=str(meta.get("name") or ""),
        namespace=str(meta.get("namespace") or ""),
        node=str(spec.get("nodeName") or ""),
        phase=phase,
        reason=reason,
        message=message,
        created_s=time_s(meta.get("creationTimestamp")) or 0.0,
        start_s=time_s(status.get("startTime")) if spec.get("nodeName") else None,
        end_s=_end(phase, ends),
        owner_kind=str(owner.get("kind") or ""),
        owner_name=str(owner.get("name") or ""),
        gpus=sum(int(quantity(each.get(name))) for each in devices for name in WHOLE_GPUS),
        slices=_slices(devices),
        gpu_product=str(map_in(spec, "nodeSelector").get("nvidia.com/gpu.product") or ""),
        cpus=sum(quantity(each.get("cpu")) for each in requests),
        memory_bytes=int(sum(quantity(each.get("memory")) for each in requests)),
        memory_limit_bytes=int(sum(quantity(each.get("memory")) for each in limits)),
        priority=int(spec.get("priority") or 0),
        restarts=sum(int(each.get("restartCount") or 0) for each in _containers(status)),
        exit_code=int(worst["exitCode"]) if "exitCode" in worst else None,
        ended_reason=str(worst.get("reason") or ""),
        version=str(meta.get("resourceVersion") or ""),
        owner_uid=str(owner.get("uid") or ""),
        controlled=bool(owner.get("controller")),
        gates=tuple(str(each.get("name")) for each in maps_in(spec, "schedulingGates")),
        leaving=bool(meta.get("deletionTimestamp")),
        grace_s=30.0 if grace_s is None else float(grace_s),
        devices=_devices(devices),
        node_selector={str(k): str(v) for k, v in map_in(spec, "nodeSelector").items()},
        priority_class=str(spec.get("priorityClassName") or ""),
        annotations=annotations_of(meta),
    )


def node_from(raw: Mapping[str, Any]) -> KubeNode | None:
    """Read a node; None when it is not one."""
    meta, spec, status = map_in(raw, "metadata"), map_in(raw, "spec"), map_in(raw, "status")
    if not meta.get("uid"):
        return None
    has = map_in(status, "capacity")
    labels = map_in(meta, "labels")
    ready = next(
        (each for each in maps_in(status, "conditions") if each.get("type") == "Ready"), {}
    )
    is_ready = {"True": True, "False": False}.get(str(ready.get("status")))
    taints = [str(each.get("key") or "") for each in maps_in(spec, "taints")]
    cordoned = bool(spec.get("unschedulable"))
    return KubeNode(
        uid=str(meta["uid"]),
        name=str(meta.get("name") or ""),
        ready=is_ready,
        cordoned=cordoned,
        reason=str(ready.get("message") or "") if is_ready is not True else ", ".join(taints),
        gpus=sum(int(quantity(has.get(name))) for name in WHOLE_GPUS),
        gpu_product=str(
            labels.get("nvidia.com/gpu.product") or labels.get("amd.com/gpu.product-name") or ""
        ),
        gpu_memory_bytes=int(quantity(labels.get("nvidia.com/gpu.memory")) * 2**20),
        cpus=int(quantity(has.get("cpu"))),
        memory_bytes=int(quantity(has.get("memory"))),
        version=str(meta.get("resourceVersion") or ""),
        cordoned_by=managers_of(meta, "unschedulable"),
        devices=_devices([has]),
        labels={str(key): str(value) for key, value in labels.items()},
        annotations=annotations_of(meta),
        taints=tuple(maps_in(spec, "taints")),
    )


def warned_from(raw: Mapping[str, Any]) -> WarningEvent | None:
    """Read an event of the kind Warning; None for all others."""
    meta, about = map_in(raw, "metadata"), map_in(raw, "involvedObject")
    if raw.get("type") != "Warning" or not meta.get("uid"):
        return None
    times = (raw.get("lastTimestamp"), raw.get("eventTime"), meta.get("creationTimestamp"))
    series = map_in(raw, "series")
    return WarningEvent(
        uid=str(meta["uid"]),
        t_s=next((t_s for t_s in map(time_s, times) if t_s is not None), None),
        reason=str(raw.get("reason") or "Unknown"),
        message=str(raw.get("message") or "")[:1000],
        kind=str(about.get("kind") or ""),
        name=str(about.get("name") or ""),
        about_uid=str(about.get("uid") or ""),
        count=int(raw.get("count") or series.get("count") or 1),
    )


def quantity(value: object) -> float:
    """Read a quantity: 500m, 2, 64Gi, 1e3. What is none is 0.

    >>> [quantity(each) for each in ("500m", "64Gi", 8, "1k", None, "lots")]
    [0.5, 68719476736.0, 8.0, 1000.0, 0.0, 0.0]
    """
    found = _QUANTITY.fullmatch(str(value)) if value is not None else None
    try:
        return float(found[1]) * _SUFFIXES[found[2] or ""] if found else 0.0
    except ValueError:
        return 0.0


def _why(status: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a pod waits or failed: its own message, the scheduler's, or a container's."""
    if status.get("reason"):
        return str(status["reason"]), str(status.get("message") or "")
    for condition in maps_in(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("reason") or ""), str(condition.get("message") or "")
    for container in _containers(status):
        waiting = map_in(map_in(container, "state"), "waiting")
        if waiting.get("reason"):
            return str(waiting["reason"]), str(waiting.get("message") or "")
    return "", ""


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*maps_in(status, "initContainerStatuses"), *maps_in(status, "containerStatuses")]


def _ends(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return how containers ended, now or before they were started again."""
    for container in _containers(status):
        for when in ("state", "lastState"):
            ended = map_in(map_in(container, when), "terminated")
            if ended:
                yield ended


def _badness(ended: Mapping[str, Any]) -> tuple[bool, bool, float]:
    killed = ended.get("reason") == "OOMKilled"
    return killed, bool(ended.get("exitCode")), time_s(ended.get("finishedAt")) or 0.0


def _end(phase: str, ends: list[Mapping[str, Any]]) -> float | None:
    if phase not in ("Succeeded", "Failed"):
        return None
    return max((time_s(each.get("finishedAt")) or 0.0 for each in ends), default=0.0) or None


def _slices(devices: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    found = [
        f"{name.partition('/')[2]}:{int(quantity(count))}"
        for each in devices
        for name, count in each.items()
        if name.startswith(_SLICES) and quantity(count) >= 1
    ]
    return tuple(sorted(found))


def _devices(each: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many there are of each extended resource: GPUs, and slices of them."""
    found: dict[str, int] = {}
    for named in each:
        for name, count in named.items():
            if "/" in name and (number := int(quantity(count))):
                found[name] = found.get(name, 0) + number
    return found


def map_in(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under a name; empty where there is none."""
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def maps_in(raw: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list under a name."""
    value = raw.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def time_s(value: object) -> float | None:
    """Read a time; None where it is none."""
    try:
        return datetime.fromisoformat(str(value)).timestamp() if value else None
    except (ValueError, OverflowError):
        return None
