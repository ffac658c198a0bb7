"""Any CSV with a header: a column per metric, or a row per value; nvidia-smi's is one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steward.model.event import Observation
from steward.observe.importing.columns import TRIED, ColumnNames
from steward.observe.importing.delimited_text import blocks, delimiter_of, fields_of
from steward.observe.importing.source import FileHead, ImportCounts, ImportSource
from steward.observe.importing.table_reader import TableReader
from steward.observe.importing.times import time_column

__all__ = ["Csv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Csv:
    """Names are looked for in all vocabularies that files use; units only where a name has one."""

    name: str = "csv"

    def recognises(self, head: FileHead) -> bool:
        names = fields_of(head.line)
        return delimiter_of(head.line) != " " and time_column(names) is not None

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        words = ColumnNames(TRIED, source.columns)
        reader = TableReader(source=source, tally=tally, words=words)
        for table in blocks(source, tally):
            yield from reader.observations(table)
