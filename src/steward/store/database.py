"""Opens the journal's database: SQLite in a file, PostgreSQL by URL. All that differs is here.

Several threads and processes may use one SQLite journal. Each holds a shared lock on
`*.lock`; a process that is alone checks the file and repairs it before others open it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from steward.errors import StewardError
from steward.store.atomic import PRIVATE_FILE, make_folder
from steward.store.journal_backup import backup_of, make_private, restored, write_backup
from steward.store.records import META, SCHEMA_VERSION, TABLES, Row

__all__ = ["Database", "connect_read_only", "open_database", "open_tables"]

_BUSY_S = 30.0
_LOCK_WAIT_S = 60.0
_CONNECT_TIMEOUT_S = 5
_BACKUP_EVERY_S = 86_400.0
_ADVISORY_LOCK = 0x7374_6577_6172_64  # "steward": one writer at a time commits in order of `seq`
_PRAGMAS = (
    "page_size = 4096",
    f"busy_timeout = {int(_BUSY_S * 1000)}",
    "synchronous = FULL",
    "recursive_triggers = ON",  # else REPLACE deletes without firing the delete trigger
    "journal_size_limit = 16777216",
)
_TROUBLES = (  # how an error code begins, what it means, what to do
    (
        ("SQLITE_FULL", "53100"),
        "the disk is full: nothing was written",
        "make room; the journal then works again without a restart",
    ),
    (
        ("SQLITE_IOERR",),
        "the disk refuses (it is full, a quota is reached, or it fails): nothing was written",
        "make room or look at the kernel log; the journal then works again without a restart",
    ),
    (
        ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "42501"),
        "it cannot be opened for writing",
        "give the user that runs steward write access, or choose another place in [store]",
    ),
    (
        ("SQLITE_BUSY", "SQLITE_LOCKED"),
        f"another process has kept it locked for more than {_BUSY_S:.0f} s",
        "stop the process that holds it (`fuser` names it)",
    ),
    (
        ("SQLITE_CORRUPT", "SQLITE_NOTADB"),
        "it is damaged and in use",
        "stop every steward process: the next start repairs it and keeps the damaged file",
    ),
)
_INSERT = {
    "sqlite": "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)",
    "postgresql": "INSERT INTO entries VALUES (%s, %s, %s, %s, %s, %s, %s)",
}
_UNREACHABLE = ("08", "28", "3D", "53", "57P")  # SQLSTATE classes: connection, login, shutdown, …


@dataclass(slots=True, kw_only=True)
class Database:
    """An open journal database, the same to its user whichever it is."""

    engine: sa.Engine
    where: str  # without any password
    password: str = field(default="", repr=False)
    lock_handle: int | None = None
    file: Path | None = None  # of a SQLite journal that is open for writing
    damage: tuple[str, ...] = ()
    ordered: bool = True  # writers of PostgreSQL commit one after another, as a journal needs
    _backup: threading.Thread | None = None
    _backup_tried_s: float | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _writer: sa.Engine = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._writer = self.engine.execution_options(steward_writes=True)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open one consistent look at what is committed."""
        with self.explained(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open one transaction that no other writer overtakes; it is durable at the end."""
        with self._turn, self.explained(), self._writer.begin() as connection:
            if self.engine.dialect.name == "postgresql":
                lock = f"pg_advisory_xact_lock({_ADVISORY_LOCK}), " if self.ordered else ""
                connection.exec_driver_sql(
                    f"SELECT {lock}set_config('synchronous_commit', 'on', true)"
                )
            yield connection

    def insert(self, connection: sa.Connection, rows: list[Row]) -> None:
        """Add rows through the driver: SQLAlchemy's own way doubles the time of an append."""
        connection.exec_driver_sql(_INSERT[self.engine.dialect.name], [*rows])

    def start_backup(self) -> None:
        """Back a SQLite journal up in a background thread, if the last backup is a day old."""
        running = self._backup is not None and self._backup.is_alive()
        if self.file is None or running or not self._backup_is_due(self.file):
            return
        self._backup_tried_s = time.monotonic()
        self._backup = threading.Thread(target=self._back_up, args=(self.file,), name="backup")
        self._backup.start()

    def _backup_is_due(self, file: Path) -> bool:
        tried_s = self._backup_tried_s
        if tried_s is not None and time.monotonic() - tried_s < _BACKUP_EVERY_S:
            return False
        try:
            age_s = time.time() - backup_of(file).stat().st_mtime
        except FileNotFoundError:
            return True
        return not 0 <= age_s < _BACKUP_EVERY_S

    def _back_up(self, file: Path) -> None:
        try:
            write_backup(file)
        except (OSError, sqlite3.Error) as fault:
            self.damage = (*self.damage, f"{file} cannot be backed up: {fault}")

    def close(self) -> None:
        """Release the database. Other processes may then repair it."""
        if self._backup is not None:
            self._backup.join()
        self.engine.dispose()
        if self.lock_handle is not None:
            os.close(self.lock_handle)
            self.lock_handle = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Convert a database's error into one with a hint."""
        try:
            yield
        except SQLAlchemyError as fault:
            raise _explanation(fault, self.where, self.password) from fault


def open_database(url: str, *, read_only_ok: bool = False) -> Database:
    """Open a journal database and make its tables where they are missing.

    With `read_only_ok`, a SQLite journal that may not be written to is opened for reading.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite":
        return _open_postgresql(parsed)
    file = Path(str(parsed.database)).absolute()
    if read_only_ok and file.exists() and not (_may_write(file) and _may_write(file.parent)):
        return _open_read_only(file)
    return _open_sqlite(file)


def open_tables(url: str, tables: sa.MetaData, *, setting: str) -> Database:
    """Open a database of other tables than a journal's, and make those that are missing.

    One process at a time may have a SQLite file open. PostgreSQL's writers are not ordered.
    """
    parsed = _parse(url, setting)
    if parsed.get_backend_name() == "sqlite":
        database = _open_alone(Path(str(parsed.database)).absolute())
    else:
        database = _postgresql_database(parsed)
    database.ordered = False
    with _closed_on_failure(database), database.explained():
        tables.create_all(database.engine)
    return database


def _open_alone(file: Path) -> Database:
    handle = _lock_file(file)
    if not _take(handle, fcntl.LOCK_EX):
        os.close(handle)
        raise StewardError(
            "another process has it open",
            where=str(file),
            hint="stop that one, or let both use one PostgreSQL database",
        )
    database = Database(engine=_sqlite_engine(file), where=str(file), lock_handle=handle)
    with _closed_on_failure(database), database.explained():
        file.touch(mode=PRIVATE_FILE)
        with closing(database.engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
    return database


def connect_read_only(file: Path) -> sqlite3.Connection:
    """Open a SQLite file that may lie in a folder in which nothing can be written."""
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").close()
    except sqlite3.OperationalError:  # its log would have to be made
        connection.close()
        connection = sqlite3.connect(
            f"{file.as_uri()}?immutable=1", uri=True, check_same_thread=False
        )
    return connection


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=True)


def _open_read_only(file: Path) -> Database:
    engine = sa.create_engine("sqlite://", creator=lambda: connect_read_only(file))

    @event.listens_for(engine, "connect")
    def _settle(connection: sqlite3.Connection, _record: object) -> None:
        connection.text_factory = _text

    database = Database(engine=engine, where=str(file))
    with _closed_on_failure(database):
        _check_version(database)
    return database


def _parse(url: str, setting: str = "[store] journal") -> sa.URL:
    hint = "use sqlite:////FOLDER/journal.sqlite3 or postgresql://USER:PASSWORD@HOST/DATABASE"
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError) as fault:
        raise StewardError("this is not a database URL", where=setting, hint=hint) from fault
    backend = parsed.drivername.partition("+")[0]
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed
    if backend in ("postgres", "postgresql"):
        return parsed.set(drivername="postgresql+psycopg")
    problem = (
        "a journal in memory would be lost"
        if backend == "sqlite"
        else f"a journal cannot be kept in '{backend}'; known: sqlite, postgresql"
    )
    raise StewardError(problem, where=setting, hint=hint)


def _open_postgresql(url: sa.URL) -> Database:
    database = _postgresql_database(url)
    with _closed_on_failure(database):
        _prepare(database)
    return database


def _postgresql_database(url: sa.URL) -> Database:
    engine = sa.create_engine(
        url, pool_pre_ping=True, connect_args={"connect_timeout": _CONNECT_TIMEOUT_S}
    )
    shown = sa.URL.create(
        "postgresql", username=url.username, host=url.host, port=url.port, database=url.database
    )
    password = url.password or str(url.query.get("password", ""))
    return Database(engine=engine, where=str(shown), password=password)


def _open_sqlite(file: Path) -> Database:
    handle = _lock_file(file)
    engine = _sqlite_engine(file)
    database = Database(engine=engine, where=str(file), file=file, lock_handle=handle)
    with _closed_on_failure(database):
        alone = _take(handle, fcntl.LOCK_EX)
        if alone:
            database.damage = _restored(file)
            _make_journal_of(database)
        _share(handle, file)
        if not alone:
            _check_version(database)
    return database


@contextmanager
def _closed_on_failure(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def _lock_file(file: Path) -> int:
    try:
        make_folder(file.parent)
        lock = file.with_name(file.name + ".lock")
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    except OSError as fault:
        raise _refused(file, fault) from fault


def _refused(file: Path, fault: OSError) -> StewardError:
    return StewardError(
        f"the journal cannot be opened: {fault.strerror}",
        where=str(file),
        hint="choose a folder that steward may write to: [store] folder in the configuration",
    )


def _take(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _share(handle: int, file: Path) -> None:
    """Wait until no process repairs the file, then keep others from repairing it."""
    give_up_s = time.monotonic() + _LOCK_WAIT_S
    while not _take(handle, fcntl.LOCK_SH):
        if time.monotonic() > give_up_s:
            raise StewardError(
                f"another process has been checking it for more than {_LOCK_WAIT_S:.0f} s",
                where=str(file),
                hint="wait for that process to end, then start again",
            )
        time.sleep(0.02)


def _restored(file: Path) -> tuple[str, ...]:
    try:
        notes = restored(file)
        make_private(file)
        return notes
    except OSError as fault:
        raise _refused(file, fault) from fault
    except sqlite3.Error as fault:
        raise _explanation(fault, str(file), "") from fault


def _sqlite_engine(file: Path) -> sa.Engine:
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(file)))

    @event.listens_for(engine, "connect")
    def _settle(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # BEGIN is explicit, see below
        connection.text_factory = _text
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # A writer takes the lock at once: a reader that becomes a writer could deadlock.
        writes = connection.get_execution_options().get("steward_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _text(stored: bytes) -> str:
    """Read text that damage may have touched: one broken row must not hide all others."""
    return stored.decode(errors="replace")


def _make_journal_of(database: Database) -> None:
    """Turn a new file into a journal, or recognise an old one. Only one process does that."""
    with database.reading() as connection:
        names = set(sa.inspect(connection).get_table_names())
    if names and not names >= set(TABLES.tables):
        raise StewardError(
            f"this SQLite file holds other things than a journal: {', '.join(sorted(names))}",
            where=database.where,
            hint="choose another file: [store] journal in the configuration",
        )
    with database.explained(), closing(database.engine.raw_connection()) as connection:
        connection.cursor().execute("PRAGMA journal_mode = WAL")  # not within a transaction
    _prepare(database)
    database.engine.dispose()  # the next process may find itself alone: hold nothing open


def _prepare(database: Database) -> None:
    with database.writing() as connection:
        TABLES.create_all(connection)
        versions = sa.select(META.c.value).where(META.c.name == "schema_version")
        if connection.execute(versions).first() is None:
            line = {"name": "schema_version", "value": str(SCHEMA_VERSION)}
            connection.execute(sa.insert(META).values(line))
    _check_version(database)


def _check_version(database: Database) -> None:
    query = sa.select(META.c.value).where(META.c.name == "schema_version")
    with database.reading() as connection:
        version = int(connection.execute(query).scalar_one())
    if version > SCHEMA_VERSION:
        raise StewardError(
            f"a newer steward wrote this journal (schema {version}, this one reads "
            f"{SCHEMA_VERSION})",
            where=database.where,
            hint="upgrade steward, or name another journal in [store]",
        )


def _explanation(fault: Exception, where: str, password: str) -> StewardError:
    """Return what a database error means, without any secret of its URL."""
    cause = fault.orig if isinstance(fault, DBAPIError) and fault.orig else fault
    code = getattr(cause, "sqlite_errorname", "") or getattr(cause, "sqlstate", "") or ""
    text = " ".join(str(cause).split())
    text = text.replace(password, "***") if password else text
    for beginnings, problem, hint in _TROUBLES:
        if code.startswith(beginnings):
            return StewardError(f"{problem} ({text})", where=where, hint=hint)
    if where.startswith("postgresql:") and (
        not code or code.startswith(("08", "28", "3D", "53", "57P"))
    ):
        return StewardError(
            f"the journal's database cannot be used: {text}",
            where=where,
            hint="see that the server runs, and that [store] journal names its host, user, "
            "password and database rightly; what was last appended may or may not be there",
        )
    return StewardError(
        f"the database refuses: {text}", where=where, hint="nothing was written; this is a fault"
    )
