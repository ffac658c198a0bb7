"""Finds out whether a SQLite journal is damaged, and saves what can be read from one that is.

The damaged file is never deleted: it is renamed, and what it still holds is copied into a new
journal under the same numbers. A crash on the way is noticed by the file `*.salvaging`, and the
next opening goes on from the file that was set aside.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from steward.store.atomic import sync_folder
from steward.store.pages import PAGE_BYTES, Cell, PageFile
from steward.store.records import (
    APPLICATION_ID,
    ENTRIES,
    KINDS,
    META,
    SCHEMA_VERSION,
    TABLES,
    Row,
    is_sound,
)

__all__ = ["repaired"]

_BESIDE = ("-wal", "-shm")
_BATCH_ROWS = 10_000
_NOT_DAMAGE = tuple(  # these say that we may not look, not that there is something wrong
    f"SQLITE_{name}"
    for name in ("BUSY", "LOCKED", "CANTOPEN", "PERM", "AUTH", "READONLY", "IOERR", "FULL", "NOMEM")
)


def repaired(file: Path) -> tuple[str, ...]:
    """Leave a sound journal at `file` (or none, if there was none) and say what had to be done.

    The caller must be the only one that has the file open.
    """
    marker = _beside(file, ".salvaging")
    if marker.exists() and not file.exists():
        aside = _newest_aside(file)
        return (_salvage(file, aside, "salvaging it was interrupted"),) if aside else ()
    marker.unlink(missing_ok=True)
    fault = _fault(file) if file.exists() else ""
    if not fault:
        return ()
    marker.touch()
    sync_folder(file.parent)
    aside = next(path for path in _asides(file) if not path.exists())
    file.rename(aside)
    return (_salvage(file, aside, fault),)


def _fault(file: Path) -> str:
    """Return what SQLite finds wrong with a file, or nothing. Looking changes nothing on disk."""
    log = _beside(file, "-wal")
    if file.stat().st_size == 0 and log.exists() and log.stat().st_size > 0:
        return "it is empty, but its log is not"  # SQLite would throw the log away
    # A transaction that began before there was a log has to be rolled back, which is a change.
    mode = "rw" if _beside(file, "-journal").exists() else "ro"
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True)) as connection:
            said = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
            _check_tables(connection)
        with file.open("rb") as handle:
            versions = handle.read(20)[18:]
        if versions not in (b"", b"\1\1", b"\2\2"):
            said = ["its header asks for another version of SQLite"]
    except UnicodeDecodeError:
        said = ["not even the message about it is readable"]
    except sqlite3.DatabaseError as fault:
        if fault.sqlite_errorname.startswith(_NOT_DAMAGE):
            raise
        said = [str(fault)]
    return "" if said == ["ok"] else "; ".join(line.replace("\n", " ") for line in said)


def _check_tables(connection: sqlite3.Connection) -> None:
    """See that a file which calls itself a journal has our tables; leave others' files alone."""
    ((mark,),) = connection.execute("PRAGMA application_id")
    names = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    if mark == APPLICATION_ID or META.name in names:
        for table in TABLES.tables.values():
            connection.execute(str(sa.select(table))).close()


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(file.name + ending)


def _asides(file: Path) -> Iterator[Path]:
    return (_beside(file, f".damaged-{number}") for number in count(1))


def _newest_aside(file: Path) -> Path | None:
    newest = None
    for path in _asides(file):
        if not path.exists():
            return newest
        newest = path
    return newest


def _salvage(file: Path, aside: Path, fault: str) -> str:
    """Copy what `aside` still holds into a new journal, put that at `file`, and tell the losses."""
    for ending in _BESIDE:
        if _beside(file, ending).exists():
            _beside(file, ending).rename(_beside(aside, ending))
    target = _beside(file, ".salvaged")
    for path in (target, *(_beside(target, ending) for ending in ("-journal", *_BESIDE))):
        path.unlink(missing_ok=True)
    kept, newest = _copy(aside, target)
    with target.open("rb") as handle:
        os.fsync(handle.fileno())
    target.rename(file)
    sync_folder(file.parent)
    _beside(file, ".salvaging").unlink(missing_ok=True)  # last: until here a crash starts again
    return (
        f"{file} was damaged ({fault}); it is kept as {aside.name}. {len(kept)} entries were "
        f"salvaged; {_losses(kept, newest)}"
    )


def _copy(aside: Path, target: Path) -> tuple[set[int], int]:
    """Return the numbers of the entries that were copied, and the newest number ever given."""
    kept: set[int] = set()
    newest = 0
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(target)))
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"PRAGMA page_size = {PAGE_BYTES}")
            TABLES.create_all(connection)
            batch: list[Row] = []
            for cell in PageFile.cells(aside):
                newest = max(newest, _number(cell))
                row = _row(cell)
                if row is not None and row.seq not in kept:
                    kept.add(row.seq)
                    batch.append(row)
                if len(batch) >= _BATCH_ROWS:
                    connection.execute(sa.insert(ENTRIES), [line._asdict() for line in batch])
                    batch.clear()
            if batch:
                connection.execute(sa.insert(ENTRIES), [line._asdict() for line in batch])
            newest = max(newest, *kept, 0)
            about = {"schema_version": SCHEMA_VERSION, "numbers_given": newest}
            connection.execute(
                sa.insert(META), [{"name": name, "value": str(n)} for name, n in about.items()]
            )
    finally:
        engine.dispose()
    return kept, newest


def _row(cell: Cell) -> Row | None:
    """Return the entry in a cell of the table, if there is one and its checksum is right."""
    match cell:
        case (
            int(seq),
            (None, int() | float() as t_s, str(kind), str(id_), str(cause), str(body), int(crc)),
        ):
            row = Row(seq, float(t_s), kind, id_, cause, body, crc)
            return row if is_sound(row) else None
    return None


def _number(cell: Cell) -> int:
    """Return the number in a key of the index on (kind, seq): it outlives the entry itself."""
    match cell:
        case (None, (str(kind), int(seq), int(again))) if kind in KINDS and seq == again:
            return seq
    return 0


def _losses(kept: set[int], newest: int) -> str:
    lost = list(_ranges(number for number in range(1, newest + 1) if number not in kept))
    if not lost:
        return "nothing is known to be lost"
    names = [str(a) if a == b else f"{a}-{b}" for a, b in lost]
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more ranges" * (len(names) > 20))
    return f"{newest - len(kept)} entries are lost: seq {shown}"


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None or number != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last
