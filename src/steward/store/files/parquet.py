"""Parquet files of a table: where they lie, how no crash tears one, how many are read as one.

`date=YYYY-MM-DD/hour=HH/NAME.parquet`, by sample time in UTC. A file holds rows of one set of
columns, so that none is mostly empty; reading unites them. A file is never changed. One that
compaction made names the files it replaces; those are ignored as soon as it is there, so that a
crash before they are deleted shows nothing twice.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from steward.errors import StewardError
from steward.model.frame import ENTITY, T_S, Frame
from steward.store.atomic import make_folder, write_atomic
from steward.store.files.damage import (
    BROKEN,
    Note,
    check_footer,
    checksums_of,
    intact,
    panics_as_errors,
    set_aside,
)

__all__ = [
    "DAY_S",
    "HOUR_S",
    "Partitions",
    "TableSchema",
    "cannot_write",
    "columns_of",
    "deduplicated",
    "lazy_scan",
    "live_files",
    "made_from",
    "replaced_by",
    "replaced_files",
    "rows_of",
    "scan",
    "set_broken_aside",
    "suppress_full_disk",
    "types_of",
    "write_frame",
]

HOUR_S = 3600
DAY_S = 24 * HOUR_S
_ENDING = ".parquet"
_COMPACTED = "compacted-"
_REPLACES = "steward.replaces"
_MADE_FROM = "steward.made_from"
_ROW_GROUP_ROWS = 65_536
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DATE, _HOUR = re.compile(r"date=(\d{4}-\d\d-\d\d)"), re.compile(r"hour=([01]\d|2[0-3])")
_DAY_0 = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TableSchema:
    """What a table's files look like: columns that all have, and how rows lie in a file.

    `metrics`: whether there may be further columns, of Float64 and any name.
    """

    fixed: tuple[tuple[str, pl.DataType], ...] = ((T_S, pl.Float64()), (ENTITY, pl.String()))
    order: tuple[str, ...] = (ENTITY, T_S)
    metrics: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that all files have, in their order."""
        return tuple(name for name, _ in self.fixed)

    def kind(self, name: str) -> pl.DataType:
        """Return the type of a column."""
        return dict(self.fixed).get(name, pl.Float64())


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of a table: one folder per hour, or per day, counted since 1970."""

    root: Path
    period_s: int = HOUR_S

    def folder(self, number: int) -> Path:
        """Return where the files of one partition are."""
        start = datetime.fromtimestamp(number * self.period_s, UTC)
        day = self.root / f"date={start.date().isoformat()}"
        return day if self.period_s == DAY_S else day / f"hour={start.hour:02d}"

    def between(self, from_s: float, to_s: float) -> list[int]:
        """Return the partitions on disk that hold any part of the time between two moments."""
        days = [d for d in _numbers(self.root, _DATE) if d * DAY_S <= to_s]
        days = [d for d in days if (d + 1) * DAY_S > from_s]
        if self.period_s == DAY_S:
            return sorted(days)
        hours = [d * 24 + h for d in days for h in _numbers(self.folder(d * 24).parent, _HOUR)]
        return sorted(h for h in hours if h * HOUR_S <= to_s and (h + 1) * HOUR_S > from_s)


def _numbers(folder: Path, pattern: re.Pattern[str]) -> Iterator[int]:
    """Yield the days since 1970, or the hours of a day, that have a folder; ignore other names."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return  # retention was faster
    for name in names:
        match = pattern.fullmatch(name)
        with suppress(ValueError):  # a date that no calendar has is not ours
            if match and pattern is _DATE:
                yield (date.fromisoformat(match[1]) - _DAY_0).days
            elif match:
                yield int(match[1])


def deduplicated(frame: Frame, order: Sequence[str]) -> Frame:
    """Return rows sorted, each exact duplicate once; the result depends on nothing but the rows."""
    keys = frame.select(order)
    at = keys.select(pl.arg_sort_by(order)).to_series()
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in order)
    if not keys[at].select(same.slice(1).any()).item():  # no key is there twice
        return frame if at.is_sorted() else frame[at]
    rest = [name for name in frame.columns if name not in order]
    return frame.unique().sort([*order, *rest])


