"""Stretches of time in questions: the last 6 hours, yesterday, this week, in 2019."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["Window", "find_window"]

_NUMBERS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "twelve": 12, "couple of": 2, "few": 3,
}  # fmt: skip
_UNITS = {
    "min": 60, "mins": 60, "minute": 60, "minutes": 60, "h": 3600, "hr": 3600, "hrs": 3600,
    "hour": 3600, "hours": 3600, "d": 86_400, "day": 86_400, "days": 86_400, "week": 604_800,
    "weeks": 604_800, "w": 604_800, "month": 2_592_000, "months": 2_592_000, "year": 31_536_000,
    "years": 31_536_000, "night": 43_200,
}  # fmt: skip
_COUNT = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_LAST = re.compile(
    rf"\b(?:over |in |during |for |of |within |from )?(?:the )?(?:last|past|previous|recent)\s+"
    rf"(?:(\d{{1,4}}|{_COUNT})\s*)?({_UNIT})\b"
)
_SINCE = re.compile(rf"\b(\d{{1,4}})\s*({_UNIT}) ago\b")
_BARE = re.compile(rf"\b(?:over|in|within|for) (?:the )?(\d{{1,4}})\s*({_UNIT})\b")
_DAY = re.compile(r"\b(today|tonight|this morning|yesterday|this week|this month|this year)\b")
_YEAR = re.compile(r"\bin (?:the year )?((?:19|20|21)\d\d)\b")
_DATE = re.compile(r"\b(?:on )?((?:19|20|21)\d\d)-(\d\d)-(\d\d)\b")
_FUTURE = re.compile(r"\b(tomorrow|next (?:hour|day|week|month|year)|in the future|soon enough)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time that a question names; `text` is the question without it."""

    text: str
    from_s: float | None = None
    to_s: float | None = None
    is_future: bool = False


def find_window(text: str, now_s: float) -> Window:
    """Return the time that a question names, if it names one.

    >>> found = find_window("any faults in the last 2 hours?", 10_000.0)
    >>> found.from_s, found.text
    (2800.0, 'any faults  ?')
    """
    if (future := _FUTURE.search(text)) is not None:
        return Window(text=_cut(text, future), is_future=True)
    for pattern in (_LAST, _SINCE, _BARE):
        if (found := pattern.search(text)) is not None:
            seconds = _count(found[1]) * _UNITS[found[2]]
            return Window(text=_cut(text, found), from_s=now_s - seconds, to_s=now_s)
    if (found := _DAY.search(text)) is not None:
        from_s, to_s = _named(found[1], now_s)
        return Window(text=_cut(text, found), from_s=from_s, to_s=to_s)
    return _dated(text)


def _dated(text: str) -> Window:
    if (found := _DATE.search(text)) is not None:
        try:
            day = datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
        except ValueError:
            return Window(text=text)
        return _from(text, found, day, day + timedelta(days=1))
    if (found := _YEAR.search(text)) is not None:
        year = int(found[1])
        return _from(
            text, found, datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
        )
    return Window(text=text)


def _from(text: str, found: re.Match[str], start: datetime, end: datetime) -> Window:
    return Window(text=_cut(text, found), from_s=start.timestamp(), to_s=end.timestamp())


def _cut(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]} {text[found.end() :]}"


def _count(text: str | None) -> int:
    if not text:
        return 1
    return int(text) if text.isdecimal() else _NUMBERS[text]


def _named(word: str, now_s: float) -> tuple[float, float]:
    now = datetime.fromtimestamp(now_s, UTC)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    starts = {
        "today": day,
        "tonight": day,
        "this morning": day,
        "yesterday": day - timedelta(days=1),
        "this week": day - timedelta(days=day.weekday()),
        "this month": day.replace(day=1),
        "this year": day.replace(month=1, day=1),
    }
    end = day if word == "yesterday" else now
    return starts[word].timestamp(), end.timestamp()
