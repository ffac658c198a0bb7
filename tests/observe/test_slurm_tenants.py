"""Weights and guarantees of tenants follow from the tree of accounts."""

from __future__ import annotations

from typing import Any

import pytest

from steward.clients.slurm.accounting import Accounting, SlurmAccount
from steward.clients.slurm.jobs import job_from_json
from steward.observe.slurm_tenants import SlurmTenants, gpu_demand, tenants_of

ROOT = {"name": "root", "parent": ""}


def accounting(*accounts: dict[str, Any], qos: dict[str, int] | None = None) -> Accounting:
    usual = {
        "cluster": "bed",
        "parent": "root",
        "shares": 1,
        "gpu_limit": None,
        "qos": ("normal",),
    }
    return Accounting(
        accounts=tuple(SlurmAccount(**{**usual, **each}) for each in (ROOT, *accounts)),
        qos_gpu_limits=tuple((qos or {}).items()),
    )


def found(given: Accounting, **changes: Any) -> SlurmTenants:
    options = {"cluster": "bed", "names": (), "gpus": 32, "guarantees": True, "demand": {}}
    return tenants_of(given, **{**options, **changes})


def weights(given: Accounting) -> dict[str, float]:
    return {each.id: each.weight for each in found(given).tenants}


def guarantees(given: Accounting, **changes: Any) -> dict[str, int]:
    tenants = found(given, **changes).tenants
    return {each.id: each.guaranteed_gpus for each in tenants if each.guaranteed_gpus}


def test_an_account_below_another_has_its_part_of_the_others_shares() -> None:
    given = accounting(
        {"name": "bio", "shares": 30},
        {"name": "group", "shares": 10},
        {"name": "nlp", "parent": "group", "shares": 3},
        {"name": "speech", "parent": "group", "shares": 1},
        {"name": "idle", "shares": 0},
    )

    assert weights(given) == {
        "root": 1.0,
        "bio": 30.0,
        "group": 10.0,
        "nlp": 7.5,
        "speech": 2.5,
        "idle": 0.001,
    }


def test_accounts_that_are_each_others_parents_have_a_weight_all_the_same() -> None:
    given = accounting({"name": "a", "parent": "b"}, {"name": "b", "parent": "a"})

    assert weights(given)["a"] == 1.0


def test_a_limit_of_an_account_is_its_guarantee_where_that_is_switched_on() -> None:
    given = accounting({"name": "bio", "gpu_limit": 16}, {"name": "vision"})

    assert guarantees(given) == {"bio": 16}
    assert guarantees(given, guarantees=False) == {}


def test_a_qos_that_several_accounts_may_use_guarantees_nothing() -> None:
    given = accounting(
        {"name": "bio", "qos": ("own", "normal")},
        {"name": "vision", "qos": ("normal", "boost")},
        {"name": "nlp", "qos": ("normal", "boost")},
        {"name": "both", "gpu_limit": 2, "qos": ("its",)},
        qos={"own": 8, "boost": 4, "its": 6},
    )

    assert guarantees(given) == {"bio": 8, "both": 2}


GROUP = accounting(
    {"name": "group", "gpu_limit": 16},
    {"name": "nlp", "parent": "group", "gpu_limit": 8},
    {"name": "vision", "parent": "group", "shares": 3},
    {"name": "speech", "parent": "group"},
    {"name": "asr", "parent": "speech"},  # two levels below
)


def test_of_an_account_and_one_below_it_the_lower_has_its_limit_and_the_upper_the_rest() -> None:
    assert guarantees(GROUP) == {"nlp": 8, "group": 8}


@pytest.mark.parametrize(
    ("demand", "below"),
    [
        ({"vision": 2}, {"vision": 2, "group": 6}),
        ({"vision": 20}, {"vision": 8}),
        ({"vision": 20, "asr": 20}, {"vision": 6, "asr": 2}),  # by their shares
        ({"vision": 20, "asr": 1}, {"vision": 7, "asr": 1}),
        ({"nlp": 20, "bio": 20}, {"group": 8}),  # it has a limit of its own, or is elsewhere
    ],
)
def test_a_limit_is_shared_by_those_below_it_who_need_it(
    demand: dict[str, int], below: dict[str, int]
) -> None:
    assert guarantees(GROUP, demand=demand) == {"nlp": 8, **below}


def test_limits_below_an_account_may_add_up_to_more_than_its_own() -> None:
    given = accounting(
        {"name": "group", "gpu_limit": 8},
        {"name": "nlp", "parent": "group", "gpu_limit": 6},
        {"name": "vision", "parent": "group", "gpu_limit": 6},
    )

    assert guarantees(given) == {"nlp": 6, "vision": 6}


def test_jobs_that_run_or_could_start_need_their_gpus() -> None:
    rows = [
        {"job_state": "RUNNING", "tres_req_str": "gres/gpu=4"},
        {"job_state": "PENDING", "tres_req_str": "gres/gpu=2"},
        {"job_state": "PENDING", "tres_req_str": "gres/gpu=8", "state_reason": "Dependency"},
        {"job_state": "COMPLETED", "tres_req_str": "gres/gpu=8"},
    ]
    jobs = [job_from_json({"job_id": n, "account": "bio", **row}) for n, row in enumerate(rows, 1)]

    assert gpu_demand(job for job in jobs if job is not None) == {"bio": 6}


def test_limits_above_what_there_is_are_no_guarantees_and_that_is_said() -> None:
    given = accounting({"name": "bio", "gpu_limit": 24}, {"name": "vision", "gpu_limit": 24})

    assert guarantees(given) == {}
    assert found(given).problem == (
        "the limits of 2 accounts add up to 48 of 32 GPUs: none of them is taken for a guarantee"
    )


def test_of_a_database_with_two_clusters_the_right_accounts_are_read() -> None:
    given = accounting(
        {"name": "bio", "gpu_limit": 4}, {"name": "bio", "cluster": "other", "gpu_limit": 8}
    )

    assert guarantees(given, cluster="bed") == {"bio": 4}
    assert guarantees(given, cluster="other") == {"bio": 8}


def test_whoever_runs_jobs_is_a_tenant_also_without_accounting() -> None:
    assert [each.id for each in found(Accounting(), names={"ada"}).tenants] == ["ada"]
