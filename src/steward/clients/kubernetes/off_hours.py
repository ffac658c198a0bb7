"""Windows of the week in which other settings hold: pure, from a time zone and an instant.

`from` and `to` are times of the wall clock there. Of an hour that occurs twice, the first is meant;
a time that is skipped counts an hour later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from steward.clients.kubernetes.objects import maps_in

__all__ = ["DAYS", "TIME", "TIME_OR_MIDNIGHT", "OffHours", "WeekWindow", "off_hours_from"]

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"
TIME_OR_MIDNIGHT = f"({TIME}|24:00)"
_WEEK_DAYS = 8  # from today: one more than a week, for a window that has begun today
_DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekWindow:
    """From a time of day to another, over midnight where that is earlier; `days` it begins on."""

    days: frozenset[str]
    from_s: int  # since midnight, by the wall clock
    to_s: int

    def on(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime] | None:
        """Return when the window of a day begins and ends; None where it has none."""
        if DAYS[day.weekday()] not in self.days:
            return None
        end_s = self.to_s if self.to_s > self.from_s else self.to_s + _DAY_S
        begin, end = _instant(day, self.from_s, zone), _instant(day, end_s, zone)
        return (begin, end) if begin < end else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffHours:
    """Windows in a time zone. One that is not known has no windows: `fault` names it."""

    zone: ZoneInfo | None
    windows: tuple[WeekWindow, ...]
    fault: str = ""

    def hold(self, t_s: float) -> bool:
        """Return whether an instant is in one of them: asked for each policy at each look."""
        now = datetime.fromtimestamp(t_s, UTC)
        return any(begin <= now < end for begin, end in self._around(now, days=1))

    def until(self, t_s: float) -> datetime | None:
        """Return when the windows around an instant end; None outside of all."""
        now = end = datetime.fromtimestamp(t_s, UTC)
        for begin, until in self._around(now):
            if begin <= end < until:  # also one that begins where another ends
                end = until
        return end if end > now else None

    def begins(self, t_s: float) -> datetime | None:
        """Return when the next window begins; None: never."""
        now = datetime.fromtimestamp(t_s, UTC)
        return next((begin for begin, _ in self._around(now) if begin > now), None)

    def _around(self, now: datetime, days: int = _WEEK_DAYS) -> Iterator[tuple[datetime, datetime]]:
        """Yield the windows of yesterday and so many days from today, in their order."""
        if self.zone is None:
            return
        today = now.astimezone(self.zone).date()
        dates = [today + timedelta(days=shift) for shift in range(-1, days)]
        found = [window.on(day, self.zone) for day in dates for window in self.windows]
        yield from sorted(each for each in found if each is not None)


def off_hours_from(raw: Mapping[str, Any]) -> OffHours:
    """Read windows. What is no time or day, which the server refuses, makes no window."""
    name = str(raw.get("timeZone") or "UTC")
    windows = tuple(window for each in maps_in(raw, "windows") if (window := _window(each)))
    try:
        return OffHours(zone=ZoneInfo(name), windows=windows)
    except (LookupError, ValueError, OSError):
        return OffHours(zone=None, windows=windows, fault=f"there is no time zone '{name}' here")


def _window(raw: Mapping[str, Any]) -> WeekWindow | None:
    begin, end = str(raw.get("from") or ""), str(raw.get("to") or "")
    if not re.fullmatch(TIME, begin) or not re.fullmatch(TIME_OR_MIDNIGHT, end) or begin == end:
        return None
    days = raw.get("days")
    chosen = frozenset(map(str, days)) if isinstance(days, list) else frozenset(DAYS)
    return WeekWindow(days=chosen, from_s=_seconds(begin), to_s=_seconds(end))


def _seconds(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 3600 + int(minutes) * 60


def _instant(day: date, seconds: int, zone: ZoneInfo) -> datetime:
    days, rest = divmod(seconds, _DAY_S)
    clock = datetime.combine(day + timedelta(days=days), time(), zone) + timedelta(seconds=rest)
    return clock.astimezone(UTC)
