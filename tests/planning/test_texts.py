"""What people write of a job: read as meant, or refused with what would be right."""

from __future__ import annotations

from math import sqrt

import pytest

from plans import HOUR_S, NOW_S, exactly
from steward.errors import StewardError
from steward.planning.texts import (
    read_bytes,
    read_deadline,
    read_names,
    read_numbers,
    read_range,
    read_run_time,
    read_values,
)


def test_a_range_has_its_likely_value_between_its_limits() -> None:
    assert read_range("2h", where="") == exactly(2 * HOUR_S)
    assert read_range("1h..4h", where="").mid == pytest.approx(2 * HOUR_S)
    assert read_range("0..4h", where="").mid == 2 * HOUR_S
    assert read_range("1h..3h..4h", where="").mid == 3 * HOUR_S


@pytest.mark.parametrize("text", ["", "2", "4h..1h", "1h..2h..3h..4h", "soon", "-1h", "1h.."])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(StewardError) as raised:
        read_range(text, where="--wait")

    assert raised.value.where == "--wait"
    assert raised.value.hint


def test_a_run_time_of_one_number_is_not_taken_to_be_exact() -> None:
    model, gpus, run_s = read_run_time("A100=2h")

    assert (model, gpus, run_s.mid) == ("A100", 1, 2 * HOUR_S)
    assert run_s.low < run_s.mid < run_s.high


def test_a_run_time_may_name_its_gpus() -> None:
    assert read_run_time("8 x H100=1h..2h")[:2] == ("H100", 8)
    assert read_run_time("CPU=1h..2h")[:2] == ("", 0)
    assert read_run_time("1h..4h")[1] is None
    assert read_run_time("1h..4h")[2].mid == pytest.approx(sqrt(4) * HOUR_S)


@pytest.mark.parametrize("text", ["0xA100=2h", "A100=0..2h", "A100=", "=2h="])
def test_a_run_time_without_gpus_or_time_is_refused(text: str) -> None:
    with pytest.raises(StewardError, match=r"--run-time"):
        read_run_time(text)


@pytest.mark.parametrize("text", ["", "0", "1,,2", "two", "1000001", "-1"])
def test_what_is_no_list_of_counts_is_refused(text: str) -> None:
    with pytest.raises(StewardError, match="is not a list of numbers"):
        read_numbers(text, where="--gpus")


def test_lists_keep_their_order_and_no_value_twice() -> None:
    assert read_numbers("4,1, 4", where="") == (4, 1)
    assert read_names("b,a,,b") == ("b", "a")


def test_values_belong_to_places() -> None:
    found = read_values(["pitzer/gpu=26h", "aws=0..10m"], where="--wait")

    assert found["pitzer/gpu"] == exactly(26 * HOUR_S)
    assert found["aws"].low == 0.0
    with pytest.raises(StewardError, match="names no site"):
        read_values(["26h"], where="--wait")


def test_a_deadline_is_a_moment_or_a_time_from_now() -> None:
    assert read_deadline("12h", NOW_S) == NOW_S + 12 * HOUR_S
    assert read_deadline("+2d", NOW_S) == NOW_S + 48 * HOUR_S
    utc = read_deadline("2027-01-01T00:00", NOW_S)
    assert read_deadline("2027-01-01T02:00+02:00", NOW_S) == utc
    with pytest.raises(StewardError, match=r"was .* h ago"):
        read_deadline("2020-01-01", NOW_S)
    with pytest.raises(StewardError, match="is no time"):
        read_deadline("tomorrow", NOW_S)


def test_memory_has_a_unit() -> None:
    assert read_bytes("1.5 GB", where="--memory") == 1_500_000_000
    with pytest.raises(StewardError, match="--memory"):
        read_bytes("16", where="--memory")
