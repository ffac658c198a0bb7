"""Objects that are refused wait ever longer, and nobody else with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from beds.kube_store import ApiError
from beds.kubernetes import KubeDouble, kube_double
from beds.training_jobs import MortalApi, ended, operator, training
from patience import until
from steward.act.kubernetes.retry_backoff import RetryBackoff
from steward.act.kubernetes.training_operator import TrainingOperator


class RefusingDouble:
    """Makes a double refuse the Jobs of some TrainingJobs, as a quota does."""

    def __init__(self, double: KubeDouble) -> None:
        self.prefixes: tuple[str, ...] = ()
        self.asked: list[str] = []
        self._create = double.create
        double.create = self.create  # type: ignore[method-assign,assignment]

    def create(self, plural: str, namespace: str, body: dict, manager: str) -> dict:  # type: ignore[type-arg]
        name = str((body.get("metadata") or {}).get("name"))
        if plural == "jobs":
            self.asked.append(name)
            if name.startswith(self.prefixes or ("\n",)):
                raise ApiError(403, "exceeded quota: gpus, used 8, limited to 8")
        return self._create(plural, namespace, body, manager)


@pytest.fixture
def double() -> Iterator[KubeDouble]:
    with kube_double() as running:
        yield running


@pytest.fixture
def started(double: KubeDouble) -> Iterator[Callable[..., TrainingOperator]]:
    made: list[TrainingOperator] = []

    def begin(clock: Callable[[], float]) -> TrainingOperator:
        made.append(operator(MortalApi(double), passes={"clock": clock}))
        made[-1].start()
        until(lambda: all(each.synced for each in made[-1].reflectors), why="the lists")
        return made[-1]

    yield begin
    ended(double, *made)


def status(double: KubeDouble, name: str) -> dict[str, object]:
    found: dict[str, object] = double.named("trainingjobs", name).get("status", {})
    return found


def test_pauses_double_up_to_the_longest_and_end_when_the_state_changes() -> None:
    now_s = [0.0]
    pauses = RetryBackoff(least_s=1.0, most_s=5.0, clock=lambda: now_s[0])
    waits = []
    for _ in range(4):
        pauses.pause("a", "generation 1")
        began_s = now_s[0]
        while not pauses.due(["a"]):
            now_s[0] += 0.5
        waits.append(now_s[0] - began_s)
    pauses.pause("a", "generation 1")

    pauses.forget("a", unless=("generation 1",))
    still = pauses.due(["a", "b"])
    pauses.forget("a", unless=("generation 2",))

    assert waits == [1.0, 2.0, 4.0, 5.0]
    assert (still, pauses.due(["b", "a"])) == (["b"], ["a", "b"])


def test_a_refused_job_is_said_once_and_tried_ever_more_seldom(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    now_s, refusing = [0.0], RefusingDouble(double)
    refusing.prefixes = ("train",)
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = started(lambda: now_s[0])

    for second in range(600):
        now_s[0] = float(second)
        serving.turn()

    assert len(refusing.asked) < 12, "once a second would be 600"
    (event,) = double.all("events")
    assert (event["reason"], event["type"]) == ("JobRefused", "Warning")
    said = status(double, "train")
    assert said["phase"] == "Refused"
    assert "exceeded quota" in str(said["conditions"])


def test_a_refused_job_is_made_when_it_may_be(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    now_s, refusing = [0.0], RefusingDouble(double)
    refusing.prefixes = ("train",)
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = started(lambda: now_s[0])
    serving.turn()
    refusing.prefixes = ()

    def pending() -> bool:
        now_s[0] += 300.0
        serving.turn()
        return status(double, "train").get("phase") == "Pending"

    until(pending, why="the Job")
    reasons = [each["reason"] for each in double.all("events")]
    assert (len(double.all("jobs")), reasons) == (1, ["JobRefused", "WaitsForSteward"])


def test_a_changed_spec_is_tried_at_once(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    refusing = RefusingDouble(double)
    refusing.prefixes = ("train",)
    double.create("trainingjobs", "bio", training("train"), "ann")
    serving = started(lambda: 0.0)  # no pause is ever over by itself
    serving.turn()
    refusing.prefixes = ()
    serving.turn()
    waits = len(double.all("jobs"))
    smaller = {"spec": {"backoffLimit": 1}}
    double.patch("trainingjobs", "bio", "train", smaller, manager="kubectl")

    until(lambda: serving.turn().created, why="the Job")

    assert waits == 0


def test_a_pass_has_a_time_limit_and_a_thousand_refused_ones_hold_up_nobody(
    double: KubeDouble, started: Callable[..., TrainingOperator]
) -> None:
    now_s, refusing = [0.0], RefusingDouble(double)
    refusing.prefixes = ("bad",)
    for index in range(40):
        double.create("trainingjobs", "bio", training(f"bad{index}"), "ann")
    double.create("trainingjobs", "bio", training("good"), "ann")  # its uid is the last

    def clock() -> float:
        now_s[0] += 0.1  # each look at the clock costs time, as requests do
        return now_s[0]

    serving = started(clock)
    serving.turn()
    first, passes = len(refusing.asked), 1
    while not status(double, "good"):
        passes += 1
        serving.turn()

    assert 0 < first < 41, "the first pass was not cut short"
    assert passes < 10
