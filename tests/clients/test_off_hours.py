"""Whether it is off-hours at an instant, over midnight and when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.kubernetes.off_hours import DAYS, OffHours, off_hours_from
from steward.clients.kubernetes.optimization_policy import ceilings_of, optimization_policy_from
from steward.model.identity import TenantId
from steward.model.site import Autonomy

BERLIN = "Europe/Berlin"  # clocks change on 2026-03-29 at 02:00 and on 2026-10-25 at 03:00


def off_hours(*windows: dict[str, Any], zone: str = BERLIN) -> OffHours:
    return off_hours_from({"timeZone": zone, "windows": [*windows]})


def window(begin: str, end: str, *days: str) -> dict[str, Any]:
    return {"from": begin, "to": end, **({"days": [*days]} if days else {})}


def at(text: str, zone: str = BERLIN, *, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def until(of: OffHours, t_s: float) -> str:
    found = of.until(t_s)
    assert of.hold(t_s) is (found is not None)
    return f"{found:%d %H:%M}" if found else ""


NIGHT = off_hours(window("20:00", "06:00"))
TWO_PARTS = off_hours(window("20:00", "24:00"), window("00:00", "06:00"))
SUNDAY_NIGHT = off_hours(window("22:00", "04:00", "Sat"))


@pytest.mark.parametrize(
    ("of", "local", "ends_utc"),
    [
        (NIGHT, "2026-01-05 19:59:59", ""),
        (NIGHT, "2026-01-05 20:00:00", "06 05:00"),
        (NIGHT, "2026-01-06 05:59:59", "06 05:00"),
        (NIGHT, "2026-01-06 06:00:00", ""),
        (NIGHT, "2026-03-28 23:00", "29 04:00"),  # an hour shorter
        (NIGHT, "2026-10-24 23:00", "25 05:00"),  # an hour longer
        (SUNDAY_NIGHT, "2026-01-10 23:00", "11 03:00"),
        (SUNDAY_NIGHT, "2026-01-11 03:59", "11 03:00"),
        (SUNDAY_NIGHT, "2026-01-11 23:00", ""),
        (off_hours(window("02:30", "04:00")), "2026-03-29 03:10", ""),  # 02:30 is 03:30
        (off_hours(window("02:30", "04:00")), "2026-03-29 03:30", "29 02:00"),
        (off_hours(window("02:15", "02:45")), "2026-03-29 03:20", "29 01:45"),
        (off_hours(window("01:00", "02:30")), "2026-10-25 02:29", "25 00:30"),
        (off_hours(window("00:00", "24:00", "Sun")), "2026-10-25 23:59", "25 23:00"),
        (off_hours(window("00:00", "24:00", "Sun")), "2026-10-26 00:00", ""),
        (TWO_PARTS, "2026-01-05 21:00", "06 05:00"),
        (off_hours(window("20:00", "06:00"), zone="Mars/Base"), "2026-01-05 21:00", ""),
    ],
)  # fmt: skip
def test_off_hours_hold_from_their_begin_to_their_end(
    of: OffHours, local: str, ends_utc: str
) -> None:
    assert until(of, at(local)) == ends_utc


def test_of_an_hour_that_occurs_twice_the_first_is_meant() -> None:
    of = off_hours(window("02:15", "02:45"))

    assert until(of, at("2026-10-25 02:30")) == "25 00:45"
    assert until(of, at("2026-10-25 02:30", fold=1)) == ""


def test_the_next_begin_is_known_a_week_ahead() -> None:
    of = off_hours(window("20:00", "06:00", "Mon"))

    found = of.begins(at("2026-01-06 07:00"))

    assert found == datetime(2026, 1, 12, 19, tzinfo=UTC)
    assert off_hours().begins(0.0) is None


@pytest.mark.parametrize(
    "raw", [{}, window("20:00", "20:00"), window("8", "9"), window("24:00", "06:00")]
)
def test_what_is_no_window_never_holds(raw: dict[str, Any]) -> None:
    assert off_hours(raw).windows == ()


@pytest.mark.parametrize("zone", ["Mars/Base", "../../etc/passwd", "/etc/passwd", "Europe"])
def test_a_zone_that_is_not_known_is_named(zone: str) -> None:
    assert off_hours(window("20:00", "06:00"), zone=zone).fault == (
        f"there is no time zone '{zone}' here"
    )


@given(
    day=st.integers(0, 2 * 366),
    minute=st.integers(0, 1439),
    begin=st.integers(0, 1439),
    length=st.integers(1, 1439),
    days=st.sets(st.sampled_from(DAYS), min_size=1),
    zone=st.sampled_from(
        ["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Asia/Kolkata"]
    ),
)
def test_it_holds_until_it_says_and_not_after(
    day: int, minute: int, begin: int, length: int, days: set[str], zone: str
) -> None:
    end = (begin + length) % 1440
    clock = [f"{each // 60:02}:{each % 60:02}" for each in (begin, end)]
    of = off_hours({"from": clock[0], "to": clock[1], "days": [*days]}, zone=zone)
    t_s = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, minutes=minute)).timestamp()

    ends, begins = of.until(t_s), of.begins(t_s)

    assert of.hold(t_s) is (ends is not None)
    if ends is not None:
        assert of.hold(ends.timestamp() - 1)
        assert not of.hold(ends.timestamp())
    if begins is not None:
        assert of.hold(begins.timestamp())


# -- what holds then -------------------------------------------------------------------------------


def test_settings_of_the_off_hours_replace_those_beside_them_and_the_strictest_policy_counts() -> (
    None
):
    def policy(name: str, **spec: Any) -> Any:
        meta = {"uid": name, "name": name, "namespace": "bio"}
        return optimization_policy_from({"metadata": meta, "spec": spec})

    off = {"windows": [window("20:00", "06:00")], "timeZone": BERLIN, "autonomy": "auto"}
    calm = policy("calm", autonomy="advise", disturbancesPerJobPerDay=3, offHours=off)
    other = policy("other", actions=["preempt"])
    day, night = at("2026-01-05 12:00"), at("2026-01-05 22:00")

    found = [ceilings_of([calm, other], t_s)[TenantId("bio")] for t_s in (day, night)]

    assert [each.autonomy for each in found] == [Autonomy.ADVISE, Autonomy.AUTO]
    assert [each.disturbed_per_job_per_day for each in found] == [3, 3]
    assert [each.actions for each in found] == [frozenset({"preempt"})] * 2
    assert "calm (off-hours)" in found[1].source
