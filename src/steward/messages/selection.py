"""Who gets which message, and when: filters, quiet hours, digests, repeats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase
from zoneinfo import ZoneInfo

from steward.model.finding import Severity
from steward.model.message import Message

__all__ = ["QuietHours", "Selection", "parse_quiet_hours"]

_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A stretch of each day in which only faults are sent; it may go over midnight."""

    begin: time
    end: time
    zone: ZoneInfo

    def until_s(self, t_s: float) -> float | None:
        """Return when the quiet hours at `t_s` end, None outside of them."""
        now = datetime.fromtimestamp(t_s, tz=self.zone)
        for day in (now.date() - timedelta(days=1), now.date()):
            begin = datetime.combine(day, self.begin, tzinfo=self.zone)
            last = day if self.end > self.begin else day + timedelta(days=1)
            end = datetime.combine(last, self.end, tzinfo=self.zone)
            # As moments: on the days when clocks change, wall times may be out of order.
            if begin.timestamp() <= t_s < end.timestamp():
                return end.timestamp()
        return None


def parse_quiet_hours(text: str, zone: str) -> QuietHours:
    """Read `22:00-07:00`. Raises `ValueError` with what is wrong."""
    begin, dash, end = text.partition("-")
    try:
        if not dash:
            raise ValueError
        first, last = time.fromisoformat(begin.strip()), time.fromisoformat(end.strip())
    except ValueError:
        message = f"'{text}' is not of the form HH:MM-HH:MM"
        raise ValueError(message) from None
    if first == last:
        message = f"'{text}' begins when it ends: that would be never, or always"
        raise ValueError(message)
    try:
        where = ZoneInfo(zone)
    except (KeyError, OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
        message = f"'{zone}' is no time zone; write one as Europe/Berlin or UTC"
        raise ValueError(message) from None
    return QuietHours(begin=first, end=last, zone=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one receiver gets. Empty filters let all pass; names may hold `*`."""

    kinds: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    least: Severity = Severity.NOTE
    quiet: QuietHours | None = None
    digest_s: float = 0.0  # collect for so long and send as one; 0: each at once
    repeat_after_s: float = 3600.0  # the same thing is not sent again before

    def takes(self, message: Message) -> bool:
        """Return whether a message is for this receiver."""
        if message.kind == "test":
            return True
        return (
            (not self.kinds or message.kind in self.kinds)
            and _RANK[message.severity] >= _RANK[self.least]
            and _matches(self.tenants, message.tenant or "")
            and _matches(self.users, message.user)
        )

    def due_s(self, message: Message, t_s: float) -> float:
        """Return when a message may be sent. Faults and tests wait for nobody."""
        if message.severity is Severity.FAULT or message.kind == "test":
            return t_s
        due_s = t_s + self.digest_s
        ends_s = self.quiet.until_s(due_s) if self.quiet is not None else None
        return due_s if ends_s is None else ends_s


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
