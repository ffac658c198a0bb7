"""Charts that reports and pages share."""

from __future__ import annotations

import re

import numpy as np
import pytest

from steward.documents.bars import bars
from steward.documents.flow import flow
from steward.documents.matrix import matrix
from steward.documents.network import network
from steward.documents.palette import COLOURS, STYLE, colour
from steward.documents.timelines import legend, timelines

HOSTILE = '<script>"x"</script>'


def numbers(drawn: str, attribute: str) -> list[float]:
    return [float(each) for each in re.findall(rf'{attribute}="(-?[\d.]+)"', drawn)]


def test_names_from_elsewhere_are_escaped_in_every_chart() -> None:
    drawn = (
        matrix(np.ones((1, 1)), [HOSTILE], [HOSTILE], title=HOSTILE),
        bars([HOSTILE], [1.0], title=HOSTILE),
        network([HOSTILE], [1.0], [(0, 0, 1.0, HOSTILE)], title=HOSTILE),
        flow(np.ones((1, 1)), [HOSTILE], [HOSTILE], title=HOSTILE),
        timelines([HOSTILE], [[(0.0, 1.0, 0)]], [HOSTILE], title=HOSTILE),
        legend([HOSTILE]),
    )

    assert not any("<script>" in each for each in drawn)


def test_the_strongest_cell_has_the_most_colour_and_unknown_ones_none() -> None:
    values = np.array([[1.0, 0.5], [np.nan, -0.25]])

    drawn = matrix(values, ["a", "b"], ["c", "d"], title="t")

    assert numbers(drawn, "fill-opacity") == [1.0, 0.5, 0.25]
    assert 'class="less"' in drawn
    assert "b with c" not in drawn


def test_a_matrix_of_nothing_is_drawn_empty() -> None:
    assert "<rect" not in matrix(np.zeros((2, 2)), ["a", "b"], ["a", "b"], title="t")
    assert "<svg" in matrix(np.zeros((0, 0)), [], [], title="t")


def test_bars_are_as_long_as_their_values() -> None:
    widths = numbers(bars(["a", "b"], [2.0, 1.0], title="t", kinds=[0, 1]), "width")

    assert widths[0] == pytest.approx(2 * widths[1], abs=0.11)


def test_a_strong_edge_is_thicker_than_a_weak_one() -> None:
    drawn = network(
        ["a", "b", "c"], [1.0, 1.0, 4.0], [(0, 1, 1.0, "weak"), (1, 2, 3.0, "strong")], title="t"
    )

    thick = numbers(drawn, "stroke-width")
    assert thick == sorted(thick)
    assert thick[0] < thick[1]
    radii = numbers(drawn, "r")
    assert radii[0] == radii[1] < radii[2]


def test_ribbons_of_a_flow_leave_no_more_than_their_source_has() -> None:
    counts = np.array([[3.0, 1.0], [0.0, 4.0]])

    drawn = flow(counts, ["x", "y"], ["x", "y"], title="t")

    assert drawn.count("<path") == 3
    assert "x then y: 1, 25% of the first" in drawn
    assert "<path" not in flow(np.zeros((1, 1)), ["x"], ["x"], title="t")


def test_spans_of_a_timeline_lie_one_after_the_other() -> None:
    row = [(0.0, 50.0, 0), (50.0, 200.0, 1)]

    drawn = timelines(["run"], [row], ["load", "train"], title="t")

    first, second = numbers(drawn, "width")
    assert second == pytest.approx(3 * first, abs=0.3)
    assert "run: train, 50 s to 3.33 min" in drawn
    assert "2 h" in timelines(["long"], [[(0.0, 7200.0, 0)]], ["train"], title="t")
    assert "<svg" in timelines([], [], [], title="t")


def test_categories_beyond_the_palette_begin_anew() -> None:
    assert colour(COLOURS) == colour(0)
    assert f"--c{COLOURS - 1}:" in STYLE
