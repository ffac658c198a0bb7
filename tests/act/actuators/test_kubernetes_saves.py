"""`save` as an action: pods are asked by an annotation, and answer in their logs, or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from act.actuators.test_kubernetes import allowed, engine, made
from beds.kube_cluster import KubeCluster
from beds.kubelet import kubelet
from beds.kubernetes import KubeDouble, kube_double, node
from clients.test_kubernetes_saves import TRAINING, Bed
from factories import decision
from patience import until
from steward.clients.kubernetes.annotations import SAVES
from steward.clients.kubernetes.calls import KubeRole
from steward.clients.kubernetes_jobs.manifest import ARRAY
from steward.clients.kubernetes_jobs.request_file import SAVE_REQUESTED, request_file
from steward.model.actions import Save
from steward.model.decision import Decision
from steward.model.identity import JobId
from steward.training.protocol import ANSWER_LINE

T_S = 2000.0


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1"))
        yield running


@pytest.fixture
def cluster(double: KubeDouble) -> KubeCluster:
    return KubeCluster(double)


def saver(double: KubeDouble, cluster: KubeCluster, **more: Any) -> JobId:
    """Create a Job whose pods have the file for requests, and let them run."""
    volume, mount, variable = request_file()
    container = {
        "name": "main",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [mount],
        "env": [variable],
    }
    template = {"containers": [container], "volumes": [volume]}
    annotations = {SAVES: "30", **more.pop("annotations", {})}
    of = made(double, gpus=1, template=template, annotations=annotations, **more)
    cluster.tick()
    return of


def save(of: JobId, name: str = "d-save") -> Decision:
    return decision(name, action=Save(job=of), t_s=T_S)


def answers(double: KubeDouble, pod: str, **answer: Any) -> None:
    record = {"id": "d-save", "result": "saved", "step": 7, **answer}
    double.logs[pod] = f"epoch 3\r{ANSWER_LINE}{json.dumps(record)}\n"


def names(double: KubeDouble) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in double.all("pods"))


def requests(double: KubeDouble) -> list[str]:
    notes = [pod["metadata"].get("annotations", {}) for pod in double.all("pods")]
    return [json.loads(each[SAVE_REQUESTED])["id"] for each in notes if SAVE_REQUESTED in each]


def test_a_job_is_asked_once_and_its_answer_is_the_receipt(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    what = save(saver(double, cluster, pods=2))

    asked = engine(double).carry_out(what, T_S)
    version = [pod["metadata"]["resourceVersion"] for pod in double.all("pods")]
    waits = engine(double).progress(what, T_S + 5)  # of a steward that was restarted meanwhile
    answers(double, names(double)[0])
    saved = engine(double).progress(what, T_S + 60)

    assert (asked.result, waits.result, saved.result) == ("begun", "begun", "done")
    assert "saved at step 7" in saved.text
    assert requests(double) == ["d-save", "d-save"]
    assert [pod["metadata"]["resourceVersion"] for pod in double.all("pods")] == version


def test_each_task_of_an_array_has_to_answer(double: KubeDouble, cluster: KubeCluster) -> None:
    what = save(saver(double, cluster, pods=2, annotations={ARRAY: "true"}))
    engine(double).carry_out(what, T_S)
    first, second = names(double)

    answers(double, first)
    half = engine(double).progress(what, T_S + 5)
    answers(double, second)
    saved = engine(double).progress(what, T_S + 6)

    assert (half.result, saved.result) == ("begun", "done")


def test_a_save_that_failed_or_never_came_is_reported_as_that(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    what = save(saver(double, cluster))
    engine(double).carry_out(what, T_S)

    late = engine(double, save_within_s=60.0).progress(what, T_S + 61)
    answers(double, names(double)[0], result="failed", why="disk full")
    broken = engine(double).progress(what, T_S + 62)

    assert (late.result, "0 of 1 pods have answered" in late.text) == ("failed", True)
    assert (broken.result, "disk full; it goes on" in broken.text) == ("failed", True)


def test_without_the_right_to_read_logs_only_the_request_is_reported(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    what = save(saver(double, cluster))
    double.rights = allowed(KubeRole.OBSERVE, KubeRole.JOBS)
    kubernetes = engine(double)

    kubernetes.carry_out(what, T_S)
    said = kubernetes.progress(what, T_S + 5)

    assert (said.result, "may not read its answer" in said.text) == ("done", True)
    assert Save in kubernetes.actions()
    assert ("get", "pods/log", "") not in double.calls


def test_a_job_that_cannot_be_asked_or_does_not_run_is_refused(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    plain = made(double, "plain", annotations={SAVES: "30"})
    cluster.tick()
    waiting = made(double, "waiting", suspend=True)

    asked = engine(double).carry_out(save(plain), T_S)
    idle = engine(double).carry_out(save(waiting), T_S)

    assert (asked.result, "has no file for that" in asked.text) == ("failed", True)
    assert (idle.result, "no running pod" in idle.text) == ("failed", True)
    assert requests(double) == []


@pytest.mark.parametrize("t_s", [1e12, -5, "soon", None])
def test_a_time_that_an_owner_wrote_keeps_no_decision_open(
    double: KubeDouble, cluster: KubeCluster, t_s: object
) -> None:
    what = save(saver(double, cluster))
    engine(double).carry_out(what, T_S)
    (pod,) = double.all("pods")
    forged = json.dumps({"id": "d-save", "do": "save", "t_s": t_s})
    pod["metadata"]["annotations"][SAVE_REQUESTED] = forged
    double.put("pods", pod)

    said = [engine(double).progress(what, T_S + late_s) for late_s in (301, 302, 700)]

    assert said[-1].result == "failed"


def test_a_real_training_saves_when_a_decision_asks_for_it(tmp_path: Path) -> None:
    with kube_double() as double, kubelet(double, tmp_path) as pods:
        double.installed = False
        double.put("nodes", node("n1", gpus=8))
        bed = Bed(double, pods)
        bed.run(TRAINING % "1", saves="20")
        (raw,) = double.all("jobs")
        what = save(JobId(f"batch:{raw['metadata']['uid']}"))
        kubernetes = engine(double)
        kubernetes.carry_out(what, T_S)

        def over() -> bool:
            pods.refresh()
            return kubernetes.progress(what, T_S + 5).result == "done"

        until(over, why="its answer")

        assert list(tmp_path.glob("*/checkpoints/step-*/manifest.json"))
