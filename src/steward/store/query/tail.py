"""What is new in a store folder: files that were not there the last time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import polars as pl

from steward.errors import StewardError
from steward.model.frame import ENTITY, T_S, Frame
from steward.store.files.damage import NoteOnly
from steward.store.files.logs import LOGS
from steward.store.files.other import OTHER
from steward.store.files.parquet import (
    HOUR_S,
    Partitions,
    TableSchema,
    columns_of,
    live_files,
    replaced_by,
    scan,
)

__all__ = ["Tail"]

_TABLES: Mapping[str, TableSchema] = {"telemetry": TableSchema(), "other": OTHER, "logs": LOGS}
_LOOK_BACK = 3  # partitions: samples may come late


class Tail:
    """Follows a folder that another process writes. Only what was flushed can be seen."""

    def __init__(self, folder: Path, *, entity: str = "*", metric: str = "*") -> None:
        if not folder.is_dir():
            raise StewardError(
                "there is no such folder",
                where=str(folder),
                hint="start `steward observe record` or `steward up` with this folder first",
            )
        self._folder = folder
        self._entity, self._metric = entity, metric
        self._seen: dict[str, set[str]] = {name: set() for name in _TABLES}
        self.notes: list[str] = []
        self._note = NoteOnly(self.notes.append)

    def skip(self) -> None:
        """Start with rows that arrive after this call."""
        for _table, _rows in self.new(read=False):
            pass

    def new(self, *, read: bool = True) -> Iterator[tuple[str, Frame]]:
        """Yield new rows, table by table, oldest first."""
        for name, schema in _TABLES.items():
            files = self._new_files(name, schema)
            if read and files:
                rows = self._rows(files, schema)
                if rows.height:
                    yield name, rows

    def _new_files(self, name: str, schema: TableSchema) -> list[Path]:
        partitions = Partitions(self._folder / name)
        numbers = partitions.between(0.0, float("inf"))[
            -_LOOK_BACK * (HOUR_S // partitions.period_s) :
        ]
        seen = self._seen[name]
        live = [f for n in numbers for f in live_files(partitions.folder(n), schema, self._note)]
        # What compaction made of files that were seen is nothing new.
        fresh = [f for f in live if f.name not in seen and seen.isdisjoint(replaced_by(f, schema))]
        self._seen[name] = {f.name for f in live} | {
            r for f in live for r in replaced_by(f, schema)
        }
        return fresh

    def _rows(self, files: list[Path], schema: TableSchema) -> Frame:
        columns = sorted({each for file in files for each in columns_of(file, schema)})
        metrics = [each for each in columns if fnmatchcase(each, self._metric)]
        if schema.metrics and not metrics:
            return pl.DataFrame()
        everything = pl.lit(value=True)
        rows = scan(files, metrics=metrics, where=everything, schema=schema, note=self._note)
        if self._entity != "*":
            names = [n for n in rows[ENTITY].unique() if fnmatchcase(n, self._entity)]
            rows = rows.filter(pl.col(ENTITY).is_in(names))
        if metrics:
            rows = rows.filter(pl.any_horizontal(pl.col(metrics).is_not_null()))
        if "metric" in rows.columns and self._metric != "*":
            wanted = [n for n in rows["metric"].unique() if fnmatchcase(n, self._metric)]
            rows = rows.filter(pl.col("metric").is_in(wanted))
        return rows.sort(T_S, ENTITY)
