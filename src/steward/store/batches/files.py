"""Files in the database, in parts: every gateway finds them, on whichever machine it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from steward.store.batches.records import FileRecord, new_id
from steward.store.batches.tables import BATCHES, FILES, PARTS, BatchDatabase

__all__ = ["FileStore", "add_whole_file"]

_ABANDONED_S = 3600.0  # an upload that has not ended by then never will
_PART_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """All files, each seen by its tenant only."""

    database: BatchDatabase

    def begin(self, *, tenant: str, purpose: str) -> str:
        """Make room for a file whose parts follow; it shows when it is whole."""
        id_ = new_id("file-")
        with self.database.writing() as (connection, now_s):
            row = _row(id_, (tenant, purpose, ""), 0, now_s)
            connection.execute(sa.insert(FILES).values({**row, "whole": False}))
        return id_

    def add_part(self, file: str, number: int, body: bytes) -> None:
        """Store one part."""
        with self.database.writing() as (connection, _):
            row = {"file": file, "number": number, "body": body}
            connection.execute(sa.insert(PARTS).values(row))

    def finish(self, file: str, *, filename: str, size_bytes: int) -> FileRecord:
        """Make a file visible, now that all its parts are there."""
        with self.database.writing() as (connection, _):
            whole = {"whole": True, "filename": filename, "bytes": size_bytes}
            connection.execute(sa.update(FILES).where(FILES.c.id == file).values(whole))
            row = connection.execute(sa.select(FILES).where(FILES.c.id == file)).one()
        return _record(row)

    def discard(self, file: str) -> None:
        """Delete a file that did not become whole."""
        with self.database.writing() as (connection, _):
            _delete(connection, [file])

    def discard_abandoned(self) -> int:
        """Delete what uploads left behind that were broken off; return how many there were."""
        with self.database.writing() as (connection, now_s):
            age_s = _ABANDONED_S if self.database.shared else 0.0  # alone: none is under way
            old = sa.select(FILES.c.id).where(~FILES.c.whole, FILES.c.created_s <= now_s - age_s)
            ids = [row.id for row in connection.execute(old)]
            _delete(connection, ids)
        return len(ids)

    def find(self, file: str, tenant: str) -> FileRecord | None:
        """Return a tenant's file."""
        with self.database.reading() as connection:
            row = connection.execute(sa.select(FILES).where(*_visible(file, tenant))).one_or_none()
        return None if row is None else _record(row)

    def parts(self, file: str) -> Iterator[bytes]:
        """Yield the content, a part at a time."""
        number = 0
        while True:
            with self.database.reading() as connection:
                body = read_part(connection, file, number)
            if body is None:
                return
            yield body
            number += 1

    def page_of(
        self, tenant: str, *, purpose: str | None, after: str | None, limit: int, newest_first: bool
    ) -> tuple[list[FileRecord], bool]:
        """Return files after the one with id `after`, and whether there are more."""
        query = sa.select(FILES).where(FILES.c.tenant == tenant, FILES.c.whole)
        if purpose is not None:
            query = query.where(FILES.c.purpose == purpose)
        with self.database.reading() as connection:
            rows = page(connection, query, FILES, (after, limit, newest_first))
        return [_record(row) for row in rows[:limit]], len(rows) > limit

    def delete(self, file: str, tenant: str) -> str:
        """Delete a file; return "deleted", "unknown", or "needed" by a batch that reads it."""
        with self.database.writing() as (connection, _):
            if (
                connection.execute(sa.select(FILES.c.id).where(*_visible(file, tenant))).first()
                is None
            ):
                return "unknown"
            reads = sa.select(BATCHES.c.id).where(
                BATCHES.c.input_file == file, BATCHES.c.status == "validating"
            )
            if connection.execute(reads).first() is not None:
                return "needed"
            _delete(connection, [file])
        return "deleted"


def add_whole_file(
    connection: sa.Connection, owner: tuple[str, str, str], lines: Iterable[bytes], now_s: float
) -> str | None:
    """Store lines as a file of (tenant, purpose, filename); None if there are no lines."""
    id_ = new_id("file-")
    size_bytes = number = 0
    for body in _in_parts(lines):
        connection.execute(sa.insert(PARTS).values({"file": id_, "number": number, "body": body}))
        number += 1
        size_bytes += len(body)
    if not number:
        return None
    row = _row(id_, owner, size_bytes, now_s)
    connection.execute(sa.insert(FILES).values({**row, "whole": True}))
    return id_


def page(
    connection: sa.Connection,
    query: sa.Select[Any],
    table: sa.Table,
    where: tuple[str | None, int, bool],
) -> Sequence[sa.Row[Any]]:
    """Return one row more than asked for, so that callers see whether there are more."""
    after, limit, newest_first = where
    place = sa.tuple_(table.c.created_s, table.c.id)
    if after is not None:
        mark = sa.select(table.c.created_s, table.c.id).where(table.c.id == after)
        found = connection.execute(mark).one_or_none()
        if found is None:
            return []
        bound = sa.tuple_(sa.literal(found.created_s), sa.literal(found.id))
        query = query.where(place < bound if newest_first else place > bound)
    columns = (table.c.created_s, table.c.id)
    order = [each.desc() for each in columns] if newest_first else list(columns)
    return connection.execute(query.order_by(*order).limit(limit + 1)).all()


def read_part(connection: sa.Connection, file: str, number: int) -> bytes | None:
    """Return one part of a file."""
    query = sa.select(PARTS.c.body).where(PARTS.c.file == file, PARTS.c.number == number)
    body = connection.execute(query).scalar_one_or_none()
    return None if body is None else bytes(body)


def _in_parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size_bytes = 0
    for line in lines:
        held.append(line)
        size_bytes += len(line)
        if size_bytes >= _PART_BYTES:
            yield b"".join(held)
            held, size_bytes = [], 0
    if held:
        yield b"".join(held)


def _row(id_: str, owner: tuple[str, str, str], size_bytes: int, now_s: float) -> dict[str, Any]:
    names = ("tenant", "purpose", "filename")
    about = dict(zip(names, owner, strict=True))
    return {"id": id_, **about, "bytes": size_bytes, "created_s": now_s}


def _visible(file: str, tenant: str) -> tuple[sa.ColumnElement[bool], ...]:
    return FILES.c.id == file, FILES.c.tenant == tenant, FILES.c.whole


def _delete(connection: sa.Connection, files: list[str]) -> None:
    connection.execute(sa.delete(PARTS).where(PARTS.c.file.in_(files)))
    connection.execute(sa.delete(FILES).where(FILES.c.id.in_(files)))


def _record(row: sa.Row[Any]) -> FileRecord:
    return FileRecord(
        id=row.id,
        tenant=row.tenant,
        purpose=row.purpose,
        filename=row.filename,
        bytes=row.bytes,
        created_s=row.created_s,
    )
