"""What an importer is given and gives back."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from steward.errors import StewardError
from steward.model.event import Observation

__all__ = ["FileHead", "ImportCounts", "ImportSource", "Importer", "opened"]

_EXAMPLES = 5
_HEAD_BYTES = 65_536
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


@dataclass(slots=True, kw_only=True)
class ImportCounts:
    """What was read of all files, and what of it could not be used."""

    rows: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    text: set[str] = field(default_factory=set)  # columns without any number
    notes: list[str] = field(default_factory=list)

    def refuse(self, reason: str, where: str, *, rows: int = 1) -> None:
        """Count rows or values that cannot be used, and remember where the first ones are."""
        self.bad[reason] += rows
        shown = self.examples.setdefault(reason, [])
        if len(shown) < _EXAMPLES:
            shown.append(where)

    def complaints(self) -> list[str]:
        """Yield for each reason how often something could not be used, and where first."""
        return [
            f"{count:,} times: {reason} ({'; '.join(self.examples[reason])})"
            for reason, count in self.bad.items()
        ]

    def note(self, text: str) -> None:
        """Add a note about a whole file, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """One file to import, with the user's options."""

    path: Path
    node: str = ""  # of the samples, where the file has none
    companions: tuple[Path, ...] = ()  # files with its marks of runs and phases
    columns: Mapping[str, tuple[str, float]] = field(default_factory=dict)  # theirs: ours, scale
    progress: Callable[[int], None] = lambda _read_bytes: None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHead:
    """The beginning of a file, by which its format is detected."""

    path: Path
    begins: bytes

    @classmethod
    def of(cls, path: Path) -> FileHead:
        """Look at a file."""
        with opened(path) as stream:
            return cls(path=path, begins=stream.read(_HEAD_BYTES))

    @property
    def line(self) -> str:
        """The first line with content."""
        lines = self.begins.decode(errors="replace").splitlines()
        return next((line for line in lines if line.strip()), "")

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file."""
        return self.begins.startswith(_PARQUET)


class Importer(Protocol):
    """Reads one format: yields canonical samples with their spans, and tallies the rest."""

    @property
    def name(self) -> str: ...

    def recognises(self, head: FileHead) -> bool:
        """Return whether a file looks like this format."""
        ...

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        """Read a file in pieces, so that its size does not matter."""
        ...


@contextmanager
def opened(path: Path, progress: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """Open a file that may be compressed; a broken one is named."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            counted = cast("BinaryIO", raw if progress is None else _Counted(raw, progress))
            stream = gzip.GzipFile(fileobj=counted) if packed else counted
            yield cast("BinaryIO", stream)
    except (gzip.BadGzipFile, EOFError) as fault:
        raise StewardError(
            f"the compressed file is broken: {fault}", where=str(path), hint="fetch it again"
        ) from fault
    except IsADirectoryError as fault:
        raise StewardError("is a folder", where=str(path), hint="name the files in it") from fault


class _Counted:
    """A file that reports how far it has been read."""

    def __init__(self, raw: BinaryIO, progress: Callable[[int], None]) -> None:
        self._raw = raw
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        piece = self._raw.read(size)
        self._progress(len(piece))
        return piece

    def readline(self, size: int = -1) -> bytes:
        line = self._raw.readline(size)
        self._progress(len(line))
        return line

    def close(self) -> None:
        self._raw.close()
