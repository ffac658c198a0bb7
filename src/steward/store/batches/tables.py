"""The tables of files and batches, and the database that they are in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from steward.store.database import Database, open_tables

__all__ = [
    "BATCHES",
    "FILES",
    "ITEMS",
    "PARTS",
    "WORKERS",
    "BatchDatabase",
    "open_batches",
]

TABLES = sa.MetaData()
_Seconds = sa.Double

FILES = sa.Table(
    "files",
    TABLES,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("purpose", sa.Text, nullable=False),
    sa.Column("filename", sa.Text, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("created_s", _Seconds, nullable=False),
    sa.Column("whole", sa.Boolean, nullable=False),  # all parts are there
    sa.Index("files_by_tenant", "tenant", "created_s", "id"),
)
PARTS = sa.Table(
    "file_parts",
    TABLES,
    sa.Column("file", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
BATCHES = sa.Table(
    "batches",
    TABLES,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("input_file", sa.Text, nullable=False),
    sa.Column("window", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),  # JSON
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("errors", sa.Text, nullable=False),  # JSON: faults of the file's lines
    sa.Column("output_file", sa.Text),
    sa.Column("error_file", sa.Text),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("completed", sa.Integer, nullable=False),  # once it has ended; until then, counted
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("created_s", _Seconds, nullable=False),
    sa.Column("expires_s", _Seconds, nullable=False),
    *(
        sa.Column(f"{name}_s", _Seconds)
        for name in (
            *("in_progress", "finalizing", "completed_at", "failed_at", "expired"),
            *("cancelling", "cancelled"),
        )
    ),
    sa.Index("batches_by_tenant", "tenant", "created_s", "id"),
    sa.Index("batches_by_status", "status"),
)
ITEMS = sa.Table(
    "batch_items",
    TABLES,
    sa.Column("batch", sa.Text, primary_key=True),
    sa.Column("line", sa.Integer, primary_key=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("custom_id", sa.Text),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("deadline_s", _Seconds, nullable=False),
    sa.Column("not_before_s", _Seconds, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("answer", sa.LargeBinary),  # a line of the output or the error file
    sa.Index("items_to_send", "state", "deadline_s", "batch", "line"),
    sa.Index("items_by_state", "batch", "state"),
)
WORKERS = sa.Table(
    "batch_workers",
    TABLES,
    sa.Column("owner", sa.Text, primary_key=True),
    sa.Column("until_s", _Seconds, nullable=False),  # alive at least so long, or presumed dead
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDatabase:
    """The database with its clock: PostgreSQL's own, so that gateways need not agree on time."""

    database: Database
    clock: Callable[[], float] = time.time

    @property
    def shared(self) -> bool:
        """Return whether several gateways may use it at once."""
        return self.database.engine.dialect.name == "postgresql"

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Open one consistent look at what is committed."""
        return self.database.reading()

    @contextmanager
    def writing(self) -> Iterator[tuple[sa.Connection, float]]:
        """Open a transaction, durable at its end; with the time."""
        with self.database.writing() as connection:
            yield connection, self.now_s(connection)

    def now_s(self, connection: sa.Connection) -> float:
        """Return the time that leases and deadlines are compared with."""
        if not self.shared:
            return self.clock()
        clock = sa.func.extract("epoch", sa.func.clock_timestamp())
        return float(connection.execute(sa.select(clock)).scalar_one())

    def close(self) -> None:
        """Release the database."""
        self.database.close()


def open_batches(
    url: str, *, setting: str = "[batches] store", clock: Callable[[], float] = time.time
) -> BatchDatabase:
    """Open the database, and make its tables where they are missing."""
    return BatchDatabase(database=open_tables(url, TABLES, setting=setting), clock=clock)
