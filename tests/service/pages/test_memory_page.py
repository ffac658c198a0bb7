from __future__ import annotations

from typing import Any

from steward.service.pages.memory.drawings import (
    idle_bars,
    memory_figures,
    memory_head,
    tier_bar,
    tier_series,
)


def status(**more: Any) -> dict[str, Any]:
    return {
        "t_s": 100.0,
        "pid": 7,
        "name": "train",
        "policy": "indigo",
        "autonomy": "advise",
        "near_bytes": 3 << 20,
        "far_bytes": 1 << 20,
        "near_limit_bytes": 1 << 60,
        "hot_blocks": 2,
        "promoted_blocks": 3,
        "demoted_blocks": 4,
        "estimated_saved_s": -0.25,
        "idle": [[0, 2, 1], [1, 0, 0], [8, 5, 0]],
        "history": [[1.0, 3 << 20, 1 << 20]],
        **more,
    }


def test_tiers_are_shown_as_parts_of_the_whole() -> None:
    assert "near 75%, far 25%" in str(tier_bar(status()))
    assert "Nothing of it is in memory" in str(tier_bar(status(near_bytes=0, far_bytes=0)))


def test_moves_and_stall_are_named_and_a_loss_is_marked() -> None:
    shown = str(memory_figures(status()))

    assert "3 nearer, 4 farther" in shown
    assert "-0.250 s" in shown
    assert "st-is-bad" in shown
    assert "all it wants" in shown


def test_a_watch_that_ended_says_how_old_it_is() -> None:
    assert "not watched any more: what is shown is 50 s old" in str(memory_head(status(), 150.0))
    assert "has ended" in str(memory_head(status(problem="the process has ended"), 101.0))


def test_names_of_programs_stay_text() -> None:
    assert "<script>" not in str(memory_head(status(name="<script>alert(1)</script>"), 100.0))


def test_blocks_are_listed_by_their_last_use_without_empty_rows() -> None:
    shown = str(idle_bars(status()))

    assert "at the last look" in shown
    assert "one look ago" not in shown
    assert "8 to 15 looks ago" in shown
    assert "Nothing was seen yet" in str(idle_bars(status(idle=[])))


def test_the_chart_has_a_line_for_each_tier() -> None:
    near, far = tier_series(status())

    assert (near["data"], far["data"]) == ([[1000.0, 3.0]], [[1000.0, 1.0]])
