"""What scaling was worth: deadlines against before, GPU time until the next start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beds.serving_fleet import DRAIN, LIMIT, START, moment, server
from factories import decision, receipt
from steward.act.serving.outcomes import ServingVerifier
from steward.model.decision import Decision, Expectation
from steward.model.outcome import Outcome, Story
from steward.model.serving.moment import ServingMoment

CHECK_S = 100.0


def of(action: Any, name: str = "d-1") -> Decision:
    expects = Expectation(low=0.0, mid=200.0, high=200.0)
    return decision(name, action=action, check_after_s=CHECK_S, expects=expects)


def seen(t_s: float, *, met: int = 0, missed: int = 0) -> ServingMoment:
    return moment(server(), t_s=t_s, met=met, missed=missed, done=met + missed)


def followed(verifier: ServingVerifier, *views: ServingMoment) -> list[Outcome]:
    return [outcome for view in views for _, outcome in verifier.follow(view)]


def test_a_start_is_worth_the_deadlines_that_were_kept_beyond_the_share_of_before() -> None:
    verifier, start = ServingVerifier(), of(START)
    followed(verifier, seen(0.0), seen(100.0, met=50, missed=50))
    verifier.begin(start, receipt(start, t_s=100.0, result="begun"), seen(100.0))
    followed(verifier, seen(130.0, met=60, missed=60))
    verifier.begin(start, receipt(start, t_s=130.0), seen(130.0))

    found = followed(verifier, seen(229.0, met=60, missed=60), seen(230.0, met=250, missed=70))

    assert len(found) == 1
    assert found[0].gained.mid == pytest.approx((0.95 - 0.5) * 200)
    assert found[0].gained.low < found[0].gained.mid < found[0].gained.high
    assert "95.0% of 200" in found[0].text
    assert "may have been another" in found[0].text


def test_without_requests_there_is_nothing_to_compare() -> None:
    verifier, limit = ServingVerifier(), of(LIMIT)
    verifier.begin(limit, receipt(limit, t_s=10.0), seen(10.0))

    found = followed(verifier, seen(110.0))

    assert found[0].gained.mid == found[0].gained.high == 0.0
    assert "nothing to compare" in found[0].text


def test_a_gateway_that_began_anew_leaves_nothing_to_compare() -> None:
    verifier, start = ServingVerifier(), of(START)
    followed(verifier, seen(0.0), seen(90.0, met=90))
    verifier.begin(start, receipt(start, t_s=100.0), seen(100.0))

    found = followed(verifier, seen(110.0, met=1), seen(201.0, met=40))

    assert "nothing to compare: 0 requests ended before" in found[0].text


def test_what_the_gateway_did_not_say_is_not_counted() -> None:
    verifier, start = ServingVerifier(), of(START)
    verifier.begin(start, receipt(start, t_s=100.0), seen(100.0))

    found = followed(verifier, replace(seen(200.0, met=9), unknown="silent"))

    assert "nothing to compare" in found[0].text


def test_a_decision_that_failed_after_all_has_no_outcome() -> None:
    verifier = ServingVerifier()
    for each in (of(START), of(DRAIN, "d-2")):
        verifier.begin(each, receipt(each, t_s=0.0), seen(0.0))
        verifier.forget(each.id)

    assert followed(verifier, seen(1000.0)) == []


def test_a_drain_is_worth_its_gpus_until_the_check() -> None:
    verifier, drain = ServingVerifier(), of(DRAIN)
    verifier.begin(drain, receipt(drain, t_s=0.0, result="begun"), seen(0.0))
    verifier.begin(drain, receipt(drain, t_s=20.0), seen(20.0))

    assert followed(verifier, seen(119.0)) == []
    found = followed(verifier, seen(120.0))

    assert found[0].gained.mid == 2 * 100.0
    assert found[0].kept_share == 1.0
    assert "none since" in found[0].text


def test_a_start_of_the_same_type_ends_what_a_drain_brings() -> None:
    verifier, drain, start = ServingVerifier(), of(DRAIN), of(START, "d-2")
    verifier.begin(start, receipt(start, t_s=5.0), seen(5.0))
    verifier.begin(drain, receipt(drain, t_s=20.0), seen(20.0))
    verifier.begin(start, receipt(start, t_s=30.0), seen(30.0))

    found = [each for each in followed(verifier, seen(130.0)) if each.decision == drain.id]

    assert found[0].gained.mid == 2 * 10.0
    assert found[0].kept_share == 0.1
    assert "after 10 s" in found[0].text


def test_a_restart_goes_on_with_drains_and_not_with_comparisons() -> None:
    verifier, drain, start = ServingVerifier(), of(DRAIN), of(START, "d-2")
    for each in (drain, start):
        verifier.resume(Story(decision=each, receipts=(receipt(each, t_s=0.0),)))
    verifier.resume(Story(decision=of(DRAIN, "d-3")))

    found = followed(verifier, seen(500.0))

    assert [each.decision for each in found] == ["d-1"]
    assert verifier.so_far(seen(500.0)) == ()
    assert verifier.settle(seen(500.0)) == []


def test_counts_of_long_ago_are_forgotten() -> None:
    verifier, start = ServingVerifier(), of(START)
    followed(verifier, seen(0.0, met=5), seen(9000.0, met=10))
    verifier.begin(start, receipt(start, t_s=9000.0), seen(9000.0))

    found = followed(verifier, seen(9100.0, met=20))

    assert "0 requests ended before" in found[0].text
