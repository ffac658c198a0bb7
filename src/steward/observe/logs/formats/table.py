"""All formats that are tried, in this order.

`preq` is what preq reads, with its precision: most of its patterns end early, so that digits and
zones that follow are not looked at. `strict` reads all digits and zones, and has formats of its
own: those of machines that train and serve models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from steward.observe.logs.formats.template import Template

__all__ = ["PREQ", "STRICT", "Format"]

_CLOCK = "%H:%M:%S"
_RFC3339 = f"%Y-%m-%dT{_CLOCK}%F%z"
_ISO = f"%Y-%m-%d {_CLOCK}"
_FULL = f"{_ISO}%F%Z"  # strict: all digits and the zone, if any
_LOOSE_RFC = f"%Y-%m-%dT{_CLOCK}%F%Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format by its name. `packing` is set where the line is a parcel with the text inside."""

    name: str
    template: Template
    packing: str = ""  # docker, cri, journald

    @property
    def anchored(self) -> bool:
        """Whether the time must stand at the start of the line."""
        return not self.template.find and not self.packing


def _both(name: str, preq: str, strict: str, *, find: str = "") -> tuple[Format, Format]:
    return (
        Format(name=name, template=Template(text=preq, find=find)),
        Format(name=name, template=Template(text=strict, find=find, prefixed=not find)),
    )


def _ours(name: str, text: str, *, find: str = "", relative: bool = False) -> Format:
    template = Template(text=text, find=find, prefixed=not find, relative=relative)
    return Format(name=name, template=template)


# Tried first: they change what the text of an entry is. Their templates read the time alone.
_PARCELS = (
    Format(name="docker-json", template=Template(text=_RFC3339), packing="docker"),
    Format(name="cri", template=Template(text=_RFC3339), packing="cri"),
)
_AHEAD = Format(name="rfc3339-ahead", template=Template(text=f"{_RFC3339} %>"))
_JOURNALD = Format(name="journald-json", template=Template(text="%U"), packing="journald")

_JSON_RFC = f'%w:%w"{_RFC3339}"'
_JSON_LOOSE = f'%w:%w"{_LOOSE_RFC}"'
_SHARED = (
    _both("json-time-epoch", "%Q", "%Q", find='"time":'),
    _both("rfc3339", _RFC3339, _LOOSE_RFC),
    _both("iso-comma-5", f"{_ISO},%5", _FULL),
    _both("iso-micros-zone", f"{_ISO}.%6%o", _FULL),
    _both("iso-millis", f"{_ISO}.%3", _FULL),
    _both("iso", _ISO, _FULL),
    _both("syslog-micros", f"%b %e {_CLOCK}.%6", f"%b %e {_CLOCK}%F"),
    _both("syslog", f"%b %e {_CLOCK}", f"%b %e {_CLOCK}%F"),
    _both("klog", f"%[IWEF]%m%d {_CLOCK}.%6", f"%[DIWEFC]%m%d {_CLOCK}%F"),
    _both("bracketed", f"[{_ISO},%3]", f"%w[{_FULL}]"),
    _both("slashes", f"%Y/%m/%d {_CLOCK}", f"%Y/%m/%d {_CLOCK}%F%Z"),
    _both("us-comma", f"%m/%d/%Y, {_CLOCK}", f"%m/%d/%Y, {_CLOCK}%F"),
    _both("day-month-year", f"%d %b %Y {_CLOCK}.%3", f"%d %b %Y {_CLOCK}%F%Z"),
    _both("year-month-day", f"%Y %b %d {_CLOCK}.%3", f"%Y %b %d {_CLOCK}%F%Z"),
    _both("apache-millis", f"%d/%b/%Y:{_CLOCK}.%3", f"%d/%b/%Y:{_CLOCK}%F%Z"),
    _both("us-half-day", f"%m/%d/%Y {_CLOCK} %p", "%k/%e/%Y %I:%M:%S%F %p"),
    _both("year-month-day-s", f"%Y %b %d {_CLOCK}", f"%Y %b %d {_CLOCK}%F%Z"),
    _both("json-timestamp", _JSON_RFC, _JSON_LOOSE, find='"timestamp"'),
    _both("json-ts", _JSON_RFC, _JSON_LOOSE, find='"ts"'),
    _both("nats", f"[%n]%W%Y/%m/%d {_CLOCK}.%6", f"[%n]%W%Y/%m/%d {_CLOCK}%F"),
    _both("json-creation", _JSON_RFC, _JSON_LOOSE, find='"creationTimestamp"'),
    # Patterns are trimmed, but `\t` at the end of one is not trimmed.
    _both("zap-console", f"%Y-%m-%dT{_CLOCK}.%3%o\t", _LOOSE_RFC),
    _both("zap-json", "%w:%w%s", "%w:%w%s", find='"ts"'),
    _both("logfmt-ts", f"%Y-%m-%dT{_CLOCK}.%9Z", _LOOSE_RFC, find="ts="),
    _both(
        "json-timestamp-micros", f'%w:%w"%Y-%m-%dT{_CLOCK}.%6Z"', _JSON_LOOSE, find='"timestamp"'
    ),
    _both("windows-date", "%A)", "%A)", find="/Date("),
    _both("logfmt-time", f'{_RFC3339}"', f'{_LOOSE_RFC}"', find='time="'),
)

