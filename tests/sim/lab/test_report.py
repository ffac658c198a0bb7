"""The page stands by itself, says it all, and nothing from elsewhere can change it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.documents import Axis, axis_of
from steward.errors import StewardError
from steward.model.machines import machines_of
from steward.model.trace import RowFault
from steward.sim.lab.compare import Comparison, ComparisonPlan, compare
from steward.sim.lab.report import page, write_report
from steward.sim.lab.report.formatting import between, count, number, percent, span
from steward.sim.lab.report.gantt import draw, lanes, tenants_by_colour
from steward.sim.lab.report.order import highlighted, ranked
from steward.sim.lab.report.time_ticks import time_ticks
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials import StudyInput
from steward.sim.lab.trials.trial import Gantt
from tiny_replays import small_trace, tiny_run

BASE = StudyInput(trace=small_trace(60), machines=machines_of(8), run=tiny_run)


def comparison(base: StudyInput = BASE, *policies: str) -> Comparison:
    return compare(base, policies or ("fifo", "short-first"), LabSettings(), ComparisonPlan())


class Page(HTMLParser):
    """Collects what a page shows, and what it would load from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        self.loads += [str(v) for name, v in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_by_itself_and_says_it_all() -> None:
    found = comparison()

    seen = Page(page(found, command="steward lab compare x"))

    assert (seen.loads, seen.open) == ([], [])
    assert "script" not in seen.tags
    for part in (
        *("small: 2 policies", "Part of this trace is made up", "ends jobs soonest"),
        *("Distributions", "Queue and GPUs over time", "Who ran when", "Fairness", "team0"),
        *("Nothing: every row of the trace was run.", "steward lab compare x", "prefers-color"),
    ):
        assert part in seen.text, part
    assert seen.tags.count("title") == 1 + seen.tags.count("svg")


def test_every_picture_has_words_for_those_who_do_not_see_it() -> None:
    text = page(comparison())

    assert len(re.findall(r"<svg [^>]*aria-label=\"[^\"]+\"", text)) == text.count("<svg ")


def test_the_best_figures_are_marked() -> None:
    found = comparison()
    best = min(found.figures, key=lambda name: found.figures[name]["jct_mean_s"])

    text = page(found)

    row = text[text.index(f'<th scope="row">{best}</th>') :]
    assert row[: row.index("</td>")].count('class="best"') == 1


def test_text_from_elsewhere_cannot_change_the_page() -> None:
    evil = "<script>alert(1)</script>"
    trace = small_trace(30)
    names = (evil, *trace.tenants[1:])
    fault = RowFault(reason=evil, rows=1, examples=(evil,))
    base = replace(
        BASE, trace=replace(trace, name=evil, tenants=names, faults=(fault,), origin=evil)
    )

    seen = Page(page(comparison(base), command=evil))

    assert "script" not in seen.tags
    assert seen.text.count(evil) >= 4


def test_policies_that_could_not_run_are_told() -> None:
    text = page(comparison(BASE, "fifo", "pollux"))

    assert "<b>pollux</b> could not run: pollux needs what this trace has not" in text
    assert "No policy could be run." in page(comparison(BASE, "pollux"))


def test_the_file_is_whole_or_not_there(tmp_path: Path) -> None:
    found = comparison()

    write_report(found, tmp_path / "r.html")
    with pytest.raises(StewardError, match="the report cannot be written: no such file"):
        write_report(found, tmp_path / "no" / "r.html")

    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_policies_are_ranked_and_ours_and_the_baseline_stand_out() -> None:
    found = comparison()
    figures = {
        name: {**found.figures["fifo"], "jct_mean_s": float(i)} for i, name in enumerate("abcdef")
    }
    figures["commons"] = {**figures["a"], "jct_mean_s": 99.0}
    figures["f"] |= {"unfinished": 3.0, "jct_mean_s": 0.0}
    many = replace(found, figures=figures, baseline="e")

    order = ranked(many)

    assert order == ["a", "b", "c", "d", "e", "commons", "f"]
    assert highlighted(many, order, 4) == ["a", "b", "e", "commons"]


# -- axes --------------------------------------------------------------------------------------


@given(
    values=st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=20),
    log=st.booleans(),
)
def test_whatever_is_drawn_stays_inside_of_the_picture(values: list[float], *, log: bool) -> None:
    axis = axis_of(np.array(values), px=(40.0, 700.0), log=log)

    places = axis.at(np.array([*values, 0.0, 1e12]))
    ticks = [*axis.ticks(), *(t for t, _ in time_ticks(axis))]

    assert ((places >= 40.0 - 1e-6) & (places <= 700.0 + 1e-6)).all()
    assert all(axis.low * (1 - 1e-6) - 1e-9 <= t <= axis.high * (1 + 1e-6) for t in ticks)
    assert len(axis.ticks()) <= 12


