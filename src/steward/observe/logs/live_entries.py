"""Makes of followed lines the entries that reading the same file would give.

Collectors hand on single lines, so that an agent needs no compiled parser (130 MB of memory). Here,
in the server, lines of files go through the parser that reads files: the same formats of times, and
lines of a traceback in one entry. So rules see the same entries live and over a file. In a file
with lines of several hosts, each line is its own host's.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from steward.model.event import LogLine
from steward.model.rules import LogBlock, Stream, syslog_host
from steward.observe.logs.counts import ReadCounts
from steward.observe.logs.entries import Entries, Reading
from steward.observe.logs.formats import Years

__all__ = ["LiveEntries"]

_STREAMS = 5000  # files whose format is remembered; the least recently used is detected again
_GAP_LINES = 100  # blank lines between two; where there are more, lines were left out
_FIRST_S = 1e9  # times before 2001 count from the start of a machine, or of a day
_AHEAD_S = 86400.0  # a clock may be wrong by a time zone; a line from next week is not a time
_NS_PER_S = 1_000_000_000


class LiveEntries:
    """The files that lines came from, each with its format. Other lines are left as they are."""

    def __init__(self, reading: Reading | None = None) -> None:
        self._reading = reading or Reading()
        self._files: OrderedDict[tuple[str, str], _File] = OrderedDict()

    def join(self, lines: Sequence[LogLine]) -> tuple[LogLine, ...]:
        """Return the entries of lines in their order; those of one file stay together."""
        joined: list[LogLine] = []
        ordered = sorted(lines, key=_file_of) if any(map(_is_of_file, lines)) else lines
        for key, group in groupby(ordered, key=_file_of):
            own = list(group)
            joined += own if key == _NO_FILE else self._entries(key, own)
        return tuple(joined)

    def _entries(self, key: tuple[str, str], lines: list[LogLine]) -> list[LogLine]:
        file = self._file(key)
        file.entries.arrival_ns = int(lines[0].t_s * _NS_PER_S)
        data, numbered = _as_written(lines)
        file.entries.begin_at(1)
        block = file.entries.take(data, final=True, where=key[0])
        return [] if block is None else file.attributed(block, _lines_of(block, numbered))

    def _file(self, key: tuple[str, str]) -> _File:
        known = self._files.pop(key, None)
        if known is None:
            years = Years(now_s=self._reading.now_s or time.time(), boot_ns=self._reading.boot_ns)
            known = _File(Entries(self._reading, years, Stream(name=key[0]), ReadCounts()))
        self._files[key] = known
        if len(self._files) > _STREAMS:
            self._files.popitem(last=False)
        return known


@dataclass(slots=True)
class _File:
    """The reader of one file, and which hosts its lines have named: one, or more."""

    entries: Entries
    host: str = ""
    is_merged: bool = False

    def attributed(self, block: LogBlock, lines: list[LogLine]) -> list[LogLine]:
        """Return the lines, each of its own host where the file has lines of several."""
        hosts = [syslog_host(each.text.encode(), time_removed=block.time_removed) for each in lines]
        for host in hosts:
            self.host = self.host or host
            self.is_merged = self.is_merged or bool(host and host != self.host)
        if not self.is_merged:
            return lines
        own = zip(lines, hosts, strict=True)
        return [replace(line, entity=host) if host else line for line, host in own]


_NO_FILE = ("", "")


def _is_of_file(line: LogLine) -> bool:
    return line.source.startswith("/")


def _file_of(line: LogLine) -> tuple[str, str]:
    return (line.source, line.entity) if _is_of_file(line) else _NO_FILE


def _as_written(lines: Sequence[LogLine]) -> tuple[bytes, list[LogLine]]:
    """Return the lines as bytes, with the blank ones between them, and whose line each one is."""
    texts: list[str] = []
    whose: list[LogLine] = []
    last = 0
    for line in lines:
        gap = min(max(line.number - last - 1, 0), _GAP_LINES) if last else 0
        texts += [""] * gap
        whose += [line] * gap
        parts = line.text.split("\n")
        texts += parts
        whose += [line] * len(parts)
        last = line.number
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "replace"), whose


def _lines_of(block: LogBlock, numbered: Sequence[LogLine]) -> list[LogLine]:
    made: list[LogLine] = []
    for entry, (at, t_ns) in enumerate(zip(block.line.tolist(), block.t_ns.tolist(), strict=True)):
        first = numbered[at - 1]
        t_s = t_ns / _NS_PER_S
        plausible = _FIRST_S < t_s <= first.t_s + _AHEAD_S
        made.append(
            replace(
                first,
                t_s=t_s if plausible else first.t_s,
                text=block.text(entry).decode("utf-8", "replace"),
            )
        )
    return made
