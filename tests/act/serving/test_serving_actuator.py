"""The actuator of model servers: register when it answers, drain before it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from beds.serving_fleet import DRAIN, LIMIT, ROLE, START, SWAP, TinyFleet
from beds.serving_gateway import GatewayDouble, gateway_double
from factories import decision
from steward.act.serving.actuator import ServingActuator, ServingPlan
from steward.clients.gateway import GatewayClient
from steward.errors import PermanentError, TemporaryError
from steward.model.actions import SERVING_ACTIONS, Save, Tell
from steward.model.decision import Receipt
from steward.model.identity import JobId


class Bed:
    """A gateway, a fleet for two types, and the actuator between them."""

    def __init__(self, double: GatewayDouble) -> None:
        self.gateway = double
        self.fleet = TinyFleet()
        self.client = GatewayClient(double.url)
        plan = ServingPlan(fleet=self.fleet, start_within_s=100.0, drain_within_s=50.0)
        self.actuator = ServingActuator(self.client, {"chat": plan, "code": plan})

    def carry_out(self, action: Any, t_s: float = 0.0, name: str = "d-1") -> Receipt:
        return self.actuator.carry_out(decision(name, action=action), t_s)

    def progress(self, action: Any, t_s: float = 0.0, name: str = "d-1") -> Receipt:
        return self.actuator.progress(decision(name, action=action), t_s)


@pytest.fixture
def bed() -> Iterator[Bed]:
    with gateway_double() as double:
        made = Bed(double)
        yield made
        made.client.close()


def test_a_start_is_begun_until_it_answers_and_then_the_gateway_has_it(bed: Bed) -> None:
    begun = bed.carry_out(replace(START, role="batch"))
    bed.fleet.ready = True
    done = bed.progress(replace(START, role="batch"), 60.0)

    assert (begun.result, done.result) == ("begun", "done")
    assert bed.gateway.instances["chat-2"]["url"] == "http://127.0.0.1:1"
    assert bed.gateway.instances["chat-2"]["role"] == "batch"
    assert done.gpus == START.gpus


def test_an_instance_that_does_not_answer_in_time_is_stopped_again(bed: Bed) -> None:
    bed.carry_out(START)

    late = bed.progress(START, 101.0)

    assert late.result == "failed"
    assert "within 100 s: it loads" in late.text
    assert bed.fleet.running == {}
    assert late.gpus == ()


def test_a_start_that_fails_leaves_nothing_behind(bed: Bed) -> None:
    bed.fleet.broken = "no memory"

    assert bed.carry_out(START).result == "failed"
    assert [what for what, _ in bed.fleet.orders] == ["start", "stop"]


@pytest.mark.parametrize("action", [START, DRAIN, LIMIT, ROLE, SWAP])
def test_repeating_a_decision_changes_nothing_more(bed: Bed, action: Any) -> None:
    bed.fleet.ready = True
    if action is not START:
        bed.gateway.add("chat-1")
        bed.fleet.running["chat-1"] = bed.fleet.running.get("chat-1")  # type: ignore[assignment]
    first = bed.carry_out(action)
    known = {name: dict(each) for name, each in bed.gateway.instances.items()}

    again = bed.carry_out(action)

    assert first.result == again.result == "done"
    assert bed.gateway.instances == known


def test_a_drain_waits_for_what_is_in_flight_and_then_stops_and_forgets(bed: Bed) -> None:
    bed.gateway.add("chat-1", running=2, waiting=1)

    busy = bed.carry_out(DRAIN)
    draining = bed.gateway.instances["chat-1"]["draining"]
    bed.gateway.add("chat-1", running=0, waiting=0)
    done = bed.progress(DRAIN, 10.0)

    assert busy.result == "begun"
    assert "3 requests to end" in busy.text
    assert draining is True
    assert done.result == "done"
    assert bed.gateway.instances == {}


def test_requests_that_never_end_are_cut_off_and_that_is_said(bed: Bed) -> None:
    bed.gateway.add("chat-1", running=2)
    bed.carry_out(DRAIN)

    cut = bed.progress(DRAIN, 51.0)

    assert cut.result == "done"
    assert "2 requests were cut off after 51 s" in cut.text


def test_an_instance_stays_in_the_gateway_until_its_engine_has_stopped_it(bed: Bed) -> None:
    bed.gateway.add("chat-1")
    bed.fleet.stubborn = True

    leaving = bed.carry_out(DRAIN)
    there = list(bed.gateway.instances)
    bed.fleet.stubborn = False

    assert leaving.result == "begun"
    assert there == ["chat-1"]
    assert bed.progress(DRAIN, 5.0).result == "done"


def test_an_engine_still_stops_what_the_gateway_has_forgotten(bed: Bed) -> None:
    assert bed.carry_out(DRAIN).result == "done"
    assert [what for what, _ in bed.fleet.orders] == ["stop"]


def test_a_swap_stops_one_type_and_starts_the_other_under_the_same_name(bed: Bed) -> None:
    bed.gateway.add("chat-1", running=1)

    waits = bed.carry_out(SWAP)
    bed.gateway.add("chat-1", running=0)
    loads = bed.progress(SWAP, 5.0)
    bed.fleet.ready = True
    done = bed.progress(SWAP, 9.0)

    assert [waits.result, loads.result, done.result] == ["begun", "begun", "done"]
    assert bed.gateway.instances["chat-1"]["type"] == "code"
    assert bed.fleet.running["chat-1"].type == "code"


def test_limits_and_roles_are_set_at_the_gateway_or_fail_where_it_is_gone(bed: Bed) -> None:
    bed.gateway.add("chat-1")

    set_ = [bed.carry_out(each, name=each.type).result for each in (LIMIT, ROLE)]
    now = dict(bed.gateway.instances["chat-1"])
    gone = bed.carry_out(replace(LIMIT, instance="chat-9"))

    assert set_ == ["done", "done"]
    assert (now["limit"], now["role"]) == (8, "batch")
    assert gone.result == "failed"


def test_advice_is_written_down_and_what_is_about_jobs_is_refused(bed: Bed) -> None:
    told = bed.carry_out(Tell(to="ann", about="chat", text="look", job=None))

    assert told.result == "done"
    with pytest.raises(PermanentError, match="cannot save"):
        bed.carry_out(Save(job=JobId("j1")))
    assert {*SERVING_ACTIONS} < {*bed.actuator.actions()}


def test_a_type_that_nobody_configured_is_refused_with_what_to_do(bed: Bed) -> None:
    with pytest.raises(PermanentError) as fault:
        bed.carry_out(replace(START, instance_type="other"))

    assert "[instances.other]" in fault.value.hint


def test_a_gateway_that_does_not_answer_is_asked_again(bed: Bed) -> None:
    bed.fleet.ready = True
    bed.gateway.down = 1

    with pytest.raises(TemporaryError, match="503: starting"):
        bed.carry_out(START)

    assert bed.carry_out(START).result == "done"


def test_doctor_hears_which_types_can_be_started(bed: Bed) -> None:
    good, bad = TinyFleet(), TinyFleet(broken="no such program")
    one, other = ServingPlan(fleet=good), ServingPlan(fleet=bad)

    assert ServingActuator(bed.client, {"a": one}).available().status == "ok"
    mixed = ServingActuator(bed.client, {"a": one, "b": other}).available()
    assert mixed.status == "limited"
    assert "b: no such program" in mixed.reason
    assert mixed.hint == "mend it"
    assert ServingActuator(bed.client, {"b": other}).available().status == "missing"
    assert "[instances.NAME]" in ServingActuator(bed.client, {}).available().hint
