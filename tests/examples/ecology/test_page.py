"""The page: what it says, and that it loads nothing from anywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ecology.facts import read_facts
from ecology.page import SeasonReport, page, write_page
from ecology.placement import Work, place
from ecology.results import Retraining, SeasonResult, WeekResult

FACTS = read_facts()
EXAMPLES = Path(__file__).parents[3] / "examples"


def week(number: int, f1: float, labels: int = 50) -> WeekResult:
    return WeekResult(
        week=number, f1=f1, accuracy=0.9, recall=0.97, frames=2000, labels=labels,
        sent_bytes=1_000_000, frame_bytes=10_000_000, joules=1500.0, waited=3,
    )  # fmt: skip


def retraining() -> Retraining:
    work = Work(seconds=20, memory_bytes=4e8, deadline_s=7200, edge_joules_left=20)
    return Retraining(
        day=16, why="the model doubts more", crops=327, steps=600, plan=place(work, FACTS.places),
        predicted_s=12.0, actual_s=10.0, predicted_wall_s=14.0, wall_s=12.5, predicted_bytes=4e8,
        peak_bytes=5e8, f1_before=0.779, f1_after=0.898, deployed=True, job="4", attempts=2,
        bit_equal=True,
    )  # fmt: skip


def report(*, retrainings: tuple[Retraining, ...] = (), weeks: int = 4) -> SeasonReport:
    def season(name: str, f1: float, labels: int) -> SeasonResult:
        return SeasonResult(
            strategy=name, weeks=tuple(week(i + 1, f1, labels) for i in range(weeks)),
            retrainings=retrainings if name == "steward" else (), start_labels=100, crops=3900,
            alarms=((15, "the model doubts <b>more</b>"),),
        )  # fmt: skip

    seasons = season("steward", 0.95, 50), season("label everything", 0.96, 975)
    return SeasonReport(
        seed=1, results=(*seasons, season("never retrain", 0.6, 0)), facts=FACTS, took_s=99.0
    )


def test_a_season_is_shown_against_both_rivals() -> None:
    text = page(report(retrainings=(retraining(),)))

    assert "7.5% of labelling everything" in text
    assert "0.960 (label everything), 0.600 (never retrain)" in text
    assert text.count("<svg") == 4
    assert "the model doubts &lt;b&gt;more&lt;/b&gt;" in text


def test_a_retraining_shows_where_it_ran_and_how_far_off_its_prediction_was() -> None:
    text = page(report(retrainings=(retraining(),)))

    assert "4: pre-empted, 2 attempts, bit-equal" in text
    assert "<td>12.0 s</td><td>10.0 s</td><td>20%</td>" in text
    assert "taken: the cheapest in time" in text
    assert "not possible: one in ten takes over 4.0 h; due in 2" in text


def test_a_season_of_one_week_without_trainings_has_a_page(tmp_path: Path) -> None:
    file = tmp_path / "page.html"

    write_page(report(weeks=1), file)

    assert "None." in file.read_text(encoding="utf-8")
    assert "nan" not in re.sub(r"<style>.*?</style>", "", file.read_text(), flags=re.DOTALL)


def test_the_page_loads_nothing() -> None:
    text = page(report(retrainings=(retraining(),)))

    assert not re.findall(r"(?:src|href)=|<script|@import|url\(", text)
    assert "default-src 'none'" in text


def test_wrong_options_are_refused_with_all_faults_at_once() -> None:
    command = [sys.executable, "-m", "ecology", "--weeks", "0", "--frames", "3", "--seed", "-1"]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "--seed is -1" in done.stderr
    assert "--weeks is 0" in done.stderr
    assert "--frames is 3" in done.stderr
    assert "Traceback" not in done.stderr
