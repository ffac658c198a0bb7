"""Faults of a whole file, at the speed of a search for literals; only lines with one are parsed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from steward.model.faults import AnswerSpan, Fault, FaultKind, GpuSighting
from steward.observe.faults.forms import LITERALS, faults_of, identity_of
from steward.observe.faults.line_heads import Head, read_heads
from steward.observe.logs.sources import Source, as_utf8, pieces, where

__all__ = ["FaultLog", "read_faults"]

_SAMPLE_BYTES = 16 * 1024
_LONGEST = 64 * 1024  # of a line; what is longer is no line of a kernel
_SAME_S = 1.0  # lines of one switch within it are about one error


@dataclass(slots=True, kw_only=True)
class FaultLog:
    """What was read of one or several files."""

    faults: list[Fault] = field(default_factory=list)
    sightings: list[GpuSighting] = field(default_factory=list)  # which GPU was where
    answers: list[AnswerSpan] = field(default_factory=list)  # when nodes answered
    lines: int = 0
    bytes: int = 0
    repeated: int = 0  # lines that were dumped once more
    untimed: int = 0  # faults whose lines have no time
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    raw: bytes


def read_faults(source: Source, into: FaultLog, *, node: str = "", now_s: float) -> None:
    """Add what one file holds to a log. `node` is where lines are from that name no host.

    `now_s` is for times without a year: they lie at most a week ahead of it.
    """
    name = where(source)
    found = list(_lines(source, into))
    default = node or _node_of(source)
    heads = read_heads([each.raw for each in found], now_s=now_s)
    seen = _Seen()
    for line, head in zip(found, heads, strict=True):
        host = head.host or default
        if seen.is_repeated(line.raw, head, host):
            into.repeated += 1
            continue
        faults = faults_of(head.text)
        for fault in faults:
            placed = replace(fault, t_s=head.t_s, node=host, file=name, line=line.number)
            _add(into, placed)
        if not faults:
            _identify(into, head, host, seen)


def _add(log: FaultLog, fault: Fault) -> None:
    """Add a fault, or the further lines of one to it."""
    for place in range(len(log.faults) - 1, max(-1, len(log.faults) - 4), -1):
        joined = _joined(log.faults[place], fault)
        if joined is not None:
            log.faults[place] = joined
            return
    log.faults.append(fault)
    log.untimed += fault.t_s != fault.t_s


def _joined(first: Fault, more: Fault) -> Fault | None:
    """Return both as one where they are lines of the same error, None otherwise."""
    apart = abs(more.t_s - first.t_s) > _SAME_S  # False where a time is unknown
    if apart or (first.kind, first.node, first.file) != (more.kind, more.node, more.file):
        return None
    detail = {**more.detail, **first.detail}
    if first.kind is FaultKind.SXID and more.fatal is None:
        if (first.device, first.code) == (more.device, more.code):
            return replace(first, detail=detail)
    elif first.kind is FaultKind.PCIE and "report" in first.detail:
        same = first.detail["report"] == more.detail.get("report")
        if same and not (first.device and more.device):
            return replace(first, device=first.device or more.device, detail=detail)
    return None


def _identify(log: FaultLog, head: Head, host: str, seen: _Seen) -> None:
    said = identity_of(head.text)
    if said is None:
        return
    if said.bus:
        seen.bus, seen.uuid = said.bus, said.uuid
    if seen.bus:  # the serial number stands in the line after the place
        log.sightings.append(
            GpuSighting(node=host, slot=seen.bus, uuid=seen.uuid, serial=said.serial, t_s=head.t_s)
        )


class _Seen:
    """Tells lines that were dumped again from those that came again.

    Lines with the kernel's own stamp, in microseconds, are the same where it and the text are.
    Others are where the times went back before them: then a dump began anew.
    """

    def __init__(self) -> None:
        self.bus = self.uuid = ""
        self._stamped: set[int] = set()
        self._dumped: set[int] = set()
        self._dump: set[int] = set()
        self._last_s = float("-inf")

    def is_repeated(self, raw: bytes, head: Head, host: str) -> bool:
        """Return whether a line was read before, and remember it."""
        if head.kernel_stamp:
            key = hash((host, head.kernel_stamp, head.text))
            known = key in self._stamped
            self._stamped.add(key)
            return known
        if head.t_s != head.t_s:
            return False
        if head.t_s < self._last_s - _SAME_S:
            self._dumped |= self._dump
            self._dump = set()
        self._last_s = head.t_s
        key = hash(raw)
        self._dump.add(key)
        return key in self._dumped


def _node_of(source: Source) -> str:
    """Return a name for the node of a file whose lines name none: that of the file."""
    return source.name.partition(".")[0] if isinstance(source, Path) else "-"


def _lines(source: Source, log: FaultLog) -> Iterator[_Line]:
    """Yield the lines that hold a literal, with their numbers."""
    carry, number = b"", 1
    for piece in as_utf8(pieces(source, log.notes)):
        log.bytes += len(piece)
        data = carry + piece if carry else piece
        end = data.rfind(b"\n") + 1
        if not end and len(data) < _LONGEST:
            carry = data
            continue
        end = end or len(data)
        yield from _hits(data[:end] if end < len(data) else data, number)
        count = data.count(b"\n", 0, end)
        number, log.lines, carry = number + count, log.lines + count, data[end:]
    if carry:
        log.lines += 1
        yield from _hits(carry, number)


def _hits(data: bytes, number: int) -> Iterator[_Line]:
    counted = 0
    for start in _starts(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += data.count(b"\n", counted, start)
        counted = start
        yield _Line(number, data[start : min(end, start + _LONGEST)].rstrip(b"\r"))


def _starts(data: bytes) -> list[int]:
    """Return where the lines begin that hold one of the literals, each once, in order."""
    found: set[int] = set()
    for literal in LITERALS:
        at = data.find(literal)
        while at >= 0:
            found.add(data.rfind(b"\n", 0, at) + 1)
            end = data.find(b"\n", at)
            at = data.find(literal, end) if end >= 0 else -1
    return sorted(found)
