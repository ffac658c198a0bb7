"""Makes entries of the lines of one file: their times, and which lines belong together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.model.rules import LogBlock, Mode, Stream
from steward.observe.logs import line_kernels as kernels
from steward.observe.logs.container_formats import unpacked
from steward.observe.logs.counts import ReadCounts
from steward.observe.logs.formats import NO_TIME, Detected, LineTimes, Stamp, Years, detect
from steward.observe.logs.formats.codes import Ints, Octets
from steward.observe.logs.formats.detection import SAMPLE_BYTES

__all__ = ["Entries", "Reading"]

MIB = 2**20
_AGAIN_BYTES = 64 * 1024  # while no line has a time, look again after so many
_UNKNOWN = Detected(formats=(), lines=0, read=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How logs are read. What is not set is chosen by the mode."""

    mode: Mode = Mode.STRICT
    now_s: float = 0.0  # for times without a year; 0: the machine's clock
    boot_ns: int = 0  # when the machine started, for times that count from then
    window_ns: int | None = None  # entries are put in order within it; None: 5 s, `preq` 0
    skip: int = 50  # `preq`: lines without a time that may stand before the first one with one
    stamp: Stamp | None = None  # how the times of this source are written; None: found out
    block_bytes: int = MIB  # larger ones do not stay in a processor's cache
    longest_bytes: int = 4 * MIB  # of a line
    entry_bytes: int = 256 * 1024  # `strict`: an entry of several lines is not longer
    entry_lines: int = 1000
    held_bytes: int = 64 * MIB  # what may be kept back to put it in order

    @property
    def order_ns(self) -> int:
        """The window within which entries are put in order."""
        if self.window_ns is not None:
            return self.window_ns
        return 5_000_000_000 if self.mode is Mode.STRICT else 0


@dataclass(slots=True, kw_only=True, eq=False)
class _Cut:
    """Lines of a piece: bytes, where each begins and ends."""

    data: bytes
    start: Ints
    end: Ints
    octets: Octets = field(init=False)

    def __post_init__(self) -> None:
        self.octets = np.frombuffer(self.data, np.uint8)

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def of(cls, data: bytes) -> _Cut:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10).astype(np.int64)
        start = np.empty_like(ends)
        start[:1] = 0
        start[1:] = ends[:-1] + 1
        return cls(data=data, start=start, end=ends)


