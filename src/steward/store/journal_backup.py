"""Back up a SQLite journal, notice that it is damaged, and restore it.

A damaged file is never deleted: it is renamed to `*.damaged-N`. The new journal holds what the
backup holds and what SQLite can still read from the damaged file, under the same numbers; every
entry has a checksum of its own. Without its first page SQLite can read nothing: a copy of the file
gets that of a new journal, whose tables begin at the same pages.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from steward.store.atomic import PRIVATE_FILE, sync_folder
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

__all__ = ["backup_of", "make_private", "restored", "write_backup"]

_SIDE_FILES = ("-wal", "-shm")
_BATCH_ROWS = 10_000
_PAGE_BYTES = 4096  # SQLite's own choice
_UNKNOWN_NUMBERS = 100_000  # skipped where the newest number is unknown
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError, OverflowError)
_COLUMNS = ", ".join(Row._fields)
_NOT_DAMAGE = tuple(  # access is denied: the file may be sound
    f"SQLITE_{name}"
    for name in ("BUSY", "LOCKED", "CANTOPEN", "PERM", "AUTH", "READONLY", "IOERR", "FULL", "NOMEM")
)


def backup_of(file: Path) -> Path:
    """Return where the backup of a journal is."""
    return _sibling(file, ".backup")


def write_backup(file: Path) -> None:
    """Replace the backup of a journal by a copy of it as it is now; writers go on meanwhile."""
    draft = _sibling(file, ".backup.tmp")
    draft.unlink(missing_ok=True)
    try:
        make_private(draft)
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("VACUUM INTO ?", (str(draft),))
        _sync(draft)
        draft.replace(backup_of(file))
        sync_folder(file.parent)
    finally:
        draft.unlink(missing_ok=True)


def make_private(file: Path) -> None:
    """Make a file for its owner only; an empty one if there is none."""
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
    with suppress(PermissionError):  # it belongs to another user, who may have shared it
        file.chmod(PRIVATE_FILE)


def restored(file: Path) -> tuple[str, ...]:
    """Leave a sound journal at `file` (or none, if there was none); return what had to be done.

    The caller must be the only one that has the file open.
    """
    draft = _sibling(file, ".restored")
    if draft.exists() and not file.exists():  # a crash between the two renames below
        _move_side_files(file, _last_aside(file))
        draft.rename(file)
        sync_folder(file.parent)
        return (f"{file} was damaged; restoring it was interrupted and is finished now",)
    fault = _fault(file) if file.exists() else ""
    if not fault:
        return ()
    for path in (draft, *(_sibling(draft, ending) for ending in ("-journal", *_SIDE_FILES))):
        path.unlink(missing_ok=True)
    with _with_new_first_page(file) as renewed:
        kept, newest = _copy((file, renewed, backup_of(file)), draft)
    _sync(draft)
    aside = next(path for path in _asides(file) if not path.exists())
    file.rename(aside)
    _move_side_files(file, aside)
    draft.rename(file)
    sync_folder(file.parent)
    restored_from = f"{len(kept)} entries were restored from it and its backup"
    fate = f"it is kept as {aside.name}. {restored_from}; {_losses(kept, newest)}"
    return (f"{file} was damaged ({fault}); {fate}",)


def _move_side_files(file: Path, aside: Path) -> None:
    """Put the log of a damaged journal beside it: SQLite would apply it to the restored one."""
    for ending in _SIDE_FILES:
        if _sibling(file, ending).exists():
            _sibling(file, ending).rename(_sibling(aside, ending))


def _last_aside(file: Path) -> Path:
    """Return where the journal that was damaged last is kept."""
    there = list(takewhile(Path.exists, _asides(file)))
    return there[-1] if there else next(_asides(file))


def _fault(file: Path) -> str:
    """Return what SQLite finds wrong with a file, or nothing. Looking changes nothing on disk."""
    log = _sibling(file, "-wal")
    if file.stat().st_size == 0 and log.exists() and log.stat().st_size > 0:
        return "it is empty, but its log is not"  # SQLite would throw the log away
    if file.stat().st_size == 0 and backup_of(file).exists():
        return "it is empty, but its backup is not"
    # A transaction that began before there was a log has to be rolled back, which is a change.
    mode = "rw" if _sibling(file, "-journal").exists() else "ro"
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True)) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
            _check_tables(connection)
        with file.open("rb") as handle:
            versions = handle.read(20)[18:]
        if versions not in (b"", b"\1\1", b"\2\2"):
            found = ["its header needs another version of SQLite"]
    except UnicodeDecodeError:
        found = ["not even the message about it is readable"]
    except sqlite3.DatabaseError as fault:
        if fault.sqlite_errorname.startswith(_NOT_DAMAGE):
            raise
        found = [str(fault)]
    return "" if found == ["ok"] else "; ".join(line.replace("\n", " ") for line in found)


def _check_tables(connection: sqlite3.Connection) -> None:
    """Raise if a file that calls itself a journal lacks our tables; accept others' files."""
    ((mark,),) = connection.execute("PRAGMA application_id")
    names = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    if mark == APPLICATION_ID or META.name in names:
        for table in TABLES.tables.values():
            connection.execute(str(sa.select(table))).close()


