"""A chosen placement as Kubernetes is asked for it: affinity of pods, annotations for Kueue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steward.errors import StewardError

__all__ = ["KUEUE_PREFERRED", "LEAF_LABEL", "node_affinity", "topology_affinity"]

HOST_LABEL = "kubernetes.io/hostname"
LEAF_LABEL = "network.topology.nvidia.com/leaf"  # as topograph labels nodes
KUEUE_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
_WEIGHTS = 100


def node_affinity(nodes: Sequence[str], *, required: bool = False) -> dict[str, Any]:
    """Return the `affinity` of a pod that should, or must, run on one of these nodes."""
    if not nodes:
        raise StewardError(
            "no node is named", where="placement hints for Kubernetes", hint="name one at least"
        )
    match = {"key": HOST_LABEL, "operator": "In", "values": list(nodes)}
    term = {"matchExpressions": [match]}
    if required:
        rule: dict[str, Any] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    else:
        rule = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": _WEIGHTS, "preference": term}
            ]
        }
    return {"nodeAffinity": rule}


def topology_affinity(labels: dict[str, str], *, level: str = LEAF_LABEL) -> dict[str, Any]:
    """Return the affinity of a pod to others of its job (with these labels) under one switch."""
    term = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": level}
    preferred = [{"weight": _WEIGHTS, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
