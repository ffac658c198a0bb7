"""SQL over a store folder with DuckDB: read-only, within the folder, with limits."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import duckdb
import polars as pl

from steward.errors import StewardError, did_you_mean
from steward.store.atomic import whole_file
from steward.store.files.damage import NoteOnly, intact
from steward.store.files.parquet import Partitions, TableSchema, lazy_scan, live_files
from steward.store.query.tables import Tables
from steward.store.query.views import quoted, text_literal

__all__ = ["Query", "QueryLimits", "QueryResult"]

_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_PLACE = re.compile(r"\n+LINE (\d+): (.*)\n( *)\^")
_NAMED = re.compile(r'(?:column|Table with name|table|Function with name) "?([^"\s!]+)"?')
_GUESS = re.compile(r"\n(?:Did you mean|Candidate tables).*")  # ours include metrics
T = TypeVar("T")
_MISSING_FILE = ("No such file", "No files found")
_TRIES = 8
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """How much a question may cost."""

    memory_bytes: int = 2 << 30
    timeout_s: float = 60.0
    threads: int = 0  # 0: as many as there are cores


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows with the names of their columns; `more` is True if a limit cut them off."""

    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]
    more: bool = False


class Query:
    """One folder, open for questions. Files that compaction replaces meanwhile are found again."""

    def __init__(
        self,
        folder: Path,
        *,
        from_s: float = 0.0,
        to_s: float = float("inf"),
        limits: QueryLimits = QueryLimits(),  # noqa: B008 - a frozen value
    ) -> None:
        self._folder = folder.absolute()
        if not any((self._folder / name).exists() for name in ("telemetry", "other", "logs")):
            raise StewardError(
                "there is no telemetry here",
                where=str(folder),
                hint="name a folder that `steward observe record`, `steward observe import` or "
                "`steward up` has written",
            )
        self._limits = limits
        self.notes: list[str] = []
        self._note = NoteOnly(self.notes.append)
        self._scratch = tempfile.TemporaryDirectory(prefix="steward-query-")
        if {*str(self._folder)} & {*"*?["}:  # DuckDB would take the name for a pattern
            link = Path(self._scratch.name) / "data"
            link.symlink_to(self._folder)
            self._folder = link
        self._tables = Tables(
            folder=self._folder,
            scratch=Path(self._scratch.name),
            from_s=from_s,
            to_s=to_s,
            note=self._note,
        )

    def __enter__(self) -> Query:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove what this needed on disk."""
        self._scratch.cleanup()

    def run(self, sql: str, *, limit: int | None = None) -> QueryResult:
        """Run one statement."""
        return self._retried(lambda: self._run_once(sql, limit))

    def _run_once(self, sql: str, limit: int | None) -> QueryResult:
        with self._connected(sql) as connection:
            return self._answer(connection, sql, limit)

    def save(self, sql: str, file: Path) -> int:
        """Write an answer of any size to a Parquet or CSV file; return how many rows it has."""
        kind = file.suffix.removeprefix(".")
        if kind not in ("parquet", "csv"):
            raise StewardError(
                f"cannot tell the format from '{file.name}'",
                where=str(file),
                hint="end its name in .parquet or .csv",
            )
        made = Path(self._scratch.name) / f"answer.{kind}"
        rows = self._retried(lambda: self._save_once(sql, made, kind))
        try:
            with made.open("rb") as answer, whole_file(file) as out:
                shutil.copyfileobj(answer, out)
        except OSError as fault:
            raise StewardError(
                f"the answer cannot be written: {fault.strerror or fault}",
                where=str(file),
                hint="name a file in a folder that is there, has room, and may be written to",
            ) from fault
        return rows

    def _save_once(self, sql: str, made: Path, kind: str) -> int:
        with self._connected(sql) as connection, self._limited(connection, sql):
            question = sql.strip().rstrip(";")
            if kind == "csv":
                question = _spreadsheet_safe(connection, question)
            target = f"{text_literal(str(made))} (FORMAT {kind})"
            done = connection.execute(f"COPY ({question}\n) TO {target}").fetchall()
        return int(done[0][0])

    def _retried(self, read: Callable[[], T]) -> T:
        """Read; retry if files were replaced between listing and reading them."""
        for attempt in range(_TRIES):
            try:
                return read()
            except FileNotFoundError:
                pass
            except duckdb.Error as fault:
                if not _vanished(fault):
                    raise self._explained(fault) from None
            time.sleep(0.05 * attempt)
        raise StewardError(
            "telemetry files vanish faster than they can be read",
            where=str(self._folder),
            hint="does another program delete files there? query less time (--since)",
        )

    def expect(self, metrics: Iterable[str]) -> None:
        """Raise if one of these metrics was never recorded here."""
        for name in metrics:
            if not self._retried(lambda name=name: self._tables.is_known(name)):  # type: ignore[misc]
                near = did_you_mean(name, self._names())
                raise StewardError(
                    f"'{name}' was never recorded here",
                    where="query",
                    hint=near or "DESCRIBE telemetry lists what there is",
                )

    def newest_s(self) -> float:
        """Return the time of the newest sample: what a question means with `since`."""
        return self._retried(self._newest_once)

    def _newest_once(self) -> float:
        partitions = Partitions(self._folder / "telemetry")
        for part in reversed(partitions.between(0.0, float("inf"))):
            listed = live_files(partitions.folder(part), TableSchema(), self._note)
            files = intact(listed, self._note)
            if files:
                newest = lazy_scan(files, {"t_s": pl.Float64()})
                return float(newest.select(pl.col("t_s").max()).collect().item())
        return 0.0

    def _answer(
        self, connection: duckdb.DuckDBPyConnection, sql: str, limit: int | None
    ) -> QueryResult:
        with self._limited(connection, sql):
            result = connection.execute(sql)
            columns = tuple(str(each[0]) for each in result.description or ())
            rows = result.fetchall() if limit is None else result.fetchmany(limit + 1)
        more = limit is not None and len(rows) > limit
        return QueryResult(columns=columns, rows=rows[:limit], more=more)

    @contextmanager
    def _limited(self, connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[None]:
        """Interrupt a statement after the time limit, and convert DuckDB's errors."""
        self._check(connection, sql)
        late = threading.Event()

        def interrupt() -> None:
            late.set()
            connection.interrupt()

        timer = threading.Timer(self._limits.timeout_s, interrupt)
        timer.start()
        try:
            yield
        except duckdb.Error as fault:
            if _vanished(fault):
                raise  # compaction was faster
            if late.is_set():
                raise StewardError(
                    f"no answer within {self._limits.timeout_s:g} s",
                    where="query",
                    hint="query less time (--since), use telemetry_10s or telemetry_5m, or allow "
                    "more with --timeout",
                ) from None
            raise self._explained(fault) from None
        finally:
            timer.cancel()

    def _check(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error as fault:
            raise self._explained(fault) from None
        if len(statements) != 1 or statements[0].type not in _READING:
            raise StewardError(
                "only one statement that reads (SELECT, WITH, FROM, DESCRIBE) is allowed",
                where="query",
                hint="the folder is read-only here; write results elsewhere with --out",
            )

    def _explained(self, fault: duckdb.Error) -> StewardError:
        text = str(fault)
        if isinstance(fault, duckdb.OutOfMemoryException):
            return StewardError(
                f"the answer needs more than {self._limits.memory_bytes >> 20} MiB of memory",
                where="query",
                hint="query fewer columns or less time, or allow more with --memory",
            )
        place = _PLACE.search(text)
        where = "query"
        if place:
            skipped = len(f"LINE {place[1]}: ")
            where = f"query, line {place[1]}, column {len(place[3]) - skipped + 1}"
        problem = _GUESS.sub("", text[: place.start()] if place else text)
        hint = self._hint(fault, problem)
        return StewardError(" ".join(problem.split()), where=where, hint=hint)

    def _hint(self, fault: duckdb.Error, problem: str) -> str:
        if isinstance(fault, duckdb.PermissionException):
            return "only the folder's own tables can be read; SHOW TABLES lists them"
        quotes = 'names with dots need quotes: "gpu.busy_share"; DESCRIBE telemetry lists them'
        if "Referenced table" in problem:  # what stands before a dot is taken for a table
            return quotes
        named = _NAMED.search(problem)
        near = did_you_mean(named[1], self._names()) if named else ""
        if not near and named and "Table with name" in problem:
            return "SHOW TABLES lists what there is"
        return near or quotes

    def _names(self) -> list[str]:
        whole = replace(self._tables, from_s=0.0, to_s=float("inf"))
        with self._connected("", whole) as connection:
            rows = connection.execute(
                "SELECT DISTINCT column_name FROM duckdb_columns() WHERE NOT internal "
                "UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
            ).fetchall()
        return [str(name) for (name,) in rows]

    @contextmanager
    def _connected(
        self, sql: str, tables: Tables | None = None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open an empty database that sees the folder's tables, and nothing else."""
        connection = duckdb.connect()
        try:
            self._close_in(connection)
            (tables or self._tables).make(connection, sql)
            connection.execute("SET lock_configuration = true")
            yield connection
        finally:
            connection.close()

    def _close_in(self, connection: duckdb.DuckDBPyConnection) -> None:
        allowed = ", ".join(text_literal(str(each)) for each in (self._folder, self._scratch.name))
        settings = {
            "memory_limit": f"'{self._limits.memory_bytes // 1_000_000}MB'",
            "temp_directory": text_literal(self._scratch.name),
            "allowed_directories": f"[{allowed}]",
            "enable_external_access": "false",
            "preserve_insertion_order": "false",
            "enable_progress_bar": "false",  # it would be printed into the answer
        }
        if self._limits.threads:
            settings["threads"] = str(self._limits.threads)
        for name, value in settings.items():
            connection.execute(f"SET {name} = {value}")


def _vanished(fault: duckdb.Error) -> bool:
    """Return True if a file was replaced between listing and reading it."""
    message = str(fault)
    return isinstance(fault, duckdb.IOException) and any(each in message for each in _MISSING_FILE)


def _spreadsheet_safe(connection: duckdb.DuckDBPyConnection, question: str) -> str:
    """Escape texts that a spreadsheet would take for a formula, or a terminal for a command."""
    columns = []
    for name, kind, *_ in connection.execute(f"DESCRIBE {question}").fetchall():
        column = quoted(str(name))
        if kind == "VARCHAR":
            plain = f"regexp_replace({column}, '{_CONTROL}', '\N{REPLACEMENT CHARACTER}', 'g')"
            columns.append(f"regexp_replace({plain}, '^([=+@-])', '''\\1') AS {column}")
        else:
            columns.append(column)
    return f"SELECT {', '.join(columns)} FROM ({question}\n)"  # noqa: S608 - names are quoted
