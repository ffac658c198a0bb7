"""Finds out which format a file has, from how it begins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steward.model.rules import Mode
from steward.observe.logs.formats.line_times import NO_TIME, LineTimes, Years
from steward.observe.logs.formats.table import PREQ, STRICT, Format

__all__ = ["SAMPLE_BYTES", "Detected", "detect"]

SAMPLE_BYTES = 16 * 1024
_SKIP = 50  # lines without a time that may stand before the first one with one
_LONGEST_FIRST = 2**20
_MOST = 4  # formats that one file may have
_FEW = 2  # lines that a further format must read, so that chance is not one
_FEW_SHARE = 0.02
_MANY = 64  # lines; fewer may be one message
_CONTINUED = (b" ", b"\t", b"}", b")")
_BARE = ("epoch", "clock")  # nothing but digits: other things are written so, too
_PARTIAL = re.compile(rb"\S+ (?:stdout|stderr) \S+ ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """What a file's lines look like: formats to be tried in this order. Without any: no times."""

    formats: tuple[Format, ...]
    lines: int  # that were looked at
    read: int  # of these, how many have a time
    loose: bool = False  # the others are no continuation lines: they are prints

    @property
    def name(self) -> str:
        """The format's display name."""
        return "+".join(each.name for each in self.formats) or "none"

    @property
    def removes_time(self) -> bool:
        """Whether the text of an entry begins after its time."""
        return any("%>" in each.template.text for each in self.formats)

    @property
    def packing(self) -> str:
        """The container format around lines, if any."""
        return self.formats[0].packing if self.formats else ""


def detect(sample: bytes, *, mode: Mode, years: Years, skip: int = _SKIP) -> Detected:
    """Look at the first 16 KiB of a file, and name its format.

    `preq` takes the first pattern of its list that fits one of the first 51 lines, whatever the
    others are. `strict` takes what reads most lines, at a tie the first of the list; lines that it
    cannot read are given to further formats, since training jobs write in several.
    """
    if mode is Mode.PREQ:
        return _detect_compat(sample[:SAMPLE_BYTES], years, skip)
    first = sample.find(b"\n", 0, _LONGEST_FIRST) + 1  # Docker's first line may be longer
    return _detect_strict(sample[: max(SAMPLE_BYTES, first)], years)


def _detect_compat(sample: bytes, years: Years, skip: int) -> Detected:
    raw = [line.removesuffix(b"\r") for line in sample.split(b"\n")[: skip + 1]]
    first = raw[:1] if b"\n" in sample else []
    for each in PREQ:
        ahead = each.packing or each.name == "rfc3339-ahead"
        fits = _fits(each, first if ahead else raw, years)
        if fits.any():
            return Detected(formats=(each,), lines=len(raw), read=int(fits.sum()))
    return Detected(formats=(), lines=len(raw), read=0)


def _detect_strict(sample: bytes, years: Years) -> Detected:
    whole, _, rest = sample.rpartition(b"\n")
    raw = [line.removesuffix(b"\r") for line in (whole or rest).split(b"\n")]
    raw = [line for line in raw if line.strip()]
    if not raw:
        return Detected(formats=(), lines=0, read=0)
    fits = {each: _fits(each, raw, years) for each in STRICT}
    fits = {each: fit for each, fit in fits.items() if not _is_chance(each, fit)}
    chosen: list[Format] = []
    unread = np.ones(len(raw), np.bool_)
    while len(chosen) < _MOST:
        best = max(fits, key=lambda each: int((fits[each] & unread).sum()))
        count = int((fits[best] & unread).sum())
        if count == 0 or (chosen and count < max(_FEW, _FEW_SHARE * len(raw))):
            break
        chosen.append(best)
        unread &= ~fits[best]
        if best.packing or best.template.relative or not best.anchored:
            break
        fits = {each: fit for each, fit in fits.items() if _can_follow(each)}
    return Detected(
        formats=tuple(chosen),
        lines=len(raw),
        read=int((~unread).sum()),
        loose=_are_loose(raw, unread),
    )


def _are_loose(raw: Sequence[bytes], unread: NDArray[np.bool_]) -> bool:
    """Return whether lines without a time are entries of their own.

    They do where most are such lines, except in a few lines that all begin differently: those are
    rather a traceback, or the fields of something.
    """
    if 2 * int(unread.sum()) <= len(raw):
        return False
    prints = [line for line, alone in zip(raw, unread, strict=True) if alone]
    first_tokens = [line.split(None, 1)[0] for line in prints if line[:1] not in _CONTINUED]
    return len(raw) >= _MANY or len(set(first_tokens)) < len(first_tokens)


def _is_chance(each: Format, fit: NDArray[np.bool_]) -> bool:
    """Return whether what looks like a time is a number or a duration: most lines lack it."""
    return each.name.startswith(_BARE) and 2 * int(fit.sum()) < len(fit)


def _can_follow(each: Format) -> bool:
    """Return whether lines of another format may be among those of a first one.

    A number somewhere in a line, or seconds since the start of the machine, would only mislead.
    """
    return each.anchored and not each.template.relative and not each.name.startswith(_BARE)


def _fits(each: Format, raw: Sequence[bytes], years: Years) -> NDArray[np.bool_]:
    if each.packing:
        test = _PARCELS[each.packing]
        return np.array([test(line, each, years) for line in raw], np.bool_)
    return _read(raw, each, years)


def _read(raw: Sequence[bytes], each: Format, years: Years) -> NDArray[np.bool_]:
    if not raw:
        return np.zeros(0, np.bool_)
    buffer = np.frombuffer(b"\n".join(raw) + b"\n", np.uint8)
    lengths = np.array([len(line) for line in raw], np.int64)
    start = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]).astype(np.int64)
    times = LineTimes.read((buffer, start, start + lengths), (each.template,), years)
    return np.asarray(times.t_ns != NO_TIME)


def _is_docker(line: bytes, each: Format, years: Years) -> bool:
    record = _object(line)
    time = record.get("time")
    return (
        bool(record.get("log"))
        and isinstance(record["log"], str)
        and record.get("stream") in ("stdout", "stderr")
        and isinstance(time, str)
        and bool(_read([time.encode("utf-8", "replace")], each, years).all())
    )


def _is_journald(line: bytes, each: Format, years: Years) -> bool:
    time = _object(line).get("__REALTIME_TIMESTAMP")
    return isinstance(time, str) and bool(
        _read([time.encode("utf-8", "replace")], each, years).all()
    )


def _is_cri(line: bytes, each: Format, years: Years) -> bool:
    return bool(_PARTIAL.match(line)) and bool(_read([line.partition(b" ")[0]], each, years).all())


def _object(line: bytes) -> Mapping[str, object]:
    if not line.startswith(b"{"):
        return {}
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


_PARCELS: dict[str, Callable[[bytes, Format, Years], bool]] = {
    "docker": _is_docker,
    "cri": _is_cri,
    "journald": _is_journald,
}