_OURS = (
    _JOURNALD,
    _ours("vllm", f"%[DIWEC]%x %m-%d {_CLOCK}%F"),
    _ours("vllm-process", f"(%u) %[DIWEC]%x %m-%d {_CLOCK}%F"),
    _ours("slurm", f"[{_LOOSE_RFC}]"),
    _ours("ctime-bracketed", f"[%a %b %e {_CLOCK}%F %Y]"),
    _ours("ctime", f"%a %b %e {_CLOCK}%F %Y"),
    _ours("ctime-zone", f"%a %b %e {_CLOCK}%F %x %Y"),
    _ours("ctime-no-year", f"%a %b %e {_CLOCK}%F"),
    _ours("glog-year", f"%[DIWEFC]%Y%m%d {_CLOCK}%F"),
    _ours("rfc5424", f"<%n>%n {_LOOSE_RFC}"),
    _ours("syslog-priority", f"<%n>%b %e {_CLOCK}%F"),
    _ours("level-first", f"%x%W{_FULL}"),
    _ours("level-first-t", f"%x%W{_LOOSE_RFC}"),
    _ours("level-first-bar", f"%x%W|%w{_FULL}"),
    _ours("bracket-first", f"[%u]%W{_FULL}"),
    _ours("cassandra", f"%x%W[%u]%W{_FULL}"),
    _ours("redis", f"%n:%[MSCX] %d %b %Y {_CLOCK}%F"),
    _ours("tomcat", f"%d-%b-%Y {_CLOCK}%F"),
    _ours("java", "%b %e, %Y %I:%M:%S%F %p"),
    _ours("spark", f"%y/%m/%d {_CLOCK}%F"),
    _ours("mysql-5", "%y%m%d %I:%M:%S%D"),
    _ours("rabbitmq-3", f"=%x REPORT==== %e-%b-%Y::{_CLOCK}"),
    _ours("mail", f"%a, %e %b %Y {_CLOCK}%F%Z"),
    _ours("dots", f"%e.%m.%Y {_CLOCK}%F"),
    _ours("iso-dashed", f"%Y-%m-%d%[-_]{_CLOCK}%F%Z"),
    _ours("compact", f"%Y%m%d%[ -]{_CLOCK}%F%Z"),
    _ours("compact-t", "%Y%m%dT%H%M%S%F%Z"),
    _ours("json-time", _JSON_LOOSE, find='"time"'),
    _ours("json-at-timestamp", _JSON_LOOSE, find='"@timestamp"'),
    _ours("json-asctime", f'%w:%w"{_FULL}"', find='"asctime"'),
    _ours("json-timestamp-epoch", "%w:%w%s", find='"timestamp"'),
    _ours("json-time-number", "%w:%w%s", find='"time"'),
    _ours("json-date", _JSON_LOOSE, find='"$date"'),
    _ours("logfmt-t", _LOOSE_RFC, find="t="),
    _ours("logfmt-time-bare", _LOOSE_RFC, find="time="),
    _ours("access-log", f"%d/%b/%Y:{_CLOCK}%F%Z]", find="["),
    _ours("dmesg", "[%w%r]", relative=True),
    _ours("dmesg-priority", "<%n>[%w%r]", relative=True),
    _ours("epoch", "%E"),
    _ours("epoch-bracketed", "[%E]"),
    # Better than none: times of one day can be compared. What comes after midnight is late.
    _ours("clock", f"{_CLOCK}%F", relative=True),
    _ours("clock-bracketed", f"[{_CLOCK}%F]", relative=True),
)

# With all digits and zones read, several of preq's formats are the same one: its plainest name.
_PLAINER = {"iso-comma-5": "iso", "syslog-micros": "syslog"}


def _distinct(formats: tuple[Format, ...]) -> tuple[Format, ...]:
    first: dict[Template, Format] = {}
    for each in formats:
        name = _PLAINER.get(each.name, each.name)
        first.setdefault(each.template, replace(each, name=name))
    return tuple(first.values())


PREQ = (*_PARCELS, _AHEAD, *(preq for preq, _ in _SHARED))
STRICT = (*_PARCELS, _AHEAD, *_distinct(tuple(strict for _, strict in _SHARED)), *_OURS)
