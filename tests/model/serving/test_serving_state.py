"""Snapshots go in, moments come out: what is on its way, what is down, what scalers see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beds.serving_fleet import DRAIN, START, kind, moment, scalable, server, snapshot
from factories import decision, receipt
from steward.model.event import Observation
from steward.model.identity import JobId
from steward.model.serving.arrival_log import ArrivalLog
from steward.model.serving.moment import ServingMoment
from steward.model.serving.snapshot import ClassProgress, ServingSnapshot
from steward.model.serving.snapshot_view import Place, view_of
from steward.model.serving.state import ServingState
from steward.model.serving.view import (
    BATCH_ONLY,
    DONE,
    DRAINING,
    OFF,
    QUEUED,
    RUNNING,
    SERVING,
    STARTING,
)

CHAT = (scalable(),)


def state_with(*seen: ServingSnapshot) -> ServingState:
    state = ServingState(CHAT)
    for each in seen:
        state.fold(Observation(serving=each))
    return state


def names_of(view: ServingMoment) -> list[str]:
    return [each.name for each in view.sought]


# -- what is on its way ----------------------------------------------------------------------------


def test_a_claimed_name_is_an_instance_on_its_way_until_the_gateway_has_it() -> None:
    claimed = moment(server(), reserved=("chat-2", "other-1"))
    there = moment(server(), server("chat-2"), reserved=("chat-2",))

    assert names_of(claimed) == ["chat-2"]
    assert names_of(there) == []
    assert claimed.count_of("chat") == claimed.taken_of("chat") == 2


def test_what_was_just_started_counts_for_a_minute_though_the_gateway_has_not_shown_it() -> None:
    state = state_with(snapshot(server()))
    started = decision(action=START)
    state.apply(started, receipt(started, t_s=100.0))

    assert names_of(state.view(130.0)) == ["chat-2"]
    assert names_of(state.view(161.0)) == []


def test_only_a_start_that_is_over_is_noted() -> None:
    state = state_with(snapshot(server()))
    started, drained = decision(action=START), decision(action=DRAIN)
    state.apply(started, receipt(started, t_s=100.0, result="begun"))
    state.apply(drained, receipt(drained, t_s=100.0))

    assert names_of(state.view(101.0)) == []


def test_since_when_an_instance_is_sought_stays() -> None:
    state = state_with(snapshot(server()))
    state.reserve(["instance:chat-2"])
    state.view(110.0)

    assert [each.since_s for each in state.view(120.0).sought] == [110.0]


# -- what is known -------------------------------------------------------------------------------


def test_a_gateway_that_never_answered_is_unknown_and_one_that_is_silent_becomes_so() -> None:
    heard = state_with(snapshot(server(), t_s=100.0))
    heard.fold(Observation())

    assert "not answered yet" in ServingState(CHAT).view(0.0).unknown
    assert heard.view(160.0).unknown == ""
    assert "70 s" in heard.view(170.0).unknown


def test_how_long_an_instance_is_down_begins_when_it_was_first_seen_down() -> None:
    down = server(state="down")
    state = state_with(
        snapshot(down, t_s=10.0), snapshot(server(), t_s=20.0), snapshot(down, t_s=30.0)
    )
    state.fold(Observation(serving=snapshot(down, t_s=40.0)))

    assert state.view(40.0).down_since_s == {"chat-1": 30.0}


def test_when_the_instances_of_a_type_changed_is_kept() -> None:
    state = state_with(
        snapshot(server(), t_s=10.0),
        snapshot(server(running=3), t_s=20.0),
        snapshot(server(), server("chat-2"), t_s=30.0),
    )

    assert state.view(40.0).changed_s == {"chat": 30.0}


def test_a_moment_has_what_the_loop_asks_of_every_view() -> None:
    now = moment(server())

    assert now.with_findings(()).findings == ()
    assert now.with_forecasts([]).forecasts == ()
    assert dict(now.lasting) == {}
    assert not now.is_lost(DRAIN)
    assert now.claims_of(JobId("chat-1")) == {"instance:chat-1"}


# -- columns for scalers -------------------------------------------------------------------------


def test_rows_of_instances_are_named_and_places_that_may_be_started_are_off() -> None:
    now = moment(server(), server("chat-2", state="draining"), reserved=("code-1",))
    columns = now.view.instances

    assert now.rows == ("chat-1", "chat-2", "code-1", "", "", "")
    assert columns.state.tolist() == [SERVING, DRAINING, STARTING, OFF, OFF, OFF]
    assert [now.view.types[code].name for code in columns.type] == [
        *["chat"] * 2,
        "code",
        "chat",
        *["code"] * 2,
    ]


def test_an_instance_that_is_down_is_neither_capacity_nor_a_free_place() -> None:
    now = moment(server(state="down"), types=(scalable(most=1),))

    assert now.view.instances.state.tolist() == [DRAINING]
    assert now.view.instances.room.tolist() == [0]


def test_an_instance_of_a_type_that_nobody_configured_has_one_of_its_own() -> None:
    now = moment(server("far", type="", model="big", limit=0, role="batch", running=3))
    columns = now.view.instances

    assert now.view.types[columns.type[0]].model == "big"
    assert columns.limit[0] == kind().max_sequences
    assert columns.role[0] == BATCH_ONLY
    assert columns.room[0] == columns.limit[0] - 3


def test_roles_that_are_unknown_are_any() -> None:
    assert moment(server(role="?")).view.instances.role[0] == 0


def test_rates_follow_from_two_snapshots() -> None:
    busy, idle = server(tokens_per_s=50.0, running=4), server("chat-2")
    first = state_with(snapshot(busy, idle, t_s=10.0))
    view = state_with(snapshot(busy, t_s=10.0), snapshot(busy, idle, t_s=15.0)).view(15.0).view

    assert first.view(10.0).view.rates is None
    assert view.rates is not None
    assert view.rates.window_s == 5.0
    assert view.rates.itl_s[0] == pytest.approx(0.08)
    assert np.isnan(view.rates.itl_s[1])
    assert view.rates.tokens_per_s_before[:2].tolist() == [50.0, 0.0]


def test_what_waits_came_last_and_the_oldest_waits_as_long_as_it_does() -> None:
    now = moment(server(running=2), queued=3, in_flight=2, oldest_wait_s=9.0)
    requests, queue = now.view.requests, now.view.queue

    assert len(queue) == 3
    assert requests.state.tolist() == [RUNNING] * 2 + [QUEUED] * 3
    assert now.t_s - requests.arrival_s[0] == pytest.approx(9.0)
    assert requests.deadline_s[0] == pytest.approx(requests.arrival_s[0] + 10.0)
    assert requests.instance.tolist() == [0, 0, -1, -1, -1]
    assert np.isnan(requests.sent_s[queue]).all()


def test_more_requests_in_flight_than_instances_say_are_at_none() -> None:
    now = moment(server(running=1), in_flight=3)

    assert now.view.requests.instance.tolist() == [0, -1, -1]


def test_a_class_of_another_name_has_the_deadline_that_the_gateway_says() -> None:
    progress = ClassProgress(name="reports", deadline_s=77.0)
    seen = ServingSnapshot(t_s=1.0, seen_s=1.0, classes=(progress,))

    view, rows = view_of(seen, [], t_s=1.0, places=[Place(type="chat", name="chat-1")])

    assert view.classes[0].ttft_s == 77.0
    assert rows == ("chat-1",)


# -- arrivals from counts ------------------------------------------------------------------------


def counted(t_s: float, **counts: int) -> ServingSnapshot:
    return snapshot(server(tokens_per_s=30.0), t_s=t_s, **counts)


def test_between_two_snapshots_requests_came_evenly_and_the_first_are_done_first() -> None:
    log = ArrivalLog()
    log.take(counted(0.0))
    log.take(counted(10.0, done=2, in_flight=1, queued=1))

    logged = log.of("interactive")

    assert [each.arrival_s for each in logged] == [0.0, 2.5, 5.0, 7.5]
    assert [each.finish_s for each in logged] == [10.0, 10.0, np.inf, np.inf]
    assert log.mean_tokens == pytest.approx(150.0)
    assert log.of("nobody") == ()


def test_what_is_done_keeps_its_place_and_its_tokens_in_the_columns() -> None:
    state = state_with(counted(0.0), counted(10.0, done=2, queued=1))
    requests = state.view(10.0).view.requests

    assert requests.state.tolist() == [DONE, DONE, QUEUED]
    assert requests.generated_tokens.tolist() == [150, 150, 0]
    assert requests.finish_s[:2].tolist() == [10.0, 10.0]


def test_a_gateway_that_began_anew_is_another_history() -> None:
    log = ArrivalLog()
    log.take(counted(0.0, done=50))
    log.take(counted(10.0, done=90))
    log.take(counted(20.0, done=1, queued=2))

    assert len(log.of("interactive")) == 2


def test_what_ended_long_ago_is_forgotten() -> None:
    log = ArrivalLog(memory_s=60.0)
    log.take(counted(0.0))
    log.take(counted(10.0, done=5))
    log.take(counted(100.0, done=6))

    assert [each.finish_s for each in log.of("interactive")] == [100.0]


@given(
    counts=st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 20)),
        min_size=1,
        max_size=8,
    )
)
def test_columns_agree_with_the_counts_of_the_gateway(counts: list[tuple[int, int, int]]) -> None:
    state, done = ServingState(CHAT), 0
    for turn, (more, queued, flying) in enumerate(counts):
        done += more
        state.fold(
            Observation(
                serving=snapshot(t_s=10.0 * turn, done=done, queued=queued, in_flight=flying)
            )
        )
        view = state.view(10.0 * turn).view

        found = view.requests.state.tolist()
        logged = len(found)
        assert found.count(QUEUED) == min(queued, logged)
        assert (np.diff(view.requests.arrival_s) >= 0).all()
        assert len(view.queue) == found.count(QUEUED)
