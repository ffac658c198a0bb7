from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from factories import finding
from service.bed import MakeBed, ServiceBed
from service.test_rules_api import FOUND, RULE, STANDINGS
from steward.model.finding import Evidence, Opinion, Quote
from steward.model.rules import Clause, RuleNode, RuleStats, Term
from steward.model.treatment import Effect, Treatment
from steward.service.highlight import matched_spans
from steward.service.pages.drawings import found_list
from steward.service.pages.findings import findings_page  # noqa: F401 - it links to these pages
from steward.service.pages.rules.drawings import (
    BAR_S,
    address_of,
    hit_bars,
    meaning,
    rule_row,
    rule_tiles,
)
from steward.service.pages.rules.evidence import evidence_charts, quote_table
from steward.service.pages.rules.finding import headline, opinion_list
from steward.service.pages.rules.listing import changed_note, kept
from steward.service.pages.rules.page import hits_series
from steward.service.pages.wording import quoted_text
from steward.service.rulebook import RuleRow, rule_rows
from steward.store.explain import FindingStory
from steward.store.telemetry import Telemetry

HOSTILE = "<script>alert(1)</script>"


def row(**stats: object) -> RuleRow:
    values = RuleStats(rule="R-0001", **stats)  # type: ignore[arg-type]
    return RuleRow(standing=STANDINGS[0], stats=values)


def test_a_row_says_how_a_rule_stands_and_did() -> None:
    told = rule_row(row(fired=12, last_s=900.0, judged=9, weight=0.1, retire=True), 1000.0)

    assert 'href="/rules/R-0001"' in told
    assert "retire?" in told
    assert "judged 9 times" in told
    assert "1 min ago" in told
    assert "not judged yet" in rule_row(row(), 1000.0)
    assert "line 3: no" in rule_row(rule_rows(STANDINGS, ())[0], 1000.0)


def test_bars_show_the_last_day_and_nothing_where_nothing_was() -> None:
    now_s = 100 * BAR_S
    shown = hit_bars([(0.0, 5), (now_s - 10.0, 3), (now_s - BAR_S, 1)], now_s)

    assert shown.count("<rect") == 2
    assert "4 matches in the last day, at most 3 in half an hour" in shown
    assert hit_bars([(0.0, 5)], now_s) == ""


def test_what_a_rule_says_cannot_break_into_the_page() -> None:
    rule = replace(
        RULE,
        cause=HOSTILE,
        references=("javascript:alert(1)", "https://example.org/x"),
        root=replace(RULE.root, source=HOSTILE),
    )
    told = meaning(RuleRow(standing=replace(STANDINGS[0], rule=rule), stats=RuleStats(rule="x")))

    assert HOSTILE not in told
    assert 'href="javascript' not in told
    assert 'href="https://example.org/x"' in told
    assert address_of("a/b c") == "/rules/a%2Fb%20c"


def test_what_steward_does_is_said_with_its_promise() -> None:
    effect = Effect(expr="gpu_busy_share", direction="up", at_least=0.2)
    treatment = Treatment(action="lend", advice="lend it", effect=effect)
    standing = replace(STANDINGS[0], rule=replace(RULE, treatment=treatment))

    told = meaning(RuleRow(standing=standing, stats=RuleStats(rule="x")))

    assert "lend: lend it It promises that gpu_busy_share goes up by at least 0.2" in told
    assert "line 3: no" in meaning(rule_rows(STANDINGS, ())[0])


def test_tiles_tell_a_rule_to_retire_apart() -> None:
    assert "st-is-bad" in rule_tiles(row(judged=9, weight=0.1, retire=True))
    assert "not judged yet" in rule_tiles(row())


@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        ({}, ["broken", "R-0001", "R-0002"]),
        ({"shown": "Matched"}, ["R-0001"]),
        ({"shown": "Never", "pack": "b"}, ["R-0002"]),
        ({"shown": "Off"}, ["R-0002"]),
        ({"shown": "Faulty"}, ["broken"]),
        ({"shown": "To retire"}, []),
        ({"severity": "high"}, ["R-0001", "R-0002"]),
    ],
)
def test_filters_of_the_list(chosen: dict[str, str], ids: list[str]) -> None:
    rows = rule_rows(STANDINGS, [RuleStats(rule="R-0001", fired=1, last_s=5.0)])

    assert [each.id for each in kept(rows, **chosen)] == ids


def test_bars_over_time_reach_from_the_first_match_to_now() -> None:
    bars, edges = hits_series([(0.0, 3)], 200_000.0)

    assert bars["data"] == [[0.0, None], [600_000.0, None], [0.0, 3]]
    assert edges["data"] == [[0.0, 0], [200_000_000.0, 0]]


# -- lines ---------------------------------------------------------------------------------------


