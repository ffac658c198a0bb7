"""Views of a fabric, actions on traffic, regions, and what traits say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beds.fabric_views import DOWN, FABRIC, LINE, UP, applications, believed, view
from factories import view as cluster_view
from steward.model.actions import Release, Tell, Throttle, domain_of
from steward.model.fabric.regions import RegionTracker, level_of, regions_of
from steward.model.fabric.traits import cap_loss, delay_prior, line_rate, traits_of
from steward.model.fabric.view import (
    DELAY_SENSITIVITY,
    ApplicationColumns,
    LinkColumns,
    UseColumns,
)
from steward.model.forecast import About
from steward.model.identity import DecisionId, JobId

CAP = Throttle(job=JobId("a"), bytes_per_s=1e9)
FREE = Release(job=JobId("a"), before=1e9)
TOLD = Tell(to="ann", about="x", text="y", job=None)
ID = DecisionId("d")


def _one(cap: float = math.inf) -> ApplicationColumns:
    return applications(a={"cap_bytes_per_s": cap})


def test_a_cap_fits_where_the_job_is_and_seems_done_where_it_has_it() -> None:
    free, capped = view(_one()), view(_one(1e9))

    assert free.unmet(CAP) == "" == capped.unmet(FREE)
    assert not free.may_be_done(CAP)
    assert capped.may_be_done(CAP)
    assert free.may_be_done(FREE)
    assert not capped.may_be_done(FREE)


def test_nothing_can_be_done_about_a_job_that_is_gone() -> None:
    gone = view(applications(b={}))

    assert "not on the fabric" in gone.unmet(CAP)
    assert "not on the fabric" in gone.unmet(FREE)
    assert not gone.may_be_done(CAP)
    assert not gone.may_be_done(FREE)
    assert not gone.is_lost(CAP)


def test_a_cap_of_nothing_is_refused() -> None:
    assert "stop the job" in view(_one()).unmet(Throttle(job=JobId("a"), bytes_per_s=0.0))


def test_the_ways_back_lead_to_what_was_there() -> None:
    tighter = replace(CAP, before=2e9)

    assert CAP.undo(ID) == FREE
    assert tighter.undo(ID) == Throttle(job=JobId("a"), bytes_per_s=2e9, before=1e9)
    assert FREE.undo(ID) == CAP


def test_actions_on_traffic_describe_themselves_and_belong_to_the_fabric() -> None:
    assert CAP.sentence == "Let each node of a send at most 8 Gbit/s"
    assert replace(CAP, before=2e9).sentence.endswith("(16 Gbit/s before)")
    assert FREE.sentence == "Let a send freely again"
    assert {domain_of(CAP), domain_of(FREE)} == {"fabric"}
    assert CAP.acts_on is None
    assert CAP.affects == JobId("a")
    assert CAP.claims == FREE.claims == frozenset({"traffic:a"})
    assert view(_one()).claims_of(JobId("a")) == CAP.claims
    assert CAP.for_finding(None, None) is None  # type: ignore[arg-type, func-returns-value]


def test_actions_of_other_worlds_do_not_fit() -> None:
    assert "fabric" in view(_one()).unmet(TOLD)
    assert not view(_one()).may_be_done(TOLD)
    assert "fabric" in CAP.unmet(cluster_view())
    assert not CAP.may_be_done(cluster_view())


def test_who_uses_which_link_is_summed() -> None:
    seen = view(applications(a={}, b={}), [(0, UP, 5.0), (1, UP, 2.0), (1, DOWN, 1.0)])

    assert seen.users_of([UP, DOWN]).tolist() == [5.0, 3.0]
    links, rates = seen.used_by(1)
    assert (links.tolist(), rates.tolist()) == ([UP, DOWN], [2.0, 1.0])


def test_the_latest_forecast_is_the_one_that_counts() -> None:
    seen = (
        view(_one()).with_forecasts(believed([1.0], [1.0])).with_forecasts(believed([2.0], [1.0]))
    )
    found = seen.forecast(About.APPLICATIONS, DELAY_SENSITIVITY)

    assert found is not None
    assert found.mid.tolist() == [2.0]
    assert seen.forecast(About.LINKS, DELAY_SENSITIVITY) is None
    assert seen.with_findings(()).findings == ()
    assert seen.lasting == {}


def test_tables_can_be_empty() -> None:
    assert len(ApplicationColumns.empty()) == 0
    assert len(UseColumns.empty().link) == 0
    assert len(LinkColumns.unknown(3)) == 3


def _stalled(**shares: float) -> LinkColumns:
    unknown = LinkColumns.unknown(len(FABRIC.links))
    share = unknown.stalled_share.copy()
    for name, value in shares.items():
        share[FABRIC.link_row[name.replace("_to_", ">")]] = value
    return replace(unknown, stalled_share=share)


def test_links_next_to_one_another_that_stall_alike_are_one_region() -> None:
    links = _stalled(leaf0_to_spine0=0.3, spine0_to_leaf1=0.35, n0_to_leaf0=0.9, leaf1_to_n4=0.01)

    found = regions_of(FABRIC, links)
    assert found == [(FABRIC.link_row["n0>leaf0"],), tuple(sorted((UP, DOWN)))]


def test_levels_are_those_of_percent_time_stalled() -> None:
    assert [level_of(each) for each in (0.3, 0.2, 0.1, 0.01)] == [
        "severe",
        "high",
        "moderate",
        "low",
    ]
    assert level_of(math.nan) == "unknown"


def test_links_that_nobody_measured_are_in_no_region() -> None:
    assert regions_of(FABRIC, LinkColumns.unknown(len(FABRIC.links))) == []


def test_a_region_keeps_its_name_while_most_of_its_links_stay() -> None:
    tracker = RegionTracker()
    first = tracker.follow(FABRIC, _stalled(leaf0_to_spine0=0.3, spine0_to_leaf1=0.3), 1.0)
    second = tracker.follow(FABRIC, _stalled(leaf0_to_spine0=0.2, n0_to_leaf0=0.9), 2.0)

    assert [each.level for each in first] == ["severe"]
    names = {each.name: each.since_s for each in second}
    assert names[first[0].name] == 1.0
    assert sorted(names.values()) == [1.0, 2.0]
    assert [each.stalled_share for each in second] == [0.9, 0.2]
    assert tracker.follow(FABRIC, _stalled(), 3.0) == ()


@given(
    s=st.floats(0, 1),
    c=st.floats(0, 1),
    o=st.floats(0, 1),
    a=st.floats(0.05, 1),
    b=st.floats(0.05, 1),
)
def test_a_tighter_cap_never_costs_less(s: float, c: float, o: float, a: float, b: float) -> None:
    jobs = applications(a={"communication_share": s, "collective_share": c, "overlap_share": o})
    low, high = sorted((a, b))
    traits = traits_of(jobs)

    assert cap_loss(traits, np.array([low]))[0] >= cap_loss(traits, np.array([high]))[0] >= 0


def test_what_computing_hides_costs_next_to_nothing_and_what_it_does_not_costs_its_part() -> None:
    jobs = applications(
        hidden={"communication_share": 0.3, "collective_share": 1.0, "overlap_share": 1.0},
        bare={"communication_share": 0.5, "collective_share": 1.0, "overlap_share": 0.0},
    )
    loss = cap_loss(traits_of(jobs), np.array([0.5, 0.5]))

    assert loss[0] < 0.01
    assert loss[1] == pytest.approx(math.log(1.5) + 0.005)


def test_unknown_traits_are_taken_for_the_worst_that_is_plausible() -> None:
    jobs = applications(
        a={"communication_share": np.nan, "collective_share": np.nan, "overlap_share": np.nan}
    )

    assert [float(each[0]) for each in traits_of(jobs)] == [0.5, 0.5, 0.0]
    assert np.isfinite(delay_prior(applications(a={"best_delay_s": np.nan}))).all()


def test_the_line_rate_is_that_of_the_slowest_endpoint_and_unknown_without_one() -> None:
    seen = view(applications(a={}, b={}))
    lost = replace(seen, endpoints={"a": seen.endpoints["a"]})

    assert line_rate(seen).tolist() == [LINE, LINE]
    assert np.isnan(line_rate(lost)[1])
