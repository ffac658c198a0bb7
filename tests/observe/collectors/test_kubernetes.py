"""Pods become jobs, nodes a cluster, and a server that misbehaves costs nothing that is known."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from beds.kube_cluster import KubeCluster, job
from beds.kube_store import ApiError
from beds.kubernetes import KubeDouble, kube_double, node, pod
from patience import until
from steward.clients.kubernetes import Api, Credentials
from steward.clients.kubernetes.annotations import ELASTIC, HOLD, SAVES
from steward.clients.kubernetes.optimization_policy import optimization_policy_from
from steward.errors import StewardError
from steward.model.cluster import Health
from steward.model.event import Event, Observation
from steward.model.identity import TenantId
from steward.model.job import Job, JobState
from steward.model.site import Autonomy, TenantCeiling
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


# -- Jobs of the group batch -----------------------------------------------------------------------


def batch(double: KubeDouble, name: str, by: str = "kubectl", **spec: Any) -> str:
    uid: str = double.create("jobs", "bio", job(name, **spec), by)["metadata"]["uid"]
    return f"batch:{uid}"


def test_a_suspended_job_without_pods_waits(double: KubeDouble, seen: Seen) -> None:
    ours = batch(double, "ours", suspend=True, annotations={HOLD: "true", SAVES: "60"})
    theirs = batch(double, "theirs", suspend=True, pods=2, gpus=4)

    seen.until(lambda: len(seen.jobs) == 2, why="the Jobs")

    assert {job.state for job in seen.jobs.values()} == {JobState.QUEUED}
    assert (seen.jobs[ours].held, seen.jobs[theirs].held) == (False, True)
    assert seen.jobs[ours].checkpointing.save_s == 60.0
    assert (seen.jobs[theirs].tenant, seen.jobs[theirs].shape.gpus) == ("bio", 8)


def test_the_pods_of_a_job_are_one_job(double: KubeDouble, seen: Seen) -> None:
    double.put("nodes", node("n2"))
    id_ = batch(double, "train", pods=2, gpus=8, annotations={ELASTIC: "1-4"})
    KubeCluster(double).tick()

    seen.until(lambda: len(seen.jobs and seen.jobs[id_].gpus) == 16, why="both pods")

    assert set(seen.jobs) == {id_}
    assert (seen.jobs[id_].state, seen.jobs[id_].nodes) == (JobState.RUNNING, ("n1", "n2"))
    assert seen.jobs[id_].shape.gpu_range == (8, 32)
    assert {"n1@pod:pod-1", "n2@pod:pod-2"} <= {span.entity for span in seen.spans.values()}


def test_a_job_that_is_suspended_and_resumed_has_two_runs(double: KubeDouble, seen: Seen) -> None:
    cluster, id_ = KubeCluster(double), batch(double, "train")
    for suspend, state in ((False, JobState.RUNNING), (True, JobState.QUEUED)) * 2:
        double.patch("jobs", "bio", "train", {"spec": {"suspend": suspend}}, manager="steward")
        for _ in range(3):
            cluster.tick()
        seen.until(lambda state=state: seen.jobs and seen.jobs[id_].state is state, why=state.value)

    states = [line.state for line in seen.jobs[id_].history]
    assert states == [JobState.RUNNING, JobState.QUEUED] * 2
    assert seen.kinds().count("job.requeued") == 2
    assert seen.jobs[id_].held is False


def test_a_job_that_is_complete_has_ended_and_one_that_is_deleted_too(
    double: KubeDouble, seen: Seen
) -> None:
    cluster = KubeCluster(double, work_ticks=1)
    done, deleted = batch(double, "done"), batch(double, "deleted", suspend=True)
    seen.until(lambda: len(seen.jobs) == 2, why="the Jobs")

    cluster.tick()
    double.delete("jobs", deleted.removeprefix("batch:"))
    seen.until(lambda: all(job.state.ended for job in seen.jobs.values()), why="the ends")

    assert seen.jobs[done].state is JobState.COMPLETED
    assert seen.jobs[deleted].state is JobState.CANCELLED


def test_without_the_right_to_see_jobs_their_pods_are_jobs(double: KubeDouble, seen: Seen) -> None:
    double.forbidden.add("jobs")
    batch(double, "train")
    KubeCluster(double).tick()

    seen.until(lambda: seen.jobs, why="the pod")

    assert set(seen.jobs) == {"pod:pod-1"}


def test_shares_of_tenants_are_those_that_people_have_given(double: KubeDouble) -> None:
    spec = {"namespace": "bio", "weight": 2.5, "guaranteedGpus": 16}
    made = double.create("tenantshares", "", {"metadata": {"name": "b"}, "spec": spec}, "ann")
    later = {"namespace": "bio", "weight": 9}  # a second one for the same tenant does not count
    double.create("tenantshares", "", {"metadata": {"name": "c"}, "spec": later}, "ann")
    collector = Kubernetes(api=double.api(), tenant_shares=True)
    seen = Seen(collector)
    tenants: list[tuple[str, float, int]] = []

    def known() -> list[tuple[str, float, int]]:
        for look in seen.looks:
            if look.tenants is not None:
                tenants[:] = [(each.id, each.weight, each.guaranteed_gpus) for each in look.tenants]
        return tenants

    seen.until(lambda: known() == [("bio", 2.5, 16)], why="the share")
    double.delete("tenantshares", made["metadata"]["uid"])
    seen.until(lambda: known() == [("bio", 9.0, 0)], why="the other one")
    end(double, collector)


def test_a_job_that_would_borrow_what_its_pool_does_not_lend_is_held_until_it_does(
    double: KubeDouble,
) -> None:
    double.put("nodes", node("n1"))
    made = double.create("resourcepools", "", {"metadata": {"name": "p"}, "spec": {}}, "ann")
    for_bio = {"namespace": "bio", "guaranteedGpus": 8}
    double.create("tenantshares", "", {"metadata": {"name": "bio"}, "spec": for_bio}, "ann")
    notes = {HOLD: "true", SAVES: "20"}
    gated = pod("g1", gpus=8, phase="Pending", spec={"schedulingGates": [{"name": HOLD}]})
    gated["metadata"] |= {"namespace": "physics", "annotations": {SAVES: "20"}}
    double.put("pods", gated)
    for tenant in ("bio", "chem"):
        double.create("jobs", tenant, job(tenant, suspend=True, annotations=notes), "ann")
    collector = Kubernetes(api=double.api(), resource_pools=True)
    seen = Seen(collector)

    def held() -> dict[str, bool]:
        return {each.tenant: each.held for each in seen.jobs.values()}

    nobody = {"bio": False, "chem": False, "physics": False}
    seen.until(lambda: len(held()) == 3, why="the jobs")
    first = held()
    double.put("resourcepools", {**made, "spec": {"lendIdleGuarantees": False}})
    seen.until(lambda: held()["chem"] and held()["physics"], why="the pool that lends nothing")
    off = held()
    double.delete("resourcepools", made["metadata"]["uid"])
    seen.until(lambda: held() == nobody, why="no pool")

    assert (first["bio"], off["bio"]) == (False, False)
    end(double, collector)


def test_before_its_pools_are_known_nothing_is_reported(double: KubeDouble) -> None:
    double.put("nodes", node("n1"))
    double.missing.add("resourcepools")
    collector = Kubernetes(api=double.api(), resource_pools=True)
    seen = Seen(collector)

    seen.until(lambda: seen.faults, why="the fault")

    assert "resourcepools" in seen.faults[0].problem
    assert seen.jobs == {}
    double.missing.clear()
    seen.until(lambda: any(look.cluster for look in seen.looks), why="the definition")
    end(double, collector)


def test_the_policies_of_a_namespace_are_its_ceiling_and_say_that_they_are_in_effect(
    double: KubeDouble,
) -> None:
    double.put("nodes", node("n1"))
    spec: dict[str, Any] = {"autonomy": "approve", "actions": ["preempt"]}
    made = double.create(
        "optimizationpolicies", "bio", {"metadata": {"name": "calm"}, "spec": spec}, "ann"
    )
    collector = Kubernetes(api=double.api(), optimization_policies=True)
    seen = Seen(collector)

    def ceiling() -> TenantCeiling | None:
        found = [look.ceilings for look in seen.looks if look.ceilings is not None]
        return found[-1].get(TenantId("bio")) if found else None

    def said() -> dict[str, Any]:
        status: dict[str, Any] = double.named("optimizationpolicies", "calm").get("status", {})
        return status

    seen.until(said, why="the status")
    first, generation = ceiling(), said()["observedGeneration"]
    stricter = {"spec": {"autonomy": "advise", "actions": None}}  # else a rule refuses it
    double.patch("optimizationpolicies", "bio", "calm", stricter, manager="ann")
    seen.until(lambda: said()["observedGeneration"] == 2, why="the next generation")
    second = ceiling()
    double.delete("optimizationpolicies", made["metadata"]["uid"])
    seen.until(lambda: ceiling() is None, why="the end of it")

    assert generation == 1
    assert first is not None
    assert second is not None
    assert (first.autonomy, first.actions) == (Autonomy.APPROVE, frozenset({"preempt"}))
    assert second.autonomy is Autonomy.ADVISE
    (condition,) = said_last(double)
    assert (condition["type"], condition["status"]) == ("InEffect", "True")
    assert "since generation 2: autonomy at most 'advise'" in condition["message"]
    end(double, collector)


def test_off_hours_begin_and_end_with_the_clock_and_the_status_says_until_when(
    double: KubeDouble,
) -> None:
    double.put("nodes", node("n1"))
    nights = {"from": "22:00", "to": "06:00"}
    off = {"windows": [nights], "timeZone": "Europe/Berlin", "autonomy": "auto"}
    spec = {"autonomy": "advise", "offHours": off}
    body = {"metadata": {"name": "calm"}, "spec": spec}
    double.create("optimizationpolicies", "bio", body, "ann")
    collector = Kubernetes(api=double.api(), optimization_policies=True)
    seen = Seen(collector)

    def level() -> str:
        found = [look.ceilings for look in seen.looks if look.ceilings is not None]
        return found[-1][TenantId("bio")].autonomy.value if found else ""

    def off_hours() -> tuple[str, str]:
        status = double.named("optimizationpolicies", "calm").get("status", {})
        found = {each["type"]: each for each in status.get("conditions", ())}.get("OffHours", {})
        return found.get("status", ""), found.get("message", "")

    def reached(at: datetime, status: str) -> tuple[str, str]:
        seen.t_s = at.timestamp()
        seen.until(lambda: off_hours()[0] == status, why=f"off-hours to be {status}")
        return level(), off_hours()[1]

    day = reached(datetime(2026, 6, 1, 12, tzinfo=UTC), "False")
    night = reached(datetime(2026, 6, 1, 20, tzinfo=UTC), "True")
    after = reached(datetime(2026, 6, 2, 4, tzinfo=UTC), "False")

    assert day == ("advise", "they begin at 2026-06-01T20:00:00Z")
    assert night == ("auto", "until 2026-06-02T04:00:00Z: autonomy at most 'auto'")
    assert after == ("advise", "they begin at 2026-06-02T20:00:00Z")
    end(double, collector)


def said_last(double: KubeDouble) -> list[dict[str, Any]]:
    """Return the conditions that were last written on any policy, also on one that is gone."""
    found = [raw for _, plural, _, raw in double.log if plural == "optimizationpolicies"]
    conditions: list[dict[str, Any]] = found[-1]["status"]["conditions"]
    return conditions


def test_a_policy_whose_status_may_not_be_written_is_in_effect_all_the_same(
    double: KubeDouble,
) -> None:
    double.put("nodes", node("n1"))
    double.rights = {
        (verb, kind, group)
        for verb in ("list", "watch")
        for kind, group in (
            ("pods", ""),
            ("nodes", ""),
            ("events", ""),
            ("jobs", "batch"),
            ("optimizationpolicies", "steward.dev"),
        )
    }
    body = {"metadata": {"name": "calm"}, "spec": {"autonomy": "observe"}}
    double.create("optimizationpolicies", "bio", body, "ann")
    collector = Kubernetes(api=double.api(), optimization_policies=True)
    seen = Seen(collector)

    seen.until(lambda: any(look.ceilings for look in seen.looks), why="the ceiling")
    seen.look()

    assert seen.faults == []
    assert "status" not in double.named("optimizationpolicies", "calm")
    end(double, collector)


@pytest.mark.parametrize(
    "spec",
    [
        {"autonomy": "always"},
        {"actions": ["start"]},
        {},
        {"offHours": {"autonomy": "auto"}},
        {"offHours": {"autonomy": "auto", "windows": [{"from": "8:00", "to": "18:00"}]}},
        {"offHours": {"windows": [{"from": "08:00", "to": "25:00"}], "autonomy": "auto"}},
        {"offHours": {"windows": [{"from": "08:00", "to": "18:00", "days": ["Monday"]}]}},
        {"offHours": {"windows": [{"from": "08:00", "to": "18:00"}], "timeZone": "../etc"}},
    ],
)
def test_a_policy_that_means_nothing_is_refused(double: KubeDouble, spec: dict[str, Any]) -> None:
    body = {"metadata": {"name": "calm"}, "spec": spec}

    with pytest.raises(ApiError) as fault:
        double.create("optimizationpolicies", "bio", body, "ann")

    assert fault.value.code == 422


def test_of_an_autonomy_that_is_not_known_the_strictest_is_meant() -> None:
    raw = {
        "metadata": {"uid": "u", "name": "p", "namespace": "bio"},
        "spec": {"autonomy": "dream", "disturbancesPerJobPerDay": 2},
    }

    found = optimization_policy_from(raw)

    assert found is not None
    assert found.ceiling.autonomy is Autonomy.OBSERVE
    assert found.ceiling.disturbed_per_job_per_day == 2
    assert optimization_policy_from({"metadata": {"uid": "u"}}) is None
