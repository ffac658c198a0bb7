"""Rows that wait in memory for their way to the disk: by set of columns, and never too many."""

from __future__ import annotations

import polars as pl

from steward.model.frame import ENTITY, T_S, Frame
from steward.store.files.kinds import kind_of
from steward.store.files.parquet import Partitions, TableSchema

__all__ = ["WriteBuffer"]

_MAX_PIECES = 64
_PART, _KIND = "\0part", "\0kind"  # no metric is called that


class WriteBuffer:
    """Rows of a table that are in no file yet, in one frame per set of columns."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._sets: dict[tuple[str, ...], list[Frame]] = {}
        self.rows = 0

    def add(self, frame: Frame) -> None:
        """Add rows."""
        names = {*self._schema.names}
        columns = (
            *self._schema.names,
            *sorted(name for name in frame.columns if name not in names),
        )
        pieces = self._sets.setdefault(columns, [])
        pieces.append(frame.select(columns))
        self.rows += frame.height
        if len(pieces) > _MAX_PIECES:
            self._sets[columns] = [pl.concat(pieces)]

    def tables(self) -> list[Frame]:
        """Return all that waits, one table per set of columns."""
        for columns, pieces in self._sets.items():
            if len(pieces) > 1:
                self._sets[columns] = [pl.concat(pieces)]
        return [pieces[0] for pieces in self._sets.values()]

    def by_partition(self, partitions: Partitions) -> list[tuple[int, Frame]]:
        """Return what is to become one file each, with the number of its partition."""
        number = (pl.col(T_S) // partitions.period_s).cast(pl.Int64).alias(_PART)
        found = []
        for table in self.tables():
            pieces = table.with_columns(number).partition_by(_PART, as_dict=True, include_key=False)
            for (part,), piece in pieces.items():
                dense = _dense(piece) if self._schema.metrics else [piece]
                found += [(int(part), each) for each in dense]
        return sorted(found, key=lambda each: each[0])

    def keep_only(self, tables: list[Frame]) -> None:
        """Replace the content with these tables."""
        self._sets, self.rows = {}, 0
        for table in tables:
            self.add(table)

    def drop_oldest(self, count: int) -> None:
        """Drop that many rows, the oldest by their own time."""
        tables = self.tables()
        times = pl.concat([table[T_S] for table in tables]).sort()
        cut_s = times[count - 1]
        spare = count - int((times < cut_s).sum())
        kept = []
        for table in tables:
            newer = table.filter(pl.col(T_S) >= cut_s)
            drop = (pl.col(T_S) == cut_s) & ((pl.col(T_S) == cut_s).cum_sum() <= spare)
            left = newer.filter(~drop)
            spare -= newer.height - left.height
            kept.append(left)
        self.keep_only([table for table in kept if table.height])


def _dense(table: Frame) -> list[Frame]:
    """Split a table that was put together from others: a node has no column of a GPU.

    A column without any value may be a broken sensor's, so it stays with all.
    """
    filled = [
        name
        for name, nulls in zip(table.columns, table.null_count().row(0), strict=True)
        if nulls < table.height
    ]
    if ENTITY not in table.columns or not any(table[name].null_count() for name in filled):
        return [table]
    kinds = table.with_columns(kind_of().alias(_KIND))
    found: dict[tuple[str, ...], list[Frame]] = {}
    for piece in kinds.partition_by(_KIND, include_key=False):
        empty = {name for name in filled if piece[name].null_count() == piece.height}
        columns = tuple(name for name in table.columns if name not in empty)
        found.setdefault(columns, []).append(piece.select(columns))
    return [pl.concat(pieces) for pieces in found.values()]
