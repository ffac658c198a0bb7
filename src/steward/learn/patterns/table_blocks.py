"""Wide telemetry tables in blocks of rows, of the chosen columns only: memory does not grow.

Delimited text (also gzipped) and Parquet, in folders or object stores (`s3://` and what else
polars reads). Values come as float32, times and keys as they are; text among numbers is counted.
"""

from __future__ import annotations

import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import polars as pl
from polars.exceptions import PanicException, PolarsError

from steward.errors import StewardError
from steward.store.files.text_headers import delimiter_of, fields_of

__all__ = ["Reading", "Table", "is_remote", "open_table"]

_TEXT_BYTES = 16 << 20
_BLOCK_VALUES = 16 << 20  # values of a block of Parquet
_SLICE_VALUES = 8 << 20  # that are looked at together: memory of this size is used again
_FEWEST_ROWS = 1_000
_LONGEST_LINE = 4 << 20
_SPACES = re.compile(rb"[ \t]+")
_NOTHING = ("", "nan", "null", "none", "n/a", "[n/a]", "na", "-", "[not supported]", "inf", "-inf")
_UNIT_BEHIND = r"\s*(%|MiB|GiB|KiB|W|MHz|C|J)$"
BROKEN = (PolarsError, PanicException, OSError, EOFError, gzip.BadGzipFile)