class Entries:
    """The entries of one file, taken in pieces of whole lines, wherever these are cut."""

    def __init__(self, reading: Reading, years: Years, stream: Stream, tally: ReadCounts) -> None:
        self.detected = _UNKNOWN
        self.arrival_ns: int | None = None  # live: when lines came, for those without a time
        self._reading, self._years, self._stream, self._tally = reading, years, stream, tally
        self._strict = reading.mode is Mode.STRICT
        self._carry = b""  # the last entry: lines that belong to it may follow
        self._line = 1  # number of the first line in `_carry`
        self._counted = 0  # lines of `_carry` that are counted already
        self._head = b""  # how it begins, until enough is known of that
        self._seen_bytes = self._looked_bytes = 0
        if reading.stamp is not None:
            tally.format = reading.stamp.name
        self._last_ns = NO_TIME
        self._newest_ns = NO_TIME

    def take(self, data: bytes, *, final: bool, where: str) -> LogBlock | None:
        """Return the entries that are whole; the last one waits for what follows, unless `final`.

        `data` ends in a line end, unless nothing follows.
        """
        self._look_again(data, where)
        data = self._carry + data if self._carry else data
        if data and not data.endswith(b"\n"):
            data += b"\n"
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        if not data:
            return None
        cut = _Cut.of(data)
        if self.detected.packing:
            return self._parcels(cut, final=final)
        return self._lines(cut, final=final)

    def begin_at(self, line: int) -> None:
        """Count on from another line: a file is followed from its middle, or is a new one."""
        self._line = line

    def look(self, head: bytes, where: str) -> None:
        """Find out the format from how a file begins, where reading does not begin there."""
        if head:
            self._look_again(head, where)

    def _look_again(self, data: bytes, where: str) -> None:
        """Find out the format, at first and when twice as much is known of how the file begins.

        One that began without times may have some later on.
        """
        if not data or self._reading.stamp is not None:
            return
        self._seen_bytes += len(data)
        begins = self._looked_bytes < SAMPLE_BYTES
        least = 2 * self._looked_bytes if begins else self._looked_bytes + _AGAIN_BYTES
        done = self._looked_bytes and (not self._strict or (self.detected.formats and not begins))
        last = not self.detected.formats and not data.endswith(b"\n")  # nothing follows
        if done or (self._seen_bytes < least and not last):
            return
        self._looked_bytes = self._seen_bytes
        self._head = (self._head + data)[:SAMPLE_BYTES] if begins else b""
        sample = data if begins else data[-SAMPLE_BYTES:]
        self._detect(max(self._head, sample, key=len) + b"\n" * (self._strict and last), where)

    def _detect(self, data: bytes, where: str) -> None:
        reading = self._reading
        found = detect(data, mode=reading.mode, years=self._years, skip=reading.skip)
        if not found.formats and not self._strict:
            problem = f"none of its first {found.lines} lines has a time that is known"
            hint = "give the source a pattern of its own, or leave out --preq: strict needs none"
            raise StewardError(problem, where=where, hint=hint)
        if self.detected is _UNKNOWN or not (found.packing or self.detected.packing):
            self.detected = found  # parcels do not begin or end in the middle of a file
        self._tally.format = self.detected.name

    # -- plain lines ---------------------------------------------------------------------------

    def _lines(self, cut: _Cut, *, final: bool) -> LogBlock | None:
        times = self._times(cut)
        broken = self._broken(cut)
        role = np.empty(len(cut), np.uint8)
        whole_entries = kernels.roles_of(
            cut.octets,
            cut.start,
            cut.end,
            times.t_ns,
            broken,
            self._fold(),
            self._strict,
            self._counted > 0,
            self._reading.entry_lines if self._strict else 2**62,
            self._reading.entry_bytes if self._strict else self._reading.longest_bytes,
            role,
        )
        used = len(cut)
        if not final:
            heads = np.flatnonzero(role == kernels.HEAD)
            used = int(heads[-1]) if len(heads) else used  # without a head all are left out
        self._count(cut, times, broken, role)
        self._tally.cut += whole_entries if final or used else 0
        block = self._block(cut, times, role, used)
        self._keep(cut, used)
        return block

    def _fold(self) -> int:
        if not self.detected.formats and self._reading.stamp is None:
            return kernels.FOLD_NOTHING
        if self.detected.loose:
            return kernels.FOLD_INDENTED
        return kernels.FOLD_ALL

    def _times(self, cut: _Cut) -> LineTimes:
        stamp = self._reading.stamp
        if stamp is not None:
            return _stamped(cut, stamp, self._years)
        templates = [each.template for each in self.detected.formats]
        return LineTimes.read((cut.octets, cut.start, cut.end), templates, self._years)

    def _broken(self, cut: _Cut) -> NDArray[np.bool_]:
        broken = np.zeros(len(cut), np.bool_)
        if not cut.data.isascii():
            try:
                cut.data.decode()
            except UnicodeDecodeError:
                kernels.broken_lines(cut.octets, cut.start, cut.end, broken)
        return broken

    def _count(
        self, cut: _Cut, times: LineTimes, broken: NDArray[np.bool_], role: NDArray[np.uint8]
    ) -> None:
        """Count lines, each once: those of the carry have been counted."""
        new, tally = self._counted, self._tally
        tally.lines += len(cut) - new
        tally.unparsed += int((times.t_ns[new:] == NO_TIME).sum())
        tally.dropped += int((role[new:] == kernels.DROPPED).sum())
        tally.undecodable += int(broken[new:].sum())
        if b"\0" in cut.data:
            zeros = np.flatnonzero(cut.octets == 0)
            lines = np.unique(np.searchsorted(cut.end, zeros))
            tally.nul += int((lines >= new).sum())

    def _keep(self, cut: _Cut, used: int) -> None:
        begin = int(cut.start[used]) if used < len(cut) else len(cut.data)
        self._carry = cut.data[begin:]
        self._line += used
        self._counted = len(cut) - used

    def _block(
        self, cut: _Cut, times: LineTimes, role: NDArray[np.uint8], used: int
    ) -> LogBlock | None:
        first, last = np.empty(used, np.int64), np.empty(used, np.int64)
        start, end = cut.start[:used], cut.end[:used]
        count = kernels.entries_of(cut.octets, start, end, role[:used], first, last)
        if not count:
            return None
        first, last = first[:count], last[:count]
        buffer, begin, stop = cut.data, times.text[first], end[last]
        if not self._strict and bool((role[:used] == kernels.PART).any()):
            out = np.empty(int(end[-1]), np.uint8)
            begin, stop = np.empty(count, np.int64), np.empty(count, np.int64)
            text = times.text[:used]
            size = kernels.squeezed(cut.octets, text, end, role[:used], out, begin, stop)
            buffer = out[:size].tobytes()
        t_ns = times.t_ns[first]
        return self._made(
            LogBlock(
                stream=self._stream,
                buffer=buffer,
                start=begin,
                end=stop,
                t_ns=t_ns,
                line=first + self._line,
                joined=last > first,
                timed=t_ns != NO_TIME,
                time_removed=self.detected.removes_time,
            )
        )

    def _made(self, block: LogBlock) -> LogBlock:
        """Assign entries without a time that of the one before, or their number where none has one.

        Lines before the first time get that one.
        """
        t_ns, timed = block.t_ns, block.timed
        if not timed.all():
            if self._last_ns == NO_TIME and not timed.any():
                # Where their arrival is unknown, a nanosecond each, to keep their order.
                t_ns[:] = block.line if self.arrival_ns is None else self.arrival_ns
            else:
                before = np.maximum.accumulate(np.where(timed, np.arange(len(t_ns)), -1))
                known = t_ns[timed]
                start_ns = self._last_ns if self._last_ns != NO_TIME else int(known[0])
                t_ns[:] = np.where(before >= 0, t_ns[np.maximum(before, 0)], start_ns)
        if timed.any():
            self._last_ns = int(t_ns[-1])
        seen = np.maximum.accumulate(np.maximum(t_ns, self._newest_ns))
        self._tally.backwards += int((t_ns[1:] < seen[:-1]).sum()) + int(t_ns[0] < self._newest_ns)
        self._newest_ns = int(seen[-1])
        self._tally.entries += len(block)
        return block

    # -- parcels -------------------------------------------------------------------------------

    def _parcels(self, cut: _Cut, *, final: bool) -> LogBlock | None:
        opened = unpacked(
            (cut.data, cut.start, cut.end),
            self.detected.formats[0],
            self._years,
            strict=self._strict,
            final=final or len(cut.data) > self._reading.longest_bytes,
        )
        times = LineTimes(t_ns=opened.line_t_ns, text=cut.start)
        role = np.where(opened.dropped, kernels.DROPPED, kernels.HEAD).astype(np.uint8)
        self._count(cut, times, self._broken(cut), role)
        line = opened.line + self._line
        self._keep(cut, opened.used)
        if not len(opened.start):
            return None
        return self._made(
            LogBlock(
                stream=self._stream,
                buffer=opened.buffer,
                start=opened.start,
                end=opened.end,
                t_ns=opened.t_ns,
                line=line,
                joined=opened.joined,
                timed=opened.t_ns != NO_TIME,
            )
        )


def _stamped(cut: _Cut, stamp: Stamp, years: Years) -> LineTimes:
    """Read times by a pattern that a person gave: one search a line."""
    start, end = cut.start.copy(), cut.start.copy()
    for number, (begin, stop) in enumerate(zip(cut.start.tolist(), cut.end.tolist(), strict=True)):
        span = stamp.search(cut.data[begin:stop])
        if span is not None:
            start[number], end[number] = begin + span[0], begin + span[1]
    times = LineTimes.read((cut.octets, start, end), (stamp.template,), years)
    return LineTimes(t_ns=times.t_ns, text=cut.start.copy())
