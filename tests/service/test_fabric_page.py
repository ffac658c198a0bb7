"""What the page of the network draws of a moment; unknown is shown as unknown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from beds.fabric_views import DOWN, UP, applications, believed, view
from steward.model.actions import Release
from steward.model.decision import Decision
from steward.model.fabric.view import LinkColumns
from steward.model.identity import DecisionId, JobId, TenantId
from steward.service.pages.fabric.drawings import (
    application_table,
    decision_list,
    fabric_drawing,
    how_to_look,
    region_list,
)
from steward.sim.fabric.trial import Done

JOBS = applications(**{"big": {}, "<b>": {"slowdown": np.nan, "cap_bytes_per_s": 1.25e9}})
SEEN = view(JOBS, [(0, UP, 3e9), (1, DOWN, 1e9)], stalled=0.3)


def test_links_are_drawn_by_load_and_stalled_ones_by_level() -> None:
    loaded = np.full(len(SEEN.links), 0.6)
    links = replace(SEEN.links, load_share=loaded)
    drawn = fabric_drawing(replace(SEEN, links=links))

    assert drawn.count("<line") == len(SEEN.links) // 2
    assert drawn.count("st-link-severe") == 2
    assert "leaf0 to spine0: 60% loaded, stalled 30% of the time" in drawn
    assert "st-link-load-2" in drawn


def test_links_that_nobody_measured_are_drawn_as_unknown() -> None:
    unknown = replace(SEEN, links=LinkColumns.unknown(len(SEEN.links)))
    drawn = fabric_drawing(unknown)

    assert drawn.count("st-link-unknown") == len(SEEN.links) // 2
    assert "load unknown" in drawn


def test_a_region_names_who_sends_into_it() -> None:
    said = region_list(SEEN)

    assert "stalls 30% of the time" in said
    assert "big 75%, &lt;b&gt; 25%" in said
    assert "No congestion" in region_list(view(JOBS))


def test_jobs_are_shown_with_what_is_known_of_them_and_their_names_are_text() -> None:
    table = application_table(SEEN.with_forecasts(believed([8.0, 1.0], [1.0, 1.0], spread=1.0)))

    assert "8 (7 to 9)" in table
    assert "&lt;b&gt;" in table
    assert "<td>unknown</td>" in table
    assert "10 Gbit/s a node" in table
    assert "unknown" in application_table(SEEN)


def test_decisions_say_what_they_brought_once_it_is_measured() -> None:
    decision = Decision(
        id=DecisionId("d"),
        t_s=3.0,
        policy="netscope",
        action=Release(job=JobId("big"), before=1e9),
        because="its links would bear it",
        check_after_s=60.0,
        tenant=TenantId("bio"),
    )

    assert "not measured yet" in decision_list([Done(decision, 0.8)])
    assert "80.0% before, 90.0% after" in decision_list([Done(decision, 0.8, 0.9)])
    assert "Nothing was capped yet" in decision_list([])
    assert "steward fabric show FILE" in how_to_look()
