"""Batches from their creation to their output files; every step is one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from steward.store.batches.files import add_whole_file, page
from steward.store.batches.records import (
    ANSWERED,
    CANCELLED,
    CLAIMED,
    ENDED,
    EXPIRED,
    FAILED,
    WAITING,
    BatchRecord,
    LineFault,
    NewItem,
    new_id,
)
from steward.store.batches.tables import BATCHES, ITEMS, BatchDatabase

__all__ = ["BatchStore"]

_REACHED = {  # status, and the column with the time at which it was reached
    "in_progress": "in_progress_s",
    "finalizing": "finalizing_s",
    "completed": "completed_at_s",
    "failed": "failed_at_s",
    "expired": "expired_s",
    "cancelling": "cancelling_s",
    "cancelled": "cancelled_s",
}
_SHOWN_FAULTS = 100
_ITEMS_AT_ONCE = 500
_OPEN = (WAITING, CLAIMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStore:
    """All batches, each seen by its tenant only."""

    database: BatchDatabase

    def create(
        self,
        *,
        tenant: str,
        endpoint: str,
        input_file: str,
        window: str,
        within_s: float,
        metadata: Mapping[str, str],
    ) -> BatchRecord:
        """Add a batch that has to be validated, and to be over `within_s` from now."""
        id_ = new_id("batch_")
        with self.database.writing() as (connection, now_s):
            row = {
                "id": id_,
                "tenant": tenant,
                "endpoint": endpoint,
                "input_file": input_file,
                "window": window,
                "metadata": json.dumps(dict(metadata)),
                "status": "validating",
                "errors": "[]",
                **dict.fromkeys(("total", "completed", "failed"), 0),
                "created_s": now_s,
                "expires_s": now_s + within_s,
            }
            connection.execute(sa.insert(BATCHES).values(row))
            return _found(connection, id_)

    def find(self, batch: str, tenant: str) -> BatchRecord | None:
        """Return a tenant's batch."""
        query = sa.select(BATCHES).where(BATCHES.c.id == batch, BATCHES.c.tenant == tenant)
        with self.database.reading() as connection:
            row = connection.execute(query).one_or_none()
            return None if row is None else _record(connection, row)

    def page_of(
        self, tenant: str, *, after: str | None, limit: int
    ) -> tuple[list[BatchRecord], bool]:
        """Return the newest batches, or those before the one with id `after`; and if more are."""
        query = sa.select(BATCHES).where(BATCHES.c.tenant == tenant)
        with self.database.reading() as connection:
            rows = page(connection, query, BATCHES, (after, limit, True))
            return [_record(connection, row) for row in rows[:limit]], len(rows) > limit

    def in_status(self, *statuses: str) -> list[BatchRecord]:
        """Return all batches in one of these states, oldest first."""
        query = sa.select(BATCHES).where(BATCHES.c.status.in_(statuses))
        with self.database.reading() as connection:
            rows = connection.execute(query.order_by(BATCHES.c.created_s, BATCHES.c.id)).all()
            return [_record(connection, row) for row in rows]

    def begin(self, batch: str, items: Iterable[NewItem]) -> bool:
        """Add the items of a validated batch; False if another gateway did, or it was cancelled.

        Lines with faults are items that failed. Without a good line, the batch fails as a whole.
        """
        with self.database.writing() as (connection, now_s):
            row = _locked(connection, batch, ("validating",))
            if row is None:
                return False
            faults: list[LineFault] = []
            total = good = 0
            for several in _grouped(items):
                connection.execute(sa.insert(ITEMS), [_item_row(row, each) for each in several])
                found = [each.fault for each in several if each.fault is not None]
                faults += found[: _SHOWN_FAULTS - len(faults)]
                total += len(several)
                good += len(several) - len(found)
            if not total:
                problem = "the input file has no requests"
                faults.append(LineFault(line=0, code="empty_file", message=problem))
            status = "in_progress" if good else "failed"
            if not good:
                connection.execute(sa.delete(ITEMS).where(ITEMS.c.batch == batch))
            errors = json.dumps([asdict(each) for each in faults])
            _reach(connection, batch, status, now_s, total=total, errors=errors)
        return True

    def fail(self, batch: str, fault: LineFault) -> None:
        """Let a batch fail that cannot be begun at all."""
        with self.database.writing() as (connection, now_s):
            if _locked(connection, batch, ("validating",)) is not None:
                errors = json.dumps([asdict(fault)])
                _reach(connection, batch, "failed", now_s, errors=errors)

    def cancel(self, batch: str, tenant: str) -> BatchRecord | None:
        """Take back what was not sent yet; what was sent is finished. None if there is no batch."""
        with self.database.writing() as (connection, now_s):
            row = _locked(connection, batch, ("validating", "in_progress"))
            if row is not None and row.tenant == tenant:
                _reach(connection, batch, "cancelling", now_s)
                _close_items(connection, batch, (WAITING,), CANCELLED)
        return self.find(batch, tenant)

    def expire(self) -> int:
        """Close the batches whose time is over; return how many there were."""
        with self.database.writing() as (connection, now_s):
            late = sa.select(BATCHES.c.id).where(
                BATCHES.c.status.in_(("validating", "in_progress")), BATCHES.c.expires_s <= now_s
            )
            ids = [row.id for row in connection.execute(late.with_for_update(skip_locked=True))]
            for batch in ids:
                _close_items(connection, batch, _OPEN, EXPIRED)
                _reach(connection, batch, "finalizing", now_s, expired_s=now_s)
            cancelling = sa.select(BATCHES.c.id).where(BATCHES.c.status == "cancelling")
            for row in connection.execute(cancelling).all():  # what came back meanwhile
                _close_items(connection, row.id, (WAITING,), CANCELLED)
        return len(ids)

    def finalize(self, batch: str) -> bool:
        """Write the files of a batch that has no open items left; False if it has, or is over."""
        with self.database.writing() as (connection, now_s):
            row = _locked(connection, batch, ("in_progress", "cancelling", "finalizing"))
            if row is None or _is_open(connection, batch):
                return False
            if row.status == "in_progress":
                _reach(connection, batch, "finalizing", now_s)
        with self.database.writing() as (connection, now_s):
            row = _locked(connection, batch, ("cancelling", "finalizing"))
            if row is None:
                return False
            counts = _counts(connection, batch)
            _reach(
                connection,
                batch,
                _end_of(row),
                now_s,
                completed=counts.get(ANSWERED, 0),
                failed=sum(counts.values()) - counts.get(ANSWERED, 0),
                output_file=_output(connection, row, (ANSWERED,), "output", now_s),
                error_file=_output(connection, row, (FAILED, EXPIRED, CANCELLED), "error", now_s),
            )
            connection.execute(sa.delete(ITEMS).where(ITEMS.c.batch == batch))
        return True

    def ready(self) -> list[str]:
        """Return the batches without open items that have no files yet."""
        open_ = sa.exists().where(ITEMS.c.batch == BATCHES.c.id, ITEMS.c.state.in_(_OPEN))
        query = sa.select(BATCHES.c.id).where(
            BATCHES.c.status.in_(("in_progress", "cancelling", "finalizing")), ~open_
        )
        with self.database.reading() as connection:
            return [row.id for row in connection.execute(query)]

    def counts(self) -> tuple[int, int, int, int]:
        """Return open batches, and the items of all batches that wait, are done, have failed."""
        ended = BATCHES.c.status.in_(ENDED)
        over = sa.select(
            sa.func.count().filter(~ended),
            sa.func.coalesce(sa.func.sum(BATCHES.c.completed), 0),
            sa.func.coalesce(sa.func.sum(BATCHES.c.failed), 0),
        ).select_from(BATCHES)
        with self.database.reading() as connection:
            batches, done, failed = connection.execute(over).one()
            states = _counts(connection, None)
        waiting = sum(states.get(each, 0) for each in _OPEN)
        answered = states.get(ANSWERED, 0)
        lost = sum(states.values()) - waiting - answered
        return int(batches), waiting, int(done) + answered, int(failed) + lost


