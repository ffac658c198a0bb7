"""Telemetry files on disk: where they lie, how no crash tears one, how many are read as one.

`date=YYYY-MM-DD/hour=HH/NAME.parquet`, by sample time in UTC. A file is never changed. One that
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path

import polars as pl
from polars.exceptions import PanicException, PolarsError

from steward.errors import StewardError
from steward.model.frame import ENTITY, T_S, Frame
from steward.store.salvage import sync_folder

__all__ = [
    "HOUR_S",
    "TMP",
    "Note",
    "cannot_write",
    "columns_of",
    "folder_of",
    "hours_in",
    "live_files",
    "replaced_files",
    "scan",
    "write_frame",
]

HOUR_S = 3600
TMP = ".tmp"
_ENDING = ".parquet"
_COMPACTED = "compacted-"
_REPLACES = "steward.replaces"
_ROW_GROUP_ROWS = 65_536
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DATE, _HOUR = re.compile(r"date=(\d{4}-\d\d-\d\d)"), re.compile(r"hour=([01]\d|2[0-3])")
_DAY_0 = date(1970, 1, 1)
# polars panics on some broken files; that is a fault of the file, not of our program.
_BROKEN = (PolarsError, PanicException)

Note = Callable[[str], None]


def folder_of(root: Path, hour: int) -> Path:
    """Return the partition of an hour (counted since 1970)."""
    start = datetime.fromtimestamp(hour * HOUR_S, UTC)
    return root / f"date={start.date().isoformat()}" / f"hour={start.hour:02d}"


def hours_in(root: Path, *, from_s: float, to_s: float) -> list[int]:
    """Return the hours on disk that hold any part of the time between two moments."""
    days = [day for day in _numbers(root, _DATE) if day * 24 * HOUR_S <= to_s]
    hours = [
        day * 24 + hour
        for day in days
        if (day + 1) * 24 * HOUR_S > from_s
        for hour in _numbers(folder_of(root, day * 24).parent, _HOUR)
    ]
    return sorted(h for h in hours if h * HOUR_S <= to_s and (h + 1) * HOUR_S > from_s)


def _numbers(folder: Path, pattern: re.Pattern[str]) -> Iterator[int]:
    """Give the days since 1970, or the hours of a day, that have a folder; ignore other names."""
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


def write_frame(
    folder: Path, frame: Frame, *, replaces: Sequence[str] = (), level: int = 1
) -> Path:
    """Write a frame as one new file. It is there as a whole, durably, or not at all."""
    packed = io.BytesIO()
    frame.sort(ENTITY, T_S).write_parquet(
        packed,
        compression="zstd",
        compression_level=level,
        statistics=True,
        row_group_size=_ROW_GROUP_ROWS,
        metadata={_REPLACES: json.dumps(list(replaces))},
    )
    kind = _COMPACTED if replaces else "flushed-"
    file = folder / f"{kind}{secrets.token_hex(8)}{_ENDING}"
    tmp = file.with_name(file.name + TMP)
    try:
        _make_folder(folder)
        _write_durably(tmp, packed.getbuffer())
        tmp.rename(file)
        sync_folder(folder)
    except OSError as fault:
        with suppress(OSError):  # readers ignore it, and the next start removes it
            tmp.unlink(missing_ok=True)
        raise cannot_write(folder, fault) from fault
    return file


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for parent in (folder.parent, folder.parent.parent):
        sync_folder(parent)


def _write_durably(file: Path, content: memoryview) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        while content:
            content = content[os.write(handle, content) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(folder: Path, fault: OSError) -> StewardError:
    """Say why a folder takes no more telemetry, and what to do."""
    if fault.errno in _NO_ROOM:
        return StewardError(
            f"the disk is full ({fault.strerror}): nothing is lost so far, nothing more is kept",
            where=str(folder),
            hint="make room, or keep fewer days: [store] keep_days in the configuration",
        )
    return StewardError(
        f"telemetry cannot be kept: {fault.strerror or fault}",
        where=str(folder),
        hint="choose a folder that steward may write to: [store] folder in the configuration",
    )


@dataclass(frozen=True, slots=True)
class _Footer:
    columns: tuple[str, ...]
    replaces: tuple[str, ...]


@lru_cache(maxsize=4096)
def _footer(file: Path) -> _Footer:
    """Read what a file says about itself. Names are never used twice, so it may be remembered."""
    schema = pl.read_parquet_schema(file)
    wrong = [name for name, kind in schema.items() if kind != _kind(name)]
    missing = [name for name in (T_S, ENTITY) if name not in schema]
    if wrong or missing:
        raise PolarsError(f"columns of a wrong type: {wrong}; missing: {missing}")
    replaces: tuple[str, ...] = ()
    if file.name.startswith(_COMPACTED):
        replaces = tuple(json.loads(pl.read_parquet_metadata(file).get(_REPLACES, "[]")))
    return _Footer(tuple(schema), replaces)


def _kind(name: str) -> pl.DataType:
    return pl.String() if name == ENTITY else pl.Float64()


def live_files(folder: Path, note: Note) -> list[Path]:
    """Return the readable files of a partition, without those that compaction has replaced."""
    good = {file: footer for file in _names(folder) if (footer := _checked(file, note))}
    replaced = {name for footer in good.values() for name in footer.replaces}
    return sorted(file for file in good if file.name not in replaced)


def replaced_files(folder: Path, note: Note) -> list[Path]:
    """Return files that are still there although another one holds their rows."""
    return sorted({*_names(folder)} - {*live_files(folder, note)})


def _names(folder: Path) -> list[Path]:
    """List a partition, twice: one pass may miss both a new file and those that it replaces."""
    before: list[Path] | None = None
    while True:
        try:
            now = sorted(path for path in folder.iterdir() if path.name.endswith(_ENDING))
        except FileNotFoundError:
            return []  # retention was faster
        if now == before:
            return now
        before = now


def _checked(file: Path, note: Note) -> _Footer | None:
    try:
        return _footer(file)
    except FileNotFoundError:
        return None  # compaction was faster; its new file is listed too
    except _BROKEN as fault:
        _set_aside(file, fault, note)
        return None


def _set_aside(file: Path, fault: BaseException, note: Note) -> None:
    why = " ".join(str(fault).split())[:200]
    try:
        file.rename(file.with_name(file.name + ".unreadable"))
    except OSError as refused:
        note(f"{file} is unreadable ({why}) and was skipped; renaming failed: {refused.strerror}")
    else:
        note(f"{file} is unreadable ({why}); it was renamed to {file.name}.unreadable")


def columns_of(files: Iterable[Path]) -> tuple[str, ...]:
    """Return all metrics in any of these files, by name."""
    names = {name for file in files for name in _footer(file).columns}
    return tuple(sorted(names - {T_S, ENTITY}))


def scan(files: Sequence[Path], *, metrics: Sequence[str], where: pl.Expr, note: Note) -> Frame:
    """Read the rows that fulfil `where`, with these metrics; those that a file lacks are null.

    Files that turn out to be broken are set aside and the rest is read. `FileNotFoundError` means
    that compaction or retention was faster: list the files again.
    """
    schema = {name: _kind(name) for name in (T_S, ENTITY, *metrics)}
    while files:
        try:
            return _lazy(files, schema).filter(where).collect()
        except _BROKEN as fault:
            broken = dict(_broken(files, schema, where))
            if not broken:
                raise StewardError(
                    f"telemetry cannot be read: {fault}",
                    where=str(files[0].parent),
                    hint="this is a fault of steward: please report it",
                ) from fault
            for file, why in broken.items():
                _set_aside(file, why, note)
            files = [file for file in files if file not in broken]
    return pl.DataFrame(schema=schema)


def _lazy(files: Sequence[Path], schema: dict[str, pl.DataType]) -> pl.LazyFrame:
    return pl.scan_parquet(
        list(files),
        schema=schema,
        missing_columns="insert",
        extra_columns="ignore",
        hive_partitioning=False,
        glob=False,
    )


def _broken(
    files: Sequence[Path], schema: dict[str, pl.DataType], where: pl.Expr
) -> Iterator[tuple[Path, BaseException]]:
    """Try each file alone, in the same way: some faults show only where a filter looks."""
    for file in files:
        try:
            _lazy([file], schema).filter(where).collect()
        except _BROKEN as fault:
            yield file, fault
