"""Reveal's text files: one row per sample (100 ms), a column per counter and device.

No public sample of these files was to be had when this was written. What is read: a header line;
fields separated by blanks, tabs or commas; a column for the time in s, ms or ISO; and columns in
the words of any vocabulary, with or without their device before them (`gpu0_…`, `GPU0:…`).
Columns that nobody knows are kept as they are, in `other`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steward.model.event import Observation
from steward.observe.importing.columns import TRIED, ColumnNames
from steward.observe.importing.delimited_text import blocks, delimiter_of, fields_of
from steward.observe.importing.source import FileHead, ImportCounts, ImportSource
from steward.observe.importing.table_reader import TableReader
from steward.observe.importing.times import time_column

__all__ = ["Reveal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """A table of text; told from plain CSV by its blanks, so CSV has to be named."""

    name: str = "reveal"

    def recognises(self, head: FileHead) -> bool:
        names = fields_of(head.line)
        return delimiter_of(head.line) == " " and len(names) > 2 and time_column(names) is not None

    def read(self, source: ImportSource, tally: ImportCounts) -> Iterator[Observation]:
        words = ColumnNames(TRIED, source.columns)
        reader = TableReader(source=source, tally=tally, words=words)
        for table in blocks(source, tally):
            yield from reader.observations(table)
