"""Actions on model servers: what they claim, when they cannot be done, how they are undone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beds.serving_fleet import DRAIN, LIMIT, ROLE, START, SWAP, moment, scalable, server
from factories import finding, job, view
from steward.model.actions import ACTIONS, SERVING_ACTIONS, Budget, Save, Tell, domain_of
from steward.model.identity import DecisionId, JobId
from steward.model.serving.moment import ServingMoment
from steward.model.yardstick import YARDSTICKS

UNDO = DecisionId("d-1")
ALL = (START, DRAIN, LIMIT, ROLE, SWAP)
ONE = moment(server())
SERVES = server()


@pytest.mark.parametrize("action", ALL)
def test_it_fits_where_it_was_decided_and_not_where_its_instance_is_gone(action: Any) -> None:
    gone = moment() if action is not START else moment(server("chat-2"))

    assert ONE.unmet(action) == ""
    assert not ONE.may_be_done(action)
    assert gone.unmet(action)


@pytest.mark.parametrize("action", ALL)
def test_a_cluster_knows_nothing_of_it(action: Any) -> None:
    cluster = view(jobs=[job("j1")])

    assert "model servers" in cluster.unmet(action)
    assert not cluster.may_be_done(action)
    assert type(action).for_finding(finding(), cluster) is None


def test_model_servers_know_nothing_of_actions_on_jobs() -> None:
    assert "cluster" in ONE.unmet(Save(job=JobId("j1")))
    assert not ONE.may_be_done(Save(job=JobId("j1")))


def test_the_domain_of_each_action_is_one_of_two() -> None:
    serving = {name for name, cls in ACTIONS.items() if cls in SERVING_ACTIONS}

    assert {domain_of(each) for each in ALL} == {"serving"}
    assert domain_of(Tell(to="ann", about="x", text="y", job=None)) == "cluster"
    assert serving == {each.type for each in ALL}


def test_budgets_count_the_gpus_of_an_instance_by_position() -> None:
    assert START.gpus == ("chat-2/gpu0", "chat-2/gpu1")
    assert [len(each.gpus) for each in ALL] == [2, 2, 0, 0, 2]


def test_two_decisions_about_one_instance_are_rivals_but_settings_wait_for_nobody() -> None:
    assert DRAIN.claims == SWAP.claims == {"instance:chat-1"}
    assert LIMIT.claims.isdisjoint(DRAIN.claims)
    assert LIMIT.claims.isdisjoint(ROLE.claims)
    assert {each.acts_on for each in ALL} == {None}
    assert DRAIN.affects == "chat-1"


@pytest.mark.parametrize(
    ("action", "seen", "why"),
    [
        (START, moment(types=()), "may not be scaled"),
        (START, moment(server("chat-2")), "there already"),
        (START, moment(types=(scalable(most=1),), reserved=("chat-2",)), ""),
        (START, moment(types=(scalable(most=1),), reserved=("chat-9",)), "1 of chat are there"),
        (START, moment(server("chat-9", state="down"), types=(scalable(most=1),)), "1 may be"),
        (DRAIN, moment(server(), types=()), "may not be scaled"),
        (DRAIN, moment(server(type="other")), "no chat-1 of type chat"),
        (DRAIN, moment(server(), types=(scalable(least=1),)), "0 of chat would be left"),
        (DRAIN, moment(server(), server("chat-2"), types=(scalable(least=1),)), ""),
        (DRAIN, moment(server(state="down"), types=(scalable(least=1),)), ""),
        (SWAP, moment(server(), types=(scalable(),)), "code may not be scaled"),
        (SWAP, moment(server(), types=(scalable(least=1), scalable("code", "c"))), "left"),
        (
            SWAP,
            moment(server(), server("code-1"), types=(scalable(), scalable("code", most=1))),
            "no more may be",
        ),
        (replace(LIMIT, limit=0), ONE, "not a number of requests"),
        (replace(ROLE, role="queen"), ONE, "is no role"),
    ],
)
def test_what_does_not_hold_any_more_is_named(action: Any, seen: ServingMoment, why: str) -> None:
    found = seen.unmet(action)

    assert why in found
    assert bool(found) == bool(why)


def test_nothing_can_be_done_while_the_gateway_is_silent() -> None:
    silent = replace(ONE, unknown="the gateway has not answered for 70 s")

    assert {silent.unmet(each) for each in ALL} == {silent.unknown}


def test_what_looks_done_already_is_recognised() -> None:
    assert moment(server("chat-2")).may_be_done(START)
    assert not moment(server(), reserved=("chat-2",)).may_be_done(START)
    assert moment().may_be_done(DRAIN)
    assert moment(server(state="draining")).may_be_done(DRAIN)
    assert moment(server(limit=8)).may_be_done(LIMIT)
    assert moment(server(role="batch")).may_be_done(ROLE)
    assert moment(server(type="code")).may_be_done(SWAP)


@pytest.mark.parametrize("action", ALL)
def test_undoing_twice_is_doing_it_again(action: Any) -> None:
    twice = action.undo(UNDO).undo(UNDO)

    assert twice == action


@pytest.mark.parametrize("action", ALL)
def test_it_describes_itself_with_the_name_of_the_instance(action: Any) -> None:
    assert action.instance in action.sentence
    assert action.budget in Budget
    assert action.yardstick in YARDSTICKS
    assert not action.returns
    assert not action.lasts
