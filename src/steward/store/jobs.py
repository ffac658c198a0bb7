"""The jobs that steward runs: durable, each change one transaction, events never changed.

A submission carries a token of the client: the same token is the same job.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from steward.errors import PermanentError, StewardError, TemporaryError
from steward.model.identity import JobId
from steward.model.managed_job import JobSpec, LifeEvent, LifeState, ManagedJob
from steward.store.job_search import INDEX, JobQuery, count_states, find_ids, list_users
from steward.store.loans import LOAN_TABLES, LoanStore

__all__ = ["JobStore"]

SCHEMA = 2  # 2: states `lent` and `suspended`; what 1 wrote is read as it is
_REST = ("attempts", "checkpoints", "checkpointing", "notes")
_ENDS = tuple(state.value for state in LifeState if state.ended)
_TABLES = """
CREATE TABLE IF NOT EXISTS job (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, token TEXT NOT NULL,
  uid INTEGER NOT NULL, state TEXT NOT NULL, changed INTEGER NOT NULL, spec TEXT NOT NULL,
  rest TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS job_token ON job (uid, token);
CREATE INDEX IF NOT EXISTS job_state ON job (state);
CREATE INDEX IF NOT EXISTS job_changed ON job (changed);
CREATE TABLE IF NOT EXISTS life (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, event TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS life_job ON life (job);
"""


@lru_cache(1)
def _adapter() -> TypeAdapter[ManagedJob]:
    return TypeAdapter(ManagedJob)


class JobStore:
    """All jobs of one steward. Threads share it; each sees whole changes only."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.RLock()
        try:
            # What people run and their environments are in it; others may pass the folder.
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            file.chmod(0o600)
            self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._prepare()
        except (OSError, sqlite3.Error) as fault:
            raise StewardError(
                f"the store of jobs cannot be opened: {fault}",
                where=str(file),
                hint="restore it from a backup, or move it away to begin without jobs",
            ) from fault
        self._changes = int(
            self._database.execute("SELECT coalesce(max(changed), 0) FROM job").fetchone()[0]
        )
        self._cache: dict[JobId, ManagedJob] = {}
        self.loans = LoanStore(self._database, self._lock, self._writing)

    def _prepare(self) -> None:
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA:
            raise StewardError(
                f"the store of jobs is of a newer steward (version {version}, known: {SCHEMA})",
                where=str(self.file),
                hint="run the newer steward",
            )
        self._database.executescript(_TABLES + LOAN_TABLES + INDEX)
        self._database.execute(f"PRAGMA user_version = {SCHEMA}")

    # -- submitting ------------------------------------------------------------------------------

    def submit(
        self, specs: Iterable[JobSpec], t_s: float, *, most_open: int | None = None
    ) -> tuple[ManagedJob, ...]:
        """Add a job, or an array of them; a token that is known returns what it made then.

        Raise if their owner would have more than `most_open` jobs that are not over.
        """
        wanted = tuple(specs)
        with self._writing():
            known = self._of_token(wanted[0].uid, wanted[0].token)
            if not known and most_open is not None:
                self._check_room(wanted, most_open)
            return known or tuple(self._add(wanted, t_s))

    def _check_room(self, wanted: tuple[JobSpec, ...], most: int) -> None:
        marks = ",".join("?" * len(_ENDS))
        there = self._database.execute(
            f"SELECT count(*) FROM job WHERE uid = ? AND state NOT IN ({marks})",  # noqa: S608
            (wanted[0].uid, *_ENDS),
        ).fetchone()[0]
        if there + len(wanted) > most:
            raise PermanentError(
                f"{wanted[0].user} has {there} jobs that are not over, and would have "
                f"{there + len(wanted)}",
                where="jobs.max_open_per_account",
                hint=f"at most {most}: wait until some have ended, or cancel them",
            )

    def _of_token(self, uid: int, token: str) -> tuple[ManagedJob, ...]:
        if not token:
            return ()
        rows = self._database.execute(
            "SELECT id FROM job WHERE uid = ? AND token = ? ORDER BY number", (uid, token)
        )
        return tuple(self.job(JobId(row[0])) for row in rows.fetchall())

    def _add(self, specs: tuple[JobSpec, ...], t_s: float) -> Iterator[ManagedJob]:
        base = self._next_number()
        for spec in specs:
            is_task = spec.index is not None
            id_ = JobId(f"{base}_{spec.index}" if is_task else str(base))
            spec = replace(spec, array=str(base) if is_task else "")  # noqa: PLW2901
            event = LifeEvent(t_s=t_s, state=LifeState.SUBMITTED, why=f"{spec.user} submitted it")
            job = ManagedJob(id=id_, spec=spec, events=(event,))
            self._insert(job)
            yield job

    def _next_number(self) -> int:
        row = self._database.execute("SELECT coalesce(max(number), 0) + 1 FROM job").fetchone()
        return int(row[0])

    def _insert(self, job: ManagedJob) -> None:
        self._changes += 1
        self._database.execute(
            "INSERT INTO job (id, token, uid, state, changed, spec, rest) VALUES (?,?,?,?,?,?,?)",
            (
                job.id,
                job.spec.token,
                job.spec.uid,
                job.state.value,
                self._changes,
                json.dumps(_plain(job)["spec"]),
                _rest(job),
            ),
        )
        self._add_events(job, job.events)
        self._cache[job.id] = job

    # -- changing --------------------------------------------------------------------------------

    def put(self, job: ManagedJob) -> ManagedJob:
        """Write a job that was changed; events that are there already stay as they are."""
        with self._writing():
            before = self.job(job.id)
            if before.events != job.events[: len(before.events)]:
                raise StewardError(
                    "its events have changed since it was read",
                    where=f"job {job.id}",
                    hint="read it again, and decide on what it is now",
                )
            self._changes += 1
            self._database.execute(
                "UPDATE job SET state = ?, changed = ?, rest = ? WHERE id = ?",
                (job.state.value, self._changes, _rest(job), job.id),
            )
            self._add_events(job, job.events[len(before.events) :])
            self._cache[job.id] = job
        return job

    def _add_events(self, job: ManagedJob, events: tuple[LifeEvent, ...]) -> None:
        self._database.executemany(
            "INSERT INTO life (job, event) VALUES (?, ?)",
            [(job.id, json.dumps(_jsonable(asdict(each)))) for each in events],
        )

    # -- reading ---------------------------------------------------------------------------------

    def find(self, id_: str) -> ManagedJob | None:
        """Return one job, or None."""
        with self._lock:
            if JobId(id_) in self._cache:
                return self._cache[JobId(id_)]
            row = self._database.execute(
                "SELECT id, spec, rest FROM job WHERE id = ?", (id_,)
            ).fetchone()
            if row is None:
                return None
            events = self._database.execute(
                "SELECT event FROM life WHERE job = ? ORDER BY seq", (id_,)
            ).fetchall()
            record = {
                "id": row[0],
                "spec": json.loads(row[1]),
                "events": [json.loads(each[0]) for each in events],
                **json.loads(row[2]),
            }
            job = _adapter().validate_python(record)
            self._cache[job.id] = job
            return job

    def job(self, id_: str) -> ManagedJob:
        """Return one job, or raise for an unknown one."""
        found = self.find(id_)
        if found is None:
            hint = "`steward jobs list --all` shows the jobs that are known"
            raise StewardError(f"there is no job '{id_}'", where="jobs", hint=hint)
        return found

    def array(self, id_: str) -> tuple[ManagedJob, ...]:
        """Return a job, or all tasks of an array, by the id that its submission returned."""
        if (found := self.find(id_)) is not None:
            return (found,)
        if not id_.isdecimal():
            return (self.job(id_),)
        first, after = f"{id_}_", f"{id_}`"  # all that begin with `ID_`, by the index
        with self._lock:
            rows = self._database.execute(
                "SELECT id FROM job WHERE id > ? AND id < ? ORDER BY number", (first, after)
            ).fetchall()
            return tuple(self.job(row[0]) for row in rows) or (self.job(id_),)

    def stages(self, id_: str) -> frozenset[tuple[LifeState, bool]]:
        """Return each state of a job, or of the tasks of an array, and whether it ever began.

        One query that reads no job: what has ended is not kept in memory. Empty: no such job.
        """
        first, after = (f"{id_}_", f"{id_}`") if id_.isdecimal() else ("", "")
        with self._lock:
            rows = self._database.execute(
                "SELECT DISTINCT state, json_array_length(rest, '$.attempts') > 0 FROM job "
                "WHERE id = ? OR (id > ? AND id < ?)",
                (id_, first, after),
            ).fetchall()
        return frozenset((LifeState(state), bool(began)) for state, began in rows)

    @property
    def changes(self) -> int:
        """How many changes there have been: while it is the same, nothing is different."""
        return self._changes

    def open(self) -> tuple[ManagedJob, ...]:
        """Return all jobs that have not ended, oldest first."""
        marks = ",".join("?" * len(_ENDS))
        with self._lock:
            rows = self._database.execute(
                f"SELECT id FROM job WHERE state NOT IN ({marks}) ORDER BY number",  # noqa: S608
                _ENDS,
            ).fetchall()
            return tuple(self.job(row[0]) for row in rows)

    def newest(self, limit: int) -> tuple[ManagedJob, ...]:
        """Return the newest jobs, ended or not, newest first."""
        with self._lock:
            rows = self._database.execute(
                "SELECT id FROM job ORDER BY number DESC LIMIT ?", (limit,)
            ).fetchall()
            return tuple(self.job(row[0]) for row in rows)

    def search(self, query: JobQuery) -> tuple[tuple[ManagedJob, ...], int]:
        """Return a page of the jobs that match, and how many match in all."""
        with self._lock:
            ids, total = find_ids(self._database, query)
            return tuple(self.job(each) for each in ids), total

    def states(self) -> dict[LifeState, int]:
        """Return how many jobs are in each state."""
        with self._lock:
            return count_states(self._database)

    def users(self) -> list[str]:
        """Return who has or had jobs, by name."""
        with self._lock:
            return list_users(self._database)

    @property
    def mark(self) -> int:
        """A number that is another one after every change."""
        return self._changes

    def changed_since(self, mark: int) -> tuple[tuple[ManagedJob, ...], int]:
        """Return the jobs that changed after a mark, and the mark for the next call."""
        with self._lock:
            rows = self._database.execute(
                "SELECT id FROM job WHERE changed > ? ORDER BY changed", (mark,)
            ).fetchall()
            return tuple(self.job(row[0]) for row in rows), self._changes

    def trim(self) -> None:
        """Drop ended jobs from memory; they stay on disk."""
        with self._lock:
            self._cache = {id_: job for id_, job in self._cache.items() if not job.state.ended}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all changes in a block one transaction: all of them are kept, or none.

        For changes that nothing outside has to follow; an array has thousands of tasks.
        """
        with self._writing():
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            nested = self._database.in_transaction  # of `together`
            if nested:
                yield
                return
            cache, changes = dict(self._cache), self._changes
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            except BaseException as fault:
                self._cache, self._changes = cache, changes
                if self._database.in_transaction:  # a full disk has ended it already
                    self._database.execute("ROLLBACK")
                if isinstance(fault, sqlite3.OperationalError):
                    raise TemporaryError(
                        f"the store of jobs cannot be written: {fault}",
                        where=str(self.file),
                        hint="nothing was changed; make room, and it goes on",
                    ) from fault
                raise


def _plain(job: ManagedJob) -> dict[str, Any]:
    plain = _adapter().dump_python(job, mode="json")
    assert isinstance(plain, dict)  # noqa: S101
    return plain


def _rest(job: ManagedJob) -> str:
    plain = _plain(replace(job, events=()))
    return json.dumps({key: plain[key] for key in _REST})


def _jsonable(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "state": event["state"].value}
