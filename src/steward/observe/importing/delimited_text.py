"""Delimited text in blocks: rows that do not fit the header are left out, counted and placed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from steward.errors import StewardError
from steward.observe.importing.source import ImportCounts, ImportSource, opened
from steward.store.files.text_headers import delimiter_of, fields_of

__all__ = ["LINE", "blocks"]

LINE = "\0line"  # the number of each row's line, for the places of faults
_BLOCK_BYTES = 8 << 20
_MAX_LINE_BYTES = 4 << 20
_SPACES = re.compile(rb"[ \t]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    names: list[str]
    delimiter: str


def blocks(source: ImportSource, tally: ImportCounts) -> Iterator[pl.DataFrame]:
    """Yield a file as tables of text, a block of lines at a time, with the line numbers."""
    with opened(source.path, source.progress) as stream:
        header, line = _header(stream, source)
        rest = b""
        while piece := stream.read(_BLOCK_BYTES):
            text, newline, rest = (rest + piece).rpartition(b"\n")
            if len(rest) > _MAX_LINE_BYTES:
                raise _endless(source, line)
            if newline:
                yield _table(text, header, line, tally, source)
                line += text.count(b"\n") + 1
        if rest.strip():
            yield _table(rest, header, line, tally, source)


def _header(stream: BinaryIO, source: ImportSource) -> tuple[_Header, int]:
    lines = iter(lambda: stream.readline(_MAX_LINE_BYTES + 1), b"")
    for number, raw in enumerate(lines, start=1):
        if len(raw) > _MAX_LINE_BYTES:
            raise _endless(source, number)
        text = raw.decode(errors="replace")
        if text.strip():
            names = fields_of(text)
            _check_names(names, source, number)
            return _Header(names=names, delimiter=delimiter_of(text)), number + 1
    raise StewardError("is empty", where=str(source.path), hint="a header line has to come first")


def _check_names(names: list[str], source: ImportSource, number: int) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise StewardError(
            f"the header names {', '.join(twice)[:200]} more than once",
            where=f"{source.path}, line {number}",
            hint="every column needs a name of its own",
        )


def _endless(source: ImportSource, line: int) -> StewardError:
    return StewardError(
        f"a line is longer than {_MAX_LINE_BYTES >> 20} MiB",
        where=f"{source.path}, line {line}",
        hint="this is no table of text with a header line",
    )


def _table(
    text: bytes, header: _Header, first: int, tally: ImportCounts, source: ImportSource
) -> pl.DataFrame:
    """Turn a block of whole lines into a table; lines with too few or many fields are left out."""
    lines = text.replace(b"\r", b"").split(b"\n")
    delimiter = header.delimiter.encode()
    if delimiter == b" ":
        lines = [_SPACES.sub(b" ", line.strip()) for line in lines]
    counts = np.fromiter((_fields(line, delimiter) for line in lines), np.int64, len(lines))
    filled = np.fromiter((bool(line) and line[:1] != b"#" for line in lines), np.bool_, len(lines))
    good = filled & (counts == len(header.names))
    for place in np.flatnonzero(filled & ~good):
        reason = f"not {len(header.names)} fields"
        tally.refuse(reason, f"{source.path.name}, line {first + int(place)}")
    kept = np.flatnonzero(good)
    tally.rows += int(filled.sum())
    body = b"\n".join(lines[place] for place in kept)
    schema = dict.fromkeys(header.names, pl.String)
    if not body:
        return pl.DataFrame(schema={**schema, LINE: pl.Int64})
    try:
        table = pl.read_csv(
            io.BytesIO(body),
            has_header=False,
            schema=schema,
            separator=header.delimiter,
            encoding="utf8-lossy",
        )
    except PolarsError as fault:
        raise _no_table(source, first, fault) from fault
    if table.height != len(kept):
        raise _no_table(source, first, f"{len(kept)} lines became {table.height} rows")
    return table.with_columns(pl.Series(LINE, kept + first, dtype=pl.Int64))


def _no_table(source: ImportSource, line: int, why: object) -> StewardError:
    return StewardError(
        f"is no table of text: {str(why).splitlines()[0]}",
        where=f"{source.path}, from line {line}",
        hint="are there quotes in it that are no quotes? write it anew, or name its --format",
    )


def _fields(line: bytes, delimiter: bytes) -> int:
    """Count the fields of a line; a delimiter between quotes is none."""
    if b'"' not in line:
        return line.count(delimiter) + 1
    pieces = line.split(b'"')
    if len(pieces) % 2 == 0:
        return 0  # a quote that is never closed would swallow the lines that follow
    outside = pieces[::2]
    return sum(part.count(delimiter) for part in outside) + 1
