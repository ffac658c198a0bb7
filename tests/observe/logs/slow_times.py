"""A slow, obvious reader of times: templates as regular expressions, dates by `datetime`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from steward.observe.logs.formats.template import Template

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ANY_ZONE = r"(?P<zone> ?Z(?=[\x00- ]|$)|Z|[+-]\d\d:?\d\d|[+-]\d\d| [+-]\d\d:?\d\d(?!\d))?"
_CODES = {
    "Y": r"(?P<year>\d{4})", "y": r"(?P<short>\d\d)", "m": r"(?P<month>\d\d)",
    "d": r"(?P<day>\d\d)", "H": r"(?P<hour>\d\d)", "M": r"(?P<minute>\d\d)",
    "S": r"(?P<second>\d\d)", "e": r" ?(?P<day>\d\d?)", "I": r" ?(?P<hour>\d\d?)",
    "k": r" ?(?P<month>\d\d?)", "b": rf"(?P<name>(?i:{'|'.join(MONTHS)}))", "a": r"[A-Za-z]{3,}",
    "l": r"[A-Za-z]*", "p": r"(?P<half>[AaPp][Mm])", "F": r"(?:[.,](?P<fraction>\d+))?",
    "z": r"(?P<zone>Z|[+-]\d\d:\d\d)", "o": r"(?P<zone>[+-]\d{4})", "Z": _ANY_ZONE,
    "E": r"(?P<any>\d{10,19})(?:\.(?P<part>\d+))?",
    "s": r"(?P<any>\d{1,19})(?:\.(?P<part>\d+))?", "r": r"(?P<any>\d{1,19})\.(?P<part>\d+)",
    "A": r"(?P<any>\d{1,19})", "Q": r"(?P<any>\d{16,19})", "L": r"(?P<ms>\d{1,19})",
    "U": r"(?P<us>\d{1,19})", "N": r"(?P<ns>\d{1,19})", "n": r"\d+", "x": r"[^ \t]+",
    "w": r"[ \t]*", "W": r"[ \t]+", "D": r"(?!\d)", ">": r"(?P<text>)", "%": "%",
}  # fmt: skip
_PREFIX = re.compile(r"(?>(?:\x1b\[[\d;]*m)*)(?: {0,3}(?:\d+: |\[[^\]]{0,22}\d\](?:<[^>]*>)?: ?))?")
LAST_NS = 2**63 - 1


def pattern(text: str) -> re.Pattern[str]:
    """Translate a template; quantifiers do not give back, as the compiled reader does not."""
    out = ""
    for code, until, choice, digits, literal in re.findall(
        r"%([A-Za-z>%](?<!u))|%u(.)|%\[([^\]]*)\]|%(\d)|(.)", text, re.DOTALL
    ):
        if code:
            out += f"(?>{_CODES[code]})"
        elif until:
            out += f"[^{re.escape(until)}]*{re.escape(until)}"
        elif choice:
            out += f"[{re.escape(choice)}]"
        elif digits:
            out += rf"(?P<fraction>\d{{{digits}}})"
        else:
            out += re.escape(literal)
    return re.compile(out, re.ASCII | re.DOTALL)


def slow_time(line: str, template: Template, now_s: float, boot_ns: int = 0) -> int | None:
    at = 0
    if template.prefixed and (prefix := _PREFIX.match(line)):
        at = prefix.end()
    while True:
        if template.find:
            at = line.find(template.find, at)
            if at < 0:
                return None
            at += len(template.find)
        found = pattern(template.text).match(line, at)
        t_ns = _moment(found.groupdict(), now_s) if found else None
        if t_ns is not None:
            return (t_ns + boot_ns if template.relative else t_ns) or None
        if not template.find:
            return None


def _moment(message: dict[str, str | None], now_s: float) -> int | None:
    for name, unit in (("ms", 10**6), ("us", 10**3), ("ns", 1)):
        if message.get(name):
            return _bounded(int(str(message[name])) * unit)
    if message.get("any"):
        return _epoch(int(str(message["any"])), message.get("part"))
    if not message.keys() & {"name", "month"}:
        return _in_year({**message, "month": "1", "day": "1"}, 1970)
    limit = datetime.fromtimestamp(int(now_s), UTC) + timedelta(days=7)
    if message.get("year") or message.get("short"):
        return _in_year(message, _year(message))
    this = _in_year(message, limit.year)
    late = this is not None and this > int(limit.timestamp()) * 10**9
    return _in_year(message, limit.year - 1) if this is None or late else this


def _bounded(t_ns: int) -> int | None:
    return t_ns if t_ns <= LAST_NS else None


def _epoch(value: int, part: str | None) -> int | None:
    if value > LAST_NS:
        return None
    if part is not None:
        return value * 10**9 + int(part[:9].ljust(9, "0")) if value <= 9_223_372_035 else None
    unit = 10**9
    while unit > 1 and value >= 9_223_372_036 * (10**9 // unit):
        unit //= 1000
    return _bounded(value * unit)


def _year(message: dict[str, str | None]) -> int:
    if message.get("year"):
        return int(str(message["year"]))
    short = int(str(message["short"]))
    return short + (1900 if short >= 69 else 2000)


def _in_year(message: dict[str, str | None], year: int) -> int | None:
    name = message.get("name")
    month = MONTHS.index(name.lower()) + 1 if name else int(message.get("month") or 0)
    hour = int(message.get("hour") or 0)
    if message.get("half"):
        if hour > 12:
            return None
        hour = hour % 12 + 12 * (str(message["half"]).lower() == "pm")
    if not 1678 <= year <= 2261:
        return None
    try:
        clock = (hour, int(message.get("minute") or 0), int(message.get("second") or 0))
        day = datetime(year, month, int(message.get("day") or 0), *clock, tzinfo=UTC)
    except ValueError:
        return None
    fraction = int((message.get("fraction") or "")[:9].ljust(9, "0"))
    return (int(day.timestamp()) - _zone_s(message.get("zone"))) * 10**9 + fraction


def _zone_s(zone: str | None) -> int:
    digits = re.sub(r"[^0-9]", "", zone or "")
    if not digits:
        return 0
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return minutes * (-60 if "-" in str(zone) else 60)
