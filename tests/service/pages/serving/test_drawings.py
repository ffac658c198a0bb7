"""What the page shows of a gateway: figures, bars, tables; unknown is shown, text stays text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.gateway_statuses import T_S, status
from steward.clients.gateway_status import gateway_snapshot
from steward.model.serving.gateway_snapshot import (
    ClassFigures,
    GatewaySnapshot,
    InstanceFigures,
    ServingEvent,
    WaitFigures,
)
from steward.service.pages.serving.charts import class_colours, kept_series, wait_series
from steward.service.pages.serving.drawings import (
    event_list,
    gateway_notice,
    instance_table,
    queue_bars,
    serving_figures,
)
from steward.service.serving_state import Gateway, KeptPoint

EVIL = '<script>alert("x")</script>'
USUAL = gateway_snapshot(status())
NOTHING = GatewaySnapshot()


def test_the_figures_are_those_of_the_gateway() -> None:
    shown = serving_figures(USUAL)

    for words in ("98\u202f%", "worst class: interactive", "of 64 that instances may have", "812"):
        assert words in shown
    assert "40 wait, 60 done, 2 failed" in shown


def test_nothing_known_is_shown_as_unknown() -> None:
    shown = serving_figures(NOTHING)

    assert shown.count("unknown") >= 5
    assert "None" not in shown
    assert "nan" not in shown


def test_a_queue_is_drawn_against_its_deadline() -> None:
    shown = queue_bars(USUAL.classes)

    assert "3 wait, 7 in flight · 10.0 s deadline" in shown
    assert "width:16.00%" in shown  # 2 s of 12.5 s
    assert "left:24.00%" in shown
    assert "left:80.00%" in shown  # the deadline itself
    assert "98\u202f% of 100 kept" in shown


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"oldest_wait_s": 60.0}, 'class="st-queue-late" style="width:100.00%"'),
        ({"bound_wait_s": 11.0}, "st-is-over"),
        ({"expected_wait_s": None}, "a new one unknown"),
        ({"attainment": None}, "nothing has ended yet"),
    ],
)
def test_what_is_late_or_unknown_is_marked(changed: dict[str, Any], words: str) -> None:
    assert words in queue_bars([replace(USUAL.classes[0], **changed)])


@pytest.mark.parametrize("deadline_s", [None, 0.0])
def test_a_class_without_a_deadline_has_no_bar(deadline_s: float | None) -> None:
    shown = queue_bars([replace(USUAL.classes[0], deadline_s=deadline_s)])

    assert "st-queue-bar" not in shown


def test_instances_show_limit_state_and_breaker() -> None:
    (instance,) = USUAL.instances
    broken = replace(instance, state="down", breaker="open", errors=4.0, kv_share=None)

    shown = instance_table([instance, broken])

    assert "7 of 64" in shown
    assert "40\u202f%" in shown
    assert "breaker open" in shown
    assert shown.count("unknown") == 1


def test_an_instance_of_which_nothing_is_known_is_listed() -> None:
    shown = instance_table([InstanceFigures(name="x")])

    assert "model unknown" in shown
    assert "unknown of unknown" in shown


def test_events_are_listed_newest_first() -> None:
    events = [ServingEvent(t_s=T_S - 100 + each, what=f"e{each}") for each in range(50)]

    shown = event_list(events, T_S)

    assert shown.index("e49") < shown.index("e48")
    assert "e29" not in shown


@pytest.mark.parametrize(
    "shown",
    [
        queue_bars([ClassFigures(name=EVIL)]),
        instance_table([InstanceFigures(name=EVIL, model=EVIL, state=EVIL, breaker=EVIL)]),
        event_list([ServingEvent(t_s=T_S, what=EVIL, instance=EVIL, why=EVIL)], T_S),
        serving_figures(replace(USUAL, classes=(replace(USUAL.classes[0], name=EVIL),))),
        gateway_notice(Gateway(url="http://g", fault=EVIL), T_S),
    ],
)
def test_what_a_gateway_sends_is_text(shown: str) -> None:
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


def test_a_silent_gateway_is_said_with_how_old_its_answer_is() -> None:
    silent = Gateway(url="http://g", snapshot=USUAL, answered_s=T_S - 75, fault="cannot be reached")

    assert "http://g: cannot be reached" in gateway_notice(silent, T_S)
    assert "1 min 15 s old" in gateway_notice(silent, T_S)
    assert "has not answered yet" in gateway_notice(Gateway(url="g", fault="x"), T_S)


def test_rows_that_were_left_out_are_told_and_nothing_else_is() -> None:
    partly = Gateway(url="g", snapshot=replace(USUAL, left_out=3))

    assert "3 rows of its answer could not be read" in gateway_notice(partly, T_S)
    assert gateway_notice(Gateway(url="g", snapshot=USUAL), T_S) == ""


# -- charts ------------------------------------------------------------------------------------


def wait(expected_s: float, observed_s: float, bound_s: float | None, name: str = "a") -> Any:
    return WaitFigures(
        t_s=0.0, deadline_class=name, expected_s=expected_s, observed_s=observed_s, bound_s=bound_s
    )


def test_waits_are_points_by_class_and_those_beyond_their_bound_apart() -> None:
    waits = [wait(1.0, 1.1, 1.5), wait(2.0, 4.0, 3.0), wait(0.0, 0.5, None, "b")]

    series = {each["name"]: each["data"] for each in wait_series(waits, class_colours(["a", "b"]))}

    assert series["a"] == [[1.0, 1.1]]
    assert series["b"] == [[0.001, 0.5]]  # a logarithmic axis has no 0
    assert series["beyond the bound"] == [[2.0, 4.0]]
    assert series["90 % bound"] == [[1.0, 1.5], [2.0, 3.0]]
    assert series[""] == [[0.001, 0.001], [4.0, 4.0]]


def test_without_waits_there_is_no_chart() -> None:
    assert wait_series([], {}) == []


def test_a_class_of_which_nothing_ended_has_no_line() -> None:
    points = [
        KeptPoint(t_s=0.0, counts={"a": (1.0, 0.0), "b": (1.0, 1.0)}),
        KeptPoint(t_s=1.0, counts={"a": (1.0, 0.0), "b": (4.0, 2.0)}),
    ]

    (line,) = kept_series(points, class_colours(["a", "b"]))

    assert line["name"] == "b"
    assert line["data"] == [[1000.0, 0.75]]