def _copy(sources: Iterable[Path], target: Path) -> tuple[set[int], int]:
    """Write the sound rows of all sources into a new journal.

    Return the numbers of the entries copied, and the newest number that was ever given.
    """
    make_private(target)
    kept: set[int] = set()
    given: list[int] = []
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(target)))
    try:
        with engine.begin() as connection:
            TABLES.create_all(connection)
            for source in sources:
                given.append(_newest_number(source))
                for batch in _batches(_sound_rows(source, kept)):
                    connection.execute(sa.insert(ENTRIES), [row._asdict() for row in batch])
            known = max(*kept, *given, 0)
            skipped = 0 if any(given[:-1]) else _UNKNOWN_NUMBERS  # the backup's are older
            about = {"schema_version": SCHEMA_VERSION, "numbers_given": known + skipped}
            connection.execute(
                sa.insert(META), [{"name": name, "value": str(n)} for name, n in about.items()]
            )
    finally:
        engine.dispose()
    return kept, known


def _sound_rows(file: Path, kept: set[int]) -> Iterator[Row]:
    """Yield the rows that SQLite can read, from the first on and then from the last back."""
    for order in ("ASC", "DESC"):
        with (
            suppress(sqlite3.Error, UnicodeDecodeError, OverflowError),
            _opened(file) as connection,
        ):
            sql = f"SELECT {_COLUMNS} FROM entries ORDER BY seq {order}"  # noqa: S608 - constants only
            for line in connection.execute(sql):
                row = _row(line)
                if row is not None and row.seq not in kept:
                    kept.add(row.seq)
                    yield row


@contextmanager
def _with_new_first_page(file: Path) -> Iterator[Path]:
    """Yield a copy of a journal, and of its log, with the first page of a new one."""
    with TemporaryDirectory(prefix=".renewed-", dir=file.parent) as folder:
        copy, new = Path(folder) / "journal", Path(folder) / "new"
        if not _has_entries(file):
            with suppress(OSError):  # no room for it: the backup is left
                _renew(file, copy, new)
        yield copy


def _renew(file: Path, copy: Path, new: Path) -> None:
    for ending in ("", "-wal"):
        if _sibling(file, ending).exists():
            copyfile(_sibling(file, ending), _sibling(copy, ending))
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(new)))
    TABLES.create_all(engine)
    engine.dispose()
    page = bytearray(new.read_bytes()[:_PAGE_BYTES])
    page[18:20] = b"\2\2"  # it has a log
    page[24:28] = b"\xff" * 4  # the number of pages is not in here: the file has it
    with copy.open("r+b") as handle:
        handle.write(page)


def _has_entries(file: Path) -> bool:
    """Return whether SQLite finds the table of entries, and any in it."""
    with suppress(*_UNREADABLE), _opened(file) as connection:
        return connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone() is not None
    return False


def _row(line: tuple[object, ...]) -> Row | None:
    match line:
        case (int(), int() | float(), str(kind), str(), str(), str(), int()) if kind in KINDS:
            row = Row(*line)  # type: ignore[arg-type]
            return row if is_sound(row) else None
    return None


def _newest_number(file: Path) -> int:
    """Return the newest number that an index or the table of numbers has; 0 if neither does."""
    found = 0
    for sql in (
        "SELECT max(seq) FROM entries INDEXED BY entries_kind_seq WHERE kind > ''",
        "SELECT max(CAST(value AS INTEGER)) FROM entries_meta WHERE name = 'numbers_given'",
        "SELECT max(seq) FROM entries",
    ):
        with (
            suppress(sqlite3.Error, UnicodeDecodeError, OverflowError),
            _opened(file) as connection,
        ):
            ((number,),) = connection.execute(sql)
            found = max(found, number if isinstance(number, int) else 0)
    return found


def _opened(file: Path) -> closing[sqlite3.Connection]:
    if not file.exists() or not file.stat().st_size:  # SQLite would delete the log of an empty one
        raise sqlite3.OperationalError("it is empty")
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda stored: stored.decode(errors="replace")
    return closing(connection)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) >= _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _losses(kept: set[int], newest: int) -> str:
    lost = list(_ranges(number for number in range(1, newest + 1) if number not in kept))
    if not lost:
        return f"nothing is known to be lost up to seq {newest}"
    names = [str(a) if a == b else f"{a}-{b}" for a, b in lost]
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more ranges" * (len(names) > 20))
    return f"{newest - len(kept)} entries are lost: seq {shown}"


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = 0
    for number in numbers:
        if number != last + 1 or not first:
            if first:
                yield first, last
            first = number
        last = number
    if first:
        yield first, last


def _sibling(file: Path, ending: str) -> Path:
    return file.with_name(file.name + ending)


def _asides(file: Path) -> Iterator[Path]:
    return (_sibling(file, f".damaged-{number}") for number in count(1))


def _sync(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