@dataclass(slots=True, kw_only=True)
class Reading:
    """What could not be used of a file."""

    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def count(self, fault: str, example: str, times: int = 1) -> None:
        """Count a fault, and keep its first example."""
        if times:
            self.faults[fault] += times
            self.examples.setdefault(fault, example[:200])


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file and its header. `places` are those of the columns whose names come first."""

    path: str
    names: tuple[str, ...]  # each once
    places: tuple[int, ...]
    width: int  # columns in the file, with those that are there twice
    delimiter: str = ""  # of text; "" for Parquet

    def blocks(
        self, chosen: Sequence[int], exact: Sequence[int], plain: Sequence[int], seen: Reading
    ) -> Iterator[pl.DataFrame]:
        """Yield the columns at these places of `names`, called by their place.

        `chosen` come as Float32, `exact` as Float64, `plain` as they are in the file.
        """
        types: dict[int, pl.DataType | None] = dict.fromkeys(plain)
        types |= dict.fromkeys(chosen, pl.Float32()) | dict.fromkeys(exact, pl.Float64())
        source = _text_blocks if self.delimiter else _parquet_blocks
        for raw in source(self, types, seen):
            rows = max(_FEWEST_ROWS, _SLICE_VALUES // max(1, len(types)))
            yield from _numbers(raw, types, self, seen).iter_slices(rows)


def is_remote(path: str) -> bool:
    """Return whether a path is in an object store."""
    return "://" in path


def open_table(path: str, seen: Reading) -> Table:
    """Read the header of a file; columns that are there twice are counted and left out."""
    try:
        if _is_parquet(path):
            names = list(pl.scan_parquet(path, glob=False).collect_schema().names())
            delimiter = ""
        else:
            header = _first_line(path)
            names, delimiter = fields_of(header), delimiter_of(header)
    except BROKEN as fault:
        raise _unreadable(path, fault) from fault
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        first.setdefault(name, place)
    twice = [name for place, name in enumerate(names) if first[name] != place]
    seen.count("columns that are there twice: the first is used", ", ".join(twice[:3]), len(twice))
    return Table(
        path=path,
        names=tuple(first),
        places=tuple(first.values()),
        width=len(names),
        delimiter=delimiter,
    )


def _unreadable(path: str, fault: BaseException) -> StewardError:
    problem = f"cannot be read: {' '.join(str(fault).split())[:200] or type(fault).__name__}"
    return StewardError(problem, where=path, hint="check the file with another program")


def _is_parquet(path: str) -> bool:
    if is_remote(path):
        return path.endswith((".parquet", ".pq"))
    with open(path, "rb") as stream:  # noqa: PTH123 - paths are text, as object stores have them
        return stream.read(4) == b"PAR1"


# -- Parquet -----------------------------------------------------------------------------------


def _parquet_blocks(
    table: Table, types: dict[int, pl.DataType | None], _seen: Reading
) -> Iterator[pl.DataFrame]:
    names = [pl.col(table.names[place]).alias(str(place)) for place in types]
    rows_at_once = max(_FEWEST_ROWS, _BLOCK_VALUES // max(1, len(names)))
    try:
        scan = pl.scan_parquet(table.path, glob=False)
        total = int(scan.select(pl.len()).collect().item())
        for start in range(0, total, rows_at_once):
            yield scan.slice(start, rows_at_once).select(names).collect()
    except BROKEN as fault:
        raise _unreadable(table.path, fault) from fault


# -- delimited text ----------------------------------------------------------------------------


def _first_line(path: str) -> str:
    if is_remote(path):
        lines = pl.scan_csv(
            path, has_header=False, n_rows=1, infer_schema=False, separator="\x01", quote_char=None
        ).collect()
        line = str(lines.item(0, 0))
    else:
        with _opened(path) as stream:
            line = ""
            while not line.strip():
                raw = stream.readline(_LONGEST_LINE)
                if not raw:
                    raise StewardError("is empty", where=path, hint="a header line comes first")
                line = raw.decode(errors="replace")
    if delimiter_of(line) == " " and len(fields_of(line)) < 2:
        hint = "wide tables have a header line with a time and a column per metric"
        raise StewardError(f"is no table; it begins with: {line[:80]!r}", where=path, hint=hint)
    if delimiter_of(line) == " " or not line.startswith(delimiter_of(line)):
        return line
    return "unnamed" + line  # Reveal's time has no name


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    with open(path, "rb") as raw:  # noqa: PTH123 - paths are text, as object stores have them
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        yield cast("BinaryIO", gzip.GzipFile(fileobj=raw) if packed else raw)


def _text_blocks(
    table: Table, types: dict[int, pl.DataType | None], seen: Reading
) -> Iterator[pl.DataFrame]:
    try:
        if is_remote(table.path):
            yield from _remote_blocks(table, types)
            return
        with _opened(table.path) as stream:
            while not stream.readline(_LONGEST_LINE).strip():
                pass  # empty lines before the header
            rest = b""
            while piece := stream.read(_TEXT_BYTES):
                text, newline, rest = (rest + piece).rpartition(b"\n")
                if len(rest) > _LONGEST_LINE:
                    raise StewardError(
                        f"a line is longer than {_LONGEST_LINE >> 20} MiB",
                        where=table.path,
                        hint="this is no table of text with a header line",
                    )
                if newline:
                    yield _parsed(text, table, types, seen)
            if rest.strip():
                yield _parsed(rest, table, types, seen)
    except BROKEN as fault:
        raise _unreadable(table.path, fault) from fault


def _remote_blocks(table: Table, types: dict[int, pl.DataType | None]) -> Iterator[pl.DataFrame]:
    scan = pl.scan_csv(
        table.path,
        has_header=False,
        skip_rows=1,
        separator=table.delimiter,
        schema={f"column_{i + 1}": pl.String() for i in range(table.width)},
        truncate_ragged_lines=True,
    )
    names = [_column(table, place).alias(str(place)) for place in types]
    rows_at_once = max(_FEWEST_ROWS, _BLOCK_VALUES // table.width // 4)
    yield from scan.select(names).collect_batches(chunk_size=rows_at_once)


def _column(table: Table, place: int) -> pl.Expr:
    return pl.col(f"column_{table.places[place] + 1}")


def _parsed(
    text: bytes, table: Table, types: dict[int, pl.DataType | None], seen: Reading
) -> pl.DataFrame:
    """Parse lines: as numbers if all are, else as text of those lines that fit the header."""
    delimiter = table.delimiter
    if delimiter == " ":
        text = b"\n".join(_SPACES.sub(b"\t", line.strip()) for line in text.split(b"\n"))
        delimiter = "\t"
    kinds = {table.places[place]: kind or pl.String() for place, kind in types.items()}
    names = [_column(table, place).alias(str(place)) for place in types]
    wanted = [f"column_{place + 1}" for place in sorted(kinds)]
    for strict in (True, False):
        schema = {
            f"column_{i + 1}": kinds.get(i, pl.String()) if strict else pl.String()
            for i in range(table.width)
        }
        try:
            parsed = pl.read_csv(
                io.BytesIO(text if strict else _fitting(text, delimiter, table, seen)),
                has_header=False,
                schema=schema,
                columns=wanted,
                separator=delimiter,
                encoding="utf8" if strict else "utf8-lossy",
                quote_char='"' if strict else None,
            )
        except PolarsError:
            if not strict:
                raise
        else:
            return parsed.select(names)
    raise AssertionError


def _fitting(text: bytes, delimiter: str, table: Table, seen: Reading) -> bytes:
    """Return the lines that have as many fields as the header; others are counted."""
    mark = delimiter.encode()
    lines = text.replace(b"\r", b"").split(b"\n")
    kept = [line for line in lines if line.count(mark) + 1 == table.width]
    filled = sum(1 for line in lines if line.strip())
    seen.count(
        f"lines with more or fewer fields than {table.width}", table.path, filled - len(kept)
    )
    return b"\n".join(kept) or mark * (table.width - 1)


# -- values ------------------------------------------------------------------------------------


def _numbers(
    raw: pl.DataFrame, types: dict[int, pl.DataType | None], table: Table, seen: Reading
) -> pl.DataFrame:
    """Return the block with numbers where numbers belong; what is none is counted."""
    columns = []
    for place, kind in types.items():
        values = raw[str(place)]
        if kind is None or values.dtype == kind:
            columns.append(values)
        elif values.dtype.is_numeric() or values.dtype == pl.Boolean:
            columns.append(values.cast(kind))
        else:
            columns.append(_from_text(values, kind, table.names[place], seen))
    return pl.DataFrame(columns)


def _from_text(values: pl.Series, kind: pl.DataType, name: str, seen: Reading) -> pl.Series:
    if values.dtype != pl.String:
        seen.count("values of columns that hold no numbers", name, len(values))
        return pl.Series(values.name, [None] * len(values), dtype=kind)
    text = values.str.strip_chars()
    number = text.str.replace(_UNIT_BEHIND, "").cast(pl.Float64, strict=False)
    wrong = number.is_null() & text.is_not_null() & ~text.str.to_lowercase().is_in(_NOTHING)
    if wrong.any():
        example = f"'{text.filter(wrong)[0]}' in {name}"
        seen.count("text where numbers belong", example, int(wrong.sum()))
    return number.cast(kind)
