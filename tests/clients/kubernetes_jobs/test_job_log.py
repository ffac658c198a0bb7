"""The log of a job whose pods come and go: Kubernetes deletes a log with its pod."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.kube_user_jobs import UserBed, UserCluster, configured, kubeconfig
from beds.kubernetes import KubeDouble, kube_double, node
from steward.clients.kubernetes import Api, find_credentials
from steward.clients.kubernetes_jobs import job_log
from steward.clients.kubernetes_jobs.engine import KubernetesJobs
from steward.clients.kubernetes_jobs.job_log import KubeLog


class Bench:
    """A cluster in which nothing happens by itself, and one job there."""

    def __init__(self, double: KubeDouble, folder: Path) -> None:
        self.double = double
        self.cluster = UserCluster(double)
        file = kubeconfig(double, folder / "kubeconfig")
        self.bed = UserBed(config=configured(folder, file))
        access = find_credentials(str(file))
        assert access is not None
        self.api = Api(access)
        self.jobs = KubernetesJobs(self.api, namespace="bio")
        command = ("sh", "-c", "echo begun; sleep 600")
        self.job = self.bed.submit("--saves", "5", "--", *command)
        self.tick()

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.cluster.tick()

    @property
    def pod(self) -> str:
        (found,) = self.double.all("pods")
        return str(found["metadata"]["name"])

    def set(self, **status: object) -> None:
        """Change the status of the pod."""
        (pod,) = self.double.all("pods")
        self.double.put("pods", {**pod, "status": {**pod["status"], **status}})

    def preempt_and_resume(self) -> None:
        assert self.bed.jobs("preempt", self.job).code == 0
        self.tick(4)
        assert self.double.all("pods") == []
        assert self.bed.jobs("resume", self.job).code == 0
        self.tick(4)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with kube_double() as double:
        double.put("nodes", node("n1", gpus=8))
        double.put("namespaces", {"metadata": {"uid": "ns", "name": "bio"}})
        double.installed = False
        made = Bench(double, tmp_path)
        yield made
        made.api.close()


def read_all(log: KubeLog) -> tuple[str, list[str]]:
    """Return all that there is now, and the notes beside it."""
    text, notes = "", []
    while True:
        part = log.read()
        text += part.text
        notes += [part.note] if part.note else []
        if not part.text:
            return text, notes


def test_a_log_that_is_followed_goes_on_with_the_pod_of_the_next_run(bench: Bench) -> None:
    log = bench.jobs.log(bench.job)

    first, old = read_all(log), bench.pod
    bench.preempt_and_resume()
    bench.double.logs[bench.pod] = "begun again, and more than the pod before has printed\n"
    second = read_all(log)

    assert first == ("begun\n", [])
    assert second == (
        "begun again, and more than the pod before has printed\n",
        [f"pod {old} is gone: its last lines may be missing"],
    )


def test_a_log_whose_beginning_went_with_its_pods_says_so(bench: Bench) -> None:
    bench.preempt_and_resume()

    answer = bench.bed.jobs("logs", bench.job)

    assert answer.out == "begun\n"
    assert "what its pods printed before was deleted with them" in answer.err


def test_a_stopped_job_says_where_its_log_is(bench: Bench) -> None:
    assert bench.bed.jobs("preempt", bench.job).code == 0
    bench.tick(4)

    answer = bench.bed.jobs("logs", bench.job)

    assert (answer.code, answer.out) == (0, "")
    assert "deleted with them" in answer.err


def test_failed_pods_that_are_still_there_are_read_before_the_newest(bench: Bench) -> None:
    (pod,) = bench.double.all("pods")
    failed = {**pod["metadata"], "uid": "pod-0", "name": "failed"}
    failed["creationTimestamp"] = "2020-01-01T00:00:00Z"
    bench.double.put("pods", {**pod, "metadata": failed, "status": {"phase": "Failed"}})
    bench.double.logs["failed"] = "failed\n"

    assert read_all(bench.jobs.log(bench.job)) == ("failed\nbegun\n", [])


def test_what_a_container_printed_before_its_restart_is_read_first(bench: Bench) -> None:
    followed = bench.jobs.log(bench.job)
    first = read_all(followed)

    bench.double.logs_before[bench.pod] = "begun\nand crashed\n"
    bench.double.logs[bench.pod] = "restarted\n"
    bench.set(containerStatuses=[{"name": "main", "restartCount": 1}])

    assert first == ("begun\n", [])
    assert read_all(followed) == ("and crashed\nrestarted\n", [])
    assert read_all(bench.jobs.log(bench.job)) == ("begun\nand crashed\nrestarted\n", [])


def test_a_log_that_was_rotated_says_that_lines_may_be_missing(bench: Bench) -> None:
    log = bench.jobs.log(bench.job)
    read_all(log)

    bench.double.logs[bench.pod] = "much later, in the file after the rotation\n"
    text, notes = read_all(log)

    assert text == "much later, in the file after the rotation\n"
    assert notes == [f"the log of pod {bench.pod} was rotated: lines may be missing here"]


def test_a_large_log_is_read_in_few_requests_and_whole_characters(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "MOST_BYTES", 64)
    bench.double.logs[bench.pod] = "€ " * 4000
    before = len(bench.double.asked)

    text, _ = read_all(bench.jobs.log(bench.job))

    asked = [each for each in bench.double.asked[before:] if "/log?" in each]
    assert text == "€ " * 4000
    assert len(asked) <= 10
