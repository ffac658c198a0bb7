"""Worker process: read log files, search them for terms, and send what was found to its parent.

It holds no state of rules: matching depends on the order of streams and stays with the parent. The
parent grants each stream a number of bytes to be sent ahead; a stream that has used them is paused
while others are read. The process ends when its connection does, so that it cannot outlive a
parent that was killed.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from steward.decide.rules.prefiltered_block import ScannedBlock, scan_block
from steward.decide.rules.terms import Prefilter
from steward.errors import StewardError
from steward.model.rules import LogBlock, Mode, Stream, Term
from steward.observe.logs import ReadCounts, Reading, read_blocks

__all__ = [
    "Acknowledge",
    "CloseStream",
    "EndOfStream",
    "OpenStream",
    "Reply",
    "Request",
    "main",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStream:
    """Request to read files as one stream, and to search them for terms."""

    number: int  # of the stream, in replies
    name: str
    files: tuple[Path, ...]
    mode: Mode
    reading: Reading
    route: int  # terms of one number are equal: they are sent and compiled once
    terms: tuple[Term, ...] | None  # None: they were sent before
    most_bytes: int  # sent and not acknowledged, beyond the first block


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledge:
    """Message that the parent has consumed a block of so many bytes."""

    number: int
    held_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseStream:
    """Message that the rest of a stream is not needed."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfStream:
    """Reply after the last block: what was counted, and why reading failed if it did."""

    tally: ReadCounts
    problem: str = ""
    where: str = ""
    hint: str = ""


Request = OpenStream | Acknowledge | CloseStream
Reply = tuple[int, ScannedBlock | EndOfStream]


def main(descriptor: int) -> None:
    """Serve the parent at the other end of a socket until it closes it."""
    gc.freeze()
    with Connection(descriptor) as parent:
        try:
            _Worker(parent).serve()
        except (EOFError, ConnectionError):
            return  # the parent has ended, or needs nothing more


@dataclass(slots=True, kw_only=True, eq=False)
class _OpenedStream:
    number: int
    blocks: Generator[LogBlock]
    prefilter: Prefilter | None
    tally: ReadCounts
    most_bytes: int
    waiting: int = 0  # blocks that were sent and not acknowledged
    held_bytes: int = field(default=0)  # of these

    @property
    def has_room(self) -> bool:
        """Whether another block may be sent; one always may."""
        return not self.waiting or self.held_bytes < self.most_bytes


class _Worker:
    def __init__(self, parent: Connection) -> None:
        self._parent = parent
        self._prefilters: dict[int, Prefilter | None] = {}
        self._streams: dict[int, _OpenedStream] = {}  # in the order in which they were opened

    def serve(self) -> None:
        """Read the first stream that has room; wait for messages where none has."""
        while True:
            stream = next((each for each in self._streams.values() if each.has_room), None)
            if stream is None or self._parent.poll():
                self._handle(self._parent.recv())
            else:
                self._read_block(stream)

    def _handle(self, request: Request) -> None:
        match request:
            case OpenStream():
                self._open(request)
            case Acknowledge():
                stream = self._streams.get(request.number)
                if stream is not None:  # not at its end yet
                    stream.waiting -= 1
                    stream.held_bytes -= request.held_bytes
            case CloseStream():
                stream = self._streams.pop(request.number, None)
                if stream is not None:
                    stream.blocks.close()

    def _open(self, request: OpenStream) -> None:
        if request.route not in self._prefilters:
            self._prefilters[request.route] = Prefilter(request.terms) if request.terms else None
        tally = ReadCounts()
        self._streams[request.number] = _OpenedStream(
            number=request.number,
            blocks=read_blocks(
                request.files,
                mode=request.mode,
                stream=Stream(name=request.name),
                tally=tally,
                reading=request.reading,
            ),
            prefilter=self._prefilters[request.route],
            tally=tally,
            most_bytes=request.most_bytes,
        )

    def _read_block(self, stream: _OpenedStream) -> None:
        try:
            block = next(stream.blocks, None)
            scanned = None if block is None else scan_block(block, stream.prefilter, shared=False)
        except StewardError as fault:
            self._end(stream, EndOfStream(tally=stream.tally, **fault.as_record()))
            return
        if scanned is None:
            self._end(stream, EndOfStream(tally=stream.tally))
            return
        stream.waiting += 1
        stream.held_bytes += scanned.held_bytes
        self._parent.send((stream.number, scanned))

    def _end(self, stream: _OpenedStream, end: EndOfStream) -> None:
        del self._streams[stream.number]
        self._parent.send((stream.number, end))
