"""Our admission check lends idle guarantees through Kueue, and calls them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from beds.kube_cluster import KubeCluster
from beds.kubernetes import KubeDouble, kube_double, node
from beds.kueue import Kueue
from patience import until
from steward.act.kubernetes.kueue_operator import KueueOperator
from steward.act.kubernetes.pool_operator import PoolOperator
from steward.errors import StewardError

NOW = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
LABELS = {"pool": "shared"}


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        for index in (1, 2):
            raw = node(f"n{index}")
            raw["metadata"]["labels"] |= LABELS
            running.put("nodes", raw)
        share = {"namespace": "bio", "guaranteedGpus": 16}
        running.create("tenantshares", "", {"metadata": {"name": "bio"}, "spec": share}, "ann")
        yield running


class Bed:
    """Both operators, started."""

    def __init__(self, double: KubeDouble) -> None:
        self.double = double
        self.pools = PoolOperator(double.api())
        self.now = NOW
        self.clock_s = 0
        self.checks = KueueOperator(
            double.api(), self.pools, clock=lambda: self.clock_s, now=lambda: self.now
        )
        for each in (self.pools, self.checks):
            each.start()

    def turn(self, *, leads: bool = True) -> tuple[StewardError, ...]:
        return (*self.pools.turn(leads=leads), *self.checks.turn(leads=leads))

    def end(self) -> None:
        both = (*self.pools.reflectors, *self.checks.reflectors)
        for reflector in both:
            reflector._stop.set()
        self.double.cut()
        for reflector in both:
            reflector.stop()


@pytest.fixture
def started(double: KubeDouble) -> Iterator[Callable[[], Bed]]:
    made: list[Bed] = []

    def begin() -> Bed:
        made.append(Bed(double))
        return made[-1]

    yield begin
    for each in made:
        each.end()


def make_pool(double: KubeDouble, name: str = "shared", **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"nodeSelector": LABELS, **spec}}
    double.create("resourcepools", "", body, "ann")


def make_check(double: KubeDouble, **parameters: str) -> None:
    about = {"apiGroup": "steward.dev", "kind": "ResourcePool", "name": "shared", **parameters}
    spec = {"controllerName": "steward.dev/lend", "parameters": about}
    double.create("admissionchecks", "", {"metadata": {"name": "lend"}, "spec": spec}, "ann")


def queue(double: KubeDouble, **options: Any) -> Kueue:
    return Kueue(double, KubeCluster(double, **options), checks=("lend",))


def active(double: KubeDouble, name: str = "lend") -> dict[str, Any]:
    found = double.named("admissionchecks", name).get("status", {}).get("conditions", ())
    return next((each for each in found if each["type"] == "Active"), {})


def reached(bed: Bed, kueue: Kueue, what: Callable[[], Any], *, why: str) -> None:
    def step() -> Any:
        bed.clock_s += 1
        bed.turn()
        kueue.tick()
        return what()

    until(step, why=why)


# -- the check itself ------------------------------------------------------------------------------


def test_a_check_of_ours_becomes_active_and_others_are_left_alone(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    other = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    double.create("admissionchecks", "", {"metadata": {"name": "other"}, "spec": other}, "ann")
    bed = started()

    until(lambda: bed.turn() or active(double), why="the condition")

    assert (active(double)["status"], active(double)["message"]) == ("True", "pool shared")
    assert active(double, "other") == {}


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"name": "gone"}, "no ResourcePool gone; there are: shared"),
        ({"kind": "ConfigMap"}, "have to be of steward.dev/ResourcePool"),
    ],
)
def test_a_check_whose_parameters_are_wrong_is_not_active_and_says_why(
    double: KubeDouble, started: Callable[[], Bed], parameters: dict[str, str], why: str
) -> None:
    make_pool(double)
    make_check(double, **parameters)
    bed, kueue = started(), queue(double)
    kueue.submit("train", "bio")

    reached(bed, kueue, lambda: active(double), why="the condition")
    for _ in range(5):
        bed.turn()
        kueue.tick()

    assert (active(double)["status"], active(double)["reason"]) == ("False", "BadParametersRef")
    assert why in active(double)["message"]
    assert kueue.states()["train"][0] == "Pending"


def test_without_parameters_the_only_pool_is_meant(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    body = {"metadata": {"name": "lend"}, "spec": {"controllerName": "steward.dev/lend"}}
    double.create("admissionchecks", "", body, "ann")
    bed = started()

    until(lambda: bed.turn() or active(double), why="the condition")
    one = active(double)["status"]
    make_pool(double, "second")
    until(lambda: bed.turn() or active(double)["status"] == "False", why="the doubt")

    assert one == "True"
    assert "parameters name no pool; there are: second, shared" in active(double)["message"]


# -- lending and calling back ----------------------------------------------------------------------


def test_an_idle_guarantee_is_lent_and_the_pods_are_bound_to_the_pools_nodes(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("train", "chem")

    reached(bed, kueue, lambda: kueue.running() == {"train"}, why="the loan")

    assert kueue.states()["train"] == ("Ready", "8 GPUs of pool shared, 8 of them lent")
    (check,) = double.named("workloads", "train")["status"]["admissionChecks"]
    assert check["podSetUpdates"] == [{"name": "main", "nodeSelector": LABELS}]
    reached(
        bed,
        kueue,
        lambda: double.named("resourcepools", "shared").get("status", {}).get("lent") == 8,
        why="the status of the pool",
    )


def test_what_is_lent_is_called_back_for_whom_it_is_guaranteed_to_and_lent_again_later(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double, grace_ticks=2)
    for name in ("one", "two"):
        kueue.submit(name, "chem")
    reached(bed, kueue, lambda: kueue.running() == {"one", "two"}, why="both loans")
    kueue.submit("owner", "bio")

    reached(bed, kueue, lambda: "owner" in kueue.running(), why="the call-back")
    first = kueue.running()
    for _ in range(10):  # one was enough: the other goes on, and the first waits
        bed.turn()
        kueue.tick()

    assert len(first) == 2
    assert kueue.running() == first
    waits = ({"one", "two"} - first).pop()
    assert kueue.states()[waits][0] == "Pending"
    assert "of which 0 are free" in kueue.states()[waits][1]
    assert kueue.stuck == []
    double.delete("workloads", double.named("workloads", "owner")["metadata"]["uid"])
    double.patch("jobs", "bio", "owner", {"spec": {"suspend": True}}, manager="kueue")
    reached(bed, kueue, lambda: kueue.running() == {"one", "two"}, why="the second loan")


def test_a_call_back_costs_a_job_nothing_of_its_backoff_limit(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    for name in ("one", "two"):
        kueue.submit(name, "chem", backoffLimit=0)
    reached(bed, kueue, lambda: kueue.running() == {"one", "two"}, why="both loans")

    kueue.submit("owner", "bio")
    reached(bed, kueue, lambda: "owner" in kueue.running(), why="the call-back")

    assert ("create", "pods/eviction", "") not in double.calls
    assert [each["status"].get("conditions") for each in double.all("jobs")] == [None] * 3


def test_a_refused_answer_is_tried_again_after_pauses_that_double(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("train", "chem")
    kueue.tick()
    until(lambda: bed.pools.turn(leads=True) or bed.pools.usages, why="the pools")
    until(lambda: all(each.synced for each in bed.checks.reflectors), why="the lists")
    double.forbidden.add("workloads")

    until(lambda: any("403" in each.problem for each in bed.turn()), why="the refusal")
    for bed.clock_s in range(100):
        bed.turn()

    path = "/workloads/train/status?patch"
    tries = sum(each.endswith(path) for each in double.asked)
    assert 5 <= tries <= 8  # after 1, 3, 7, 15, 31 and 63 s


def test_one_large_loan_is_called_back_and_not_two_small_ones(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("large", "chem")
    reached(bed, kueue, lambda: kueue.running() == {"large"}, why="the first loan")
    bed.now += timedelta(seconds=60)
    for name in ("small", "tiny"):
        kueue.submit(name, "chem", gpus=4)
    reached(bed, kueue, lambda: len(kueue.running()) == 3, why="all loans")

    kueue.submit("owner", "bio")
    reached(bed, kueue, lambda: "owner" in kueue.running(), why="the call-back")

    assert kueue.running() == {"owner", "small", "tiny"}


def test_one_that_cannot_be_let_in_calls_nobody_back(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("runs", "chem")
    reached(bed, kueue, lambda: kueue.running() == {"runs"}, why="the loan")
    down = node("n2", ready="False")
    down["metadata"]["labels"] |= LABELS
    double.put("nodes", down)

    kueue.submit("huge", "bio", gpus=16)
    reached(bed, kueue, lambda: "it has 8" in kueue.states()["huge"][1], why="the reason")
    for _ in range(5):
        bed.turn()
        kueue.tick()

    assert kueue.running() == {"runs"}


def test_an_owner_who_comes_and_goes_calls_back_no_more_than_its_guarantee_within_an_hour(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    for name in ("one", "two"):
        kueue.submit(name, "chem")

    def lent_again() -> None:
        reached(bed, kueue, lambda: kueue.running() == {"one", "two"}, why="both loans")

    def comes_and_goes(name: str) -> None:
        lent_again()
        kueue.submit(name, "bio")
        reached(bed, kueue, lambda: name in kueue.running(), why="the call-back")
        double.delete("workloads", double.named("workloads", name)["metadata"]["uid"])
        double.patch("jobs", "bio", name, {"spec": {"suspend": True}}, manager="kueue")

    for name in ("owner-1", "owner-2"):  # 8 GPUs each, of 16 that are guaranteed
        comes_and_goes(name)
    lent_again()
    kueue.submit("owner", "bio")
    why = "16 GPUs were called back for bio within an hour, of 16"
    reached(bed, kueue, lambda: why in kueue.states()["owner"][1], why="the reason")
    for _ in range(5):
        bed.turn()
        kueue.tick()

    assert kueue.running() == {"one", "two"}
    bed.now += timedelta(hours=1)
    reached(bed, kueue, lambda: "owner" in kueue.running(), why="the next hour")


@pytest.mark.parametrize(
    ("spec", "options", "why"),
    [
        ({"lendIdleGuarantees": False}, {}, "lends nothing"),
        ({"borrowerPriorityClass": "low"}, {}, "priority class low, and it has none"),
        ({}, {"annotations": {}}, "lends to pods that can save"),
        ({"callBackSeconds": 10}, {}, "within 10 s, and its grace period is 30 s"),
        ({}, {"template": {"nodeSelector": {"pool": "x"}}}, "excludes the nodes of pool shared"),
    ],
    ids=["off", "class", "saves", "call-back", "nodes"],
)
def test_a_borrower_waits_with_the_reason_and_an_owner_does_not(
    double: KubeDouble,
    started: Callable[[], Bed],
    spec: dict[str, Any],
    options: dict[str, Any],
    why: str,
) -> None:
    make_pool(double, **spec)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("train", "chem", **options)
    kueue.submit("owner", "bio", annotations={})

    reached(bed, kueue, lambda: kueue.running() == {"owner"}, why="the owner")
    reached(bed, kueue, lambda: kueue.states()["train"][1], why="the reason")

    assert why in kueue.states()["train"][1]
    assert kueue.states()["train"][0] == "Pending"


def test_two_that_wait_in_the_same_moment_do_not_both_get_the_last_gpus(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    for name in ("a", "b", "c"):
        kueue.submit(name, "chem")

    reached(bed, kueue, lambda: len(kueue.running()) == 2, why="two loans")
    for _ in range(10):
        bed.turn()
        kueue.tick()

    states = sorted(state for state, _ in kueue.states().values())
    assert states == ["Pending", "Ready", "Ready"]


# -- faults ----------------------------------------------------------------------------------------


def test_without_the_lease_nothing_is_answered(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("train", "chem")
    kueue.tick()
    until(lambda: bed.turn(leads=False) or bed.pools.usages, why="the lists")
    for _ in range(5):
        bed.turn(leads=False)

    assert kueue.states()["train"] == ("Pending", "")
    assert active(double) == {}


def test_a_cluster_without_kueue_is_no_fault(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    double.missing |= {"workloads", "admissionchecks"}
    bed = started()
    until(lambda: all(each.problem for each in bed.checks.reflectors), why="the 404s")

    assert bed.turn() == ()


def test_a_workload_that_changed_in_between_is_looked_at_again(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("train", "chem")
    kueue.tick()
    until(lambda: bed.pools.turn(leads=True) or bed.pools.usages, why="the pools")
    until(lambda: all(each.synced for each in bed.checks.reflectors), why="the lists")
    double.forget()
    raw = double.named("workloads", "train")
    double.put("workloads", {**raw, "spec": {**raw["spec"], "priority": 1}})  # 409, then 410
    double.cut()

    reached(bed, kueue, lambda: kueue.running() == {"train"}, why="the loan")

    assert double.named("workloads", "train")["spec"]["priority"] == 1


def test_the_states_of_other_controllers_are_not_touched(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed = started()
    kueue = Kueue(double, KubeCluster(double), checks=("lend", "other"))
    kueue.submit("train", "chem")

    reached(bed, kueue, lambda: kueue.states()["train"][0] == "Ready", why="our answer")

    _, other = double.named("workloads", "train")["status"]["admissionChecks"]
    assert (other["name"], other["state"], other["message"]) == ("other", "Pending", "")
    assert kueue.running() == set()


def test_rights_that_are_withdrawn_are_reported_and_used_when_they_are_back(
    double: KubeDouble, started: Callable[[], Bed]
) -> None:
    make_pool(double)
    make_check(double)
    bed, kueue = started(), queue(double)
    kueue.submit("train", "chem")
    kueue.tick()
    until(lambda: bed.pools.turn(leads=True) or bed.pools.usages, why="the pools")
    until(lambda: all(each.synced for each in bed.checks.reflectors), why="the lists")
    double.forbidden.add("workloads")

    until(lambda: any("403" in each.problem for each in bed.turn()), why="the refusal")
    double.forbidden.clear()

    reached(bed, kueue, lambda: kueue.running() == {"train"}, why="the loan")
