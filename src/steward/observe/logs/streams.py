"""Finds logs: which files there are, which are one stream, and whose they are."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from steward.clients.logs.containers import origin_of
from steward.clients.logs.rotation import COMPRESSED, name_before
from steward.errors import StewardError
from steward.model.rules import Stream
from steward.observe.logs.sources import NOT_UNPACKED, UTF_16

__all__ = ["LOG_NAMES", "StreamListing", "stream_of", "streams_of"]

# What logs are called, in folders; a file that is named is read whatever it is called.
LOG_NAMES = (
    "*.log", "*.log[.-]*", "*.out", "*.err", "*.txt", "*.jsonl", "*.ndjson", "messages*", "syslog*",
    "kern*", "dmesg*", "stdout*", "stderr*", "slurm-*",
)  # fmt: skip
_SLURM_JOB = re.compile(r"slurm-(\d+)(?:_\d+)?\.(?:out|err)$")
_RANK = re.compile(r"(?:^|[/_.-])rank[_-]?(\d+)(?=[/_.-]|$)")
_SHORT_LINE = 12  # so many printable bytes in a row are no accident
_LOOK_BYTES = 8192
_JUNK_SHARE = 0.05  # of bytes that no text has; of bytes drawn by lot, a tenth are such


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamListing:
    """The streams below some paths, what was left out of folders, and what cannot be read."""

    streams: tuple[tuple[Stream, tuple[Path, ...]], ...]
    skipped: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    unreadable: tuple[StewardError, ...] = ()


def streams_of(paths: Sequence[Path], sources: Mapping[str, str] | None = None) -> StreamListing:
    """Find the logs that paths name: files as they are, folders with all that is in them.

    `sources` maps path patterns to the source names of rules (`*/slurmctld.log*`). A file and
    what rotation has put aside of it are one stream. A log that cannot be read is left out with an
    error; so is a file that was named and is no text, which in a folder is only skipped.
    """
    files: dict[Path, None] = {}
    skipped: dict[str, str] = {}
    unreadable: list[StewardError] = []
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        problem = f"there is no {' and no '.join(missing)}"
        raise StewardError(problem, hint="name files or folders; `-` is standard input")
    for path in paths:
        found = _below(path, skipped, unreadable) if path.is_dir() else _named(path, unreadable)
        files.update(dict.fromkeys(found))
    groups: dict[Path, list[Path]] = {}
    for file in files:
        groups.setdefault(_now(file, files), []).append(file)
    streams = tuple((stream_of(now, sources), tuple(group)) for now, group in groups.items())
    return StreamListing(streams=streams, skipped=skipped, unreadable=tuple(unreadable))


def stream_of(path: Path, sources: Mapping[str, str] | None = None) -> Stream:
    """Return what a file's entries share, as far as its path has it.

    Their hosts are not shared: each line of syslog names its own.
    """
    text = str(path)
    attributes: dict[str, str] = {}
    entity = ""
    origin = origin_of(text)
    job = _SLURM_JOB.search(path.name)
    if origin.job:
        entity = origin.job
        attributes |= {"job": origin.job, "container": origin.name}
    elif job:
        entity = f"job:{job[1]}"
        attributes["job"] = job[1]
    if rank := _RANK.search(path.name):
        attributes["rank"] = rank[1]
    source = next(
        (name for pattern, name in (sources or {}).items() if fnmatch.fnmatch(text, pattern)), ""
    )
    return Stream(name=text, source=source, entity=entity, attributes=MappingProxyType(attributes))


def _now(file: Path, files: Mapping[Path, None]) -> Path:
    """Return what a file is or was called while it was written to.

    A name such as `rank.1` is an old one only where there is a `rank` next to it.
    """
    before = Path(name_before(str(file)))
    return before if before in files or before.suffix == ".log" else file


def _named(path: Path, unreadable: list[StewardError]) -> Iterator[Path]:
    """Yield a file that was named, unless no line can be read from it; pipes are not opened."""
    try:
        head = _head(path) if path.is_file() else b""
    except OSError as fault:
        unreadable.append(_cannot_be_read(path, fault))
        return
    packed = next((kind for magic, kind in NOT_UNPACKED.items() if head.startswith(magic)), "")
    if packed:
        problem, hint = f"{packed} is not known", "unpack it first"
        unreadable.append(StewardError(problem, where=str(path), hint=hint))
    elif not (_is_text(head) or _ends_as_text(path)):
        hint = "name logs: text, or packed with gzip, bzip2, xz or zstd"
        unreadable.append(StewardError("it is not text", where=str(path), hint=hint))
    else:
        yield path


def _below(folder: Path, skipped: dict[str, str], unreadable: list[StewardError]) -> Iterator[Path]:
    """Yield the logs in a folder, in order of their names; links to folders are not followed."""

    def note(fault: OSError) -> None:
        unreadable.append(_cannot_be_read(fault.filename, fault))

    for where, folders, names in os.walk(folder, onerror=note):
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            try:
                why = _why_not(path)
            except OSError as fault:
                unreadable.append(_cannot_be_read(path, fault))
                continue
            if why:
                skipped[str(path)] = why
            else:
                yield path


def _cannot_be_read(path: Path | str, fault: OSError) -> StewardError:
    problem = f"it cannot be read: {(fault.strerror or str(fault)).lower()}"
    return StewardError(problem, where=str(path), hint="check path and permissions")


def _why_not(path: Path) -> str:
    plain = re.sub(r"\.(gz|zst|xz|bz2)$", "", path.name)
    if not any(fnmatch.fnmatchcase(plain, pattern) for pattern in LOG_NAMES):
        return "it is not called like a log"
    if not path.is_file():
        return "it is no file"
    return "" if _is_text(_head(path)) else "it is not text"


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LOOK_BYTES)


def _ends_as_text(path: Path) -> bool:
    """Return True if the last line is text: a machine that crashes leaves NULs in a good log."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _LOOK_BYTES, 0))
        last = file.read(_LOOK_BYTES).rstrip().rpartition(b"\n")[2]
    return len(last) >= _SHORT_LINE and last.isascii() and last.decode().isprintable()


def _is_text(head: bytes) -> bool:
    return head.startswith((*COMPRESSED, *UTF_16)) or not _is_junk(head)


def _is_junk(head: bytes) -> bool:
    controls = bytes(octet for octet in range(32) if octet not in b"\t\n\r\x0b\x0c\x1b")
    return len(head) - len(head.translate(None, controls)) > _JUNK_SHARE * len(head)
