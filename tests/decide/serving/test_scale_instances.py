"""What a scaler wants becomes decisions by name, with reasons, within what may be scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beds.serving_fleet import Wants, moment, scalable, server
from steward.decide.serving import SCALERS
from steward.decide.serving.scale_instances import ScaleInstances
from steward.model.actions import DrainInstance, SetLimit, SetRole, StartInstance, SwapModel
from steward.model.decision import Decision
from steward.model.serving.moment import ServingMoment
from steward.model.serving.view import BATCH_ONLY, Scaling

CHAT = (scalable(),)
TWO = (server(), server("chat-2"))


def decided(seen: ServingMoment, **wanted: Any) -> tuple[Decision, ...]:
    return ScaleInstances(scaler=Wants(scaling=Scaling(**wanted))).decide(seen)


def actions(seen: ServingMoment, **wanted: Any) -> list[Any]:
    return [each.action for each in decided(seen, **wanted)]


def test_a_start_takes_the_lowest_free_name_and_says_how_many_there_are_then() -> None:
    found = actions(moment(server("chat-2"), types=CHAT), start=(0, 0))

    assert [each.instance for each in found] == ["chat-1", "chat-3"]
    assert [each.count for each in found] == [2, 3]
    assert {type(each) for each in found} == {StartInstance}


def test_a_start_has_the_role_that_the_scaler_gives_to_the_row_that_it_takes() -> None:
    seen = moment(server(), types=CHAT)

    found = actions(seen, start=(0, 0), roles=((1, BATCH_ONLY),))

    assert [each.role for each in found] == ["batch", "any"]


def test_no_more_are_started_than_may_be_and_what_is_down_or_coming_counts() -> None:
    seen = moment(server(state="down"), types=CHAT, reserved=("chat-2",))

    assert [each.instance for each in actions(seen, start=(0, 0))] == ["chat-3"]


def test_instances_of_types_that_nobody_configured_are_left_alone() -> None:
    seen = moment(server("far", type="other"), types=CHAT)
    code = [each.name for each in seen.view.types].index("other")

    assert actions(seen, start=(code,), drain=(0,)) == []


def test_drains_leave_the_least_number() -> None:
    seen = moment(*TWO, types=(scalable(least=1),))

    found = actions(seen, drain=(0, 1))

    assert [(each.instance, each.count) for each in found] == [("chat-1", 1)]


def test_what_is_missing_to_the_least_number_is_started_whatever_the_scaler_says() -> None:
    found = decided(moment(types=(scalable(least=2),)))

    assert [each.action.type for each in found] == ["start-instance"] * 2
    assert "at least 2 of chat" in found[0].because


def test_what_drains_or_is_claimed_is_not_drained_again() -> None:
    seen = moment(server(state="draining"), server("chat-2"), types=CHAT, reserved=("chat-2",))

    assert actions(seen, drain=(0, 1)) == []


def test_a_place_that_is_empty_cannot_be_drained() -> None:
    assert actions(moment(server(), types=CHAT), drain=(2,), limits=((2, 4),)) == []


def test_an_instance_that_is_down_for_too_long_is_taken_away() -> None:
    down = moment(server(state="down"), types=(scalable(least=1),))

    early = ScaleInstances(scaler=Wants()).decide(down)
    late = ScaleInstances(scaler=Wants()).decide(
        replace(down, t_s=300.0, down_since_s={"chat-1": 100.0})
    )

    assert [each.action.type for each in early] == ["start-instance"]
    assert [each.action.type for each in late] == ["drain-instance", "start-instance"]
    assert "not answered the gateway for 200 s" in late[0].because


def test_an_instance_of_an_unknown_type_that_is_down_is_left_to_its_owner() -> None:
    down = moment(server("far", type="other", state="down"), types=CHAT)

    late = ScaleInstances(scaler=Wants()).decide(
        replace(down, t_s=300.0, down_since_s={"far": 100.0, "gone": 100.0})
    )

    assert late == ()


def test_a_drain_and_a_start_on_the_same_gpus_are_a_swap() -> None:
    seen = moment(*TWO, types=(scalable(), scalable("code", "c")))

    found = actions(seen, drain=(0,), start=(1,))

    assert len(found) == 1
    assert isinstance(found[0], SwapModel)
    assert (found[0].instance, found[0].before_type, found[0].instance_type) == (
        "chat-1",
        "chat",
        "code",
    )
    assert seen.unmet(found[0]) == ""


@pytest.mark.parametrize(
    "other", [scalable("code", "c", gpus=4), scalable("code", "c", fleet="elsewhere")]
)
def test_other_gpus_or_another_engine_are_a_drain_and_a_start(other: Any) -> None:
    found = actions(moment(*TWO, types=(scalable(), other)), drain=(0,), start=(1,))

    assert {type(each) for each in found} == {DrainInstance, StartInstance}


def test_what_is_down_is_replaced_and_not_swapped() -> None:
    down = moment(server(state="down"), types=(scalable(), scalable("code", "c")))
    late = replace(down, t_s=300.0, down_since_s={"chat-1": 100.0})

    found = actions(late, start=(1,))

    assert {type(each) for each in found} == {DrainInstance, StartInstance}


def test_limits_are_set_where_they_differ_enough_and_roles_where_they_differ() -> None:
    seen = moment(server(limit=100), server("chat-2", limit=4, role="batch"), types=CHAT)

    found = actions(seen, limits=((0, 95), (1, 5)), roles=((0, BATCH_ONLY), (1, BATCH_ONLY)))

    assert found == [
        SetLimit(instance="chat-2", before=4, limit=5),
        SetRole(instance="chat-1", before="any", role="batch"),
    ]


def test_what_is_drained_gets_no_limit() -> None:
    assert [
        each.type for each in actions(moment(*TWO, types=CHAT), drain=(0,), limits=((0, 3),))
    ] == ["drain-instance"]


def test_nothing_is_decided_on_what_may_not_be_so_any_more() -> None:
    silent = replace(moment(types=(scalable(least=1),)), unknown="silent")

    assert decided(silent) == ()


def test_a_decision_says_what_waits_and_what_is_expected() -> None:
    busy = moment(
        server(), types=CHAT, queued=7, in_flight=2, oldest_wait_s=3.0, expected_wait_s=4.5
    )
    quiet = moment(server(), types=CHAT)
    vague = moment(server(), types=CHAT, queued=1)

    assert "interactive: 7 wait, 2 run, 4.5 s expected" in decided(busy, start=(0,))[0].because
    assert "nothing waits or runs" in decided(quiet, drain=(0,))[0].because
    assert "1 wait, 0 run)" in decided(vague, start=(0,))[0].because


def test_an_id_stays_while_its_cause_does_and_changes_with_the_instances() -> None:
    now = moment(server(), types=CHAT)
    later = replace(now, t_s=now.t_s + 60.0)
    changed = replace(now, changed_s={"chat": 99.0})
    next_hour = replace(now, t_s=now.t_s + 3600.0)
    ids = [decided(each, start=(0,))[0].id for each in (now, later, changed, next_hour)]

    assert ids[0] == ids[1]
    assert len({*ids}) == 3


def test_a_drain_promises_the_gpu_time_that_it_frees() -> None:
    drain = decided(moment(*TWO, types=CHAT), drain=(0,))[0]

    assert drain.expects.mid == 2 * drain.check_after_s
    assert drain.tenant == "serving"


@pytest.mark.parametrize("name", sorted(SCALERS))
def test_every_scaler_can_look_at_a_gateway_and_what_it_wants_can_be_done(name: str) -> None:
    policy = ScaleInstances(scaler=SCALERS[name]())
    seen = moment(
        server(running=16, tokens_per_s=100.0),
        server("chat-2", state="draining"),
        types=CHAT,
        queued=400,
        in_flight=16,
        oldest_wait_s=60.0,
    )

    found = policy.decide(seen)

    assert policy.decide(seen) == found
    assert {each.policy for each in found} <= {name}
    assert [seen.unmet(each.action) for each in found] == [""] * len(found)


@given(
    least=st.integers(0, 2),
    most=st.integers(2, 5),
    there=st.integers(0, 4),
    start=st.integers(0, 6),
    drain=st.sets(st.integers(0, 6)),
)
def test_numbers_stay_within_their_limits(
    least: int, most: int, there: int, start: int, drain: set[int]
) -> None:
    servers = [server(f"chat-{number}") for number in range(1, min(there, most) + 1)]
    seen = moment(*servers, types=(scalable(least=least, most=most),))
    rows = tuple(row for row in sorted(drain) if row < len(seen.rows))

    found = actions(seen, start=(0,) * start, drain=rows)
    starts = [each.instance for each in found if isinstance(each, StartInstance)]
    drains = [each.instance for each in found if isinstance(each, DrainInstance)]

    assert len({*starts, *drains}) == len(starts) + len(drains)
    assert len(servers) + len(starts) <= most
    assert len(servers) + len(starts) - len(drains) >= least
