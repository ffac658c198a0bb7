"""Carbon of the hours ahead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import cos, pi
from pathlib import Path

import pytest

from plans import HOUR_S, NOW_S
from steward.errors import StewardError
from steward.planning.carbon_hours import carbon_ahead

NOW_H = int(NOW_S // HOUR_S)


def written(folder: Path, *regions: tuple[str, Mapping[int, float]]) -> Path:
    lines = ["region,hour_utc,grams_per_kwh"]
    for region, hours in regions:
        for hour, grams in hours.items():
            moment = datetime.fromtimestamp((NOW_H + hour) * HOUR_S, tz=UTC)
            lines.append(f"{region},{moment:%Y-%m-%dT%H:%MZ},{grams}")
    path = folder / "carbon.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_hours_before_the_present_one_do_not_count(tmp_path: Path) -> None:
    found = carbon_ahead(written(tmp_path, ("DE", {-1: 9, 0: 1, 1: 2, 2: 3})), NOW_S)

    assert found.grams_by_hour == {"DE": (1.0, 2.0, 3.0)}
    assert NOW_S - HOUR_S < found.hours_from_s <= NOW_S


def test_what_is_recorded_up_to_now_is_forecast(tmp_path: Path) -> None:
    def grams(hour: int) -> float:
        return 300 + 200 * cos(2 * pi * hour / 24)

    past = {hour: grams(hour) for hour in range(-24 * 60, -1)}
    old = dict.fromkeys(range(-24 * 90, -24 * 30), 100.0)

    found = carbon_ahead(written(tmp_path, ("DE", past), ("FR", old)), NOW_S)

    assert list(found.grams_by_hour) == ["DE"]
    ahead = found.grams_by_hour["DE"]
    assert len(ahead) > 24
    assert ahead[0] == pytest.approx(grams(0), abs=60)
    assert ahead[12] == pytest.approx(grams(12), abs=60)


def test_a_record_whose_last_hour_is_the_present_one_is_forecast_as_well(tmp_path: Path) -> None:
    past = {hour: 300 + 200 * cos(2 * pi * hour / 24) for hour in range(-24 * 60, 1)}

    found = carbon_ahead(written(tmp_path, ("DE", past)), NOW_S)

    ahead = found.grams_by_hour["DE"]
    assert len(ahead) > 24
    assert ahead[0] == past[0]
    assert ahead[12] == pytest.approx(past[-12], abs=60)


def test_a_file_of_the_past_says_when_it_ends(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="it ends at 2026-11-1") as raised:
        carbon_ahead(written(tmp_path, ("DE", {-30: 5})), NOW_S)

    assert "present hour" in raised.value.hint


def test_hours_that_begin_later_are_no_forecast_of_now(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="it begins at 2026-11-1"):
        carbon_ahead(written(tmp_path, ("DE", {5: 5, 6: 5})), NOW_S)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a,b\n1,2\n")

    for name in ("file", "none"):
        with pytest.raises(StewardError):
            carbon_ahead(tmp_path / name, NOW_S)
