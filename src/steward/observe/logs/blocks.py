"""Reads logs from any source as blocks of entries, in bounded memory."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from steward.model.rules import LogBlock, Mode, Stream
from steward.observe.logs.counts import ReadCounts
from steward.observe.logs.entries import Entries, Reading
from steward.observe.logs.formats import NO_TIME, Years
from steward.observe.logs.formats.detection import SAMPLE_BYTES
from steward.observe.logs.reorder_buffer import ReorderBuffer
from steward.observe.logs.sources import Source, as_utf8, pieces, where

__all__ = ["first_time_ns", "read_blocks"]


def read_blocks(
    source: Source | Sequence[Source],
    *,
    mode: Mode = Mode.STRICT,
    stream: Stream,
    tally: ReadCounts | None = None,
    reading: Reading | None = None,
) -> Generator[LogBlock]:
    """Yield the entries of a file, a pipe, or of several files that are one stream.

    Several are read one after another, in the order of their first times. What happened on the
    way is counted in `tally`.
    """
    reading = replace(reading or Reading(), mode=mode)
    tally = ReadCounts() if tally is None else tally
    tally.stream = stream.name
    sources = list(source) if isinstance(source, Sequence) else [source]
    if len(sources) > 1:
        sources = _by_first_time(sources, reading)
    order = ReorderBuffer(reading.order_ns, reading.held_bytes, tally)
    for each in sources:
        for block in _entries(each, reading, stream, tally):
            yield from order.take(block)
    yield from order.flush()


def first_time_ns(source: Path, reading: Reading) -> int:
    """Return when a file begins, from its first lines; NO_TIME if they have none."""
    tally = ReadCounts()
    block = next(_entries(source, replace(reading, mode=Mode.STRICT), Stream(name=""), tally), None)
    if block is None or not block.timed.any():
        return NO_TIME
    return int(block.t_ns[block.timed][0])


def _by_first_time(sources: list[Source], reading: Reading) -> list[Source]:
    """Put files in order; one without times stays behind the one that it was named after."""
    keyed: list[tuple[int, Source]] = []
    for each in sources:
        begin = first_time_ns(each, reading) if isinstance(each, Path) else NO_TIME
        if begin == NO_TIME and keyed:
            begin = keyed[-1][0]
        keyed.append((begin, each))
    return [each for _, each in sorted(keyed, key=lambda pair: pair[0])]


def _entries(
    source: Source, reading: Reading, stream: Stream, tally: ReadCounts
) -> Iterator[LogBlock]:
    years = Years(now_s=reading.now_s or time.time(), boot_ns=reading.boot_ns)
    entries = Entries(reading, years, stream, tally)
    tally.files += 1
    name = where(source)
    raw = _gathered(source, reading, tally)
    if reading.mode is Mode.STRICT:
        raw = as_utf8(raw)
    first = next(raw, b"")
    if reading.mode is Mode.PREQ:  # preq also looks at a last line that has no end
        entries.look(first[:SAMPLE_BYTES], name)
    for data in _whole_lines(chain([first], raw), source, reading, tally):
        block = entries.take(data, final=False, where=name)
        if block is not None:
            yield block
    block = entries.take(b"", final=True, where=name)
    if block is not None:
        yield block


def _whole_lines(
    raw: Iterable[bytes], source: Source, reading: Reading, tally: ReadCounts
) -> Iterator[bytes]:
    """Yield pieces that end in a line end; what is too long is cut, or (`preq`) ends the file."""
    begun, skipping, longest = b"", False, reading.longest_bytes
    for read in raw:
        piece = read
        if skipping:  # to the end of a line whose beginning is in `begun`
            piece = piece[piece.find(b"\n") :] if b"\n" in piece else b""
            skipping = not piece
        piece = begun + piece
        end = piece.rfind(b"\n") + 1
        whole, begun = piece[:end], piece[end:]
        grown = len(begun) > longest
        if grown:
            begun, skipping = begun[:longest], True
        if whole:
            whole, ended = _cut_lines(whole, reading, tally, source)
            yield whole
            if ended:
                return
        if grown and _too_long(reading, tally, source):
            return
    if begun:
        yield begun


def _gathered(source: Source, reading: Reading, tally: ReadCounts) -> Iterator[bytes]:
    """Yield pieces of bytes; preq waits until a pipe has given as much as it looks at."""
    least = SAMPLE_BYTES if reading.mode is Mode.PREQ else 0
    first = b""
    for piece in pieces(source, tally.notes, size=reading.block_bytes):
        tally.bytes += len(piece)
        if len(first) + len(piece) < least:
            first += piece
        else:
            yield first + piece
            first, least = b"", 0
    if first:
        yield first


def _cut_lines(
    whole: bytes, reading: Reading, tally: ReadCounts, source: Source
) -> tuple[bytes, bool]:
    """Shorten lines that are too long; return True if the file ends before the first of them."""
    longest = reading.longest_bytes
    if not _any_longer(whole, longest):
        return whole, False
    kept: list[bytes] = []
    for line in whole.split(b"\n"):
        if len(line) > longest:
            if _too_long(reading, tally, source):
                return b"".join(each + b"\n" for each in kept), True
            kept.append(line[:longest])
        else:
            kept.append(line)
    return b"\n".join(kept), False


def _any_longer(whole: bytes, longest: int) -> bool:
    """Look for a long line in strides as long as one may be."""
    at = 0
    while len(whole) - at > longest:
        end = whole.rfind(b"\n", at, at + longest + 1)
        if end < 0:
            return True
        at = end + 1
    return False


def _too_long(reading: Reading, tally: ReadCounts, source: Source) -> bool:
    """Count a line that is too long; True if the file ends with it."""
    tally.cut += 1
    if reading.mode is Mode.STRICT:
        return False
    limit = f"{reading.longest_bytes} bytes"
    tally.notes.append(f"{where(source)}: a line is longer than {limit}: the rest is not read")
    return True
