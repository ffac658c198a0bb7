import gzip
from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.store.grid_carbon import read_carbon

HEAD = "region,hour_utc,grams_per_kwh\n"


def write(folder: Path, text: str, name: str = "c.csv") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def hours(*grams: object, region: str = "A", first: int = 0) -> str:
    return "".join(
        f"{region},2021-01-{1 + (first + i) // 24:02}T{(first + i) % 24:02}:00Z,{each}\n"
        for i, each in enumerate(grams)
    )


def test_regions_are_read_by_name_and_hours_in_order(tmp_path: Path) -> None:
    rows = hours(3, 4, region="B") + hours(2, first=1) + hours(1)

    a, b = read_carbon(write(tmp_path, HEAD + rows))

    assert (a.region, a.grams.tolist(), a.begin_s) == ("A", [1.0, 2.0], 1609459200.0)
    assert (b.region, b.grams.tolist()) == ("B", [3.0, 4.0])


def test_gzip_is_read(tmp_path: Path) -> None:
    file = tmp_path / "c.csv.gz"
    file.write_bytes(gzip.compress((HEAD + hours(1, 2)).encode()))

    assert read_carbon(file)[0].grams.tolist() == [1.0, 2.0]


def test_short_gaps_are_filled_and_counted(tmp_path: Path) -> None:
    [found] = read_carbon(write(tmp_path, HEAD + hours(1, "", 3)))

    assert found.grams.tolist() == [1.0, 2.0, 3.0]
    assert found.filled == 1


def test_what_is_before_a_long_gap_is_left_out(tmp_path: Path) -> None:
    [found] = read_carbon(write(tmp_path, HEAD + hours(9, 9) + hours(1, 2, first=40)))

    assert found.grams.tolist() == [1.0, 2.0]


def test_an_hour_that_comes_twice_counts_by_its_last_row(tmp_path: Path) -> None:
    [found] = read_carbon(write(tmp_path, HEAD + hours(1, 2) + hours(7)))

    assert found.grams.tolist() == [7.0, 2.0]


def test_forecasts_are_placed_by_their_hour_of_issue(tmp_path: Path) -> None:
    issued = (
        "region,issued_utc,hour_utc,actual_g_per_kwh,forecast_g_per_kwh\n"
        "A,2021-01-01T01:00Z,2021-01-01T01:00Z,0,5\n"
        "A,2021-01-01T01:00Z,2021-01-01T03:00Z,0,6\n"
        "Z,2021-01-01T01:00Z,2021-01-01T03:00Z,0,6\n"
    )

    [found] = read_carbon(
        write(tmp_path, HEAD + hours(1, 2, 3, 4)), write(tmp_path, issued, "f.csv")
    )

    assert found.forecasts is not None
    assert found.forecasts.issued_h.tolist() == [1]
    assert np.nan_to_num(found.forecasts.grams, nan=-1).tolist() == [[5.0, -1.0, 6.0]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no column 'region'"),
        (HEAD, "there are no rows"),
        (HEAD + "A,yesterday,3\n", "hour_utc is 'yesterday'"),
        (HEAD + hours("much"), "grams_per_kwh is 'much'"),
        (HEAD + hours(-3), "negative"),
        ("", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_fault(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(StewardError, match=said) as fault:
        read_carbon(write(tmp_path, text))

    assert "c.csv" in str(fault.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no such file"):
        read_carbon(tmp_path / "none.csv")
