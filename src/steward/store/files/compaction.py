"""Makes few files of many, with little memory: those of one partition that have the same columns.

Files that were written one after the other follow one another in time, so neighbours are merged.
A few columns are read at a time, and brought to their place at once: no more than the new file's
rows are ever held, and those once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from steward.model.frame import Frame
from steward.store.files.damage import BROKEN, Note, intact, panics_as_errors
from steward.store.files.parquet import (
    TableSchema,
    columns_of,
    lazy_scan,
    live_files,
    replaced_files,
    rows_of,
    scan,
    write_frame,
)

__all__ = ["LEVEL", "by_columns", "clean", "column_batches", "merge"]

LEVEL = 3  # more takes ten times the memory for 2 % less on disk
_MAX_FILES = 32  # at once: the footers of more files take as much memory as the rows
_VALUES_AT_ONCE = 100_000


def merge(folder: Path, *, schema: TableSchema, max_values: int, note: Note) -> None:
    """Merge adjacent files with the same columns where they fit into one."""
    left = [file.name for file in clean(folder, schema, note)]
    found = intact(live_files(folder, schema, note), note)
    for columns, files in by_columns(found, schema).items():
        width = len(schema.names) + len(columns)
        files.sort(key=lambda file: (file.stat().st_mtime_ns, file.name))
        values = [rows_of(file) * width for file in files]
        while run := _neighbours(values, max_values):
            group = files[run]
            names = [*left, *(file.name for file in group)]
            file = write_frame(
                folder,
                _united(group, columns, schema, note),
                schema=schema,
                replaces=names,
                level=LEVEL,
            )
            files[run], values[run] = [file], [rows_of(file) * width]
            left += [file.name for file in _remove(group)]


def clean(folder: Path, schema: TableSchema, note: Note) -> list[Path]:
    """Remove files that another one replaces, and return those that stay all the same.

    Readers ignore them, so that can wait; but whatever replaces the other one has to name them too.
    """
    return _remove(replaced_files(folder, schema, note))


def by_columns(files: Sequence[Path], schema: TableSchema) -> dict[tuple[str, ...], list[Path]]:
    """Group files by their columns."""
    sets: dict[tuple[str, ...], list[Path]] = {}
    for file in files:
        sets.setdefault(columns_of(file, schema), []).append(file)
    return sets


def column_batches(columns: Sequence[str], rows: int) -> Iterator[Sequence[str]]:
    """Yield batches of columns, each as many as take little memory with so many rows."""
    count = max(1, _VALUES_AT_ONCE // max(1, rows))
    for at in range(0, len(columns), count):
        yield columns[at : at + count]


def _remove(files: Sequence[Path]) -> list[Path]:
    stay = []
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError:
            stay.append(file)
    return stay


def _neighbours(values: Sequence[int], max_values: int) -> slice | None:
    """Return where the first files lie that fit into one together; None when there are none."""
    for first in range(len(values) - 1):
        total, end = values[first], first + 1
        while end < min(len(values), first + _MAX_FILES) and total + values[end] <= max_values:
            total += values[end]
            end += 1
        if end - first > 1:
            return slice(first, end)
    return None


def _united(
    files: Sequence[Path], columns: Sequence[str], schema: TableSchema, note: Note
) -> Frame:
    """Return all rows of these files, in the table's order."""
    try:
        keys = _read(files, schema.names, schema)
        order = keys.select(pl.arg_sort_by(schema.order)).to_series()
        if order.is_sorted():  # one entity: they follow one another
            return keys.hstack(
                [
                    column
                    for few in column_batches(columns, keys.height)
                    for column in _read(files, few, schema).get_columns()
                ]
            )
        keys = keys[order]
        for few in column_batches(columns, keys.height):
            keys = keys.hstack(_read(files, few, schema)[order].get_columns())
        return keys
    except BROKEN:
        everything = pl.lit(value=True)
        return scan(files, metrics=columns, where=everything, schema=schema, note=note)


def _read(files: Sequence[Path], columns: Sequence[str], schema: TableSchema) -> Frame:
    with panics_as_errors():
        return lazy_scan(files, {name: schema.kind(name) for name in columns}).collect().rechunk()
