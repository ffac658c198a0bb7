"""The status of a pool says what is guaranteed, lent and free, whatever the server does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beds.kube_cluster import KubeCluster, job
from beds.kube_store import ApiError
from beds.kubernetes import KubeDouble, kube_double, node
from patience import until
from steward.act.kubernetes.pool_operator import PoolOperator


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        for index in (1, 2):
            running.put("nodes", node(f"n{index}"))
        yield running


@pytest.fixture
def started(double: KubeDouble) -> Iterator[Callable[[], PoolOperator]]:
    made: list[PoolOperator] = []

    def begin() -> PoolOperator:
        made.append(PoolOperator(double.api()))
        made[-1].start()
        return made[-1]

    yield begin
    for each in made:
        for reflector in each.reflectors:
            reflector._stop.set()
    double.cut()
    for each in made:
        each.stop()


def make_pool(double: KubeDouble, name: str = "shared", **spec: Any) -> dict[str, Any]:
    return double.create("resourcepools", "", {"metadata": {"name": name}, "spec": spec}, "ann")


def guarantee(double: KubeDouble, namespace: str, gpus: int) -> None:
    spec = {"namespace": namespace, "guaranteedGpus": gpus}
    double.create("tenantshares", "", {"metadata": {"name": namespace}, "spec": spec}, "ann")


def status(double: KubeDouble, name: str = "shared") -> dict[str, Any]:
    found: dict[str, Any] = double.named("resourcepools", name).get("status", {})
    return found


def numbers(double: KubeDouble) -> tuple[int, ...]:
    found = status(double)
    return tuple(found.get(key, -1) for key in ("gpus", "guaranteed", "used", "lent", "free"))


def reached(of: PoolOperator, double: KubeDouble, wanted: tuple[int, ...]) -> None:
    def same() -> bool:
        of.turn(leads=True)
        return numbers(double) == wanted

    until(same, why=str(wanted))


def test_the_status_follows_nodes_pods_and_guarantees(
    double: KubeDouble, started: Callable[[], PoolOperator]
) -> None:
    make_pool(double)
    guarantee(double, "bio", 12)
    serving, cluster = started(), KubeCluster(double)
    reached(serving, double, (16, 12, 0, 0, 16))
    double.create("jobs", "chem", job("train", gpus=8), "ann")
    cluster.tick()

    reached(serving, double, (16, 12, 8, 4, 8))
    said = {
        each["type"]: (each["status"], each["message"]) for each in status(double)["conditions"]
    }

    assert said["Ready"] == ("True", "2 nodes with 16 GPUs")
    assert said["Lending"] == ("True", "4 GPUs are lent")
    assert status(double)["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("spec", "gpus", "reason"),
    [
        ({"nodeSelector": {"gpu": "none"}}, 0, "NoNodes"),
        ({}, 17, "GuaranteesExceedPool"),
    ],
)
def test_a_pool_that_cannot_keep_its_word_is_not_ready(
    double: KubeDouble,
    started: Callable[[], PoolOperator],
    spec: dict[str, Any],
    gpus: int,
    reason: str,
) -> None:
    make_pool(double, **spec)
    guarantee(double, "bio", gpus)
    serving = started()

    until(lambda: serving.turn(leads=True) or status(double), why="the status")

    (ready,) = (each for each in status(double)["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)


def test_without_the_lease_nothing_is_written(
    double: KubeDouble, started: Callable[[], PoolOperator]
) -> None:
    make_pool(double)
    serving = started()
    until(lambda: serving.turn(leads=False) or serving.usages, why="the lists")

    waits = status(double)
    reached(serving, double, (16, 0, 0, 0, 16))

    assert waits == {}


def test_what_has_not_changed_is_not_written_again(
    double: KubeDouble, started: Callable[[], PoolOperator]
) -> None:
    make_pool(double)
    serving = started()
    reached(serving, double, (16, 0, 0, 0, 16))
    version = double.named("resourcepools", "shared")["metadata"]["resourceVersion"]
    double.put("nodes", node("n1"))
    for _ in range(20):
        serving.turn(leads=True)

    assert double.named("resourcepools", "shared")["metadata"]["resourceVersion"] == version


def test_a_change_in_between_is_looked_at_again_and_old_versions_that_are_gone_are_listed(
    double: KubeDouble, started: Callable[[], PoolOperator]
) -> None:
    made = make_pool(double)
    serving = started()
    until(lambda: serving.ready, why="the lists")
    double.forget()
    double.put("resourcepools", {**made, "spec": {"lendIdleGuarantees": False}})  # 409 for a look
    double.cut()

    reached(serving, double, (16, 0, 0, 0, 16))
    until(lambda: serving.turn(leads=True) or not _lends(double), why="the new spec")

    assert not _lends(double)


def _lends(double: KubeDouble) -> bool:
    return any(
        each["type"] == "Lending" and each["status"] == "True"
        for each in status(double).get("conditions", ())
    )


def test_rights_that_are_withdrawn_are_reported_and_used_when_they_are_back(
    double: KubeDouble, started: Callable[[], PoolOperator]
) -> None:
    make_pool(double)
    serving = started()
    until(lambda: serving.ready, why="the lists")
    double.forbidden.add("resourcepools")

    def refused() -> bool:
        return any("403" in fault.problem for fault in serving.turn(leads=True))

    until(refused, why="the refusal")
    double.forbidden.clear()

    reached(serving, double, (16, 0, 0, 0, 16))


def test_a_cluster_without_the_definition_has_no_pools_and_no_faults(
    double: KubeDouble, started: Callable[[], PoolOperator]
) -> None:
    double.missing.add("resourcepools")
    serving = started()
    until(lambda: serving.reflectors[0].problem, why="the 404")

    assert serving.turn(leads=True) == ()
    assert serving.usages == {}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"callBackSeconds": 0}, "less than the minimum"),
        ({"resourceNames": []}, "less than 1 item"),
        ({"nodeSelector": {"gpu": 1}}, "is not of type"),
        ({"lend": True}, "Additional properties"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused(
    double: KubeDouble, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(ApiError, match=why):
        make_pool(double, **spec)