def test_the_very_lines_are_shown_with_what_matched_marked() -> None:
    quotes = (
        Quote(t_s=0.0, text=f"oops {HOSTILE}", stream="a.log", line=7, entity="n1"),
        Quote(t_s=1.0, text="no match", stream="kernel"),
    )

    told = quote_table(quotes, RULE)

    assert "<mark>oops</mark>" in told
    assert HOSTILE not in told
    assert "a.log:7 on n1" in told
    assert told.count("<mark>") == 1
    assert "<mark>" not in quote_table(quotes, None)


def test_parts_that_several_terms_match_are_marked_once() -> None:
    terms = (
        Term(kind="regex", text="Xid .*?: (79|80)"),
        Term(kind="value", text="79, GPU"),
        Term(kind="regex", text="("),
        Term(kind="regex", text="z*"),
        Term(kind="jq", text=".x"),
        Term(kind="value", text="absent"),
    )
    inner = RuleNode(kind="set", clauses=tuple(Clause(what=each) for each in terms), source="a")
    rule = replace(RULE, root=RuleNode(kind="set", clauses=(Clause(what=inner),)))

    assert matched_spans(rule, "NVRM: Xid (x): 79, GPU lost") == [(6, 22)]


def test_a_list_quotes_the_first_line() -> None:
    two = (FOUND.quotes[0], FOUND.quotes[0])

    assert quoted_text(FOUND) == "oops <b>"
    assert quoted_text(replace(FOUND, quotes=two)) == "oops <b> (and 1 more line)"
    assert quoted_text(finding()) == ""


# -- series --------------------------------------------------------------------------------------


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    telemetry = Telemetry(tmp_path)
    t_s = np.arange(0.0, 2000.0, 10.0)
    columns = {"t_s": t_s, "entity": ["n1/gpu0"] * 200, "gpu.busy_share": np.full(200, 0.1)}
    telemetry.append(pl.DataFrame({**columns, "gpu.power_watts": np.full(200, 90.0)}))
    yield telemetry
    telemetry.close()


def evidence(metric: str = "gpu.busy_share", threshold: float | None = 0.3) -> Evidence:
    return Evidence(
        entity="n1/gpu0",
        metric=metric,
        from_s=500.0,
        to_s=1000.0,
        says="idle",
        threshold=threshold,
    )


def test_the_series_is_drawn_with_its_window_and_threshold(telemetry: Telemetry) -> None:
    found = replace(finding(), evidence=(evidence(), evidence("gpu.power_watts", 700.0)))

    (heading, said, busy), (_, _, power) = evidence_charts(telemetry, found)

    assert (heading, said) == ("busy of n1/gpu0", "idle")
    (area,) = busy["series"][0]["markArea"]["data"]
    assert (area[0]["xAxis"], area[1]["xAxis"]) == (500_000.0, 1_000_000.0)
    assert busy["series"][0]["markLine"]["data"][0]["yAxis"] == pytest.approx(30.0)
    assert (busy["xAxis"]["min"], busy["xAxis"]["max"]) == (200_000.0, 1_300_000.0)
    assert power["yAxis"]["max"] == pytest.approx(805.0)


def test_a_series_without_threshold_or_samples_does_no_harm(telemetry: Telemetry) -> None:
    lost = evidence("gpu.clock.sm_hz")
    found = replace(finding(), evidence=(evidence(threshold=None), lost))

    ((_, _, chart),) = evidence_charts(telemetry, found)

    assert "markLine" not in chart["series"][0]


# -- the page of a finding -----------------------------------------------------------------------


@pytest.fixture
def bed(make_bed: MakeBed) -> ServiceBed:
    return make_bed()


def test_a_headline_says_what_when_whose_and_by_which_rule(bed: ServiceBed) -> None:
    treated = replace(FOUND, treatment=Treatment(action="tell", advice=HOSTILE))
    story = FindingStory(finding=treated, hits=5)
    snapshot = replace(bed.live_state.snapshot, open_findings=frozenset({FOUND.id}))

    told = headline(story, snapshot, RULE)

    assert "5 matches" in told
    assert "holds now" in told
    assert 'href="/rules/R-0001"' in told
    assert "do this" in told
    assert HOSTILE not in told
    plain = headline(FindingStory(finding=finding(), hits=1), bed.live_state.snapshot, None)
    assert "<code>gpu-idle-while-allocated</code>" in plain


def test_opinions_are_listed_with_their_notes() -> None:
    said = Opinion(finding=FOUND.id, rule="R", t_s=0.0, opinion="dismiss", user="ann", note=HOSTILE)

    told = opinion_list((said,), 60.0)

    assert "<b>ann</b> dismissed it" in told
    assert HOSTILE not in told
    assert opinion_list((), 60.0) == ""


def test_findings_of_a_rule_lead_to_their_pages() -> None:
    assert 'href="/findings/f-1"' in found_list((FOUND,), 2000.0)


def test_files_that_are_not_those_that_run_are_named() -> None:
    assert changed_note(()) == ""
    assert "1 rule file has changed since steward began: <code>a.yaml</code>." in changed_note(
        ["a.yaml"]
    )
    many = changed_note([f"{number}.yaml" for number in range(5)])
    assert "5 rule files have" in many
    assert "<code>2.yaml</code> and 2 more." in many
