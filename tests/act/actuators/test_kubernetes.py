"""The Kubernetes engine changes only what is still as it was looked at, and never over people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from beds.kube_cluster import KubeCluster, job
from beds.kubernetes import KubeDouble, kube_double, node, pod
from factories import decision
from steward.act.actuators.kubernetes import Kubernetes
from steward.clients.kubernetes.annotations import DECISION, ELASTIC, HOLD, SAVES, DecisionNote
from steward.clients.kubernetes.calls import KubeRole, calls_of
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import (
    Drain,
    Preempt,
    Reprioritise,
    Resize,
    Resume,
    Start,
    Tell,
    Undrain,
)
from steward.model.decision import Decision, Receipt
from steward.model.identity import GpuId, JobId, NodeId

T_S = 2000.0
SAVER = {SAVES: "30"}
IGNORED = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
GPUS = tuple(GpuId(f"n1/gpu{i}") for i in range(8))


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1"))
        yield running


@pytest.fixture
def cluster(double: KubeDouble) -> KubeCluster:
    return KubeCluster(double)


def engine(double: KubeDouble, **options: Any) -> Kubernetes:
    return Kubernetes(api=double.api(), settle_s=0.0, **options)


def made(double: KubeDouble, name: str = "train", by: str = "kubectl", **spec: Any) -> JobId:
    """Create a Job as a person does, and return its id."""
    raw = double.create("jobs", "bio", job(name, **spec), by)
    return JobId(f"batch:{raw['metadata']['uid']}")


def spec_of(double: KubeDouble, name: str = "train") -> dict[str, Any]:
    spec: dict[str, Any] = double.named("jobs", name)["spec"]
    return spec


def start(of: JobId, name: str = "d-start") -> Decision:
    return decision(name, action=Start(job=of, gpus=GPUS), t_s=T_S)


def preempt(of: JobId, name: str = "d-stop") -> Decision:
    return decision(name, action=Preempt(job=of, gpus=GPUS), t_s=T_S)


def drained(name: str = "d-drain") -> Decision:
    return decision(name, action=Drain(node=NodeId("n1"), gpus=GPUS), t_s=T_S)


def brought_back(name: str = "d-back") -> Decision:
    return decision(name, action=Undrain(node=NodeId("n1"), gpus=GPUS), t_s=T_S)


def followed(
    kubernetes: Kubernetes, cluster: KubeCluster, of: Decision, *, t_s: float = T_S
) -> Receipt:
    """Carry a decision out and follow it until it is over."""
    said = kubernetes.carry_out(of, t_s)
    for late_s in range(1, 20):
        if said.result != "begun":
            break
        cluster.tick()
        said = kubernetes.progress(of, t_s + late_s)
    return said


# -- Jobs ------------------------------------------------------------------------------------------


def test_a_job_that_was_created_for_steward_is_started(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of = made(double, suspend=True, annotations={HOLD: "true", "kept": "yes"})

    said = followed(engine(double), cluster, start(of))

    assert (said.result, said.gpus) == ("done", GPUS)
    assert "1 of 1 pods" in said.text
    kept = double.named("jobs", "train")["metadata"]["annotations"]
    assert (kept["kept"], HOLD in kept, '"d-start"' in kept[DECISION]) == ("yes", False, True)


def test_a_job_that_a_person_suspended_is_not_started(double: KubeDouble) -> None:
    of = made(double, suspend=True, annotations={})

    said = engine(double).carry_out(start(of), T_S)

    assert said.result == "failed"
    assert "suspended by kubectl, who has to resume it" in said.text
    assert spec_of(double)["suspend"] is True


def test_preempt_and_resume_leave_one_job_that_goes_on(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of, kubernetes = made(double, annotations=SAVER), engine(double)
    cluster.tick()
    stopped = followed(kubernetes, cluster, preempt(of))
    pods = len(double.all("pods"))
    again = decision("d-on", action=Resume(job=of, gpus=GPUS), t_s=T_S)

    resumed = followed(kubernetes, cluster, again, t_s=T_S + 60)

    assert (stopped.result, pods) == ("done", 0)
    assert "its pods are gone" in stopped.text
    assert resumed.result == "done"
    assert len(double.all("pods")) == 1


def test_a_preempted_job_is_begun_until_its_pods_have_saved(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of, kubernetes = made(double, annotations=SAVER), engine(double)
    cluster.tick()

    said = kubernetes.carry_out(preempt(of), T_S)
    cluster.tick()
    still = kubernetes.progress(preempt(of), T_S + 1)

    assert (said.result, "30 s to save" in said.text) == ("begun", True)
    assert (still.result, "saves: 1 pods" in still.text) == ("begun", True)


def test_a_person_who_suspends_after_steward_resumed_is_respected(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of, kubernetes = made(double, annotations=SAVER), engine(double)
    cluster.tick()
    followed(kubernetes, cluster, preempt(of))
    for suspend in (False, True):  # a person resumes it, and thinks better of it
        double.patch("jobs", "bio", "train", {"spec": {"suspend": suspend}}, manager="ann")

    said = kubernetes.carry_out(start(of), T_S + 60)

    assert (said.result, "suspended by ann" in said.text) == ("failed", True)


def test_a_job_that_somebody_resumed_while_it_was_preempted_is_left_alone(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of, kubernetes = made(double, annotations=SAVER), engine(double)
    cluster.tick()
    kubernetes.carry_out(preempt(of), T_S)
    double.patch("jobs", "bio", "train", {"spec": {"suspend": False}}, manager="ann")

    said = kubernetes.progress(preempt(of), T_S + 1)

    assert (said.result, "resumed by another" in said.text) == ("failed", True)
    assert spec_of(double)["suspend"] is False


def test_a_decision_that_comes_again_after_a_crash_changes_nothing_more(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of = made(double, annotations=SAVER)
    cluster.tick()
    engine(double).carry_out(preempt(of), T_S)
    version = double.named("jobs", "train")["metadata"]["resourceVersion"]

    again = engine(double).carry_out(preempt(of), T_S + 5)  # another process

    assert again.result == "begun"
    assert double.named("jobs", "train")["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(
    ("annotations", "options", "why"),
    [
        ({}, {}, "has not said that it can save"),
        ({SAVES: "soon"}, {}, "has not said that it can save"),
        ({SAVES: "300"}, {}, "needs 300 s to save, and its terminationGracePeriodSeconds are 30"),
        (SAVER, {"suspend": True}, "is suspended already"),
        (SAVER, {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "belongs to queue q of Kueue"),
    ],
    ids=["says nothing", "says no number", "grace too short", "suspended", "kueue"],
)
def test_what_cannot_be_preempted_is_refused_with_the_reason(
    double: KubeDouble, annotations: dict[str, str], options: dict[str, Any], why: str
) -> None:
    of = made(double, annotations=annotations, **options)

    said = engine(double).carry_out(preempt(of), T_S)

    assert said.result == "failed"
    assert why in said.text
    assert "decision" not in str(double.named("jobs", "train")["metadata"]["annotations"])


def test_a_site_can_preempt_what_does_not_save(double: KubeDouble, cluster: KubeCluster) -> None:
    of = made(double)
    cluster.tick()

    said = followed(engine(double, preempt_unsaved=True), cluster, preempt(of))

    assert said.result == "done"


def test_a_start_without_room_fails_after_its_time(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of = made(double, suspend=True, gpus=9, annotations={HOLD: "true"})
    kubernetes = engine(double, start_within_s=100.0)
    kubernetes.carry_out(start(of), T_S)
    cluster.tick()

    waits, over = (kubernetes.progress(start(of), T_S + late_s) for late_s in (99.0, 100.0))

    assert (waits.result, "0 of 1 run" in waits.text) == ("begun", True)
    assert (over.result, "within 100 s" in over.text) == ("failed", True)


def test_an_elastic_job_gets_fewer_pods(double: KubeDouble, cluster: KubeCluster) -> None:
    of = made(
        double, pods=2, gpus=4, annotations={**SAVER, ELASTIC: "1-2"}, completionMode="Indexed"
    )
    cluster.tick()
    shrink = decision("d-fewer", action=Resize(job=of, now=GPUS, then=GPUS[:4]), t_s=T_S)

    said = followed(engine(double), cluster, shrink)

    assert said.result == "done"
    assert (spec_of(double)["parallelism"], spec_of(double)["completions"]) == (1, 1)
    assert len(double.all("pods")) == 1


@pytest.mark.parametrize(
    ("then", "elastic", "why"),
    [
        (GPUS[:4], "", "has not said with how many pods"),
        (GPUS[:2], "1-2", "has 4 GPUs in each pod"),
        ((), "1-2", "goes on with 1 to 2 pods, not with 0"),
    ],
    ids=["says nothing", "half a pod", "too few"],
)
def test_other_sizes_are_refused(
    double: KubeDouble, then: tuple[GpuId, ...], elastic: str, why: str
) -> None:
    of = made(double, pods=2, gpus=4, annotations={ELASTIC: elastic})
    resize = decision("d-fewer", action=Resize(job=of, now=GPUS, then=then), t_s=T_S)

    said = engine(double).carry_out(resize, T_S)

    assert (said.result, why in said.text) == ("failed", True)


def test_the_priority_of_a_job_is_changed_by_kueue_or_not_at_all(double: KubeDouble) -> None:
    plain = made(double, "plain", suspend=True)
    queued = made(double, "queued", suspend=True, labels={"kueue.x-k8s.io/queue-name": "q"})
    double.put(
        "workloadpriorityclasses", {"metadata": {"uid": "c", "name": "urgent"}, "value": 100}
    )
    kubernetes = engine(double)

    def raised(of: JobId, to: int) -> Receipt:
        action = Reprioritise(job=of, before=0, priority=to)
        return kubernetes.carry_out(decision(f"d-{of}", action=action, t_s=T_S), T_S)

    refused, unknown, done = raised(plain, 100), raised(queued, 7), raised(queued, 100)

    assert (refused.result, "fixes the priority" in refused.text) == ("failed", True)
    assert (unknown.result, "known: urgent (100)" in unknown.text) == ("failed", True)
    assert done.result == "done"
    labels = double.named("jobs", "queued")["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/priority-class"] == "urgent"


# -- pods ------------------------------------------------------------------------------------------


def own_pod(double: KubeDouble, uid: str = "a1", **meta: Any) -> JobId:
    raw = pod(uid, gpus=8, phase=meta.pop("phase", "Running"), spec=meta.pop("spec", {}))
    owner = {"kind": "PyTorchJob", "name": "train", "uid": "o1", "controller": True}
    raw["metadata"] |= {"ownerReferences": [owner], "annotations": SAVER, **meta}
    double.put("pods", raw)
    return JobId(f"pod:{uid}")


def test_a_pod_is_evicted_and_never_deleted(double: KubeDouble, cluster: KubeCluster) -> None:
    of = own_pod(double)

    said = followed(engine(double), cluster, preempt(of))

    assert (said.result, "gone" in said.text) == ("done", True)
    assert "/api/v1/namespaces/bio/pods/train-a1/eviction?create" in double.asked
    assert not any(verb == "delete" for verb, _, _ in double.calls)


def test_a_disruption_budget_is_respected_and_asked_again(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of, kubernetes = own_pod(double), engine(double)
    double.blocked["train-a1"] = 2

    first = kubernetes.carry_out(preempt(of), T_S)
    last = followed(kubernetes, cluster, preempt(of))

    assert (first.result, "disruption budget" in first.text) == ("begun", True)
    assert last.result == "done"


def test_a_budget_that_never_allows_it_ends_the_decision(double: KubeDouble) -> None:
    of, kubernetes = own_pod(double), engine(double, evict_within_s=60.0)
    double.blocked["train-a1"] = 10

    said = kubernetes.progress(preempt(of), T_S + 61)

    assert (said.result, "within 60 s" in said.text) == ("failed", True)


def test_a_pod_that_nothing_would_make_anew_is_not_evicted(double: KubeDouble) -> None:
    of = own_pod(double, ownerReferences=[])

    said = engine(double).carry_out(preempt(of), T_S)

    assert (said.result, "nothing would make it anew" in said.text) == ("failed", True)


def test_our_gate_is_removed_and_others_stay(double: KubeDouble, cluster: KubeCluster) -> None:
    gates = [{"name": HOLD}, {"name": "other/gate"}]
    of = own_pod(double, phase="Pending", spec={"nodeName": "", "schedulingGates": gates})
    kubernetes = engine(double, start_within_s=10.0)

    begun = kubernetes.carry_out(start(of), T_S)
    cluster.tick()
    late = kubernetes.progress(start(of), T_S + 11)

    assert (begun.result, late.result) == ("begun", "failed")
    left = double.named("pods", "train-a1")["spec"]["schedulingGates"]
    assert left == [{"name": "other/gate"}]


def test_a_pod_behind_no_gate_of_ours_is_not_ours_to_start(double: KubeDouble) -> None:
    of = own_pod(double, phase="Pending", spec={"nodeName": ""})

    said = engine(double).carry_out(start(of), T_S)

    assert (said.result, "waits for room" in said.text) == ("failed", True)


def test_a_pod_behind_our_gate_is_started(double: KubeDouble, cluster: KubeCluster) -> None:
    spec = {"nodeName": "", "schedulingGates": [{"name": HOLD}]}
    of = own_pod(double, phase="Pending", spec=spec)

    assert followed(engine(double), cluster, start(of)).result == "done"


# -- nodes -----------------------------------------------------------------------------------------


def test_a_node_is_drained_and_brought_back(double: KubeDouble) -> None:
    kubernetes = engine(double)

    out = kubernetes.carry_out(drained(), T_S)
    again = engine(double).carry_out(drained(), T_S + 1)
    cordoned = double.named("nodes", "n1")["spec"].get("unschedulable")
    back = kubernetes.carry_out(brought_back(), T_S + 2)

    assert (out.result, again.result, back.result, cordoned) == ("done", "done", "done", True)
    assert "unschedulable" not in double.named("nodes", "n1")["spec"]


def test_anothers_cordon_is_left_as_it_is(double: KubeDouble) -> None:
    double.patch("nodes", "", "n1", {"spec": {"unschedulable": True}}, manager="ann")
    kubernetes = engine(double)

    out, back = (kubernetes.carry_out(each, T_S) for each in (drained(), brought_back()))

    assert (out.result, "by ann: left as it is" in out.text) == ("failed", True)
    assert (back.result, "by ann: that person" in back.text) == ("failed", True)
    assert double.named("nodes", "n1")["spec"]["unschedulable"] is True


def test_a_cordon_that_a_person_took_over_is_that_persons(double: KubeDouble) -> None:
    kubernetes = engine(double)
    kubernetes.carry_out(drained(), T_S)
    for cordoned in (None, True):
        double.patch("nodes", "", "n1", {"spec": {"unschedulable": cordoned}}, manager="ann")

    back = kubernetes.carry_out(brought_back(), T_S + 1)

    assert (back.result, "by ann" in back.text) == ("failed", True)


def test_a_second_drain_leaves_the_first_in_charge(double: KubeDouble) -> None:
    kubernetes = engine(double)
    kubernetes.carry_out(drained(), T_S)

    said = kubernetes.carry_out(drained("d-other"), T_S + 1)

    assert (said.result, "by decision d-drain (it is idle)" in said.text) == ("failed", True)


def test_a_drain_can_evict_what_saves_and_lets_the_rest_run(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    own_pod(double, "saves")
    own_pod(double, "stays", annotations={})

    said = followed(engine(double, drain_evicts=True), cluster, drained())

    assert (said.result, "1 pods run to their end" in said.text) == ("done", True)
    assert [each["metadata"]["uid"] for each in double.all("pods")] == ["stays"]


@pytest.mark.parametrize(
    ("rules", "evicted"),
    [
        ([IGNORED], True),
        ([], False),
        (
            [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}, IGNORED],
            False,
        ),
        ([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}, IGNORED], True),
    ],
    ids=["ignored", "no policy", "the exit code comes first", "ignored second"],
)
def test_a_drain_evicts_pods_of_a_job_only_if_that_is_no_failure_of_the_job(
    double: KubeDouble, cluster: KubeCluster, rules: list[dict[str, Any]], *, evicted: bool
) -> None:
    policy = {"podFailurePolicy": {"rules": rules}} if rules else {}
    made(double, annotations=SAVER, template={"restartPolicy": "Never"}, backoffLimit=0, **policy)
    cluster.tick()

    said = followed(engine(double, drain_evicts=True), cluster, drained())
    cluster.tick()  # the Job makes another pod, which waits for room

    assert said.result == "done"
    assert ("counts an eviction as a failure" in said.text) is not evicted
    (each,) = double.all("pods")
    assert (each["status"]["phase"] == "Pending") is evicted
    assert "conditions" not in double.named("jobs", "train")["status"], "the Job has failed"


@pytest.mark.parametrize(("rules", "evicted"), [([IGNORED], True), ([], False)])
def test_a_preemption_evicts_a_pod_of_a_job_only_if_that_is_no_failure_of_the_job(
    double: KubeDouble, cluster: KubeCluster, rules: list[dict[str, Any]], *, evicted: bool
) -> None:
    policy = {"podFailurePolicy": {"rules": rules}} if rules else {}
    made(double, annotations=SAVER, template={"restartPolicy": "Never"}, backoffLimit=0, **policy)
    cluster.tick()
    pod_id = JobId(f"pod:{double.all('pods')[0]['metadata']['uid']}")

    said = engine(double).carry_out(preempt(pod_id), T_S)
    for _ in range(4):
        cluster.tick()

    assert ("counts an eviction as a failure" in said.text) is not evicted
    assert (("create", "pods/eviction", "") in double.calls) is evicted
    assert "conditions" not in double.named("jobs", "train")["status"], "the Job has failed"


def test_a_preempted_job_is_suspended_which_costs_nothing_of_its_backoff_limit(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of = made(double, annotations=SAVER, template={"restartPolicy": "Never"}, backoffLimit=0)
    cluster.tick()

    said = followed(engine(double), cluster, preempt(of))

    assert said.result == "done"
    assert ("create", "pods/eviction", "") not in double.calls
    assert "conditions" not in double.named("jobs", "train")["status"], "the Job has failed"


def test_a_pod_whose_job_cannot_be_read_is_not_evicted(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    made(double, annotations=SAVER)
    cluster.tick()
    pod_id = JobId(f"pod:{double.all('pods')[0]['metadata']['uid']}")
    double.forbidden.add("jobs")

    said = engine(double).carry_out(preempt(pod_id), T_S)

    assert (said.result, "counts an eviction as a failure" in said.text) == ("failed", True)


@pytest.mark.parametrize("when", [1e12, -1e12, 0.0])
def test_a_forged_time_keeps_no_decision_open(
    double: KubeDouble, cluster: KubeCluster, when: float
) -> None:
    of, kubernetes = made(double, annotations=SAVER), engine(double)
    cluster.tick()
    kubernetes.carry_out(preempt(of), T_S)
    forged = DecisionNote(id="d-stop", did="preempt", t_s=when).text
    notes = {"metadata": {"annotations": {DECISION: forged}}}
    double.patch("jobs", "bio", "train", notes, manager="mallory")

    soon = kubernetes.progress(preempt(of), T_S + 10)
    late = kubernetes.progress(preempt(of), T_S + 1000)

    assert (soon.result, late.result) == ("begun", "failed")
    assert "pods are not gone after 1000 s" in late.text


@pytest.mark.parametrize(
    ("spec", "evicted"),
    [
        ({"autonomy": "advise"}, False),
        ({"actions": ["resize"]}, False),
        ({"autonomy": "auto", "actions": ["preempt"]}, True),
    ],
)
def test_a_drain_evicts_no_pod_of_a_namespace_that_leaves_that_to_people(
    double: KubeDouble, cluster: KubeCluster, spec: dict[str, Any], *, evicted: bool
) -> None:
    body = {"metadata": {"name": "calm"}, "spec": spec}
    double.create("optimizationpolicies", "bio", body, "ann")
    own_pod(double)
    kubernetes = engine(double, drain_evicts=True, optimization_policies=True)

    said = followed(kubernetes, cluster, drained())

    assert said.result == "done"
    assert (double.all("pods") == []) is evicted
    assert ("OptimizationPolicy calm leaves that to people" in said.text) is not evicted


@pytest.mark.parametrize(("limit_s", "grace"), [(60, 60), (600, None)])
def test_an_eviction_takes_no_longer_than_the_call_back_of_its_pool(
    double: KubeDouble, limit_s: int, grace: int | None
) -> None:
    spec = {"nodeSelector": {"gpu": "a100"}, "callBackSeconds": limit_s}
    double.create("resourcepools", "", {"metadata": {"name": "shared"}, "spec": spec}, "ann")
    own = {"nodeSelector": {"gpu": "a100"}, "terminationGracePeriodSeconds": 300}
    of, kubernetes = own_pod(double, spec=own), engine(double, resource_pools=True, dry_run=True)

    said = kubernetes.carry_out(preempt(of), T_S)

    assert (f'"gracePeriodSeconds": {grace}' in said.text) is (grace is not None)
    assert "/eviction" in said.text


def test_a_pod_that_needs_longer_to_save_than_its_pool_allows_is_not_evicted(
    double: KubeDouble,
) -> None:
    spec = {"callBackSeconds": 20}
    double.create("resourcepools", "", {"metadata": {"name": "shared"}, "spec": spec}, "ann")

    said = engine(double, resource_pools=True).carry_out(preempt(own_pod(double)), T_S)

    assert said.result == "failed"
    assert "needs longer to save than its pool's call-back of 20 s" in said.text


# -- rights and faults -----------------------------------------------------------------------------


def allowed(*roles: KubeRole) -> set[tuple[str, str, str]]:
    return {(each.verb, each.resource, each.group) for each in calls_of(*roles)}


def test_doctor_says_what_the_account_may_do(double: KubeDouble) -> None:
    everything = engine(double).available()
    double.rights = allowed(KubeRole.OBSERVE, KubeRole.JOBS)
    limited = engine(double)

    state = limited.available()

    assert everything.status == "ok"
    assert state.status == "limited"
    assert "starts, preempts and resizes jobs" in state.reason
    assert (
        "drains nodes and brings them back not: it may not get nodes, patch nodes" in state.reason
    )
    assert Drain not in limited.actions()
    assert Start in limited.actions()


def test_what_the_rights_do_not_cover_is_refused_with_that_reason(double: KubeDouble) -> None:
    of = made(double, suspend=True, annotations={HOLD: "true"})
    double.rights = allowed(KubeRole.OBSERVE, KubeRole.JOBS) - {("patch", "jobs", "batch")}

    said = engine(double).carry_out(start(of), T_S)

    assert (said.result, "may not patch jobs.batch" in said.text) == ("failed", True)
    assert ("patch", "jobs", "batch") not in double.calls


def test_rights_that_are_withdrawn_while_it_runs_are_noticed(double: KubeDouble) -> None:
    first, second = (
        made(double, name, suspend=True, annotations={HOLD: "true"}) for name in ("a", "b")
    )
    kubernetes = engine(double)
    kubernetes.carry_out(start(first), T_S)
    double.rights = allowed(KubeRole.OBSERVE, KubeRole.JOBS) - {("patch", "jobs", "batch")}

    with pytest.raises(PermanentError, match="403"):
        kubernetes.carry_out(start(second, "d-2"), T_S + 1)
    said = kubernetes.carry_out(start(second, "d-3"), T_S + 2)

    assert "may not patch jobs.batch" in said.text


def test_a_change_in_between_is_looked_at_again(double: KubeDouble) -> None:
    of, kubernetes = made(double, suspend=True, annotations={HOLD: "true"}), engine(double)
    kubernetes.carry_out(decision(action=Tell(to="a", about="b", text="c")), T_S)
    patched, others = double.patch, iter(("ann", "bob"))

    def overtaken(*args: Any, **options: Any) -> dict[str, Any]:
        for manager in others:
            patched(
                "jobs", "bio", "train", {"metadata": {"labels": {"by": manager}}}, manager=manager
            )
            break
        return patched(*args, **options)

    double.patch = overtaken  # type: ignore[method-assign]

    said = kubernetes.carry_out(start(of), T_S)

    assert said.result == "begun"
    assert double.named("jobs", "train")["metadata"]["labels"]["by"] == "bob"
    assert spec_of(double)["suspend"] is False


def test_one_who_always_overtakes_is_waited_for(double: KubeDouble) -> None:
    of = made(double, suspend=True, annotations={HOLD: "true"})
    patched, count = double.patch, iter(range(100))

    def overtaken(*args: Any, **options: Any) -> dict[str, Any]:
        labels = {"by": str(next(count))}
        patched("jobs", "bio", "train", {"metadata": {"labels": labels}}, manager="ann")
        return patched(*args, **options)

    double.patch = overtaken  # type: ignore[method-assign]

    with pytest.raises(TemporaryError, match="409"):
        engine(double).carry_out(start(of), T_S)


def test_a_server_that_is_away_is_asked_again(double: KubeDouble) -> None:
    of = made(double, suspend=True, annotations={HOLD: "true"})
    kubernetes, double.down = engine(double), 1

    with pytest.raises(TemporaryError, match="503"):
        kubernetes.carry_out(start(of), T_S)

    assert kubernetes.carry_out(start(of), T_S + 1).result == "begun"


def test_a_job_that_was_made_anew_under_its_name_is_another_one(double: KubeDouble) -> None:
    of, kubernetes = made(double, suspend=True, annotations={HOLD: "true"}), engine(double)
    kubernetes.carry_out(preempt(of), T_S)
    double.delete("jobs", of.removeprefix("batch:"))
    made(double, suspend=True, annotations={HOLD: "true"})

    with pytest.raises(PermanentError, match="has no Job"):
        kubernetes.carry_out(start(of), T_S + 1)

    assert spec_of(double)["suspend"] is True


def test_a_dry_run_shows_the_requests_and_makes_none(double: KubeDouble) -> None:
    of = made(double, suspend=True, annotations={HOLD: "true"})

    said = engine(double, dry_run=True).carry_out(start(of), T_S)

    assert said.result == "failed"
    assert "dry run, nothing was changed: kubectl -n bio patch job train" in said.text
    assert not any(verb == "patch" for verb, _, _ in double.calls)


def test_what_pods_cannot_do_is_refused(double: KubeDouble) -> None:
    with pytest.raises(PermanentError, match="cannot lend"):
        engine(double).carry_out(decision(), T_S)


def test_a_start_stays_open_until_the_collector_has_seen_it(
    double: KubeDouble, cluster: KubeCluster
) -> None:
    of = made(double)
    cluster.tick()
    kubernetes = Kubernetes(api=double.api(), settle_s=5.0)

    results = [kubernetes.progress(start(of), T_S + late_s).result for late_s in (0, 4, 5)]

    assert results == ["begun", "begun", "done"]
