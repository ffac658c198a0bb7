"""Pods become jobs, nodes a cluster, and a server that misbehaves costs nothing that is known."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beds.kubernetes import KubeDouble, kube_double, node, pod
from patience import until
from steward.clients.kubernetes import Api, Credentials
from steward.errors import StewardError
from steward.model.cluster import Health
from steward.model.event import Event, Observation
from steward.model.job import Job, JobState
from steward.model.span import Span
from steward.observe.collectors.kubernetes import Kubernetes

BEGAN_S = 1767225660.0  # 2026-01-01T00:01:00Z


class Seen:
    """All observations of a collector, merged."""

    def __init__(self, collector: Kubernetes) -> None:
        self.collector = collector
        self.t_s = 1_800_000_000.0
        self.jobs: dict[str, Job] = {}
        self.spans: dict[str, Span] = {}
        self.events: list[Event] = []
        self.health: dict[str, Health] = {}
        self.faults: list[StewardError] = []
        self.looks: list[Observation] = []

    def look(self) -> None:
        self.t_s += 1.0
        try:
            seen = self.collector.collect(self.t_s)
        except StewardError as fault:
            self.faults.append(fault)
            return
        self.looks.append(seen)
        self.jobs |= {job.id: job for job in seen.jobs}
        self.spans |= {span.id: span for span in seen.spans}
        self.events += seen.events
        self.health |= {str(gpu): health for gpu, health in seen.health.items()}

    def until(self, what: Callable[[], Any], *, why: str) -> None:
        def looked() -> Any:
            self.look()
            return what()

        until(looked, why=why)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1"))
        yield running


@pytest.fixture
def seen(double: KubeDouble) -> Iterator[Seen]:
    collector = Kubernetes(api=Api(double.access()))
    yield Seen(collector)
    end(double, collector)


def end(double: KubeDouble, collector: Kubernetes) -> None:
    """Stop watching: threads that wait for the server end when it hangs up."""
    for each in collector._watched.all if collector._watched else ():
        each._stop.set()
    double.cut()
    collector.close()


def begun(double: KubeDouble, seen: Seen, *pods: dict[str, Any]) -> None:
    for each in pods:
        double.put("pods", each)
    seen.until(lambda: len(seen.jobs) == len(pods) and seen.looks, why="the first list")
    seen.until(lambda: any(each.cluster for each in seen.looks), why="the cluster")


def test_a_pod_with_gpus_is_a_job_of_its_namespace(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen, pod("a1", gpus=2))

    job = seen.jobs["pod:a1"]
    assert (job.tenant, job.name, job.state) == ("bio", "train-a1", JobState.RUNNING)
    assert (job.shape.gpus, job.shape.cpus, job.shape.memory_bytes) == (2, 2, 64 * 2**30)
    assert (job.start_s, job.priority, job.gpus) == (BEGAN_S, 5, ())
    (span,) = seen.spans.values()
    assert (span.entity, span.name, span.to_s) == ("n1@pod:a1", "pod:a1", None)
    assert span.about["owner"] == "PyTorchJob/train"


def test_a_pod_that_has_all_gpus_of_its_node_is_known_to_hold_each(
    double: KubeDouble, seen: Seen
) -> None:
    begun(double, seen, pod("a1", gpus=8))

    assert len(seen.jobs["pod:a1"].gpus) == 8
    assert {span.entity for span in seen.spans.values()} >= {"n1@pod:a1", "n1/gpu0", "n1/gpu7"}


def test_nodes_are_the_cluster(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen)

    cluster = next(each.cluster for each in seen.looks if each.cluster)
    assert [(each.id, each.cpus, len(each.gpus)) for each in cluster.nodes] == [("n1", 64, 8)]
    assert cluster.gpus[0].model.memory_bytes == 81559 * 2**20


def test_pods_without_gpus_are_left_out_and_slices_are_not(double: KubeDouble, seen: Seen) -> None:
    slices = {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "2"}}}]}
    double.put("pods", pod("plain", gpus=0))

    begun(double, seen, pod("sliced", spec=slices))

    assert set(seen.jobs) == {"pod:sliced"}
    assert next(iter(seen.spans.values())).about["slices"] == "mig-1g.10gb:2"


def test_a_long_list_comes_in_pages(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen, *(pod(f"p{i}") for i in range(1201)))

    assert double.asked.count("/api/v1/pods?list") == 3


def test_a_failed_pod_is_reported_with_its_exit_code(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen, pod("a1"))
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T01:00:00Z"}
    status = {"containerStatuses": [{"restartCount": 0, "state": {"terminated": ended}}]}
    double.put("pods", pod("a1", phase="Failed", status=status))

    seen.until(lambda: seen.jobs["pod:a1"].state is JobState.FAILED, why="the end")

    assert seen.jobs["pod:a1"].end_s == 1767229200.0
    assert sorted(seen.kinds()) == ["job.failed", "job.out-of-memory"]
    assert "exit code 137, OOMKilled" in next(
        event.text for event in seen.events if event.kind == "job.failed"
    )
    (span,) = seen.spans.values()
    assert span.to_s == 1767229200.0


def test_a_container_that_starts_again_is_reported(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen, pod("a1"))
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T01:00:00Z"}
    status = {"containerStatuses": [{"restartCount": 1, "lastState": {"terminated": ended}}]}
    double.put("pods", pod("a1", status=status))

    seen.until(lambda: "job.restarted" in seen.kinds(), why="the restart")

    assert "exit code 1" in seen.events[0].text
    assert seen.jobs["pod:a1"].state is JobState.RUNNING


def test_a_pod_that_fits_nowhere_has_a_reason(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen)
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    status = {"conditions": [{**why, "message": message}]}
    double.put("pods", pod("a1", phase="Pending", status=status))

    seen.until(lambda: "job.unschedulable" in seen.kinds(), why="the reason")

    assert seen.jobs["pod:a1"].state is JobState.QUEUED
    assert seen.events[0].text == message
    assert seen.spans == {}


def test_a_deleted_pod_has_ended(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen, pod("a1"))
    double.delete("pods", "a1")

    seen.until(lambda: seen.jobs["pod:a1"].state.ended, why="the end")

    assert seen.jobs["pod:a1"].state is JobState.CANCELLED
    (span,) = seen.spans.values()
    assert span.to_s is not None


def test_warnings_become_events_and_repeats_are_reported_again(
    double: KubeDouble, seen: Seen
) -> None:
    begun(double, seen, pod("a1"))
    warning = {
        "metadata": {"uid": "w1"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no room",
        "lastTimestamp": "2026-01-01T00:00:30Z",
        "involvedObject": {"kind": "Pod", "name": "train-a1", "uid": "a1"},
    }
    double.put("events", {**warning, "count": 1})
    seen.until(seen.kinds, why="the warning")
    double.put("events", {**warning, "count": 2})
    seen.until(lambda: len(seen.events) == 2, why="the repeat")

    assert seen.kinds() == ["kubernetes.failed-scheduling"] * 2
    assert (seen.events[0].subject, seen.events[0].t_s) == ("job:pod:a1", 1767225630.0)


def test_a_cordoned_node_and_one_that_is_not_ready_are_reported(
    double: KubeDouble, seen: Seen
) -> None:
    begun(double, seen)
    double.put("nodes", node("n1", cordoned=True))
    seen.until(lambda: "node.drained" in seen.kinds(), why="the cordon")
    worn = seen.health["n1/gpu0"]
    double.put("nodes", node("n1", ready="Unknown"))
    seen.until(lambda: "node.down" in seen.kinds(), why="the loss")
    double.put("nodes", node("n1"))
    seen.until(lambda: "node.resumed" in seen.kinds(), why="the return")

    assert worn is Health.WORN
    assert seen.health["n1/gpu0"] is Health.UNKNOWN


# -- a server that misbehaves --------------------------------------------------------------------


def test_a_watch_that_breaks_off_continues_where_it_was(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen, pod("a1"))
    double.cut()
    double.put("pods", pod("a2"))

    seen.until(lambda: "pod:a2" in seen.jobs, why="the new pod")

    assert double.asked.count("/api/v1/pods?list") == 1


def test_a_version_that_is_gone_means_listing_again_and_noticing_what_went(
    double: KubeDouble, seen: Seen
) -> None:
    begun(double, seen, pod("a1"), pod("a2"))
    with double.lock:
        del double.objects["pods"]["a1"]  # without a watch event
    double.forget()
    double.cut()

    seen.until(lambda: seen.jobs["pod:a1"].state.ended, why="the end without a watch event")

    assert double.asked.count("/api/v1/pods?list") >= 2
    assert not seen.jobs["pod:a2"].state.ended


def test_bookmarks_move_the_version_on(double: KubeDouble, seen: Seen) -> None:
    begun(double, seen, pod("a1"))
    double.bookmark("pods")
    watched = seen.collector._watched
    assert watched is not None

    until(lambda: watched.pods._version == str(double.version), why="the bookmark")

    assert watched.pods.changes() == []


def test_a_token_that_is_not_accepted_is_a_fault_and_a_new_one_repairs_it(
    double: KubeDouble, seen: Seen
) -> None:
    double.refuse()
    seen.until(lambda: seen.faults, why="the fault")
    double.accept()
    double.put("pods", pod("a1"))

    seen.until(lambda: "pod:a1" in seen.jobs, why="the pod")

    assert "401" in seen.faults[0].problem
    assert "token" in seen.faults[0].hint


def test_nonsense_in_a_watch_is_a_fault_and_then_forgotten(double: KubeDouble, seen: Seen) -> None:
    double.rubbish = 3
    seen.until(lambda: seen.faults, why="the fault")
    double.put("pods", pod("a1"))

    seen.until(lambda: "pod:a1" in seen.jobs, why="the pod")

    assert "makes no sense" in seen.faults[0].problem


def test_without_the_right_to_see_warnings_pods_are_seen_all_the_same(
    double: KubeDouble, seen: Seen
) -> None:
    double.forbidden.add("events")
    double.put("pods", pod("a1"))

    seen.until(lambda: "pod:a1" in seen.jobs, why="the pod")
    seen.until(lambda: any("403" in fault.problem for fault in seen.faults), why="the fault")


def test_after_a_long_silence_everything_is_unknown_once(double: KubeDouble) -> None:
    collector = Kubernetes(api=Api(double.access()), stale_after_s=0.0)
    seen = Seen(collector)
    begun(double, seen, pod("a1"))
    double.refuse()
    double.cut()

    seen.until(lambda: "jobs.unknown" in seen.kinds(), why="the silence")
    double.accept()
    seen.until(lambda: "telemetry.gap" in seen.kinds(), why="the return")

    assert seen.kinds().count("jobs.unknown") == 1
    assert seen.health["n1/gpu0"] is Health.UNKNOWN
    end(double, collector)


def test_looking_never_waits_for_the_server() -> None:
    with socket.socket() as deaf:  # accepts, and never answers
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        access = Credentials(server=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        collector = Kubernetes(api=Api(access, timeout_s=1.0))
        began_s = time.monotonic()
        for t_s in range(100):
            collector.collect(float(t_s))

        assert time.monotonic() - began_s < 50.0  # and not a timeout each time
        assert collector._watched is not None
        reflectors = collector._watched.all
        for each in reflectors:
            each._stop.set()
        deaf.close()  # whoever still waits for it is refused now
        threads = [each._thread for each in reflectors if each._thread is not None]
        until(lambda: not any(thread.is_alive() for thread in threads), why="the watches")
        collector.close()


def test_a_machine_without_a_cluster_this_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    collector = Kubernetes()

    state = collector.available()
    first, second = collector.collect(1.0), collector.collect(2.0)

    assert (state.status, "KUBECONFIG" in state.hint) == ("missing", True)
    assert ([event.kind for event in first.events], second.events) == (["collector.missing"], ())


def test_doctor_is_reported_the_version(double: KubeDouble) -> None:
    right, wrong = (Kubernetes(api=Api(double.access(each))) for each in ("right", "wrong"))

    reported, refused = right.available(), wrong.available()
    right.close()
    wrong.close()

    assert (reported.status, "v1.29.3" in reported.reason) == ("ok", True)
    assert (refused.status, "401" in refused.reason) == ("missing", True)


@pytest.mark.real
@pytest.mark.skipif("KUBECONFIG" not in os.environ, reason="no real cluster is named")
def test_a_real_cluster_is_read() -> None:
    collector = Kubernetes(all_pods=True)
    seen = Seen(collector)

    until(lambda: (seen.look(), seen.jobs)[1], why="pods")

    assert any(each.cluster and each.cluster.nodes for each in seen.looks)
    collector.close()