def write_frame(
    folder: Path,
    frame: Frame,
    *,
    schema: TableSchema = TableSchema(),  # noqa: B008 - a frozen value
    replaces: Sequence[str] = (),
    made_from: Sequence[str] = (),
    level: int = 1,
) -> Path:
    """Write a frame as one new file. It is there as a whole, durably, or not at all.

    `replaces` names files of the same folder whose rows these are, `made_from` files elsewhere.
    """
    packed = io.BytesIO()
    deduplicated(frame, schema.order).write_parquet(
        packed,
        compression="zstd",
        compression_level=level,
        statistics=True,
        row_group_size=_ROW_GROUP_ROWS,
        metadata={
            _REPLACES: json.dumps(list(replaces)),
            _MADE_FROM: json.dumps(sorted(made_from)),
        },
    )
    kind = _COMPACTED if replaces else "flushed-"
    checksums = checksums_of(packed.getbuffer())
    file = folder / f"{kind}{secrets.token_hex(8)}-{checksums}{_ENDING}"
    try:
        make_folder(folder)
        write_atomic(file, packed.getbuffer())
    except OSError as fault:
        raise cannot_write(folder, fault) from fault
    return file


def cannot_write(folder: Path, fault: OSError) -> StewardError:
    """Return why telemetry cannot be written to a folder, and what to do."""
    if fault.errno in _DISK_FULL:
        return StewardError(
            f"the disk is full ({fault.strerror}): nothing is lost so far, nothing more is kept",
            where=str(folder),
            hint="make room, or keep fewer days: [store] keep_days in the configuration",
        )
    return StewardError(
        f"telemetry cannot be kept: {fault.strerror or fault}",
        where=str(folder),
        hint="choose a folder that steward may write to: with --out or --data, or [store] folder "
        "in the configuration",
    )


@contextmanager
def suppress_full_disk(note: Note) -> Iterator[None]:
    """Note that the disk is full instead of raising: that must not prevent a start."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in _DISK_FULL:
            raise
        note(f"the disk is full ({fault.strerror}): nothing is kept until there is room")


@dataclass(frozen=True, slots=True)
class _Footer:
    columns: tuple[str, ...]
    replaces: tuple[str, ...]
    made_from: tuple[str, ...]


@lru_cache(maxsize=16_384)
def _footer(file: Path, schema: TableSchema) -> _Footer:
    """Read a file's footer. Cached: names are never used twice."""
    # by name, polars would take [ and * for a pattern
    with file.open("rb") as stream, panics_as_errors():
        types = pl.read_parquet_schema(stream)
        stream.seek(0)
        metadata = pl.read_parquet_metadata(stream)
    wrong = [name for name, kind in types.items() if kind != schema.kind(name)]
    wrong += [name for name in types if not schema.metrics and name not in schema.names]
    missing = [name for name in schema.names if name not in types]
    if wrong or missing:
        raise PolarsError(f"columns of a wrong type: {wrong}; missing: {missing}")
    names = (tuple(json.loads(metadata.get(key, "[]"))) for key in (_REPLACES, _MADE_FROM))
    return _Footer(_interned(tuple(types)), *names)


