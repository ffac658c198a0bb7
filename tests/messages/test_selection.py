"""Filters, quiet hours and digests decide who gets what, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from message_servers import T_S, message
from steward.messages.selection import Selection, parse_quiet_hours
from steward.model.finding import Severity


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_empty_filters_let_all_pass() -> None:
    assert Selection().takes(message())


@pytest.mark.parametrize(
    ("selection", "takes"),
    [
        (Selection(kinds=("job",)), False),
        (Selection(kinds=("finding",)), True),
        (Selection(least=Severity.FAULT), False),
        (Selection(least=Severity.WASTE), True),
        (Selection(tenants=("bio*",)), True),
        (Selection(tenants=("chem",)), False),
        (Selection(users=("ann",)), True),
        (Selection(users=("bob",)), False),
    ],
)
def test_each_filter_has_to_match(selection: Selection, *, takes: bool) -> None:
    assert selection.takes(message(tenant="bio1", user="ann")) is takes


def test_a_test_passes_every_filter() -> None:
    assert Selection(kinds=("job",), users=("x",)).takes(message(kind="test"))


def test_in_quiet_hours_only_faults_are_sent() -> None:
    night = Selection(quiet=parse_quiet_hours("22:00-07:00", "UTC"))
    t_s = at("2026-03-02 23:30")

    assert night.due_s(message(severity=Severity.FAULT), t_s) == t_s
    assert night.due_s(message(), t_s) == at("2026-03-03 07:00")
    assert night.due_s(message(), at("2026-03-03 06:59")) == at("2026-03-03 07:00")
    assert night.due_s(message(), at("2026-03-03 07:00")) == at("2026-03-03 07:00")
    assert night.due_s(message(), at("2026-03-03 12:00")) == at("2026-03-03 12:00")


def test_quiet_hours_follow_the_clocks_of_their_zone() -> None:
    quiet = parse_quiet_hours("22:00-07:00", "Europe/Berlin")

    summer = quiet.until_s(at("2026-03-29 01:00", "Europe/Berlin"))  # clocks go ahead at 2:00

    assert summer == at("2026-03-29 07:00", "Europe/Berlin")


def test_a_digest_waits_and_then_for_the_end_of_quiet_hours() -> None:
    digest = Selection(digest_s=3600, quiet=parse_quiet_hours("22:00-07:00", "UTC"))

    assert digest.due_s(message(), at("2026-03-02 12:00")) == at("2026-03-02 13:00")
    assert digest.due_s(message(), at("2026-03-02 21:30")) == at("2026-03-03 07:00")


@pytest.mark.parametrize("text", ["22:00", "22-7-9", "25:00-07:00", "", "07:00-07:00"])
def test_hours_of_another_form_are_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form|begins when it ends"):
        parse_quiet_hours(text, "UTC")


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="'Mars/North' is no time zone"):
        parse_quiet_hours("22:00-07:00", "Mars/North")


@given(st.integers(0, 400 * 86400), st.integers(0, 1439), st.integers(1, 1439))
def test_a_moment_in_quiet_hours_always_has_an_end_within_a_day(
    offset: int, begin: int, length: int
) -> None:
    end = (begin + length) % 1440
    text = f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
    quiet = parse_quiet_hours(text, "UTC")
    t_s = T_S + offset

    until_s = quiet.until_s(t_s)

    minute = datetime.fromtimestamp(t_s, tz=UTC)
    inside = (minute.hour * 60 + minute.minute - begin) % 1440 < length
    assert (until_s is not None) is inside
    assert until_s is None or (t_s < until_s <= t_s + 86400 and quiet.until_s(until_s) is None)
