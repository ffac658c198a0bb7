"""Carbon of the hours ahead."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plans import HOUR_S, NOW_S
from steward.errors import StewardError
from steward.planning.carbon_hours import carbon_ahead

NOW_H = int(NOW_S // HOUR_S)


def written(folder: Path, rows: dict[int, float | str], *, region: str = "DE") -> Path:
    lines = ["region,hour_utc,grams_per_kwh"]
    for hour, grams in rows.items():
        moment = datetime.fromtimestamp((NOW_H + hour) * HOUR_S, tz=UTC)
        lines.append(f"{region},{moment:%Y-%m-%dT%H:%MZ},{grams}")
    path = folder / "carbon.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_hours_before_the_present_one_do_not_count(tmp_path: Path) -> None:
    found = carbon_ahead(written(tmp_path, {-1: 9, 0: 1, 1: 2, 2: 3}), NOW_S)

    assert found.grams_by_hour == {"DE": (1.0, 2.0, 3.0)}
    assert NOW_S - HOUR_S < found.hours_from_s <= NOW_S


def test_small_gaps_are_filled_and_large_ones_end_the_hours(tmp_path: Path) -> None:
    small = carbon_ahead(written(tmp_path, {1: 1, 4: 4}), NOW_S)
    large = carbon_ahead(written(tmp_path, {0: 1, 20: 4}), NOW_S)

    assert small.grams_by_hour == {"DE": (1.0, 1.0, 1.0, 1.0, 4.0)}
    assert large.grams_by_hour == {"DE": (1.0,)}


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "carbon.csv.gz"
    path.write_bytes(gzip.compress(written(tmp_path, {0: 5}).read_bytes()))

    assert carbon_ahead(path, NOW_S).grams_by_hour == {"DE": (5.0,)}


def test_a_file_of_the_past_says_when_it_ends(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="the last one ends 2026-11-1") as raised:
        carbon_ahead(written(tmp_path, {-30: 5}), NOW_S)

    assert "present hour" in raised.value.hint


def test_all_wrong_lines_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, {0: 5, 1: "much", 2: -1, 3: "", 4: "nan"})

    with pytest.raises(StewardError) as raised:
        carbon_ahead(path, NOW_S)

    assert "line 3" in raised.value.problem
    assert "line 4: -1 grams per kWh" in raised.value.problem
    assert "1 more" in raised.value.problem


@pytest.mark.parametrize("raw", [b"a,b\n1,2\n", b"\x1f\x8bbroken", b"\xff\xfe", b""])
def test_what_is_no_such_file_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)

    with pytest.raises(StewardError) as raised:
        carbon_ahead(path, NOW_S)
    assert raised.value.hint
    with pytest.raises(StewardError, match="cannot be read"):
        carbon_ahead(tmp_path / "none", NOW_S)
