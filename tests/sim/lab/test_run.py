"""The door to all engines, and what a replay assumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steward.errors import StewardError
from steward.model.machines import machines_of
from steward.model.trace import trace_of
from steward.sim.lab.run import FAMILIES, describe_policy, family_of, known_policies, knows, replay
from steward.sim.lab.settings import LabSettings

MACHINES = machines_of(8)
TRACE = trace_of(
    "few",
    submit_s=[0, 0, 10, 20],
    duration_s=[100, 300, 100, 50],
    gpus=[4, 2, 1, 2],
    tenant=["a", "b", "", "a"],
)


def tried(policy: str, **settings: Any) -> StewardError:
    with pytest.raises(StewardError) as raised:
        replay(TRACE, MACHINES, policy, LabSettings(**settings))
    return raised.value


def test_a_policy_that_is_not_known_is_answered_with_those_that_are() -> None:
    error = tried("tiresia")

    assert "there is no policy called 'tiresia'" in error.problem
    assert "commons" in error.problem
    assert error.hint == "did you mean 'tiresias'?"


def test_a_placement_that_is_not_known_is_answered_with_those_that_are() -> None:
    error = tried("fifo", placement="topologie")

    assert "there is no placement called 'topologie'" in error.problem
    assert error.hint == "did you mean 'topology'?"


def test_options_are_for_the_policy_that_they_name() -> None:
    long = trace_of("two", submit_s=[0, 10], duration_s=[1000, 1000], gpus=[8, 8])
    told = {"tiresias.thresholds_gpu_s": (800.0,), "las.thresholds_s": (1.0,)}

    made = replay(long, MACHINES, "tiresias", LabSettings(policy_options=told))

    assert made.start_s.tolist() == [0, 100]  # after 800 GPU-seconds on eight GPUs


def test_an_option_without_a_policy_is_for_all_that_have_it() -> None:
    told = LabSettings(policy_options={"promote": 1.0, "depth": 3})

    for policy in ("tiresias", "fifo", "conservative-backfill"):
        assert not np.isnan(replay(TRACE, MACHINES, policy, told).end_s).any()


def test_an_option_that_a_policy_does_not_have_is_answered_with_those_that_it_has() -> None:
    error = tried("tiresias", policy_options={"tiresias.promot": 1.0})

    assert "there is no option of tiresias called 'promot'" in error.problem
    assert error.hint == "did you mean 'promote'?"


def test_no_option_can_rename_a_policy() -> None:
    assert "called 'name'" in tried("fifo", policy_options={"fifo.name": "lifo"}).problem


def test_an_option_of_another_policy_is_ignored_even_if_that_does_not_have_it() -> None:
    told = LabSettings(policy_options={"tiresias.promot": "x", "commons.lead": -1.0})

    assert replay(TRACE, MACHINES, "fifo", told).end_s.tolist() == [100, 300, 110, 150]


def test_an_option_that_no_policy_has_is_answered_with_those_of_this_one() -> None:
    error = tried("tiresias", policy_options={"promot": 1.0})

    assert error.problem == ("there is no option called 'promot'; known: promote, thresholds_gpu_s")
    assert error.hint == "did you mean 'promote'?"


@pytest.mark.parametrize(
    ("option", "value", "usual"),
    [
        ("commons.lead", "2", "2.0"),
        ("commons.lead", True, "2.0"),
        ("lead", None, "2.0"),
        ("commons.moves", 1, "True"),
        ("commons.moves", "yes", "True"),
        ("commons.goal", 1.0, "''"),
        ("commons.goal", False, "''"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_with_what_it_usually_is(
    option: str, value: object, usual: str
) -> None:
    error = tried("commons", policy_options={option: value})

    name = f"commons.{option.removeprefix('commons.')}"
    assert error.problem == (
        f"{value!r} is not what {name} can be, which is {usual} if nothing is said"
    )
    assert error.where == "--option"


def test_a_threshold_alone_is_not_several() -> None:
    error = tried("las", policy_options={"las.thresholds_s": 5.0})

    assert "5.0 is not what las.thresholds_s can be" in error.problem


@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), float("-inf")])
def test_no_number_is_below_zero(value: float) -> None:
    error = tried("commons", policy_options={"commons.patience": value})

    assert error.problem == f"commons.patience is {value}, but cannot be below 0"
    assert error.where == "--option"


@pytest.mark.parametrize(
    ("policy", "option", "value"),
    [
        ("commons", "lead", 3),  # a whole number where there is usually a point
        ("commons", "patience", 0),
        ("commons", "old_s", float("inf")),
        ("commons", "moves", False),
        ("conservative-backfill", "depth", 5),
    ],
)
def test_an_option_of_the_right_kind_is_taken(policy: str, option: str, value: object) -> None:
    told = LabSettings(policy_options={f"{policy}.{option}": value})

    assert not np.isnan(replay(TRACE, MACHINES, policy, told).end_s).any()


def test_what_a_policy_refuses_is_refused_by_its_own_words() -> None:
    error = tried("commons", policy_options={"class_weight": 0})

    assert str(error) == "commons: class_weight must be above 0"


@pytest.mark.parametrize("profiles", [None, Path("/nowhere")])
def test_elastic_policies_ask_for_the_speeds_that_they_need(profiles: Path | None) -> None:
    error = tried("pollux", profiles=profiles)

    assert "needs to know how fast each application is" in error.problem
    assert "--profiles" in error.hint


@pytest.mark.parametrize("policy", ["fifo", "commons", "max-min", "lucid"])
def test_every_family_has_its_engine(policy: str) -> None:
    made = replay(TRACE, MACHINES, policy, LabSettings())

    assert made.trace is TRACE
    assert not np.isnan(made.end_s).any()


def test_progress_is_told_as_a_share() -> None:
    told: list[float] = []
    many = trace_of(
        "m", submit_s=np.arange(150_000.0), duration_s=np.full(150_000, 0.5), gpus=[1.0] * 150_000
    )

    replay(many, MACHINES, "fifo", LabSettings(), progress=told.append)

    assert told
    assert all(0 < share <= 1 for share in told)


def test_every_policy_is_of_one_family_and_says_what_it_does_in_one_line() -> None:
    names = known_policies()

    assert len(names) == len(set(names))
    assert {family_of(name) for name in names} == set(FAMILIES)
    assert all(len(describe_policy(name)) > 20 for name in names)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("srtf", "durations"),
        ("easy-backfill", "time limits"),
        ("commons", "nothing"),
        ("commons-packed", "speeds of pairs"),
        ("pollux", "work left and speeds"),
    ],
)
def test_what_a_policy_must_be_told_is_said(policy: str, told: str) -> None:
    assert knows(policy) == told


def test_without_quotas_tenants_are_entitled_to_their_part_of_the_work() -> None:
    settings = LabSettings(guaranteed_share=0.25)
    work = np.array([500.0, 600.0, 100.0])  # a, b, and those without a name

    entitled = settings.entitlement_of(TRACE, MACHINES)

    assert entitled == pytest.approx(8 * work / 1200)
    assert settings.quota_of(TRACE, MACHINES) == pytest.approx(entitled / 4)


def test_quotas_that_were_given_are_guaranteed_whole() -> None:
    settings = LabSettings(quota={"b": 3.0, "": 1.0})

    assert settings.entitlement_of(TRACE, MACHINES).tolist() == [0, 3, 1]
    assert settings.quota_of(TRACE, MACHINES).tolist() == [0, 3, 1]


def test_a_single_tenant_is_guaranteed_everything() -> None:
    alone = TRACE.of_tenant("a")

    assert LabSettings().quota_of(alone, MACHINES).tolist() == [8, 0, 0]


def test_nobody_is_entitled_to_anything_where_there_is_no_work() -> None:
    nothing = trace_of("none", submit_s=[], duration_s=[], gpus=[])

    assert LabSettings().entitlement_of(nothing, MACHINES).tolist() == [0]


def test_a_quota_for_a_tenant_that_is_not_in_the_trace_is_refused() -> None:
    error = tried("commons", quota={"a": 1.0, "bb": 2.0})

    assert "there is no tenant called 'bb'; known: a, b" in error.problem
    assert error.where == "quota"
