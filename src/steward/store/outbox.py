"""Messages that wait to be sent, how far the journal was read, and what people muted.

Reading on in the journal and queueing what it says are one transaction: after a crash nothing is
missing and nothing is queued twice. A message is removed only when its receiver has accepted it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter

from steward.errors import StewardError, did_you_mean
from steward.model.identity import stable_id
from steward.model.message import Message, Mute

__all__ = ["FailedDelivery", "Outbox", "QueuedMessage"]

MOST_MUTES_PER_USER = 100
_TABLES = """
CREATE TABLE IF NOT EXISTS place (name TEXT PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS queued (
  number INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT NOT NULL, due_s REAL NOT NULL,
  attempts INTEGER NOT NULL, fault TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS queued_due ON queued (receiver, due_s);
CREATE TABLE IF NOT EXISTS told (
  receiver TEXT NOT NULL, key TEXT NOT NULL, t_s REAL NOT NULL, PRIMARY KEY (receiver, key));
CREATE TABLE IF NOT EXISTS dropped (
  number INTEGER PRIMARY KEY AUTOINCREMENT, receiver TEXT NOT NULL, t_s REAL NOT NULL,
  fault TEXT NOT NULL, title TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mute (
  id TEXT PRIMARY KEY, user TEXT NOT NULL, until_s REAL NOT NULL, job TEXT NOT NULL,
  kind TEXT NOT NULL, made_by TEXT NOT NULL);
"""
_KEPT_DROPPED = 1000


@lru_cache(1)
def _adapter() -> TypeAdapter[Message]:
    return TypeAdapter(Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message on its way to one receiver."""

    number: int
    receiver: str
    due_s: float
    attempts: int
    fault: str  # why it could not be sent so far
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelivery:
    """A message that its receiver refused for good."""

    receiver: str
    t_s: float
    fault: str
    title: str


class Outbox:
    """One file, safe for several threads and processes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.RLock()
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._database = sqlite3.connect(
                file, check_same_thread=False, isolation_level=None, timeout=30.0
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.executescript(_TABLES)
        except (OSError, sqlite3.Error) as fault:
            raise StewardError(
                f"the messages that wait cannot be opened: {fault}",
                where=str(file),
                hint="move the file away to begin without them; mutes in it are lost then",
            ) from fault

    # -- queueing --------------------------------------------------------------------------------

    def place(self, name: str) -> int | None:
        """Return up to which number the journal was read, None if it never was."""
        with self._lock:
            row = self._database.execute("SELECT seq FROM place WHERE name = ?", (name,))
            found = row.fetchone()
        return int(found[0]) if found else None

    def queue(
        self,
        messages: Sequence[tuple[str, float, Message]],
        *,
        place: tuple[str, int] | None = None,
    ) -> None:
        """Add messages as (receiver, due_s, message) and move the place in the journal on."""
        with self._writing():
            self._database.executemany(
                "INSERT INTO queued (receiver, due_s, attempts, fault, message) "
                "VALUES (?, ?, 0, '', ?)",
                [
                    (receiver, due_s, _adapter().dump_json(message).decode())
                    for receiver, due_s, message in messages
                ],
            )
            self._database.executemany(
                "INSERT INTO told VALUES (?, ?, ?) "
                "ON CONFLICT (receiver, key) DO UPDATE SET t_s = excluded.t_s",
                [(receiver, _told_key(message), message.t_s) for receiver, _, message in messages],
            )
            if place is not None:
                self._database.execute(
                    "INSERT INTO place VALUES (?, ?) "
                    "ON CONFLICT (name) DO UPDATE SET seq = excluded.seq",
                    place,
                )

    def told_s(self, receiver: str, message: Message) -> float | None:
        """Return when a receiver was last told the same thing."""
        with self._lock:
            found = self._database.execute(
                "SELECT t_s FROM told WHERE receiver = ? AND key = ?",
                (receiver, _told_key(message)),
            ).fetchone()
        return float(found[0]) if found else None

    def forget_told(self, before_s: float) -> None:
        """Drop what was told long ago, and mutes that are over: neither grows for ever."""
        with self._writing():
            self._database.execute("DELETE FROM told WHERE t_s < ?", (before_s,))
            self._database.execute("DELETE FROM mute WHERE until_s < ?", (before_s,))

    # -- delivering ------------------------------------------------------------------------------

    def due(self, receiver: str, t_s: float, *, limit: int = 100) -> tuple[QueuedMessage, ...]:
        """Return what may be sent to a receiver now, oldest first."""
        return self._queued("WHERE receiver = ? AND due_s <= ?", (receiver, t_s), limit)

    def pending(self, *, limit: int = 1000) -> tuple[QueuedMessage, ...]:
        """Return all that waits, oldest first."""
        return self._queued("", (), limit)

    def _queued(
        self, where: str, values: tuple[object, ...], limit: int
    ) -> tuple[QueuedMessage, ...]:
        with self._lock:
            rows = self._database.execute(
                "SELECT number, receiver, due_s, attempts, fault, message FROM queued "  # noqa: S608
                f"{where} ORDER BY number LIMIT ?",
                (*values, limit),
            ).fetchall()
        return tuple(
            QueuedMessage(
                number=number,
                receiver=receiver,
                due_s=due_s,
                attempts=attempts,
                fault=fault,
                message=_adapter().validate_json(message),
            )
            for number, receiver, due_s, attempts, fault, message in rows
        )

    def sent(self, queued: Sequence[QueuedMessage]) -> None:
        """Remove what a receiver has accepted."""
        with self._writing():
            self._database.executemany(
                "DELETE FROM queued WHERE number = ?", [(each.number,) for each in queued]
            )

    def postpone(self, queued: Sequence[QueuedMessage], due_s: float, fault: str) -> None:
        """Try again at `due_s`; keep why it could not be sent."""
        with self._writing():
            self._database.executemany(
                "UPDATE queued SET due_s = ?, attempts = attempts + 1, fault = ? WHERE number = ?",
                [(due_s, fault, each.number) for each in queued],
            )

    def drop(self, queued: Sequence[QueuedMessage], t_s: float, fault: str) -> None:
        """Give up what a receiver refuses for good, and remember that."""
        with self._writing():
            self._database.executemany(
                "INSERT INTO dropped (receiver, t_s, fault, title) VALUES (?, ?, ?, ?)",
                [(each.receiver, t_s, fault, each.message.title) for each in queued],
            )
            self._database.execute(
                "DELETE FROM dropped WHERE number <= (SELECT max(number) FROM dropped) - ?",
                (_KEPT_DROPPED,),
            )
            self._database.executemany(
                "DELETE FROM queued WHERE number = ?", [(each.number,) for each in queued]
            )

    def dropped(self, *, limit: int = 20) -> tuple[FailedDelivery, ...]:
        """Return what was given up, newest first."""
        with self._lock:
            rows = self._database.execute(
                "SELECT receiver, t_s, fault, title FROM dropped ORDER BY number DESC LIMIT ?",
                (limit,),
            ).fetchall()
        return tuple(
            FailedDelivery(receiver=receiver, t_s=t_s, fault=fault, title=title)
            for receiver, t_s, fault, title in rows
        )

    # -- mutes -----------------------------------------------------------------------------------

    def mutes(self, t_s: float) -> tuple[Mute, ...]:
        """Return the mutes that hold, the one that ends first first."""
        with self._lock:
            rows = self._database.execute(
                "SELECT id, user, until_s, job, kind, made_by FROM mute WHERE until_s > ? "
                "ORDER BY until_s, id",
                (t_s,),
            ).fetchall()
        return tuple(
            Mute(id=id_, user=user, until_s=until_s, job=job, kind=kind, made_by=made_by)
            for id_, user, until_s, job, kind, made_by in rows
        )

    def mute(
        self, *, user: str, until_s: float, job: str, kind: str, made_by: str, t_s: float
    ) -> Mute:
        """Keep a mute; the same one again only changes when it ends."""
        made = Mute(
            id=stable_id("m", user, job, kind, made_by),
            user=user,
            until_s=until_s,
            job=job,
            kind=kind,
            made_by=made_by,
        )
        others = [
            each for each in self.mutes(t_s) if each.made_by == made_by and each.id != made.id
        ]
        if len(others) >= MOST_MUTES_PER_USER:
            problem = f"{made_by} has {len(others)} mutes"
            raise StewardError(problem, hint="end some with `steward notify unmute ID`")
        with self._writing():
            self._database.execute(
                "INSERT INTO mute VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET until_s = excluded.until_s",
                (made.id, user, until_s, job, kind, made_by),
            )
        return made

    def unmute(self, id_: str, t_s: float) -> Mute:
        """End a mute and return it; raise if there is none of that id."""
        known = {each.id: each for each in self.mutes(t_s)}
        if id_ not in known:
            hint = did_you_mean(id_, known) or "`steward notify mutes` shows their ids"
            raise StewardError(f"there is no mute '{id_}'", where="notify", hint=hint)
        with self._writing():
            self._database.execute("DELETE FROM mute WHERE id = ?", (id_,))
        return known[id_]

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._database.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            except BaseException as fault:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                if isinstance(fault, sqlite3.Error):
                    raise StewardError(
                        f"messages cannot be kept: {fault}",
                        where=str(self.file),
                        hint="is there room on the disk?",
                    ) from fault
                raise


def _told_key(message: Message) -> str:
    return f"{'over ' if message.resolved else ''}{message.key}"
