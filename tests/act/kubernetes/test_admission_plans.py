"""Which workloads are admitted, and which are called back, in moments that are hard to meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steward.act.kubernetes.admission_plans import plan_checks
from steward.clients.kubernetes.kueue_objects import CheckState, Workload, workload_from
from steward.clients.kubernetes.pool_usage import PoolUsage
from steward.clients.kubernetes.resource_pool import ResourcePool

GPU = "nvidia.com/gpu"
NOW_S = 10_000.0
POOL = ResourcePool(uid="u", name="shared")


def workload(
    name: str, namespace: str = "chem", state: str = "Pending", **changes: Any
) -> Workload:
    runs = state == "Ready"
    made = Workload(
        uid=name,
        name=name,
        namespace=namespace,
        version="1",
        created_s=1.0,
        priority_class="",
        owner_uid=f"owner-{name}",
        owner_kind="Job",
        reserved=True,
        admitted_s=1.0 if runs else None,
        evicted_s=None,
        over=False,
        selector={},
        save_s=20.0,
        grace_s=30.0,
        pod_sets={"main": {}},
        devices={GPU: 8},
        checks=(CheckState(name="lend", state=state, message="", since_s=1.0),),
    )
    return replace(made, **changes)


def usage(
    *workloads: Workload, total: int = 16, bio: int = 16, returning: int = 0, **used: int
) -> PoolUsage:
    """Return a pool in which the pods of these workloads run; `used` is by namespace."""
    return PoolUsage(
        pool=POOL,
        nodes=2,
        total=total,
        free_of={GPU: total - sum(used.values())},
        used=used,
        leaving={"chem": returning} if returning else {},
        returning={GPU: returning},
        owned={each.owner: each.devices for each in workloads},
        guaranteed={"bio": bio},
    )


def planned(
    *workloads: Workload,
    of: PoolUsage,
    running: dict[str, int] | None = None,
    called_back: dict[tuple[str, str], int] | None = None,
    checks: dict[str, str] | None = None,
) -> dict[str, str]:
    found = plan_checks(
        workloads,
        checks or {"lend": "shared"},
        {"shared": of},
        running={("chem", owner): {GPU: count} for owner, count in (running or {}).items()},
        called_back=called_back or {},
        now_s=NOW_S,
    )
    return {each.workload.name: each.state for each in found if each.state != "Pending"}


def lent(name: str, gpus: int = 8, *, since_s: float = 1.0, **changes: Any) -> Workload:
    """Return a workload of chem that runs."""
    check = CheckState(name="lend", state="Ready", message="", since_s=since_s)
    return workload(name, state="Ready", **{"devices": {GPU: gpus}, "checks": (check,), **changes})


def test_the_youngest_loan_is_called_back_and_no_more_than_is_missing() -> None:
    old, young = lent("old", since_s=10.0), lent("young", since_s=20.0)

    found = planned(old, young, workload("owner", "bio"), of=usage(old, young, chem=16))

    assert found == {"young": "Retry"}


def test_nothing_is_called_back_for_one_who_would_borrow() -> None:
    runs, waits = lent("runs"), workload("waits", "physics")

    assert planned(runs, waits, of=usage(runs, chem=16)) == {}


def test_who_uses_what_is_guaranteed_to_nobody_is_not_called_back() -> None:
    """GPUs are missing since a node is down, not since somebody has borrowed."""
    runs = lent("runs")
    of = replace(usage(runs, total=24, bio=16, chem=8), free_of={GPU: 0})

    assert planned(runs, workload("owner", "bio"), of=of) == {}


@pytest.mark.parametrize(
    ("change", "leaving", "running"),
    [
        ({"checks": (CheckState(name="lend", state="Retry", message="", since_s=1.0),)}, 0, 8),
        ({"evicted_s": NOW_S - 5, "admitted_s": None}, 0, 8),
        ({"evicted_s": NOW_S - 5, "admitted_s": None, "reserved": False}, 8, 0),
        ({"reserved": False, "admitted_s": None}, 8, 0),
        ({"evicted_s": NOW_S - 5, "owner_kind": "JobSet", "reserved": False}, 0, 0),
    ],
    ids=["asked to", "evicted", "its pods end", "queued again", "pods of another owner"],
)
def test_what_is_on_its_way_back_is_not_called_back_twice(
    change: dict[str, Any], leaving: int, running: int
) -> None:
    checks = (CheckState(name="lend", state="Pending", message="", since_s=1.0),)
    first = workload("first", **{"checks": checks, **change})
    second = lent("second")
    of = usage(*([first] if running else []), second, chem=16, returning=leaving)

    found = planned(
        first, second, workload("owner", "bio"), of=of, running={"owner-first": running}
    )

    assert found == {}


def test_the_fewest_are_called_back_and_of_those_the_ones_that_free_the_least_beyond_it() -> None:
    runs = [lent("four", 4), lent("one", 1, since_s=9.0), lent("two", 2), lent("eight")]
    owner = workload("owner", "bio", devices={GPU: 3})

    found = planned(*runs, owner, of=usage(*runs, total=15, bio=15, chem=15))

    assert found == {"four": "Retry"}


def test_what_a_namespace_was_given_within_its_guarantee_is_not_called_back() -> None:
    old, young = lent("old", since_s=5.0), lent("young", since_s=9.0)
    lender = lent("lender", since_s=1.0, namespace="physics", owner_uid="p")
    of = usage(old, young, lender, total=24, bio=15, chem=16, physics=8)
    of = replace(of, guaranteed={"bio": 15, "chem": 9})

    found = planned(old, young, lender, workload("owner", "bio"), of=of)

    assert found == {"lender": "Retry"}  # of chem's, only the young one has borrowed, and 7 of 8


def test_the_oldest_of_a_namespace_stay_though_another_of_it_cannot_save() -> None:
    own, rigid = lent("own"), lent("rigid", since_s=9.0, save_s=None)
    of = replace(usage(own, rigid, chem=16), guaranteed={"bio": 8, "chem": 8})

    assert planned(own, rigid, workload("owner", "bio"), of=of) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"save_s": None},
        {"save_s": 60.0, "grace_s": 30.0},
        {"devices": {"amd.com/gpu": 8}},
    ],
    ids=["cannot save", "is killed before", "has other GPUs"],
)
def test_one_whose_call_back_would_not_help_goes_on(change: dict[str, Any]) -> None:
    runs = lent("runs", **change)

    assert planned(runs, workload("owner", "bio"), of=usage(runs, total=8, bio=8, chem=8)) == {}


def test_one_on_a_node_that_takes_no_pods_goes_on() -> None:
    cordoned, runs = lent("cordoned", since_s=9.0), lent("runs")

    found = planned(cordoned, runs, workload("owner", "bio"), of=usage(runs, chem=16))

    assert found == {"runs": "Retry"}


def test_nothing_is_called_back_or_kept_for_one_that_cannot_be_let_in_anyway() -> None:
    runs = lent("runs")
    huge, waits = workload("huge", "bio", devices={GPU: 24}), workload("waits")
    of = replace(usage(runs, bio=24, chem=8), total=16)  # eight of the guarantee are down

    assert planned(runs, huge, waits, of=of) == {"waits": "Ready"}


def test_nothing_is_called_back_where_all_that_may_be_is_not_enough() -> None:
    runs, rigid = lent("runs"), lent("rigid", save_s=None)
    owner = workload("owner", "bio", devices={GPU: 16})

    assert planned(runs, rigid, owner, of=usage(runs, rigid, chem=16)) == {}


@pytest.mark.parametrize(("state", "calls"), [("Pending", False), ("Ready", True)])
def test_nothing_is_called_back_before_the_checks_of_others_let_it_in(
    state: str, *, calls: bool
) -> None:
    runs, owner = lent("runs"), workload("owner", "bio")
    other = CheckState(name="other", state=state, message="", since_s=1.0)
    owner = replace(owner, checks=(*owner.checks, other))

    found = planned(runs, owner, of=usage(runs, total=8, bio=8, chem=8))

    assert (found == {"runs": "Retry"}) is calls


def test_a_workload_with_two_checks_of_one_pool_is_counted_once() -> None:
    def twice(each: Workload) -> Workload:
        (check,) = each.checks
        return replace(each, checks=(check, replace(check, name="again")))

    first, second = twice(lent("first")), twice(lent("second", since_s=9.0))

    found = planned(
        first,
        second,
        twice(workload("owner", "bio")),
        of=usage(first, second, chem=16),
        checks={"lend": "shared", "again": "shared"},
    )

    assert found == {"second": "Retry"}


@pytest.mark.parametrize(
    ("spent", "calls"), [(0, True), (8, True), (9, False)], ids=["none", "half", "more"]
)
def test_within_an_hour_no_more_is_called_back_for_a_namespace_than_is_guaranteed_to_it(
    spent: int, *, calls: bool
) -> None:
    runs = [lent("a"), lent("b")]
    called_back = {("shared", "bio"): spent, ("shared", "physics"): 99, ("other", "bio"): 99}

    found = planned(
        *runs, workload("owner", "bio"), of=usage(*runs, chem=16), called_back=called_back
    )

    assert bool(found) is calls


def test_pods_of_another_namespace_that_name_its_owner_are_not_counted_for_it() -> None:
    runs = lent("runs")
    of = replace(usage(total=8, bio=8, chem=8), owned={("physics", runs.owner_uid): {GPU: 8}})

    assert planned(runs, workload("owner", "bio"), of=of) == {}


def test_a_workload_that_is_evicted_is_not_touched() -> None:
    """Kueue would never queue it again: see its KEP 3258."""
    assert planned(workload("w", evicted_s=NOW_S), of=usage()) == {}
    assert planned(workload("w", reserved=False), of=usage()) == {}
    assert planned(workload("w", over=True), of=usage()) == {}


@pytest.mark.parametrize(
    ("admitted_s", "pods", "admits"),
    [(None, 0, False), (NOW_S - 10, 0, False), (NOW_S - 10, 8, True), (1.0, 0, True)],
    ids=["other checks", "starting", "running", "long ago"],
)
def test_gpus_of_one_that_may_start_are_counted_until_its_pods_are_there(
    admitted_s: float | None, pods: int, *, admits: bool
) -> None:
    first = workload("first", state="Ready", admitted_s=admitted_s)
    of = usage(total=16 if pods else 8, bio=0, chem=pods)

    found = planned(first, workload("second"), of=of, running={"owner-first": pods})

    assert ("second" in found) is admits


def test_quota_that_was_assigned_counts_before_what_pods_ask_for() -> None:
    limits = {"resources": {"limits": {GPU: "4"}}}
    pods = {"name": "main", "count": 3, "template": {"spec": {"containers": [limits]}}}
    raw: dict[str, Any] = {"metadata": {"uid": "u", "name": "w"}, "spec": {"podSets": [pods]}}
    partial = {"podSetAssignments": [{"name": "main", "count": 2}]}
    exact = {"podSetAssignments": [{"name": "main", "resourceUsage": {GPU: "6", "cpu": "1"}}]}

    found = [
        workload_from({**raw, "status": {"admission": admission}})
        for admission in ({}, partial, exact)
    ]

    assert [dict(each.devices) if each else None for each in found] == [
        {GPU: 12},
        {GPU: 8},
        {GPU: 6},
    ]
    assert workload_from({}) is None


def test_a_workload_has_a_priority_class_and_can_save_only_where_all_its_pods_do() -> None:
    def pods(name: str, notes: dict[str, str], **spec: Any) -> dict[str, Any]:
        meta = {"annotations": notes}
        return {"name": name, "template": {"metadata": meta, "spec": {"containers": [], **spec}}}

    said = {"steward.dev/saves": "20"}
    sets = [pods("a", said, priorityClassName="lent"), pods("b", {}, priorityClassName="high")]
    meta = {"uid": "u", "name": "w", "deletionTimestamp": "2026-01-01T00:00:00Z"}

    found = workload_from({"metadata": meta, "spec": {"podSets": sets}})

    assert found is not None
    assert (found.priority_class, found.save_s, found.can_save) == ("", None, False)
    assert found.over  # it is being deleted
