"""Nodes of a Kubernetes become queues, one for each shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steward.clients.kubernetes.site_queues import KubernetesSite, read_kubernetes_site
from steward.errors import StewardError
from steward.model.planning.catalog import Source

SOURCE = Source(text="kubectl", as_of="2026-11-19")
GIB = 2**30


def node(name: str, *, gpus: int = 0, memory: str = "64Gi", **labels: str) -> dict[str, Any]:
    has = {"cpu": "15800m", "memory": memory, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "kind": "Node",
        "metadata": {"uid": name, "name": name, "labels": labels},
        "spec": {},
        "status": {"allocatable": has, "capacity": {"cpu": "16"}},
    }


def read(*nodes: dict[str, Any]) -> KubernetesSite:
    return read_kubernetes_site(json.dumps({"items": nodes}), source=SOURCE, where="f")


PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def test_nodes_that_are_alike_are_one_queue_with_what_pods_can_have() -> None:
    found = read(
        node("a", gpus=8, memory="900Gi", **PRODUCT),
        node("b", gpus=8, memory="890Gi", **PRODUCT),
        node("c"),
    )

    gpu, cpu = found.queues
    assert (gpu.name, gpu.nodes, gpu.gpus_per_node) == ("8xNVIDIA-A100-SXM4-80GB-15c", 2, 8)
    assert gpu.gpu_model == "NVIDIA-A100-SXM4-80GB"
    assert gpu.memory_bytes_per_node == 890 * GIB
    assert (cpu.name, cpu.cores_per_node, cpu.gpus_per_node) == ("15c", 15, 0)
    assert cpu.charging.usd_per_unit is None


def test_instance_types_spot_and_regions_are_read_from_labels() -> None:
    labels = {
        "node.kubernetes.io/instance-type": "p4d.24xlarge",
        "topology.kubernetes.io/region": "us-east-1",
    }

    found = read(
        node("a", gpus=8, **labels),
        node("b", gpus=8, **labels, **{"karpenter.sh/capacity-type": "spot"}),
    )

    demand, spot = found.queues
    assert (demand.name, demand.interruptible, demand.submit_as) == ("p4d.24xlarge", False, "")
    assert (spot.name, spot.interruptible, spot.submit_as) == (
        "p4d.24xlarge-spot",
        True,
        "p4d.24xlarge",
    )
    assert found.region == "us-east-1"


def test_shapes_of_one_name_are_numbered() -> None:
    labels = {"node.kubernetes.io/instance-type": "big"}

    found = read(node("a", gpus=8, **labels), node("b", gpus=4, **labels))

    assert [queue.name for queue in found.queues] == ["big", "big#2"]
    assert found.queues[1].submit_as == "big"


def test_nodes_of_several_regions_are_said_and_none_is_chosen() -> None:
    found = read(
        node("a", **{"topology.kubernetes.io/region": "x"}),
        node("b", **{"topology.kubernetes.io/region": "y"}),
    )

    assert found.region == ""
    assert "its nodes are in several regions: x, y" in found.notes


def test_the_control_plane_runs_no_jobs() -> None:
    control = node("c")
    control["spec"] = {
        "taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    }

    with pytest.raises(StewardError, match="no node for jobs"):
        read(control)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("[]", "no node"),
        ('{"items": 3}', "no node"),
        ('{"items": [3]}', "no node"),
    ],
)
def test_what_are_no_nodes_is_refused(text: str, says: str) -> None:
    with pytest.raises(StewardError, match=says) as caught:
        read_kubernetes_site(text, source=SOURCE, where="f")

    assert "kubectl get nodes -o json" in caught.value.hint


def test_nonsense_in_a_node_is_unknown() -> None:
    broken = {"kind": "Node", "metadata": [], "status": {"allocatable": {"cpu": {}, "memory": "x"}}}

    (queue,) = read(broken).queues

    assert (queue.cores_per_node, queue.memory_bytes_per_node) == (0, 0)
