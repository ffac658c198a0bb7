"""Policies on traffic: who is capped, who is left alone, and how caps come off."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beds.fabric_views import DOWN, LINE, UP, applications, believed, view
from steward.decide.fabric import FABRIC_POLICIES
from steward.decide.fabric.caps import CapChange, Moment, decisions
from steward.decide.fabric.netscope import Netscope
from steward.model.actions import Release, Throttle
from steward.model.decision import Decision
from steward.model.fabric.view import FabricView

TALKER = {"bytes_per_s": 16e9, "gpus": 16.0}
CHATTER = {
    "bytes_per_s": 1e8, "communication_share": 0.6, "collective_share": 0.05, "overlap_share": 0.0,
    "gpus": 64.0,
}  # fmt: skip
USE = [(0, UP, 36e9), (0, DOWN, 36e9), (1, UP, 5e7), (1, DOWN, 5e7)]


def _moment(*, talker: Any = None, chatter: Any = None, **more: Any) -> FabricView:
    jobs = applications(talker={**TALKER, **(talker or {})}, chatter={**CHATTER, **(chatter or {})})
    seen = view(jobs, more.pop("use", USE), stalled=more.pop("stalled", 0.4), **more)
    return seen.with_forecasts(believed([0.0, 8.0], [1.0, 1.0]))


def _caps(decisions: tuple[Decision, ...]) -> dict[str, float]:
    return {
        each.action.job: each.action.bytes_per_s / LINE
        for each in decisions
        if isinstance(each.action, Throttle)
    }


def _freed(decisions: tuple[Decision, ...]) -> set[str]:
    return {each.action.job for each in decisions if isinstance(each.action, Release)}


def test_the_tolerant_talker_is_capped_and_the_sensitive_one_is_not() -> None:
    found = Netscope().decide(_moment())

    assert set(_caps(found)) == {"talker"}
    assert 0.2 <= _caps(found)["talker"] < 1.0
    assert "stalls 40% of the time" in found[0].because
    assert found[0].expects.mid > 0


def test_nobody_is_capped_who_may_lose_more_than_is_tolerated() -> None:
    bare = {"overlap_share": 0.0, "communication_share": 0.6, "collective_share": 1.0}

    assert Netscope().decide(_moment(talker=bare)) == ()


def test_a_cap_needs_certainty_and_not_only_a_good_guess() -> None:
    unsure = replace(_moment(), forecasts=believed([0.0, 8.0], [1.0, 1.0], spread=100.0))

    assert Netscope().decide(unsure) == ()


def test_nobody_is_capped_where_nobody_suffers() -> None:
    calm = replace(_moment(), forecasts=believed([0.0, 0.0], [1.0, 1.0]))

    assert Netscope().decide(calm) == ()


def test_a_region_has_to_last_before_anything_is_done() -> None:
    assert Netscope(hold_s=3.0).decide(_moment(t_s=100.0, since_s=98.0)) == ()
    assert Netscope(hold_s=3.0).decide(_moment(t_s=100.0, since_s=96.0))


@pytest.mark.parametrize(
    "seen",
    [
        replace(_moment(), unknown="the counters are silent"),
        replace(_moment(), forecasts=()),
        view(applications()).with_forecasts(believed([], [])),
        _moment(stalled=0.0),
        _moment(use=[]),
        _moment(reserved=frozenset({"traffic:talker"})),
        replace(_moment(), endpoints={}),
    ],
)
def test_nothing_is_decided_on_what_is_not_known_or_not_free(seen: FabricView) -> None:
    assert Netscope().decide(seen) == ()


def test_a_cap_is_raised_step_by_step_once_links_would_bear_it_and_then_taken_off() -> None:
    capped = {"cap_bytes_per_s": 0.4 * LINE, "capped_since_s": 50.0, "bytes_per_s": 1e9}
    quiet = [(0, UP, 5e8), (0, DOWN, 5e8)]
    raised = Netscope().decide(_moment(talker=capped, use=quiet, stalled=0.0))
    nearly = {**capped, "cap_bytes_per_s": 0.8 * LINE}
    freed = Netscope().decide(_moment(talker=nearly, use=quiet, stalled=0.0))

    assert _caps(raised) == {"talker": pytest.approx(0.5)}
    assert _freed(freed) == {"talker"}


def test_a_cap_stays_while_its_links_would_fill_without_it() -> None:
    capped = {"cap_bytes_per_s": 0.4 * LINE, "capped_since_s": 50.0, "bytes_per_s": 8e9}
    seen = _moment(talker=capped, use=[(0, UP, 32e9), (1, UP, 16e9)], stalled=0.0)

    assert Netscope().decide(seen) == ()


def test_a_cap_that_was_set_a_moment_ago_is_not_raised_yet() -> None:
    capped = {"cap_bytes_per_s": 0.4 * LINE, "capped_since_s": 95.0, "bytes_per_s": 1e9}

    assert Netscope(calm_s=10).decide(_moment(talker=capped, use=[(0, UP, 1e8)], stalled=0)) == ()


def test_who_turns_out_to_lose_by_its_cap_gets_more_at_once() -> None:
    bare = {
        "overlap_share": 0.0, "collective_share": 1.0, "communication_share": 0.6,
        "cap_bytes_per_s": 0.4 * LINE, "capped_since_s": 99.0,
    }  # fmt: skip
    found = Netscope().decide(_moment(talker=bare))

    assert _caps(found) == {"talker": pytest.approx(0.5)}
    assert "may lose more" in found[0].because


def test_a_capped_job_that_sends_nothing_now_is_freed_by_steps() -> None:
    capped = {"cap_bytes_per_s": 0.4 * LINE, "capped_since_s": 50.0}

    assert _caps(Netscope().decide(_moment(talker=capped, use=[], stalled=0.0)))


@given(
    stalled=st.floats(0.06, 1.0),
    sent=st.floats(1e6, 1e11),
    share=st.floats(0.0, 1.0),
    overlap=st.floats(0.0, 1.0),
    cap=st.floats(0.21, 1.0),
)
def test_nobody_falls_below_the_floor_and_no_cap_costs_more_than_tolerated(
    stalled: float, sent: float, share: float, overlap: float, cap: float
) -> None:
    from steward.model.fabric.traits import cap_loss, traits_of

    talker = {
        "communication_share": share, "overlap_share": overlap, "bytes_per_s": sent,
        "cap_bytes_per_s": cap * LINE if cap < 1 else math.inf, "capped_since_s": 0.0,
    }  # fmt: skip
    seen = _moment(talker=talker, stalled=stalled, use=[(0, UP, sent / 4), (1, UP, 1e7)])
    policy = Netscope()
    found = policy.decide(seen)

    for job, to in _caps(found).items():
        assert to >= policy.floor - 1e-9
        row = seen.row[job]
        before = min(float(seen.applications.cap_bytes_per_s[row]) / LINE, 1.0)
        loss = cap_loss(traits_of(seen.applications), np.full(2, to))[row]
        assert to > before or loss <= policy.tolerated + 1e-9


def test_uniform_caps_everybody_over_congested_links_and_frees_them_when_calm() -> None:
    uniform = FABRIC_POLICIES["uniform"]()
    capped = {"cap_bytes_per_s": 0.5 * LINE, "capped_since_s": 50.0}

    assert _caps(uniform.decide(_moment())) == {"talker": 0.5, "chatter": 0.5}
    assert _freed(uniform.decide(_moment(talker=capped, stalled=0.0))) == {"talker"}


def test_the_biggest_talker_is_whoever_sends_most_whatever_it_costs() -> None:
    biggest = FABRIC_POLICIES["biggest-talker"]()
    capped = {"cap_bytes_per_s": 0.25 * LINE, "capped_since_s": 50.0}

    assert _caps(biggest.decide(_moment())) == {"talker": 0.5}
    assert _caps(biggest.decide(_moment(talker=capped))) == {"chatter": 0.5}
    assert _freed(biggest.decide(_moment(talker=capped, stalled=0.0))) == {"talker"}
    assert biggest.decide(_moment(stalled=0.01)) == ()
    both = {"talker": capped, "chatter": capped}
    assert biggest.decide(_moment(**both)) == ()


def test_per_flow_backs_off_where_links_stall_and_comes_back_by_steps() -> None:
    per_flow = FABRIC_POLICIES["per-flow"]()
    capped = {"cap_bytes_per_s": 0.5 * LINE, "capped_since_s": 50.0}

    assert _caps(per_flow.decide(_moment())) == {
        "talker": pytest.approx(0.8),
        "chatter": pytest.approx(0.8),
    }
    assert _caps(per_flow.decide(_moment(talker=capped, stalled=0.0))) == {
        "talker": pytest.approx(0.55)
    }


def test_a_cap_that_would_hardly_change_is_left_as_it_is() -> None:
    nearly = {"cap_bytes_per_s": 0.51 * LINE, "capped_since_s": 50.0}
    moment = Moment.of(_moment(talker=nearly))
    change = CapChange(row=0, share=0.5, because="x")

    assert decisions("p", moment, [change], 60.0) == ()
    assert decisions("p", Moment.of(_moment()), [replace(change, share=1.0)], 60.0) == ()


def test_none_does_nothing() -> None:
    assert FABRIC_POLICIES["none"]().decide(_moment()) == ()


@pytest.mark.parametrize("name", sorted(FABRIC_POLICIES))
def test_deciding_twice_is_deciding_the_same(name: str) -> None:
    policy, seen = FABRIC_POLICIES[name](), _moment()

    assert policy.name == name
    assert policy.decide(seen) == policy.decide(seen)
