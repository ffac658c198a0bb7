"""Files that may hold duplicate rows: a parcel that was received twice, before compaction.

Exact duplicates count once everywhere. Looking for them in all that is read would read everything;
only files that are not compacted yet and overlap in time can have them.
"""

# ruff: noqa: S608 - names and texts are quoted here, and the database can only read
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from steward.model.frame import T_S
from steward.store.files.parquet import TableSchema, columns_of
from steward.store.query.views import quoted, text_literal

__all__ = ["repeated"]


def repeated(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], schema: TableSchema
) -> frozenset[Path]:
    """Return those of these files in which rows of one key are found more than once."""
    by_columns: dict[tuple[object, ...], list[Path]] = {}
    for file in files:
        by_columns.setdefault((file.parent, columns_of(file, schema)), []).append(file)
    several = [file for group in by_columns.values() if len(group) > 1 for file in group]
    times = _times(connection, several)
    found: set[Path] = set()
    for group in by_columns.values():
        near = _overlapping([file for file in group if file in times], times)
        if near and _has_repeats(connection, near, schema):
            found.update(near)
    return frozenset(found)


def _times(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path]
) -> dict[Path, tuple[float, float]]:
    """Return the time of the first and last row of each file, from its footer."""
    if not files:
        return {}
    rows = connection.execute(
        "SELECT file_name, min(stats_min_value::DOUBLE), max(stats_max_value::DOUBLE) "
        f"FROM parquet_metadata([{_listed(files)}]) WHERE path_in_schema = '{T_S}' GROUP BY 1"
    ).fetchall()
    return {Path(str(name)): (least, most) for name, least, most in rows}


def _overlapping(files: Sequence[Path], times: dict[Path, tuple[float, float]]) -> list[Path]:
    """Return the files that share some of their time with another one."""
    found: set[Path] = set()
    ordered = sorted(files, key=lambda file: times[file])
    latest: Path | None = None
    for file in ordered:
        if latest is not None and times[file][0] <= times[latest][1]:
            found.update((file, latest))
        if latest is None or times[file][1] > times[latest][1]:
            latest = file
    return sorted(found)


def _has_repeats(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], schema: TableSchema
) -> bool:
    keys = ", ".join(quoted(name) for name in schema.order)
    sql = (
        f"SELECT 1 FROM read_parquet([{_listed(files)}], hive_partitioning = false) "
        f"GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
    )
    return bool(connection.execute(sql).fetchall())


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(text_literal(str(file)) for file in files)
