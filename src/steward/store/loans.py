"""Loans of the local engine and how long jobs took to give GPUs up; tables of the store of jobs."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache

from pydantic import TypeAdapter

from steward.model.identity import DecisionId, JobId
from steward.model.job_loan import JobLoan
from steward.model.yielding import Measured

__all__ = ["LOAN_TABLES", "LoanStore"]

MOST_MEASURED = 200  # of each job and kind that are looked at, the newest
LOAN_TABLES = """
CREATE TABLE IF NOT EXISTS loan (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, owner TEXT NOT NULL,
  borrower TEXT NOT NULL, over INTEGER NOT NULL, record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS loan_owner ON loan (owner);
CREATE INDEX IF NOT EXISTS loan_borrower ON loan (borrower);
CREATE INDEX IF NOT EXISTS loan_over ON loan (over);
CREATE TABLE IF NOT EXISTS measured (
  number INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, kind TEXT NOT NULL,
  record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS measured_job ON measured (job, kind);
CREATE INDEX IF NOT EXISTS measured_kind ON measured (kind);
"""


@lru_cache(1)
def _loans() -> TypeAdapter[JobLoan]:
    return TypeAdapter(JobLoan)


@lru_cache(1)
def _times() -> TypeAdapter[Measured]:
    return TypeAdapter(Measured)


class LoanStore:
    """All loans, and the open ones in memory. `writing` is a transaction of the store of jobs."""

    def __init__(
        self,
        database: sqlite3.Connection,
        lock: threading.RLock,
        writing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._database = database
        self._lock = lock
        self._writing = writing
        self._open = {each.id: each for each in self._read("over = 0")}

    def put(self, loan: JobLoan) -> JobLoan:
        """Write a loan, new or changed."""
        record = _loans().dump_json(loan).decode()
        with self._writing():
            self._database.execute(
                "INSERT INTO loan (id, owner, borrower, over, record) VALUES (?,?,?,?,?) "
                "ON CONFLICT (id) DO UPDATE SET over = excluded.over, record = excluded.record",
                (loan.id, loan.owner, loan.borrower, loan.is_over, record),
            )
        with self._lock:
            others = {id_: each for id_, each in self._open.items() if id_ != loan.id}
            self._open = others if loan.is_over else {**others, loan.id: loan}
        return loan

    def open(self) -> tuple[JobLoan, ...]:
        """Return the loans that are not over, oldest first."""
        return tuple(self._open.values())

    def find(self, id_: DecisionId) -> JobLoan | None:
        """Return one loan, over or not."""
        found = self._open.get(id_)
        if found is not None:
            return found
        return next(iter(self._read("id = ?", id_)), None)

    def of(self, job: JobId) -> tuple[JobLoan, ...]:
        """Return all loans that a job had a part in, oldest first."""
        return self._read("owner = ? OR borrower = ?", job, job)

    def newest(self, limit: int) -> tuple[JobLoan, ...]:
        """Return the newest loans, oldest of them first."""
        return self._read(f"1 ORDER BY number DESC LIMIT {int(limit)}")[::-1]

    def measure(self, job: JobId, measured: Measured) -> None:
        """Keep how long a job took once."""
        with self._writing():
            self._database.execute(
                "INSERT INTO measured (job, kind, record) VALUES (?,?,?)",
                (job, measured.kind, _times().dump_json(measured).decode()),
            )

    def measured(self, job: JobId | None, kind: str) -> tuple[Measured, ...]:
        """Return the newest times of a kind, oldest first; of all jobs where none is given."""
        where = "kind = ?" if job is None else "kind = ? AND job = ?"
        with self._lock:
            rows = self._database.execute(
                f"SELECT record FROM measured WHERE {where} ORDER BY number DESC LIMIT ?",  # noqa: S608
                (kind, *((job,) if job is not None else ()), MOST_MEASURED),
            ).fetchall()
        return tuple(_times().validate_json(row[0]) for row in rows[::-1])

    def _read(self, where: str, *values: str) -> tuple[JobLoan, ...]:
        order = "" if "ORDER" in where else " ORDER BY number"
        with self._lock:
            rows = self._database.execute(
                f"SELECT record FROM loan WHERE {where}{order}",  # noqa: S608 - our own text
                values,
            ).fetchall()
        return tuple(_loans().validate_json(row[0]) for row in rows)
