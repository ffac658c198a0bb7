"""A save without a stop on Kubernetes: from the annotation to the training, and back in the log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beds.kube_user_jobs import UserCluster
from beds.kubelet import Kubelet, kubelet
from beds.kubernetes import KubeDouble, kube_double, node
from patience import until
from steward.clients.kubernetes import Api
from steward.clients.kubernetes_jobs.engine import MANAGER, KubernetesJobs
from steward.clients.kubernetes_jobs.job_options import draft_of
from steward.errors import StewardError

TRAINING = """
import sys, time
from steward import training

class Weights:
    def state_dict(self): return {"w": %s}
    def load_state_dict(self, state): pass

job = training.attach(Weights(), folder="checkpoints")
print("training", end="\\r", flush=True)  # a line that is not ended, as of a progress bar
while True:
    time.sleep(0.001)
    job.step()
"""


class Bed:
    """A person, and a cluster with one node whose pods are processes."""

    def __init__(self, double: KubeDouble, pods: Kubelet) -> None:
        self.double = double
        self.cluster = UserCluster(double)
        self.pods = pods

    def person(self, *, within_s: float = 60.0) -> KubernetesJobs:
        api = Api(self.double.access(), manager=MANAGER)
        self.double.clients.append(api)
        return KubernetesJobs(api, namespace="bio", save_within_s=within_s)

    def run(self, program: str, **given: str) -> str:
        """Submit a program; return its id when all its pods are running and print."""
        command = (sys.executable, "-c", program, "sleep")
        draft = draft_of(command, {"token": "t", **given}, script="", image="i")
        id_ = str(self.person().submit(draft)["id"])
        self.cluster.tick()

        def printing() -> bool:
            self.pods.refresh()
            logs = self.double.logs
            return bool(logs) and all("training" in text for text in logs.values())

        until(printing, why="the training")
        return id_

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Let the kubelet work beside."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(0.05):
                self.pods.refresh()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    with kube_double() as double:
        double.installed = False
        double.put("nodes", node("n1", gpus=8))
        with kubelet(double, tmp_path) as pods:
            yield Bed(double, pods)


def test_a_running_job_saves_and_goes_on(bed: Bed, tmp_path: Path) -> None:
    id_ = bed.run(TRAINING % "1", saves="20")

    with bed.refreshing():
        (answer,) = bed.person().change("save", id_, {})

    (pod,) = bed.double.all("pods")
    (checkpoint,) = tmp_path.glob("*/checkpoints/step-*/manifest.json")
    assert answer["state"] == "running"
    assert answer["why"].startswith("saved at step ")
    assert str(checkpoint.parent) in answer["why"]
    assert "deletionTimestamp" not in pod["metadata"]


def test_each_task_of_an_array_saves(bed: Bed, tmp_path: Path) -> None:
    id_ = bed.run(TRAINING % "1", saves="20", array="0-1")

    with bed.refreshing():
        bed.person().change("save", id_, {})

    assert len({*tmp_path.glob("*/checkpoints")}) == 2


def test_a_training_that_cannot_save_is_reported_with_its_reason(bed: Bed) -> None:
    id_ = bed.run(TRAINING % "object()", saves="20")

    with bed.refreshing(), pytest.raises(StewardError, match=r"could not save: .*object"):
        bed.person().change("save", id_, {})


def test_a_program_that_does_not_look_is_waited_for_and_what_is_known_is_told(bed: Bed) -> None:
    id_ = bed.run("import time; print('training', flush=True); time.sleep(999)", saves="20")

    with bed.refreshing(), pytest.raises(StewardError) as refused:
        bed.person(within_s=0.5).change("save", id_, {})

    assert "0 of 1 pods have answered in their logs" in refused.value.problem
    assert "up to about a minute" in refused.value.problem
    assert "steward.training" in refused.value.hint


def test_a_server_that_is_away_for_a_while_and_a_kubelet_that_is_late_are_waited_for(
    bed: Bed,
) -> None:
    id_ = bed.run(TRAINING % "1", saves="20")
    answers: list[str] = []

    def ask() -> None:
        answers.append(bed.person().change("save", id_, {})[0]["why"])

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: any("log" in each for each in bed.double.asked), why="a look at the log")
    bed.double.down = 1
    with bed.refreshing():
        thread.join()

    assert "saved at step" in answers[0]


def test_who_may_not_read_logs_is_told_that_it_was_asked(bed: Bed) -> None:
    id_ = bed.run(TRAINING % "1", saves="20")
    bed.person().show(id_)
    bed.double.rights = {*bed.double.calls, ("patch", "pods", "")}

    with pytest.raises(StewardError, match="was asked to save, and its answer cannot be read"):
        bed.person().change("save", id_, {})


def test_what_would_be_sent_is_shown(bed: Bed) -> None:
    id_ = bed.run(TRAINING % "1", saves="20")

    (request,) = bed.person().requests("save", id_, {})

    assert request.typed.startswith("kubectl -n bio annotate --overwrite pod ")
    assert "steward.dev/save-requested" in request.typed


def test_one_that_waits_is_not_asked(bed: Bed) -> None:
    command = ("true",)
    draft = draft_of(command, {"token": "t", "saves": "5", "gpus": "9"}, script="", image="i")
    id_ = bed.person().submit(draft)["id"]
    bed.cluster.tick()

    with pytest.raises(StewardError, match="not running"):
        bed.person().change("save", id_, {})