def test_an_axis_of_nothing_is_still_an_axis() -> None:
    assert axis_of(np.array([np.nan]), px=(0.0, 1.0)).high > 0
    assert time_ticks(Axis(low=2.5, high=3.5, from_px=0, to_px=1, log=True)) == []


# -- the Gantt ---------------------------------------------------------------------------------


@st.composite
def gantts(draw: st.DrawFn) -> Gantt:
    rows = sorted(
        draw(
            st.lists(
                st.tuples(st.integers(0, 50), st.integers(1, 30), st.sampled_from([0.5, 1, 3, 8])),
                max_size=25,
            )
        )
    )
    table = np.array(rows, np.float64).reshape(-1, 3)
    return Gantt(
        from_s=0.0,
        to_s=100.0,
        start_s=table[:, 0],
        stop_s=table[:, 0] + table[:, 1],
        gpus=table[:, 2],
        job=np.arange(len(table)),
        tenant=np.zeros(len(table), np.int64),
        left_out=0,
    )


@given(gantt=gantts())
@settings(max_examples=60)
def test_no_two_jobs_are_drawn_on_the_same_gpu(gantt: Gantt) -> None:
    found, shared = lanes(gantt, 8.0)

    assert len(found) + shared == len(gantt.gpus)
    for i, pieces in found:
        assert sum(high - low for low, high in pieces) == pytest.approx(gantt.gpus[i])
        assert all(0 <= low < high <= 8.0 + 1e-9 for low, high in pieces)
    for i, mine in found:
        for j, others in found:
            if i < j and gantt.start_s[j] < gantt.stop_s[i] - 1e-9:
                assert not any(
                    low < other_high - 1e-9 and other_low < high - 1e-9
                    for low, high in mine
                    for other_low, other_high in others
                )


@given(gantt=gantts())
@settings(max_examples=20)
def test_jobs_find_room_when_there_is_enough(gantt: Gantt) -> None:
    _, shared = lanes(gantt, float(gantt.gpus.sum()) + 1.0)

    drawn, _ = draw(gantt, gpus=float(gantt.gpus.sum()) + 1.0, colours=[0, 1], name="fifo")

    assert shared == 0
    assert drawn.count("M") >= len(gantt.gpus)


def test_the_largest_tenants_have_colours_of_their_own() -> None:
    codes, work = np.arange(12), np.arange(12.0)

    colours = tenants_by_colour(codes, work, 12)

    assert colours[11] == 0
    assert colours[:5] == [7] * 5
    assert len(colours) == 13


# -- words -------------------------------------------------------------------------------------


def test_figures_read_as_people_write_them() -> None:
    assert (span(0), span(5400), span(float("nan"))) == ("0 s", "1.5 h", "-")
    assert (number(1234567.0), number(float("inf"))) == ("1,234,567", "-")
    assert (percent(0.5), percent(0.9971), percent(float("nan"))) == ("50.0 %", "99.71 %", "-")
    assert (count(1, "job"), count(2, "job")) == ("1 job", "2 jobs")
    assert (between(60, 90), between(float("nan"), 1)) == ("1 … 1.5 min", "")
