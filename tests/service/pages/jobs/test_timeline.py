"""The drawing of a job's life: everything at its place, everything with words."""

from __future__ import annotations

import re
from typing import Any

from service.job_records import EVIL, loan, record
from steward.model.managed_job import LifeState
from steward.service.pages.jobs.timeline import event_list, timeline

SAVED = {
    "t_s": 90.0,
    "attempt": 1,
    "step": 1200,
    "path": "/c/1",
    "size_bytes": 3 << 20,
    "seconds": 0.5,
}
ATTEMPT = {"number": 1, "began_s": 50.0, "ended_s": None}
LIFE = (("waiting", 0.0), ("starting", 50.0), ("running", 52.0))


def places(drawing: str, kind: str) -> list[tuple[float, float]]:
    """Return where the bars of a kind begin and how wide they are, in percent."""
    found = []
    for each in re.findall(rf'<rect class="st-life-{kind}"[^>]*>', drawing):
        at = {name: float(value) for name, value in re.findall(r'(x|width)="([\d.]+)%"', each)}
        found.append((at["x"], at["width"]))
    return found


def test_states_are_as_wide_as_they_were_long() -> None:
    drawing = timeline(record(*LIFE), 100.0)

    assert places(drawing, "queue") == [(0.0, 50.0)]
    assert places(drawing, "start") == [(50.0, 2.0)]
    assert places(drawing, "run") == [(52.0, 48.0)]


def test_a_job_that_is_over_stays_as_it_was() -> None:
    ended = record(*LIFE, ("finished", 100.0))

    assert timeline(ended, 100.0) == timeline(ended, 9999.0)


def test_a_short_state_is_still_seen_and_none_leaves_the_drawing() -> None:
    drawing = timeline(record(("waiting", 0.0), ("running", 9999.9), ("failed", 10_000.0)), 1e5)

    (left, width) = places(drawing, "run")[0]
    assert width > 0.1
    assert left + width <= 100.0


def test_attempts_checkpoints_decisions_and_loans_are_marked() -> None:
    made = record(*LIFE, attempts=[ATTEMPT], checkpoints=[SAVED], loans=[loan(since_s=75.0)])
    made["events"][1]["decision"] = "d-1"
    made["events"][2]["decision"] = "d-1"

    drawing = timeline(made, 100.0, {"d-1"})

    assert "attempt 1" in drawing
    assert "saved at step 1,200, 3.0\u202fMiB in 0.5 s" in drawing
    assert drawing.count('href="/decisions/d-1"') == 1
    assert places(drawing, "lent") == [(75.0, 25.0)]
    assert "lent to job 13 for 25 s" in drawing


def test_every_state_that_is_no_end_is_drawn() -> None:
    states = [each.value for each in LifeState if not each.ended]
    spans = [(state, 10.0 * at) for at, state in enumerate(states)]

    drawing = timeline(record(*spans), 10.0 * len(states))

    assert drawing.count("<rect") == len(states)


def test_what_has_no_page_is_no_link() -> None:
    made = record(*LIFE)
    made["events"][1]["decision"] = "r-1"

    assert "/decisions/" not in timeline(made, 100.0) + event_list(made)


def test_what_is_not_shown_to_others_is_not_drawn() -> None:
    theirs = record(*LIFE, spec=None, command=None)  # the API gives no attempts or checkpoints

    drawing = timeline(theirs, 100.0)

    assert "checkpoint" not in drawing.partition("</svg>")[2]
    assert places(drawing, "run")


def test_a_clock_that_was_set_back_draws_no_negative_time() -> None:
    drawing = timeline(record(*LIFE), 10.0)

    assert all(width >= 0 for _, width in places(drawing, "run"))


def test_what_happened_is_told_newest_first_also_at_the_same_moment() -> None:
    made = record(("waiting", 0.0), ("running", 5.0), ("failed", 5.0), checkpoints=[SAVED])

    shown = event_list(made)

    words = ("Saved at step", "Failed", "Runs", "Waits")
    at = [shown.index(word) for word in words]
    assert at == sorted(at)


def test_a_long_life_is_cut_and_says_so() -> None:
    spans = [("running" if at % 2 else "preempted", float(at)) for at in range(100)]

    assert "and 40 earlier" in event_list(record(*spans))


def test_names_from_elsewhere_cannot_become_markup() -> None:
    made: dict[str, Any] = record(
        *LIFE, checkpoints=[{**SAVED, "path": EVIL}], loans=[loan(other=EVIL)]
    )
    for event in made["events"]:
        event.update(why=EVIL, decision=EVIL)

    shown = timeline(made, 100.0, {EVIL}) + event_list(made, {EVIL})

    assert "<script" not in shown
