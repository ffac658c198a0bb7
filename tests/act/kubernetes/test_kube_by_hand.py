"""What a person would type with kubectl instead of steward, and that it is then theirs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from beds.kube_cluster import KubeCluster, job
from beds.kubernetes import KubeDouble, kube_double, node, pod
from factories import decision
from steward.act.actuators.kubernetes import Kubernetes
from steward.clients.kubernetes.annotations import DECISION, ELASTIC, HOLD, SAVES
from steward.model.actions import (
    Action,
    Drain,
    Migrate,
    Preempt,
    Reprioritise,
    Resize,
    Resume,
    Start,
    Tell,
    Undrain,
)
from steward.model.by_hand import ByHand
from steward.model.identity import GpuId, JobId, NodeId

T_S = 2000.0
GPUS = tuple(GpuId(f"n1/gpu{i}") for i in range(8))
SAVER = {SAVES: "30"}


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1"))
        yield running


def by_hand(double: KubeDouble, action: Action) -> ByHand:
    return Kubernetes(api=double.api()).by_hand(decision("d-1", action=action, t_s=T_S), T_S)


def carried_out(double: KubeDouble, action: Action) -> str:
    engine = Kubernetes(api=double.api(), settle_s=0.0)
    return engine.carry_out(decision("d-2", action=action, t_s=T_S), T_S).result


def type_it(double: KubeDouble, found: ByHand) -> None:
    """Do what kubectl does for these lines, as somebody else than steward."""
    for line in found.commands:
        words = shlex.split(line)
        if words[:2] in (["kubectl", "cordon"], ["kubectl", "uncordon"]):
            closed = {"unschedulable": words[1] == "cordon" or None}
            untainted = {"taints": None} if "taint" in words else {}
            double.patch("nodes", "", words[2], {"spec": closed | untainted}, manager="kubectl")
        elif words[0] == "echo":
            name = words[words.index("--raw") + 1].split("/")[-2]
            double.evict("bio", name, json.loads(words[1]))
        else:
            assert words[:4] == ["kubectl", "-n", "bio", "patch"]
            body = json.loads(words[words.index("-p") + 1])
            double.patch(f"{words[4]}s", "bio", words[5], body, manager="kubectl-patch")


def made(double: KubeDouble, **spec: Any) -> JobId:
    raw = double.create("jobs", "bio", job("train", **spec), "kubectl")
    return JobId(f"batch:{raw['metadata']['uid']}")


def train(double: KubeDouble) -> dict[str, Any]:
    return double.named("jobs", "train")


def test_a_held_job_is_started_by_hand(double: KubeDouble) -> None:
    of = made(double, suspend=True, annotations={HOLD: "true", "kept": "yes"})

    found = by_hand(double, Start(job=of, gpus=GPUS))
    type_it(double, found)

    assert (found.possible, len(found.commands)) == (True, 1)
    assert train(double)["spec"]["suspend"] is False
    assert train(double)["metadata"]["annotations"] == {"kept": "yes"}


def test_what_a_person_preempts_by_hand_steward_does_not_resume(double: KubeDouble) -> None:
    of = made(double, annotations=SAVER)
    KubeCluster(double).tick()

    type_it(double, by_hand(double, Preempt(job=of, gpus=GPUS)))
    resumed = by_hand(double, Resume(job=of, gpus=GPUS))

    assert train(double)["spec"]["suspend"] is True
    assert DECISION not in train(double)["metadata"]["annotations"]
    assert (resumed.possible, resumed.commands) == (False, ())
    assert "kubectl-patch" in resumed.text


def test_an_elastic_job_is_resized_by_hand(double: KubeDouble) -> None:
    of = made(double, parallelism=2, annotations={ELASTIC: "1-4"})
    KubeCluster(double).tick()

    found = by_hand(double, Resize(job=of, now=(*GPUS, GpuId("n2/gpu0")), then=GPUS))
    type_it(double, found)

    assert found.possible, found.text
    assert train(double)["spec"]["parallelism"] == 1


def test_a_node_is_cordoned_by_hand_and_is_then_that_persons(double: KubeDouble) -> None:
    drain, undrain = Drain(node=NodeId("n1"), gpus=GPUS), Undrain(node=NodeId("n1"), gpus=GPUS)

    found = by_hand(double, drain)
    type_it(double, found)
    theirs = by_hand(double, undrain)
    double.patch("nodes", "", "n1", {"spec": {"unschedulable": None}}, manager="kubectl")
    assert carried_out(double, drain) == "done"
    ours = by_hand(double, undrain)
    type_it(double, ours)

    assert (found.commands, theirs.possible) == (("kubectl cordon n1",), False)
    untaint = "kubectl taint nodes n1 steward.dev/drained-"
    assert ours.commands == (f"kubectl uncordon n1 && {untaint}",)
    assert "taints" not in double.named("nodes", "n1")["spec"]
    assert "unschedulable" not in double.named("nodes", "n1")["spec"]


def test_a_pod_is_evicted_by_hand(double: KubeDouble) -> None:
    raw = pod("u1")
    raw["metadata"] |= {
        "name": "train-a1",
        "annotations": SAVER,
        "ownerReferences": [
            {"kind": "PyTorchJob", "name": "train", "uid": "o1", "controller": True}
        ],
    }
    double.put("pods", raw)

    found = by_hand(double, Preempt(job=JobId("pod:u1"), gpus=GPUS))
    type_it(double, found)

    assert found.possible, found.text
    assert double.named("pods", "train-a1", "bio")["metadata"].get("deletionTimestamp")


def test_what_kubernetes_refuses_has_a_reason_and_no_command(double: KubeDouble) -> None:
    of = made(double)
    KubeCluster(double).tick()
    impossible: list[Action] = [
        Preempt(job=of, gpus=GPUS),
        Reprioritise(job=of, before=1, priority=5),
        Migrate(job=of, source=GPUS, target=GPUS),
        Start(job=JobId("batch:gone"), gpus=GPUS),
    ]

    found = [by_hand(double, each) for each in impossible]

    assert [(each.possible, each.commands) for each in found] == [(False, ())] * 4
    assert "kubernetes cannot migrate" in found[2].text
    assert by_hand(double, Tell(to="ada", about="x", text="rest")) == ByHand(text="tell ada: rest")
    assert not any(verb == "patch" for verb, _, _ in double.calls)