@lru_cache(maxsize=1_024)
def _interned(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return one shared tuple per set of columns: an hour has thousands of files, and few sets."""
    return columns


def live_files(folder: Path, schema: TableSchema, note: Note) -> list[Path]:
    """Return the readable files of a partition, without those that compaction has replaced.

    Only their footers are verified: pass what is read to `intact`.
    """
    good = {file: footer for file in _names(folder) if (footer := _checked(file, schema, note))}
    replaced = {name for footer in good.values() for name in footer.replaces}
    return [file for file in good if file.name not in replaced]


def replaced_files(folder: Path, schema: TableSchema, note: Note) -> list[Path]:
    """Return files that are still there although another one, which is intact, has their rows."""
    replacing = [f for f in live_files(folder, schema, note) if _footer(f, schema).replaces]
    names = {name for file in replacing for name in _footer(file, schema).replaces}
    if not any(file.name in names for file in _names(folder)):
        return []
    good = intact(replacing, note)
    names = {name for file in good for name in _footer(file, schema).replaces}
    return [file for file in _names(folder) if file.name in names]


def _names(folder: Path) -> list[Path]:
    """List a partition, twice: one pass may miss both a new file and those that it replaces."""
    before: list[str] | None = None
    while True:
        try:
            with os.scandir(folder) as entries:  # a path of each would cost more than all else
                now = sorted(entry.name for entry in entries if entry.name.endswith(_ENDING))
        except FileNotFoundError:
            return []  # retention was faster
        if now == before:
            return [folder / name for name in now]
        before = now


def _checked(file: Path, schema: TableSchema, note: Note) -> _Footer | None:
    try:
        check_footer(file)
        return _footer(file, schema)
    except FileNotFoundError:
        return None  # compaction was faster; its new file is listed too
    except BROKEN as fault:
        set_aside(file, fault, note)
        return None


def columns_of(file: Path, schema: TableSchema) -> tuple[str, ...]:
    """Return the columns of a file beside those that all have, by name."""
    return tuple(sorted({*_footer(file, schema).columns} - {*schema.names}))


def types_of(file: Path, schema: TableSchema) -> dict[str, pl.DataType]:
    """Return all columns of a file with their types."""
    return {name: schema.kind(name) for name in (*schema.names, *columns_of(file, schema))}


@lru_cache(maxsize=4_096)
def rows_of(file: Path) -> int:
    """Return how many rows a file has. Names are never used twice, so it may be remembered."""
    with panics_as_errors():
        return int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())


def replaced_by(file: Path, schema: TableSchema) -> tuple[str, ...]:
    """Return the names of the files that this one replaces."""
    return _footer(file, schema).replaces


def made_from(file: Path, schema: TableSchema) -> tuple[str, ...]:
    """Return the names of the files elsewhere that this one was worked out from."""
    return _footer(file, schema).made_from


def scan(
    files: Sequence[Path],
    *,
    metrics: Sequence[str],
    where: pl.Expr,
    schema: TableSchema,
    note: Note,
) -> Frame:
    """Read the rows that fulfil `where`, with these metrics; those that a file lacks are null.

    Files that turn out to be broken are set aside and the rest is read. `FileNotFoundError` means
    that compaction or retention was faster: list the files again.
    """
    types = {name: schema.kind(name) for name in (*schema.names, *metrics)}
    files = intact(files, note)
    while files:
        try:
            with panics_as_errors():
                return lazy_scan(files, types).filter(where).collect()
        except BROKEN as fault:
            broken = set_broken_aside(files, types, note)
            if not broken:
                raise StewardError(
                    f"telemetry cannot be read: {fault}",
                    where=str(files[0].parent),
                    hint="this is a fault of steward: please report it",
                ) from fault
            files = [file for file in files if file not in broken]
    return pl.DataFrame(schema=types)


def lazy_scan(files: Sequence[Path], types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return a lazy frame over these files."""
    return pl.scan_parquet(
        list(files),
        schema=dict(types),
        missing_columns="insert",
        extra_columns="ignore",
        hive_partitioning=False,
        glob=False,
    )


def set_broken_aside(
    files: Sequence[Path], types: Mapping[str, pl.DataType], note: Note
) -> set[Path]:
    """Decode each file alone; set aside and return those that cannot be decoded."""
    broken: set[Path] = set()
    for file in files:
        try:
            with panics_as_errors():
                lazy_scan([file], types).collect()
        except BROKEN as fault:
            set_aside(file, fault, note)
            broken.add(file)
    return broken