def _end_of(row: sa.Row[Any]) -> str:
    if row.cancelling_s is not None:
        return "cancelled"
    return "expired" if row.expired_s is not None else "completed"


def _grouped(items: Iterable[NewItem]) -> Iterator[list[NewItem]]:
    held: list[NewItem] = []
    for each in items:
        held.append(each)
        if len(held) == _ITEMS_AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _item_row(batch: sa.Row[Any], item: NewItem) -> dict[str, Any]:
    id_ = new_id("batch_req_")
    fault = item.fault
    answer = None if fault is None else _error_line(id_, item.custom_id, fault)
    return {
        "batch": batch.id,
        "line": item.line,
        "id": id_,
        "custom_id": item.custom_id,
        "tenant": batch.tenant,
        "path": batch.endpoint,
        "model": item.model,
        "body": item.body,
        "state": WAITING if fault is None else FAILED,
        "deadline_s": batch.expires_s,
        "not_before_s": 0.0,
        "attempts": 0,
        "owner": None,
        "answer": answer,
    }


def _error_line(id_: str, custom_id: str | None, fault: LineFault) -> bytes:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.line:
        error |= {"line": fault.line, "param": fault.param}
    record = {"id": id_, "custom_id": custom_id, "response": None, "error": error}
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


_UNSENT = {
    EXPIRED: LineFault(
        line=0,
        code="batch_expired",
        message="This request could not be executed before the completion window expired.",
    ),
    CANCELLED: LineFault(
        line=0,
        code="batch_cancelled",
        message="This request was not executed: the batch was cancelled.",
    ),
}


