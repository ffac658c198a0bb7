"""The lab's form and a comparison's look: what is offered, what is said, nothing broken into."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from steward.errors import StewardError
from steward.service.lab import ComparisonRequest, LabRun, LabState
from steward.service.lab.comparison_request import DEFAULT_POLICIES, Offer, OfferedPolicy, offered
from steward.service.pages.lab.elements import headline, outcome, past_runs, progress
from steward.service.pages.lab.form import lab_form

EVIL = '<script>alert("x")</script>'
RECORD: dict[str, Any] = {
    "trace": {"synthetic": True, "left_out": []},
    "cluster": {"gpus": 16, "nodes": 2},
}
RUN = LabRun(id="lab-1", trace="may.csv", wanted=ComparisonRequest(gpus=16), by="ada", t_s=0.0)
DONE = replace(RUN, state=LabState.DONE, share=1.0, record=RECORD)


class Inputs(HTMLParser):
    """Reads what a form would send."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.boxes: dict[str, bool] = {}
        self.names: set[str] = set()
        self.feed(html)

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if name in ("input", "select") and given.get("name"):
            self.names.add(str(given["name"]))
        if given.get("name") == "policies":
            self.boxes[str(given["value"])] = "checked" in given


def test_the_form_offers_every_policy_that_runs_on_any_trace_and_checks_the_usual_ones() -> None:
    form = Inputs(lab_form(offered(), most_bytes=1 << 20))

    assert {name for name, checked in form.boxes.items() if checked} == set(DEFAULT_POLICIES)
    assert "gittins" in form.boxes
    assert "pollux" not in form.boxes
    assert form.names == {"source", "trace", *ComparisonRequest.model_fields}


def test_every_policy_and_placement_is_described() -> None:
    offer = offered()

    assert all(policy.about for policy in offer.policies)
    assert all(offer.placements.values())
    knowing = {policy.name: policy.knows for policy in offer.policies}
    assert (knowing["srtf"], knowing["commons"]) == ("durations", "")


def test_the_form_says_how_large_a_file_may_be() -> None:
    offer = Offer(policies=(), placements={})

    assert "64 MiB" in lab_form(offer, most_bytes=64 << 20)
    assert "500 bytes" in lab_form(offer, most_bytes=500)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"doing": "reading the trace"}, ("Reading the trace", "2 s so far")),
        ({"doing": "replaying fifo, 1 of 4"}, ("Replaying fifo, 1 of 4", "compiles the engines")),
        ({"doing": "replaying las", "share": 0.5, "left_s": 90.0}, ("about 1 min left", "50")),
    ],
)
def test_progress_says_what_is_done_and_how_long_it_takes(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    shown = progress(replace(RUN, took_s=2.0, **changes))

    assert all(word in shown for word in words)
    assert ("compiles" in shown) == ("compiles the engines" in words)


def test_what_is_done_has_its_report_downloads_and_label() -> None:
    shown = outcome(DONE)

    assert 'src="/api/v1/lab/comparisons/lab-1/report"' in shown
    assert 'download="results.json"' in shown
    assert "synthetic" in headline(DONE)
    assert "16 GPUs in 2 nodes" in headline(DONE)
    assert "synthetic" not in headline(RUN)


def test_rows_that_were_left_out_are_listed_with_their_reasons() -> None:
    rows = [{"rows": i, "kept": i == 1, "reason": f"reason {i}"} for i in range(8)]
    record = {**RECORD, "trace": {"synthetic": False, "left_out": rows}}

    shown = outcome(replace(DONE, record=record))

    assert "All rows left out: reason 0" in shown
    assert "1 row changed: reason 1" in shown
    assert "5 rows left out: reason 5" in shown
    assert "2 reasons more" in shown


def test_a_failure_is_told_in_words_with_what_to_do() -> None:
    fault = StewardError("lacks gpus", where="may.csv", hint="rename it")

    shown = outcome(replace(RUN, state=LabState.FAILED, fault=fault))

    assert "may.csv: lacks gpus" in shown
    assert "rename it" in shown
    assert 'role="alert"' in shown


def test_one_that_was_cancelled_or_runs_shows_no_report() -> None:
    assert "Cancelled" in outcome(replace(RUN, state=LabState.CANCELLED))
    assert outcome(RUN) == ""


def test_past_comparisons_mark_the_one_that_is_shown() -> None:
    shown = past_runs((DONE, replace(RUN, id="lab-2")), "lab-2")

    assert shown.count("aria-current") == 1
    assert shown.index('href="/lab?run=lab-1"') < shown.index("aria-current")


def test_names_from_elsewhere_cannot_become_markup() -> None:
    policy = OfferedPolicy(name=EVIL, family=EVIL, about=EVIL, knows=EVIL)
    run = replace(
        DONE, trace=EVIL, by=EVIL, wanted=ComparisonRequest(policies=(EVIL,), placement=EVIL)
    )
    left_out = {"left_out": [{"rows": 1, "kept": False, "reason": EVIL}], "synthetic": False}
    record = {**RECORD, "trace": left_out}
    fault = StewardError(EVIL, where=EVIL, hint=EVIL)

    pieces = (
        lab_form(Offer(policies=(policy,), placements={EVIL: EVIL}), most_bytes=1),
        headline(run),
        past_runs((run,), EVIL),
        progress(replace(run, doing=EVIL)),
        outcome(replace(run, record=record)),
        outcome(replace(run, state=LabState.FAILED, fault=fault)),
    )

    assert all("<script" not in piece for piece in pieces)
