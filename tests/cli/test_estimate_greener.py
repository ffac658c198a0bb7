"""`steward estimate greener` on intensities by the hour."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from told import steward


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return 100 days of a region with a regular day, and a few of one with hardly any history."""
    rows = ["region,hour_utc,grams_per_kwh"]
    for hour in range(24 * 100):
        at = datetime(2021, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
        grams = 300 + 100 * math.sin(at.hour / 24 * 2 * math.pi)
        regions = "AB" if hour < 120 else "A"
        rows += [f"{region},{at:%Y-%m-%dT%H:%MZ},{grams:.2f}" for region in regions]
    path = tmp_path / "carbon.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_what_waiting_saves_is_told_beside_what_knowing_would(file: Path) -> None:
    answer = steward("estimate", "greener", file, "--json", "--since", "2021-03-25")

    found = answer.json
    assert answer.code == 0
    assert 0 < found["saved_share"] <= found["oracle_share"]
    assert found["worst_share"] < 0
    assert found["left_out"] == ["B"]


def test_people_get_a_table_and_a_sentence(file: Path) -> None:
    answer = steward("estimate", "greener", file, "--since", "2021-03-25")

    assert "A" in answer.out
    assert "of the carbon is saved" in answer.err
    assert "too short a history: B" in answer.err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("nothing.csv",), "no such file"),
        (("{file}", "--since", "soon"), "soon"),
        (("{file}", "--hours", "0"), "--hours"),
    ],
)
def test_wrong_use_is_refused(file: Path, wrong: tuple[str, ...], said: str) -> None:
    answer = steward("estimate", "greener", *(each.format(file=file) for each in wrong))

    assert answer.code == 2
    assert said in answer.err