def _close_items(connection: sa.Connection, batch: str, states: Sequence[int], end: int) -> None:
    connection.execute(
        sa.update(ITEMS)
        .where(ITEMS.c.batch == batch, ITEMS.c.state.in_(states))
        .values(state=end, owner=None)
    )


def _output(
    connection: sa.Connection, batch: sa.Row[Any], states: Sequence[int], kind: str, now_s: float
) -> str | None:
    owner = (batch.tenant, "batch_output", f"{batch.id}_{kind}.jsonl")
    return add_whole_file(connection, owner, _answers(connection, batch.id, states), now_s)


def _answers(connection: sa.Connection, batch: str, states: Sequence[int]) -> Iterator[bytes]:
    """Yield the lines of an output file, in the order of the input."""
    line = 0
    columns = (ITEMS.c.line, ITEMS.c.id, ITEMS.c.custom_id, ITEMS.c.state, ITEMS.c.answer)
    while True:
        query = (
            sa.select(*columns)
            .where(ITEMS.c.batch == batch, ITEMS.c.state.in_(states), ITEMS.c.line > line)
            .order_by(ITEMS.c.line)
            .limit(_ITEMS_AT_ONCE)
        )
        rows = connection.execute(query).all()
        if not rows:
            return
        for row in rows:
            yield bytes(row.answer or _error_line(row.id, row.custom_id, _UNSENT[row.state]))
        line = rows[-1].line


def _counts(connection: sa.Connection, batch: str | None) -> dict[int, int]:
    query = sa.select(ITEMS.c.state, sa.func.count()).group_by(ITEMS.c.state)
    if batch is not None:
        query = query.where(ITEMS.c.batch == batch)
    return {row[0]: row[1] for row in connection.execute(query)}


def _is_open(connection: sa.Connection, batch: str) -> bool:
    query = sa.select(ITEMS.c.line).where(ITEMS.c.batch == batch, ITEMS.c.state.in_(_OPEN))
    return connection.execute(query.limit(1)).first() is not None


def _locked(connection: sa.Connection, batch: str, statuses: Sequence[str]) -> sa.Row[Any] | None:
    """Return a batch for changing it, if it is in one of these states."""
    query = sa.select(BATCHES).where(BATCHES.c.id == batch, BATCHES.c.status.in_(statuses))
    return connection.execute(query.with_for_update()).one_or_none()


def _reach(
    connection: sa.Connection, batch: str, status: str, now_s: float, **more: object
) -> None:
    values = {"status": status, _REACHED[status]: now_s, **more}
    connection.execute(sa.update(BATCHES).where(BATCHES.c.id == batch).values(values))


def _found(connection: sa.Connection, batch: str) -> BatchRecord:
    row = connection.execute(sa.select(BATCHES).where(BATCHES.c.id == batch)).one()
    return _record(connection, row)


def _record(connection: sa.Connection, row: sa.Row[Any]) -> BatchRecord:
    completed, failed = row.completed, row.failed
    if row.status not in ENDED:
        counts = _counts(connection, row.id)
        completed = counts.get(ANSWERED, 0)
        failed = sum(counts.get(each, 0) for each in (FAILED, EXPIRED, CANCELLED))
    return BatchRecord(
        id=row.id,
        tenant=row.tenant,
        endpoint=row.endpoint,
        input_file=row.input_file,
        window=row.window,
        metadata=json.loads(row.metadata),
        status=row.status,
        errors=tuple(LineFault(**each) for each in json.loads(row.errors)),
        output_file=row.output_file,
        error_file=row.error_file,
        total=row.total,
        completed=completed,
        failed=failed,
        created_s=row.created_s,
        expires_s=row.expires_s,
        reached_s={
            status: row._mapping[column]  # noqa: SLF001 - SQLAlchemy's documented mapping
            for status, column in _REACHED.items()
        },
    )
