"""Each CEL rule of our resources lets through what it is for, and refuses what it is against."""

from __future__ import annotations

from typing import Any

import pytest

from beds.kube_rules import rules_of
from beds.kube_schemas import wrong_field
from steward.clients.kubernetes.custom_resources import custom_resources

POD = {"containers": [{"name": "main"}]}
NIGHT = {"from": "20:00", "to": "06:00"}
FIXED = "is fixed"
BETWEEN = "pods has to be between"
POSITIVE = "is above 0"
EXTENDED = "are extended resources"
LENDS = "a pool that lends nothing has no borrowers"
OTHER_TIME = "to is another time than from"
SAYS_NOTHING = "says nothing that would hold then"
NOTHING_TO_LIMIT = "there is nothing to limit"


def training(**spec: Any) -> tuple[str, dict[str, Any]]:
    return "trainingjobs", {"template": {"spec": POD}, **spec}


def share(**spec: Any) -> tuple[str, dict[str, Any]]:
    return "tenantshares", {"namespace": "bio", **spec}


def pool(**spec: Any) -> tuple[str, dict[str, Any]]:
    return "resourcepools", spec


def policy(**spec: Any) -> tuple[str, dict[str, Any]]:
    return "optimizationpolicies", spec


def off_hours(**more: Any) -> tuple[str, dict[str, Any]]:
    return policy(offHours={"windows": [NIGHT], **more})


KEPT = [
    training(),
    training(pods=2, elastic={"minPods": 1, "maxPods": 4}),
    training(elastic={"minPods": 1, "maxPods": 4}),  # one pod is the default
    share(weight=2),  # a number is a double, however it is written
    share(weight=0.5),
    pool(resourceNames=["nvidia.com/gpu"]),
    pool(callBackSeconds=60),  # it lends by default
    pool(lendIdleGuarantees=False),
    policy(autonomy="auto", actions=["preempt"], disturbancesPerJobPerDay=2),
    policy(actions=["preempt"]),
    policy(autonomy="observe"),
    off_hours(autonomy="auto"),
    off_hours(actions=["preempt"]),
    off_hours(disturbancesPerJobPerDay=0),
]
BROKEN = [
    (training(elastic={"minPods": 2, "maxPods": 4}), BETWEEN),
    (training(pods=5, elastic={"minPods": 2, "maxPods": 4}), BETWEEN),
    (share(weight=0), POSITIVE),
    (share(weight=-0.5), POSITIVE),
    (pool(resourceNames=["nvidia.com/gpu", "cpu"]), EXTENDED),
    (pool(lendIdleGuarantees=False, callBackSeconds=60), LENDS),
    (pool(lendIdleGuarantees=False, borrowerPriorityClass="lent"), LENDS),
    (policy(autonomy="observe", actions=["preempt"]), NOTHING_TO_LIMIT),
    (policy(autonomy="advise", disturbancesPerJobPerDay=2), NOTHING_TO_LIMIT),
    (off_hours(autonomy="advise", actions=["preempt"]), NOTHING_TO_LIMIT),
    (off_hours(), SAYS_NOTHING),
    (
        policy(offHours={"windows": [NIGHT, {"from": "1:00", "to": "1:00"}], "autonomy": "auto"}),
        "",  # the pattern comes first
    ),
    (
        policy(offHours={"windows": [NIGHT, {"from": "01:00", "to": "01:00"}], "autonomy": "auto"}),
        OTHER_TIME,
    ),
]


@pytest.mark.parametrize(("plural", "spec"), KEPT)
def test_what_is_meant_is_let_through(plural: str, spec: dict[str, Any]) -> None:
    assert wrong_field(plural, {"spec": spec}) == ""


@pytest.mark.parametrize(("what", "why"), BROKEN)
def test_what_contradicts_itself_is_refused(what: tuple[str, dict[str, Any]], why: str) -> None:
    plural, spec = what

    said = wrong_field(plural, {"spec": spec})

    assert said
    assert why in said


def test_the_number_of_pods_is_fixed_and_other_fields_may_change() -> None:
    plural, two = training(pods=2)
    before, same = {"spec": two}, {"spec": {**two, "saveSeconds": 5}}

    assert wrong_field(plural, same, before) == ""
    assert FIXED in wrong_field(plural, {"spec": {**two, "pods": 3}}, before)
    assert FIXED in wrong_field(plural, {"spec": training()[1]}, before)  # the default is 1
    assert (
        wrong_field(plural, {"spec": {**training()[1], "pods": 1}}, {"spec": training()[1]}) == ""
    )


def test_no_rule_is_without_an_object_that_breaks_it() -> None:
    schemas = [
        each["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for each in custom_resources()
    ]
    tried = {BETWEEN, POSITIVE, EXTENDED, LENDS, OTHER_TIME, SAYS_NOTHING, NOTHING_TO_LIMIT, FIXED}

    assert len({rule for schema in schemas for rule in rules_of(schema)}) == len(tried)
