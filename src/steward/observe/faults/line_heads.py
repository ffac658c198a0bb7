"""What stands before the text of a kernel line: time, host, and the kernel's own stamp."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isnan, nan

import numpy as np

from steward.clients.logs.stamps import iso_s, stamp_s
from steward.model.rules import Mode, syslog_host
from steward.observe.logs.formats import NO_TIME, Detected, LineTimes, Years, detect

__all__ = ["Head", "read_heads"]

_KERNEL_STAMP = re.compile(r"\[\s*(\d+\.\d{3,9})\]")
_ISO_INSIDE = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)")
_HEAD_LETTERS = 120  # what stands before the text is not longer
_SAMPLE_LINES = 200
_WEEK_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The beginning of one line. `text` is all of it, out of its parcel if it was in one."""

    text: str
    t_s: float = nan
    host: str = ""
    kernel_stamp: str = ""  # seconds since the machine started, as the kernel printed them


def read_heads(lines: Sequence[bytes], *, now_s: float) -> list[Head]:
    """Return the heads of lines of one file, in order.

    Lines that only have the kernel's stamp get a time from those of their host that have both.
    Where no line of the file has a time, the stamp is the time: seconds since the start.
    """
    if not lines:
        return []
    years = Years(now_s=now_s)
    sample = b"\n".join(lines[:_SAMPLE_LINES]) + b"\n"
    detected = detect(sample, mode=Mode.STRICT, years=years)
    if detected.packing:
        return [_unpacked(line, detected.packing) for line in lines]
    times_s = _times(lines, detected, years)
    return _placed([_head(line, t_s, now_s) for line, t_s in zip(lines, times_s, strict=True)])


def _head(line: bytes, t_s: float, now_s: float) -> Head:
    text = line.decode("utf-8", "replace")
    front = text[:_HEAD_LETTERS]
    stamp = _KERNEL_STAMP.search(front)
    if isnan(t_s):
        t_s = _or_nan(stamp_s(front, now_s))
    if isnan(t_s):  # where the time stands further inside, as some systems write it
        inside = _ISO_INSIDE.search(front)
        t_s = _or_nan(iso_s(inside[1])) if inside else nan
    return Head(text=text, t_s=t_s, host=syslog_host(line), kernel_stamp=stamp[1] if stamp else "")


def _placed(heads: list[Head]) -> list[Head]:
    """Give times to lines that only have the kernel's stamp."""
    started_s: dict[str, float] = {}
    for each in heads:
        if each.kernel_stamp and not isnan(each.t_s):
            started_s[each.host] = each.t_s - float(each.kernel_stamp)
    none_has_time = all(isnan(each.t_s) for each in heads)
    return [
        replace(each, t_s=started_s.get(each.host, 0.0) + float(each.kernel_stamp))
        if isnan(each.t_s) and each.kernel_stamp and (none_has_time or each.host in started_s)
        else each
        for each in heads
    ]


def _times(lines: Sequence[bytes], detected: Detected, years: Years) -> list[float]:
    templates = [each.template for each in detected.formats if not each.template.relative]
    if not templates:
        return [nan] * len(lines)
    lengths = np.array([len(line) for line in lines], np.int64)
    start = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]).astype(np.int64)
    buffer = np.frombuffer(b"\n".join(lines) + b"\n", np.uint8)
    t_ns = LineTimes.read((buffer, start, start + lengths), templates, years).t_ns
    times_s = [nan if t == NO_TIME else t / 1e9 for t in t_ns.tolist()]
    if all(_has_no_year(each.text) for each in templates):
        _set_years(times_s)
    return times_s


def _has_no_year(template: str) -> bool:
    return "%b" in template and "%Y" not in template and "%y" not in template


def _set_years(times_s: list[float]) -> None:
    """Take a year from those before a line that is earlier: logs are written in order."""
    later_s = nan
    for i in range(len(times_s) - 1, -1, -1):
        if times_s[i] > later_s + _WEEK_S:
            times_s[i] = _year_before(times_s[i])
        if not isnan(times_s[i]):
            later_s = times_s[i]


def _year_before(t_s: float) -> float:
    then = datetime.fromtimestamp(t_s, UTC)
    if (then.month, then.day) == (2, 29):  # there is none a year before
        return t_s - 366 * 86_400.0
    return then.replace(year=then.year - 1).timestamp()


def _unpacked(line: bytes, packing: str) -> Head:
    """Read a line of journald's JSON, or of a container's log."""
    if packing == "cri":
        stamp, _, rest = line.decode("utf-8", "replace").partition(" ")
        return Head(text=rest, t_s=_or_nan(iso_s(stamp)))
    record = _record(line)
    if packing == "docker":
        return Head(text=str(record.get("log", "")), t_s=_or_nan(iso_s(str(record.get("time")))))
    written = str(record.get("__REALTIME_TIMESTAMP", ""))
    return Head(
        text=str(record.get("MESSAGE", "")),
        t_s=int(written) / 1e6 if written.isdecimal() else nan,
        host=str(record.get("_HOSTNAME", "")),
    )


def _record(line: bytes) -> Mapping[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _or_nan(t_s: float | None) -> float:
    return nan if t_s is None else t_s
