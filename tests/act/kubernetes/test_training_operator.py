"""Each TrainingJob gets one Job, whatever happens to the operator; its status says how it goes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beds.kube_cluster import KubeCluster
from beds.kube_store import ApiError
from beds.kubernetes import KubeDouble, kube_double, node
from beds.training_jobs import (
    KilledError,
    MortalApi,
    Scenario,
    ended,
    operator,
    training,
)
from patience import until
from steward.act.kubernetes.training_operator import TrainingOperator

JOBS, KILLS, TURNS = 200, 20, 5000


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        running.put("nodes", node("n1"))
        yield running


@pytest.fixture
def started(double: KubeDouble) -> Iterator[Callable[..., TrainingOperator]]:
    made = []

    def begin(api: MortalApi | None = None, **options: Any) -> TrainingOperator:
        made.append(operator(api or MortalApi(double), **options))
        made[-1].start()
        return made[-1]

    yield begin
    ended(double, *made)


def phase(double: KubeDouble, name: str = "train") -> str:
    return str(double.named("trainingjobs", name).get("status", {}).get("phase", ""))


def followed(of: TrainingOperator, double: KubeDouble, wanted: str, name: str = "train") -> None:
    def reached() -> bool:
        of.turn()
        return phase(double, name) == wanted

    until(reached, why=wanted)


def test_a_training_job_gets_one_suspended_job_that_it_owns(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    elastic = {"minPods": 1, "maxPods": 4}
    made = double.create("trainingjobs", "bio", training("train", pods=2, elastic=elastic), "ann")

    followed(started(), double, "Pending")

    (job,) = double.all("jobs")
    assert job["spec"]["suspend"] is True
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (2, 2)
    assert job["metadata"]["annotations"] == {
        "steward.dev/hold": "true",
        "steward.dev/saves": "20",
        "steward.dev/elastic": "1-4",
    }
    notes = job["spec"]["template"]["metadata"]["annotations"]
    assert notes == {"steward.dev/saves": "20"}, "pods do not have the annotations of their Job"
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)


@pytest.mark.parametrize(("policy", "ignored"), [("", True), ("Never", True), ("OnFailure", False)])
def test_an_eviction_is_no_failure_of_its_job_where_kubernetes_allows_that(
    double: KubeDouble, started: Callable[..., TrainingOperator], policy: str, *, ignored: bool
) -> None:
    body = training("train")
    body["spec"]["template"]["spec"] |= {"restartPolicy": policy} if policy else {}
    double.create("trainingjobs", "bio", body, "ann")

    followed(started(), double, "Pending")

    (job,) = double.all("jobs")
    assert job["spec"]["template"]["spec"]["restartPolicy"] == (policy or "Never")
    assert ("podFailurePolicy" in job["spec"]) is ignored


def test_its_status_and_events_follow_the_life_of_the_job(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving, cluster = started(), KubeCluster(double, work_ticks=2)
    followed(serving, double, "Pending")
    name = double.all("jobs")[0]["metadata"]["name"]
    double.patch("jobs", "bio", name, {"spec": {"suspend": False}}, manager="steward")
    followed(serving, double, "Starting")
    cluster.tick()
    followed(serving, double, "Running")
    cluster.tick()
    followed(serving, double, "Succeeded")

    reasons = [each["reason"] for each in double.all("events")]
    assert reasons == ["WaitsForSteward", "Started", "PodsReady", "JobComplete"]
    status = double.named("trainingjobs", "train")["status"]
    said = {each["type"]: each["status"] for each in status["conditions"]}
    assert said == {"Running": "False", "Finished": "True"}


def test_a_job_that_was_deleted_is_not_made_again(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = started()
    followed(serving, double, "Pending")
    double.delete("jobs", double.all("jobs")[0]["metadata"]["uid"])

    followed(serving, double, "Failed")

    assert double.all("jobs") == []
    message = double.named("trainingjobs", "train")["status"]["conditions"][0]["message"]
    assert "not started a second time" in message


def test_a_template_that_the_server_rejects_is_the_end_of_that_one_alone(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    double.create("trainingjobs", "bio", training("bad", template={"spec": {"x": 1}}), "ann")
    double.create("trainingjobs", "bio", training("good"), "ann")
    serving = started()

    followed(serving, double, "Failed", "bad")
    followed(serving, double, "Pending", "good")

    message = double.named("trainingjobs", "bad")["status"]["conditions"][0]["message"]
    assert "containers: Required value" in message


def test_a_watch_that_is_behind_does_not_make_a_deleted_job_again(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = started()
    until(lambda: all(each.synced for each in serving.reflectors), why="the lists")
    serving._take_in()
    behind = dict(serving._trainings.objects)
    followed(serving, double, "Pending")
    double.delete("jobs", double.all("jobs")[0]["metadata"]["uid"])

    serving._trainings.objects = dict(behind)  # as before the status was written
    serving._jobs.objects = {}
    serving._open = set(behind)
    serving.turn()

    assert double.all("jobs") == []


def test_a_watch_that_is_behind_does_not_tell_the_end_twice(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving, cluster = started(), KubeCluster(double, work_ticks=2)
    followed(serving, double, "Pending")
    serving._take_in()
    behind = dict(serving._trainings.objects)
    name = double.all("jobs")[0]["metadata"]["name"]
    double.patch("jobs", "bio", name, {"spec": {"suspend": False}}, manager="steward")
    followed(serving, double, "Starting")
    until(lambda: serving.turn() and not serving._open, why="the watch")
    for _ in range(3):
        cluster.tick()
    until(
        lambda: serving._take_in() or all(_.end for _ in serving._jobs.objects.values()), why="it"
    )

    serving._trainings.objects = dict(behind)  # as before it was started
    serving._open = set(behind)
    serving.turn()
    double.patch("trainingjobs", "bio", "train", {"spec": {"backoffLimit": 1}}, manager="ann")
    followed(serving, double, "Succeeded")

    reasons = [each["reason"] for each in double.all("events")]
    assert reasons.count("JobComplete") == 1


@pytest.mark.parametrize("sends", [True, False], ids=["after it", "before it"])
@pytest.mark.parametrize("lives", range(6))
def test_killed_at_any_request_the_next_one_makes_no_second_job_and_no_second_event(
    double: KubeDouble, started: Callable[..., TrainingOperator], lives: int, *, sends: bool
) -> None:
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = started(MortalApi(double, lives=lives, sends=sends))

    def killed() -> bool:
        try:
            serving.turn()
        except KilledError:
            return True
        return phase(double) == "Pending"

    until(killed, why="the kill, or all that there is to do")

    followed(started(), double, "Pending")
    assert len(double.all("jobs")) == 1
    assert [each["reason"] for each in double.all("events")] == ["WaitsForSteward"]


def test_of_two_operators_one_works_and_the_other_takes_over(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    now_s = [0.0]
    first = started(identity="one")
    second = started(identity="two", clock=lambda: now_s[0])
    until(lambda: first.turn().leads, why="the lease")

    waits = second.turn().leads
    now_s[0] = 10.0
    still = second.turn().leads
    now_s[0] = 16.0
    took = second.turn().leads

    assert (waits, still, took) == (False, False, True)
    assert first.turn().leads is False
    assert double.named("leases", "op")["spec"]["leaseTransitions"] == 1


def test_an_operator_that_stops_lets_the_next_begin_at_once(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    first, second = started(identity="one"), started(identity="two")
    until(lambda: first.turn().leads, why="the lease")
    second.turn()
    for each in first.reflectors:
        each._stop.set()
    double.cut()
    first.stop()

    assert second.turn().leads


def test_a_server_that_is_away_costs_nothing(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = started()
    until(lambda: all(each.synced for each in serving.reflectors), why="the lists")
    double.down = 3

    faults = [fault for _ in range(3) for fault in serving.turn().faults]

    assert "503" in faults[0].problem
    followed(serving, double, "Pending")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"pods": 0}, "0 is less than the minimum"),
        ({"saveSeconds": "soon"}, "is not of type"),
        ({"elastic": {"minPods": 1}}, '"maxPods" is a required property'),
        ({"gpu": 1}, "Additional properties"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_by_the_server(
    double: KubeDouble, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(ApiError, match=why) as fault:
        double.create("trainingjobs", "bio", training("train", **spec), "ann")

    assert fault.value.code == 422


def test_two_hundred_jobs_of_three_tenants_end_once_each_over_twenty_kills(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    """Start, preempt with save, drain and return, while operator and engine are killed."""
    chance = random.Random(14)  # noqa: S311 - no secret
    scenario = Scenario(double, jobs=JOBS, seed=14)

    def born(kills: int) -> TrainingOperator:
        lives = chance.randrange(60) if kills < KILLS else 10**9
        return started(MortalApi(double, lives=lives, sends=chance.random() < 0.5))

    kills, serving = 0, born(0)
    while not scenario.over:
        assert scenario.turns < TURNS, f"some jobs never end: {scenario.decider.open}"
        try:
            serving.turn()
        except KilledError:
            kills += 1
            for each in serving.reflectors:  # a dead process watches nothing
                each._stop.set()
            serving = born(kills)
            scenario.decider.restart()
        scenario.turn()

    assert kills == KILLS
    scenario.assert_each_job_ended_once()
