"""`/api/v1/status` and the table of sites: does the loop turn, does its engine answer?"""

from __future__ import annotations

from dataclasses import replace

from service.bed import MakeBed
from steward.model.event import Fault
from steward.model.site import SiteHealth, SiteState
from steward.service.pages.sites import site_table

A = SiteHealth(name="a", state=SiteState.FINE, url="http://h:1", turns=3, last_turn_t_s=60.0)
B = SiteHealth(
    name="b", state=SiteState.UNREACHABLE, text="slurm: <b>no answer</b>", since_s=0.0, turns=1
)


def test_the_status_shows_that_the_loop_turns_and_the_sites(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=100)
    bed.live_state.sites = lambda: (A, B)

    said = bed.client.get("/api/v1/status").json()

    assert (said["site"], said["turns"], said["unready"]) == ("this-machine", 10, [])
    assert said["url"] == "http://127.0.0.1:8787"
    assert said["unreachable"] == []
    assert [(each["name"], each["state"], each["since_s"]) for each in said["sites"]] == [
        ("a", "fine", None),
        ("b", "unreachable", 0.0),
    ]


def test_the_status_shows_since_when_an_engine_does_not_answer(make_bed: MakeBed) -> None:
    bed = make_bed(run_s=100)
    silent = Fault(t_s=7.0, where="collector slurm", problem="no answer")
    bed.loop.status = replace(bed.loop.status, unreachable=(silent,), turns=11)

    said = bed.client.get("/api/v1/status").json()

    assert said["unreachable"] == [
        {"t_s": 7.0, "where": "collector slurm", "problem": "no answer", "hint": ""}
    ]


def test_a_loop_that_has_not_turned_is_not_ready(make_bed: MakeBed) -> None:
    said = make_bed().client.get("/api/v1/status").json()

    assert said["unready"] == ["the loop has not made its first turn yet"]


def test_the_table_of_sites_links_to_them_and_says_what_is_wrong() -> None:
    table = site_table([A, B])

    assert '<a href="http://h:1"><b>a</b></a>' in table
    assert "unreachable since 1 Jan 1970 00:00:00" in table
    assert "slurm: &lt;b&gt;no answer" in table
