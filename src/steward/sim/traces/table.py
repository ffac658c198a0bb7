"""A text file as a table of words, with the way back from a row to its line.

Nothing is typed here: what a cell means is up to the format. Large files are scanned, never held
as text.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import polars as pl

from steward.errors import StewardError
from steward.model.trace import RowFault

__all__ = [
    "EXTRA",
    "ROW",
    "TraceTable",
    "collected",
    "first_columns",
    "first_lines",
    "open_bytes",
    "read_table",
]

ROW = "_row"  # place among the rows of the file, from 0
EXTRA = "_extra"  # what stands beyond the last column of the header
_CHUNK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 16
_SHOWN_CHARACTERS = 90
_PACKED = {
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
# Python's own reader bounds a cell so that a stray quote cannot swallow memory; polars does not.
_READ_FAULTS = (OSError, EOFError, zlib.error, pl.exceptions.PolarsError)


@dataclass(frozen=True, kw_only=True)
class TraceTable:
    """Columns of words. `first_line` is the line (from 1) of the first row."""

    path: Path
    columns: tuple[str, ...]
    scan: pl.LazyFrame
    first_line: int = 1
    comment: str = "#"
    remarks: tuple[str, ...] = ()  # comment lines before the header, without their mark
    notes: tuple[RowFault, ...] = ()

    @cached_property
    def sample(self) -> pl.DataFrame:
        """Return some thousand rows, to see in which form things are written."""
        return collected(self.scan.head(2000), where=str(self.path))

    def lines(self, rows: list[int]) -> dict[int, str]:
        """Return line number and text of these rows, for a report."""
        wanted, found = set(rows), {}
        for row, (number, text) in enumerate(self._written()):
            if row in wanted:
                found[row] = f"line {number}: {text[:_SHOWN_CHARACTERS]}"
                if len(found) == len(wanted):
                    break
        return found

    def _written(self) -> Iterator[tuple[int, str]]:
        with open_bytes(self.path) as stream:
            for number, line in enumerate(stream, start=1):
                text = line.decode("utf-8", "replace").strip("\r\n")
                if number >= self.first_line and not text.startswith(self.comment):
                    yield number, text


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked where it is gzip."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def first_lines(path: Path) -> bytes:
    """Return the beginning of a file; refuse what is not text."""
    where = str(path)
    try:
        with open_bytes(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except _READ_FAULTS as fault:
        raise StewardError(f"cannot be read: {fault}", where=where, hint="is it whole?") from None
    if not head.strip():
        raise StewardError("the file is empty", where=where, hint="give a file with rows")
    packing = next((name for mark, name in _PACKED.items() if head.startswith(mark)), "")
    if packing:
        raise StewardError(f"is packed with {packing}", where=where, hint="unpack it, or use gzip")
    if b"\0" in head and not head.startswith(b"PAR1"):
        raise StewardError(
            "holds bytes that are no text",
            where=where,
            hint="CSV, sacct, SWF and JSON must be UTF-8 text; Parquet begins with PAR1",
        )
    return head


def first_columns(head: bytes) -> tuple[str, ...]:
    """Return the cells of the first line that is no comment, as names."""
    _, _, header = _header(head, "#")
    return _unique(_cells(header, _separator(header)))


def read_table(
    path: Path,
    *,
    separator: str = "",
    columns: tuple[str, ...] = (),
    comment: str = "#",
    quotes: bool = True,
) -> TraceTable:
    """Scan a text table. Columns come from the first line that is no comment, unless given."""
    head = first_lines(path)
    skipped, remarks, header = _header(head, comment)
    cut = separator or _separator(header)
    names = columns or _unique(_cells(header, cut))
    first_line = skipped + (1 if columns else 2)
    text = _shape(path)
    quote = '"' if quotes and text.quotes else None
    scan = _scan(path, names, cut=cut, comment=comment, skip=first_line - 1, ends=(quote, text.end))
    notes = _quoting(scan) if quote else ()
    if notes is None:
        scan = _scan(
            path, names, cut=cut, comment=comment, skip=first_line - 1, ends=("", text.end)
        )
        notes = (
            RowFault(
                reason="a quote is never closed: quotes are read as they are", rows=1, kept=True
            ),
        )
    return TraceTable(
        path=path,
        columns=names,
        scan=scan,
        first_line=first_line,
        comment=comment,
        remarks=remarks,
        notes=notes,
    )


def collected(plan: pl.LazyFrame, *, where: str) -> pl.DataFrame:
    """Carry out a plan; a file that cannot be read is the user's to mend."""
    try:
        return plan.collect(engine="streaming")
    except _READ_FAULTS as fault:
        said = str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
        raise StewardError(f"cannot be read: {said}", where=where, hint="is it whole?") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    lines: int
    quotes: int
    end: str  # of a line


def _shape(path: Path) -> _Shape:
    lines = quotes = returns = 0
    try:
        with open_bytes(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                lines += chunk.count(b"\n")
                returns += chunk.count(b"\r")
                quotes += chunk.count(b'"')
    except _READ_FAULTS as fault:
        where, hint = str(path), "is it whole?"
        raise StewardError(f"cannot be read: {fault}", where=where, hint=hint) from None
    return _Shape(lines=lines, quotes=quotes, end="\r" if returns and not lines else "\n")


def _scan(
    path: Path,
    names: tuple[str, ...],
    *,
    cut: str,
    comment: str,
    skip: int,
    ends: tuple[str | None, str],
) -> pl.LazyFrame:
    # one column more than the header has: a row with too many cells shows itself there
    schema = dict.fromkeys((*names, EXTRA), pl.String())
    return pl.scan_csv(
        path,
        has_header=False,
        schema=schema,
        separator=cut,
        comment_prefix=comment,
        quote_char=ends[0] or None,
        skip_lines=skip,
        eol_char=ends[1],
        encoding="utf8-lossy",
        row_index_name=ROW,
        truncate_ragged_lines=True,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
    )


def _quoting(scan: pl.LazyFrame) -> tuple[RowFault, ...] | None:
    """Return what is odd about quoted cells; None: they cannot be told apart."""
    broken = pl.any_horizontal(pl.exclude(ROW).str.contains("\n", literal=True))
    try:
        rows = scan.filter(broken).select(pl.len()).collect(engine="streaming").item()
    except pl.exceptions.PolarsError:
        return None
    reason = "a quoted cell holds a line break: line numbers below it are lower than shown"
    return (RowFault(reason=reason, rows=rows, kept=True),) if rows else ()


def _header(head: bytes, comment: str) -> tuple[int, tuple[str, ...], str]:
    """Return how many lines stand before the header, the comments among them, and the header."""
    remarks = []
    text = head.decode("utf-8-sig", "replace")
    # not splitlines(): polars knows no other line ends either
    lines = text.split("\n") if "\n" in text else text.split("\r")
    for number, line in enumerate(line.rstrip("\r") for line in lines):
        if line.startswith(comment):
            remarks.append(line[len(comment) :].strip())
        elif line.strip():
            return number, tuple(remarks), line
    return len(remarks), tuple(remarks), ""


def _separator(header: str) -> str:
    return max(",|;\t", key=header.count)


def _cells(header: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([header], delimiter=separator), [])
    except csv.Error:
        return header.split(separator)


def _unique(names: list[str]) -> tuple[str, ...]:
    """Return usable names: trimmed, none twice (the second gets a number), none empty."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        word = name.strip() or f"column_{place + 1}"
        while word in seen or word in (ROW, EXTRA):
            word += "_again"
        seen[word] = place
    return tuple(seen)
