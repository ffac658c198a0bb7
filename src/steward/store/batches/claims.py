"""Who sends which item: each is claimed by one gateway, and answered once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from steward.store.batches.records import (
    ANSWERED,
    CLAIMED,
    FAILED,
    WAITING,
    Item,
    ItemAnswer,
    new_id,
)
from steward.store.batches.tables import ITEMS, WORKERS, BatchDatabase

__all__ = ["Claims"]

_SHOWN = ("batch", "line", "id", "custom_id", "tenant", "path", "model", "body")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of one gateway, which holds them as long as it renews them in time."""

    database: BatchDatabase
    owner: str
    lease_s: float = 30.0

    @staticmethod
    def of(database: BatchDatabase, *, lease_s: float = 30.0) -> Claims:
        """Return the claims of a gateway that starts: under a name of its own each time."""
        return Claims(database=database, owner=new_id("gateway-"), lease_s=lease_s)

    def renew(self) -> int:
        """Stay alive for another lease, and free what the dead had claimed; return how much.

        Alone with its database, a gateway presumes every other one dead at once.
        """
        with self.database.writing() as (connection, now_s):
            until_s = now_s + self.lease_s
            known = connection.execute(
                sa.update(WORKERS).where(WORKERS.c.owner == self.owner).values(until_s=until_s)
            )
            if not known.rowcount:
                row = {"owner": self.owner, "until_s": until_s}
                connection.execute(sa.insert(WORKERS).values(row))
            others = WORKERS.c.owner != self.owner
            dead = sa.and_(others, WORKERS.c.until_s < now_s) if self.database.shared else others
            connection.execute(sa.delete(WORKERS).where(dead))
            alive = sa.select(WORKERS.c.owner)
            freed = connection.execute(
                sa.update(ITEMS)
                .where(ITEMS.c.state == CLAIMED, ITEMS.c.owner.not_in(alive))
                .values(state=WAITING, owner=None)
            )
            return freed.rowcount

    def claim(self, count: int) -> list[Item]:
        """Claim the most urgent items that wait, at most so many."""
        with self.database.writing() as (connection, now_s):
            within = (ITEMS.c.deadline_s - now_s).label("within_s")
            query = (
                sa.select(*(ITEMS.c[name] for name in _SHOWN), ITEMS.c.attempts, within)
                .where(ITEMS.c.state == WAITING, ITEMS.c.not_before_s <= now_s, within > 0)
                .order_by(ITEMS.c.deadline_s, ITEMS.c.batch, ITEMS.c.line)
                .limit(count)
                .with_for_update(skip_locked=True)
            )
            rows = connection.execute(query).all()
            if rows:
                connection.execute(
                    sa.update(ITEMS)
                    .where(ITEMS.c.batch == sa.bindparam("b"), ITEMS.c.line == sa.bindparam("l"))
                    .values(state=CLAIMED, owner=self.owner),
                    [{"b": row.batch, "l": row.line} for row in rows],
                )
        return [Item(**row._asdict()) for row in rows]

    def answer(self, answers: Sequence[ItemAnswer]) -> list[bool]:
        """Write answers, durably; False where the item is not ours any more.

        It was cancelled, it expired, or we were presumed dead and another gateway has it.
        """
        with self.database.writing() as (connection, _):
            return [self._answer(connection, each) for each in answers]

    def _answer(self, connection: sa.Connection, given: ItemAnswer) -> bool:
        state = FAILED if given.failed else ANSWERED
        done = connection.execute(
            sa.update(ITEMS)
            .where(*self._ours(given.batch, given.line))
            .values(state=state, answer=given.answer, owner=None)
        )
        return done.rowcount == 1

    def put_back(self, items: Sequence[Item], *, after_s: float, tried: bool = True) -> None:
        """Let items wait again, to be sent after so long; `tried` counts as an attempt."""
        with self.database.writing() as (connection, now_s):
            for item in items:
                connection.execute(
                    sa.update(ITEMS)
                    .where(*self._ours(item.batch, item.line))
                    .values(
                        state=WAITING,
                        owner=None,
                        not_before_s=now_s + after_s,
                        attempts=item.attempts + int(tried),
                    )
                )

    def resign(self) -> None:
        """Give back all that is claimed: the gateway ends."""
        with self.database.writing() as (connection, _):
            connection.execute(
                sa.update(ITEMS)
                .where(ITEMS.c.state == CLAIMED, ITEMS.c.owner == self.owner)
                .values(state=WAITING, owner=None)
            )
            connection.execute(sa.delete(WORKERS).where(WORKERS.c.owner == self.owner))

    def _ours(self, batch: str, line: int) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            ITEMS.c.batch == batch,
            ITEMS.c.line == line,
            ITEMS.c.state == CLAIMED,
            ITEMS.c.owner == self.owner,
        )
