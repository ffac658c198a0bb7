"""Which workloads are admitted, and which are called back, in moments that are hard to meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steward.act.kubernetes.admission_plans import PlannedState, plan_checks
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


def usage(*, total: int = 16, bio: int = 16, **used: int) -> PoolUsage:
    free = total - sum(used.values())
    return PoolUsage(pool=POOL, nodes=2, total=total, free=free, used=used, guaranteed={"bio": bio})


def planned(
    *workloads: Workload, of: PoolUsage, running: dict[str, int] | None = None
) -> dict[str, str]:
    found: list[PlannedState] = plan_checks(
        workloads, {"lend": "shared"}, {"shared": of}, running=running or {}, now_s=NOW_S
    )
    return {each.workload.name: each.state for each in found if each.state != "Pending"}


def test_the_youngest_loan_is_called_back_and_no_more_than_is_missing() -> None:
    old, young = (
        workload(
            name,
            state="Ready",
            checks=(CheckState(name="lend", state="Ready", message="", since_s=since_s),),
        )
        for name, since_s in (("old", 10.0), ("young", 20.0))
    )

    found = planned(old, young, workload("owner", "bio"), of=usage(chem=16))

    assert found == {"young": "Retry"}


def test_nothing_is_called_back_for_one_who_would_borrow() -> None:
    runs, waits = workload("runs", state="Ready"), workload("waits", "physics")

    assert planned(runs, waits, of=usage(chem=16)) == {}


def test_who_uses_what_is_guaranteed_to_nobody_is_not_called_back() -> None:
    """GPUs are missing since a node is down, not since somebody has borrowed."""
    runs = workload("runs", state="Ready")
    of = replace(usage(total=24, bio=16, chem=8, bio_other=0), free=0)

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
    second = workload("second", state="Ready")
    of = replace(usage(chem=16), leaving=leaving)

    found = planned(
        first, second, workload("owner", "bio"), of=of, running={"owner-first": running}
    )

    assert found == {}


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
