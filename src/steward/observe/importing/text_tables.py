"""Tables of text with a header: CSV, and Reveal's files of columns separated by blanks.

CSV: a column per metric, or a row per value; nvidia-smi's is one of them.

Reveal: one row per sample (100 ms), a column per counter and device. No public sample of these
files was to be had when this was written. What is read: a header line; fields separated by blanks
or tabs; a column for the time in s, ms or ISO; and columns in the names of any vocabulary, with or
without their device before them (`gpu0_…`, `GPU0:…`). Unknown columns are kept in `other`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steward.model.event import Observation
from steward.model.metrics.columns import TRIED, ColumnNames
from steward.observe.importing.delimited_text import blocks
from steward.observe.importing.source import FileHead, ImportCounts, ImportSource
from steward.observe.importing.table_reader import TableReader
from steward.store.files.text_headers import delimiter_of, fields_of
from steward.store.files.time_columns import time_column

__all__ = ["Csv", "Reveal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Csv:
    """Names are looked for in all vocabularies that files use; units only where a name has one."""

    name: str = "csv"

    def recognises(self, head: FileHead) -> bool:
        names = fields_of(head.line)
        return delimiter_of(head.line) != " " and time_column(names) is not None

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        return _read(source, tally)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """Detected by its blanks, unlike plain CSV: with commas, name the format."""

    name: str = "reveal"

    def recognises(self, head: FileHead) -> bool:
        names = fields_of(head.line)
        return delimiter_of(head.line) == " " and len(names) > 2 and time_column(names) is not None

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        return _read(source, tally)


def _read(source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
    reader = TableReader(source=source, tally=tally, names=ColumnNames(TRIED, source.columns))
    for table in blocks(source, tally):
        yield from reader.observations(table)
