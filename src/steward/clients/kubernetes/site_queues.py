"""Nodes of a Kubernetes as queues of a site: one for each shape of node."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.kubernetes.objects import WHOLE_GPUS, map_in, maps_in, quantity
from steward.errors import StewardError
from steward.model.planning.catalog import Charging, Queue, Source

__all__ = ["KubernetesSite", "read_kubernetes_site"]

_HINT = "give it what `kubectl get nodes -o json` prints"
_SPOT = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
_MODELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")
_CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSite:
    """Queues, with GPUs called as their labels call them."""

    queues: tuple[Queue, ...]
    region: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    instance_type: str
    cores: int
    gpus: int
    gpu_model: str
    spot: bool


def read_kubernetes_site(text: str, *, source: Source, where: str) -> KubernetesSite:
    """Return the queues of a list of nodes; those of the control plane are left out."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise StewardError(f"this is no JSON: {fault}", where=where, hint=_HINT) from None
    nodes = maps_in(answer, "items") if isinstance(answer, dict) else []
    workers = [node for node in nodes if node.get("kind") in (None, "Node") and not _controls(node)]
    shapes: dict[_Shape, list[int]] = defaultdict(list)
    for node in workers:
        shapes[_shape(node)].append(int(quantity(_resources(node).get("memory"))))
    if not shapes:
        raise StewardError("there is no node for jobs in it", where=where, hint=_HINT)
    names = _names(list(shapes))
    queues = tuple(
        _queue(name, shape, shapes[shape], source)
        for name, shape in zip(names, shapes, strict=True)
    )
    regions = {_labels(node).get("topology.kubernetes.io/region", "") for node in workers} - {""}
    notes = ["what it costs is not in it: write `charging` where it is not free"]
    if len(regions) > 1:
        notes.append(f"its nodes are in several regions: {', '.join(sorted(map(str, regions)))}")
    region = str(regions.pop()) if len(regions) == 1 else ""
    return KubernetesSite(queues=queues, region=region, notes=tuple(notes))


def _controls(node: Mapping[str, Any]) -> bool:
    taints = maps_in(map_in(node, "spec"), "taints")
    return any(
        each.get("key") in _CONTROL and each.get("effect") != "PreferNoSchedule" for each in taints
    )


def _labels(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return map_in(map_in(node, "metadata"), "labels")


def _resources(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what pods can have; the kernel and the kubelet have taken theirs."""
    status = map_in(node, "status")
    return map_in(status, "allocatable") or map_in(status, "capacity")


def _shape(node: Mapping[str, Any]) -> _Shape:
    has, labels = _resources(node), _labels(node)
    return _Shape(
        instance_type=str(labels.get("node.kubernetes.io/instance-type") or ""),
        cores=int(quantity(has.get("cpu"))),
        gpus=sum(int(quantity(has.get(name))) for name in WHOLE_GPUS),
        gpu_model=str(next((labels[name] for name in _MODELS if labels.get(name)), "")),
        spot=any(labels.get(name) == value for name, value in _SPOT.items()),
    )


def _names(shapes: list[_Shape]) -> list[str]:
    """Return a name for each: its instance type, else what it has; unique by a number."""
    names: list[str] = []
    for shape in shapes:
        gpus = f"{shape.gpus}x{shape.gpu_model or 'gpu'}-" if shape.gpus else ""
        name = shape.instance_type or f"{gpus}{shape.cores}c"
        name = f"{name}-spot" if shape.spot else name
        same = sum(each == name or each.startswith(f"{name}#") for each in names)
        names.append(f"{name}#{same + 1}" if same else name)
    return names


def _queue(name: str, shape: _Shape, memory: list[int], source: Source) -> Queue:
    return Queue(
        name=name,
        submit_as=shape.instance_type if shape.instance_type != name else "",
        cores_per_node=shape.cores,
        memory_bytes_per_node=min(memory),
        gpus_per_node=shape.gpus,
        gpu_model=shape.gpu_model if shape.gpus else "",
        nodes=len(memory),
        interruptible=shape.spot,
        charging=Charging(usd_per_unit=None),
        source=source,
    )
