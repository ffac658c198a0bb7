"""Makes the tables that a question can see: views on Parquet files, and small tables of lines."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import duckdb
import polars as pl

from steward.model.span import Span
from steward.store.database import connect_read_only
from steward.store.files.damage import Note, intact
from steward.store.files.events import read_events
from steward.store.files.logs import LOGS
from steward.store.files.other import OTHER
from steward.store.files.parquet import Partitions, TableSchema, columns_of, live_files
from steward.store.files.spans import label_intervals, read_spans
from steward.store.files.tiers import TIERS, cover, metrics_of
from steward.store.query.duplicates import repeated
from steward.store.query.views import (
    SPAN_KINDS,
    labels_in,
    quoted,
    scan_sql,
    text_literal,
    tier_sql,
    with_labels,
)

__all__ = ["Tables"]

_SCHEMA = TableSchema()
_SPANS = {
    "id": pl.String, "entity": pl.String, "kind": pl.String, "name": pl.String,
    "from_s": pl.Float64, "to_s": pl.Float64, "source": pl.String, "about": pl.String,
}  # fmt: skip
_EVENTS = {
    "t_s": pl.Float64, "kind": pl.String, "subject": pl.String, "text": pl.String,
    "source": pl.String,
}  # fmt: skip
_SEGMENTS = {"key": pl.String, "from_s": pl.Float64, "to_s": pl.Float64, "name": pl.String}
_METRIC = re.compile(r'"([^"]+\.[^"]+)"')  # a name with a dot has to be quoted
_EVERYTHING = re.compile(r"\bduckdb_|\binformation_schema\b|\bshow\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of a folder between two moments. Only those that a question names are made."""

    folder: Path
    scratch: Path
    from_s: float
    to_s: float
    note: Note

    def make(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Make what `sql` can name; all of it when it is empty."""
        everything = not sql or bool(_EVERYTHING.search(sql))
        for name, text in self._texts(connection, sql).items():
            if everything or re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                whole = self._with_absent(connection, text(), sql) if self._is_part else text()
                connection.execute(f"CREATE VIEW {name} AS {whole}")
        for name, make in (("events", self._make_events), ("spans", self._make_spans)):
            if everything or re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                make(connection)

    def _texts(
        self, connection: duckdb.DuckDBPyConnection, sql: str
    ) -> dict[str, Callable[[], str]]:
        joins = self._make_intervals(connection, labels_in(sql))
        texts: dict[str, Callable[[], str]] = {
            "telemetry": lambda: with_labels(self._scan(connection, "telemetry", _SCHEMA), joins),
            "other": lambda: self._scan(connection, "other", OTHER),
            "logs": lambda: self._scan(connection, "logs", LOGS),
        }
        for count in range(1, len(TIERS) + 1):
            name = f"telemetry_{TIERS[count - 1].name}"
            texts[name] = lambda count=count: with_labels(self._tier(connection, count), joins)  # type: ignore[misc]
        return texts

    def _scan(self, connection: duckdb.DuckDBPyConnection, table: str, schema: TableSchema) -> str:
        partitions = Partitions(self.folder / table)
        folders = [partitions.folder(part) for part in partitions.between(self.from_s, self.to_s)]
        listed = [file for each in folders for file in live_files(each, schema, self.note)]
        files = intact(listed, self.note)
        return self._in_time(scan_sql(files, schema, repeated=repeated(connection, files, schema)))

    def _tier(self, connection: duckdb.DuckDBPyConnection, count: int) -> str:
        raw = self.folder / "telemetry"
        known = cover(raw, TIERS[:count], from_s=self.from_s, to_s=self.to_s, note=self.note)
        twice = repeated(connection, known.levels[0], _SCHEMA)
        return self._in_time(tier_sql(known, TIERS[count - 1].step_s, twice))

    @property
    def _is_part(self) -> bool:
        return self.from_s > 0.0 or isfinite(self.to_s)

    def _in_time(self, text: str) -> str:
        """Leave out rows of the same files that are not in that time."""
        if not self._is_part:
            return text
        before = f" AND t_s < {self.to_s!r}" if isfinite(self.to_s) else ""
        return f"SELECT * FROM ({text}) WHERE t_s >= {self.from_s!r}{before}"  # noqa: S608 - numbers

    def _with_absent(self, connection: duckdb.DuckDBPyConnection, text: str, sql: str) -> str:
        """Add metrics that were recorded at other times only: querying them is no mistake."""
        described = connection.execute(f"DESCRIBE {text}").fetchall()
        there = {str(row[0]) for row in described}
        absent = sorted({*_METRIC.findall(sql)} - there)
        known = [name for name in absent if self.is_known(name)]
        if not known:
            return text
        nothing = ", ".join(f"NULL::DOUBLE AS {quoted(name)}" for name in known)
        return f"({text}) UNION ALL BY NAME (SELECT {nothing} WHERE false)"

    def is_known(self, name: str) -> bool:
        """Return True if a metric was recorded at any time: samples may be gone, steps not."""
        wanted = {name, f"{name}.count", *metrics_of([name])}
        roots = [Partitions(self.folder / "telemetry")]
        roots += [tier.partitions(self.folder / "telemetry") for tier in TIERS]
        folders = (
            partitions.folder(part)
            for partitions in roots
            for part in reversed(partitions.between(0.0, float("inf")))
        )
        return any(
            not wanted.isdisjoint(columns_of(file, _SCHEMA))
            for folder in folders
            for file in live_files(folder, _SCHEMA, self.note)
        )

    def _make_intervals(
        self, connection: duckdb.DuckDBPyConnection, wanted: Sequence[str]
    ) -> dict[str, tuple[bool, bool]]:
        """Make the tables of intervals that samples are joined with; return which there are."""
        if not wanted:
            return {}
        joins = {}
        spans = self._spans()
        for kind in (kind for kind in SPAN_KINDS if kind in wanted):
            cut = label_intervals([span for span in spans if self._overlaps(span)], kind)
            if cut:
                stretches = [(each.entity, each.from_s, each.to_s, each.name) for each in cut]
                table = pl.DataFrame(stretches, schema=_SEGMENTS, orient="row")
                self._make_table(connection, f"segments {kind}", table)
                whole = [each.entity.endswith("/*") for each in cut]
                joins[kind] = (not all(whole), any(whole))
        return joins

    def _make_spans(self, connection: duckdb.DuckDBPyConnection) -> None:
        rows = [
            (s.id, s.entity, s.kind, s.name, s.from_s, s.to_s, s.source, json.dumps(dict(s.about)))
            for s in self._spans()
        ]
        self._make_table(connection, "spans", pl.DataFrame(rows, schema=_SPANS, orient="row"))

    def _spans(self) -> tuple[Span, ...]:
        return read_spans(self.folder, self.note)

    def _overlaps(self, span: Span) -> bool:
        return span.from_s < self.to_s and (span.to_s is None or span.to_s > self.from_s)

    def _make_events(self, connection: duckdb.DuckDBPyConnection) -> None:
        rows = [{name: each.get(name) for name in _EVENTS} for each in self._journal_events()]
        journal = pl.DataFrame(rows, schema=_EVENTS, strict=False)
        recorded = read_events(self.folder, self.note)
        self._make_table(
            connection, "events", pl.concat([recorded.select(journal.columns), journal])
        )

    def _journal_events(self) -> list[dict[str, object]]:
        """Read the events that the loop has written to its journal, if there is one here."""
        journal = self.folder / "journal.sqlite3"
        if not journal.exists():
            return []
        try:
            with closing(connect_read_only(journal)) as database:
                rows = database.execute("SELECT body FROM entries WHERE kind = 'event'").fetchall()
            return [json.loads(body) for (body,) in rows]
        except (sqlite3.Error, ValueError) as fault:
            self.note(f"{journal}: its events cannot be read: {fault}")
            return []

    def _make_table(
        self, connection: duckdb.DuckDBPyConnection, name: str, table: pl.DataFrame
    ) -> None:
        file = self.scratch / f"{name}.parquet"
        table.write_parquet(file)
        path = text_literal(str(file))
        connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_parquet({path})')  # noqa: S608 - our own names
