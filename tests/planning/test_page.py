"""A plan as rows, as a picture and as a page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plans import HOUR_S, NOW_S, catalog_of, choice, exactly, per_gpu, queue, request, site, way
from steward.decide.planning.planner import plan
from steward.model.planning.catalog import Charging, Engine
from steward.model.planning.plan import Choice, Plan, Range
from steward.planning.page import page
from steward.planning.rows import front_rows, moment, money, nearest, note_lines
from steward.planning.scatter import scatter

SOME = plan(
    request(deadline_s=NOW_S + 9 * HOUR_S, budget_usd=9.0),
    catalog_of(
        site("cheap", queue(charging=per_gpu(1.0))),
        site("green", queue(charging=per_gpu(3.0)), grams_per_kwh=10.0),
        site("dear", queue(charging=per_gpu(4.0))),
    ),
)


def of(*front: Choice) -> Plan:
    return replace(SOME, front=front, rejected=())


def test_a_row_says_how_it_runs() -> None:
    chained = choice(
        links=3, nodes=2, interruptible=True, start_s=NOW_S + 2 * HOUR_S, co2_kg=None, notes=("n",)
    )

    (row,) = front_rows(of(chained))

    assert row[2] == "1 x A100, 2 nodes, chain of 3, interruptible"
    assert row[3] == "in 2 h"
    assert row[4] == "none"
    assert "unknown" in row
    assert row[-1] == "[1]"
    assert list(note_lines(of(chained, chained))) == ["[1] n"]


@pytest.mark.parametrize(
    ("but", "text"),
    [
        ({"usd": exactly(0.0)}, "free"),
        ({"usd": exactly(2.0)}, "$2.00"),
        ({"usd": Range(low=1.0, mid=2.0, high=3.0)}, "$2.00 ($1.00 to $3.00)"),
        ({"usd": None, "units": {"SU": 12.0}}, "12 SU"),
    ],
)
def test_money_is_written_with_its_limits(but: dict[str, object], text: str) -> None:
    assert money(choice(**but)) == text


def test_a_time_beyond_the_calendar_has_no_date() -> None:
    assert moment(1e18) == "beyond all calendars"


def test_what_lost_is_named_best_first() -> None:
    assert [each.site for each in nearest(SOME)] == ["dear"]


def test_the_picture_has_a_bubble_for_each_and_the_limits() -> None:
    drawn = scatter(SOME)

    assert drawn.count('class="good"') == 1
    assert drawn.count('class="best"') == 1
    assert drawn.count('class="lost"') == 1
    assert "deadline" not in drawn  # it is beyond the picture
    assert "budget" not in drawn
    near = replace(SOME.request, deadline_s=NOW_S + 2.1 * HOUR_S, budget_usd=7.0)
    limited = scatter(replace(SOME, request=near))
    assert "deadline" in limited
    assert "budget" in limited


def test_prices_and_times_that_lie_far_apart_are_drawn_on_logarithmic_axes() -> None:
    far = of(
        choice(),
        choice(usd=exactly(500.0), end_s=exactly(NOW_S + 90 * HOUR_S)),
        choice(usd=exactly(0.5), end_s=exactly(NOW_S + 60.0)),
    )

    drawn = scatter(far)

    assert "$500" in drawn
    assert "12 h" in drawn


def test_units_without_a_price_are_drawn_by_themselves() -> None:
    units = choice(usd=None, units={"SU": 12.0})

    drawn = scatter(of(units, replace(units, units={"SU": 14.0}), choice()))

    assert "cost, SU" in drawn
    assert drawn.count("<circle") == 2


def test_bubbles_of_equals_are_drawn_once_and_numbers_do_not_overlap() -> None:
    many = plan(request(), catalog_of(*(site(f"s{i:02d}") for i in range(30))))

    assert scatter(many).count('class="lost"') == 1
    two = scatter(of(choice(), choice()))
    assert two.count('class="on"') == 1


def test_the_page_has_what_was_asked_and_why_others_lost() -> None:
    text = page(SOME)

    assert "with a chance of 90%" in text
    assert "costs $9.00 at most" in text
    assert "cheap/gpu" in text
    assert "costs $6.00 less" in text
    assert "Why others lost" not in page(of(choice()))


def test_a_long_list_of_losers_is_cut_and_counted() -> None:
    many = plan(request(), catalog_of(*(site(f"s{i:03d}") for i in range(300))))

    assert "and 99 more" in page(many)


def test_a_page_without_a_feasible_choice_says_what_to_change() -> None:
    nothing = plan(request(budget_usd=0.5), catalog_of(site("here")))

    text = page(nothing)

    assert "$1.50 more budget" in text
    assert "<svg" not in text
    assert scatter(nothing) == "<p>There is nothing feasible to draw.</p>"


def test_free_and_chained_work_reads_well() -> None:
    free = catalog_of(
        site("here", queue(charging=Charging(), max_s=4 * HOUR_S), engine=Engine.SLURM)
    )

    text = page(plan(request(way(run_s=exactly(10 * HOUR_S)), saves=True), free))

    assert "a chain of 3 jobs" in text
    assert "<b>free</b>" in text
