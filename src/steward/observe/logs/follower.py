"""Follows logs as they are written: through rotation, and with new files as they come."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from steward.clients.logs.file_events import FileEvents
from steward.clients.logs.follower import FileFollower, FileLines
from steward.model.rules import LogBlock, Stream
from steward.observe.logs.counts import ReadCounts
from steward.observe.logs.entries import Entries, Reading
from steward.observe.logs.formats import Years
from steward.observe.logs.formats.detection import SAMPLE_BYTES
from steward.observe.logs.streams import LOG_NAMES, stream_of

__all__ = ["Following", "follow", "follow_pipe"]

_GATHER_S = 0.001  # a traceback is written in several writes: give it time to come as one
_PIPE_BYTES = 1 << 20
_FOLDERS = 1000  # watched below each one that is followed


@dataclass(slots=True, kw_only=True)
class Following:
    """How logs are followed, and what came of it: one tally for each file."""

    reading: Reading = field(default_factory=Reading)
    from_start: bool = False
    idle_s: float = 0.25  # without news, None is yielded after this long: time passes for rules
    stream_of: Callable[[Path], Stream] = stream_of
    stop: threading.Event = field(default_factory=threading.Event)
    tallies: dict[str, ReadCounts] = field(default_factory=dict)


def follow(paths: Sequence[Path], following: Following | None = None) -> Iterator[LogBlock | None]:
    """Yield what is written to files, to those of folders, and to those that patterns name.

    Lines are whole; None means that nothing came for a while. Entries come at once, in the order
    in which they were written: a caller that needs order has to wait.
    """
    following = following or Following()
    files = FileFollower(_patterns(paths), from_start=following.from_start)
    waking = FileEvents()
    _warm(following.reading)
    readers: dict[str, Entries] = {}
    try:
        while not following.stop.is_set():
            yield from _looked(files, readers, following)
            if waking.names_changed:
                waking.names_changed = False
                waking.watch(_folders(paths, files))
                files.rescan()
                continue
            if waking.wait(following.idle_s):
                time.sleep(_GATHER_S)
            else:
                yield None
    finally:
        files.close()
        waking.close()


def follow_pipe(pipe: BinaryIO, stream: Stream, following: Following) -> Iterator[LogBlock | None]:
    """Yield what comes through a pipe as soon as a line is whole, until its other end is closed."""
    _warm(following.reading)
    tally = _tally(stream.name, following)
    years = Years(now_s=following.reading.now_s or time.time(), boot_ns=following.reading.boot_ns)
    entries = Entries(following.reading, years, stream, tally)
    begun, longest = b"", following.reading.longest_bytes
    while not following.stop.is_set():
        if not select.select([pipe], [], [], following.idle_s)[0]:
            yield None
            continue
        time.sleep(_GATHER_S)
        read = os.read(pipe.fileno(), _PIPE_BYTES)
        tally.bytes += len(read)
        whole, end, begun = (begun + read).rpartition(b"\n")
        if not read:
            whole, end, begun = begun, b"\n" if begun else b"", b""
        elif len(begun) > longest:
            tally.cut += 1
            whole, end, begun = whole + end + begun[:longest], b"\n", b""
        entries.arrival_ns = time.time_ns()
        if end:
            yield entries.take(whole + end, final=True, where=stream.name)
        if not read:
            return


def _warm(reading: Reading) -> None:
    """Load what is compiled before the first line comes: it must not wait for that."""
    entries = Entries(reading, Years(now_s=time.time()), Stream(name=""), ReadCounts())
    entries.take(b"2000-01-01 00:00:00 warm\n more\n", final=True, where="")


def _looked(
    files: FileFollower, readers: dict[str, Entries], following: Following
) -> Iterator[LogBlock]:
    for new in files.look(time.monotonic()):
        block = _entries(new, readers, following)
        if block is not None:
            yield block
    for note in files.taken_notes():
        _tally(note.origin, following).notes.append(f"{note.origin}: {note.text}")


def _tally(path: str, following: Following) -> ReadCounts:
    return following.tallies.setdefault(path, ReadCounts(stream=path, files=1))


def _entries(new: FileLines, readers: dict[str, Entries], following: Following) -> LogBlock | None:
    tally = _tally(new.path, following)
    entries = readers.get(new.path)
    if entries is None:
        now_s = following.reading.now_s or time.time()
        years = Years(now_s=now_s, boot_ns=following.reading.boot_ns)
        stream = following.stream_of(Path(new.path))
        entries = readers[new.path] = Entries(following.reading, years, stream, tally)
        entries.look(_head(new.path), new.path)
    entries.arrival_ns = time.time_ns()
    data = _as_written(new).encode()
    tally.bytes += len(data)
    tally.undecodable += sum("\ufffd" in text for text in new.texts)
    entries.begin_at(new.numbers[0])
    block = entries.take(data, final=True, where=new.path)
    if block is None or new.numbers[0]:
        return block
    return replace(block, line=np.zeros(len(block), dtype=np.int64))


def _as_written(new: FileLines) -> str:
    """Return lines with the blank ones between them, so that they have their numbers."""
    places = zip(new.numbers, [new.numbers[0] - 1, *new.numbers], new.texts, strict=False)
    return "".join("\n" * max(at - last - 1, 0) + text + "\n" for at, last, text in places)


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(SAMPLE_BYTES)
    except OSError:  # it was put aside in the meantime: its lines must do
        return b""


def _patterns(paths: Sequence[Path]) -> list[str]:
    patterns: list[str] = []
    for path in paths:
        if path.is_dir():
            patterns += [str(path / "**" / name) for name in LOG_NAMES]
        else:
            patterns.append(str(path))
    return patterns


def _folders(paths: Sequence[Path], files: FileFollower) -> list[str]:
    """Return the folders where something can happen that matters."""
    folders = {str(Path(path).parent) for path in files.paths()}
    for path in paths:
        folders.add(str(path.parent))
        if path.is_dir():
            below = (folder for folder, _, _ in os.walk(path))
            folders.update(folder for folder, _ in zip(below, range(_FOLDERS), strict=False))
    return sorted(folder for folder in folders if Path(folder).is_dir())
