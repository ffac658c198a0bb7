"""Any CSV with a header: a column per metric, or a row per value; nvidia-smi's is one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from steward.model.event import Observation
from steward.observe.importing.columns import TRIED, Words
from steward.observe.importing.moments import time_column
from steward.observe.importing.shapes import Reader
from steward.observe.importing.sheet import blocks, delimiter_of, fields_of
from steward.observe.importing.source import Head, Source, Tally

__all__ = ["Csv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Csv:
    """Names are looked for in all vocabularies that files use; units only where a name has one."""

    name: str = "csv"

    def recognises(self, head: Head) -> bool:
        names = fields_of(head.line)
        return delimiter_of(head.line) != " " and time_column(names) is not None

    def read(self, source: Source, tally: Tally) -> Iterator[Observation]:
        words = Words(TRIED, source.columns)
        reader = Reader(source=source, tally=tally, words=words)
        for table in blocks(source, tally):
            yield from reader.observations(table)
