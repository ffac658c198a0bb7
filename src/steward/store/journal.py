"""The journal: append-only, durable, and joining every cause to its effects.

Readers page with `after` and `before`: numbers grow in the order of commits, so a reader that has
seen number n never misses an entry below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

import sqlalchemy as sa

from steward.errors import StewardError, did_you_mean
from steward.model.decision import Choice, Decision, Receipt, Verdict
from steward.model.finding import Finding
from steward.model.identity import DecisionId, FindingId
from steward.model.outcome import Outcome, Story
from steward.store.database import Database, open_database
from steward.store.records import (
    ENTRIES,
    META,
    JournalEntry,
    Record,
    Row,
    UnreadableEntryError,
    from_row,
    to_row,
)

__all__ = ["Journal", "JournalEntry", "Record", "open_journal"]

_PAGE_ROWS = 1000
_NAMED_DAMAGES = 20
_NO_END = 2**62
_SEQ = ENTRIES.c.seq


def open_journal(url: str, *, read_only_ok: bool = False) -> Journal:
    """Open the journal at a URL, make it where there is none, and restore it if it is damaged.

    With `read_only_ok`, one that may not be written to is opened for reading.
    """
    return Journal(open_database(url, read_only_ok=read_only_ok))


class Journal:
    """What happened and why, oldest first. Safe to use from several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unreadable: dict[int, str] = {}
        query = sa.select(META.c.value).where(META.c.name == "numbers_given")
        with database.reading() as connection:
            self._floor = int(connection.execute(query).scalar() or 0)

    def append(
        self, values: Sequence[Record], *, check: Callable[[], object] | None = None
    ) -> tuple[int, ...]:
        """Write values in one transaction and return their numbers; durable when it returns.

        `check` is called when no other writer can come between; what it raises is raised.
        """
        if not values:
            return ()
        with self._database.writing() as connection:
            if check is not None:
                check()
            newest = connection.exec_driver_sql("SELECT max(seq) FROM entries").scalar() or 0
            # Numbers of entries that were lost to damage are not given again.
            first = max(newest, self._floor) + 1
            rows = [to_row(value, seq=seq) for seq, value in enumerate(values, first)]
            self._database.insert(connection, rows)
        return tuple(row.seq for row in rows)

    def read(  # noqa: PLR0913 - the journal's one query, with all its filters
        self,
        *,
        after: int = 0,
        kinds: Sequence[str] = (),
        causes: Sequence[str] = (),
        ids: Sequence[str] = (),
        limit: int = 1000,
        newest_first: bool = False,
        before: int | None = None,
    ) -> list[JournalEntry]:
        """Return up to `limit` entries with `after < seq < before`; empty filters let all pass.

        Entries that cannot be used are skipped, not counted against the limit, and named in
        `damage()`: fewer than `limit` entries always means that there are no more.
        """
        wanted = _Wanted(kinds=kinds, causes=causes, ids=ids, newest_first=newest_first)
        entries = self._entries(wanted, after=after, before=before, page_rows=limit)
        return list(islice(entries, max(0, limit)))

    def newest(self) -> int:
        """Return the highest number in the journal, 0 when it is empty."""
        with self._database.reading() as connection:
            return connection.execute(sa.select(sa.func.max(_SEQ))).scalar() or 0

    def stories(
        self, *, before: int | None = None, limit: int = 50, ids: Sequence[str] = ()
    ) -> list[tuple[int, Story]]:
        """Return decisions with all that came of them, newest first, with each one's number."""
        found = self.read(
            kinds=("decision",), ids=ids, before=before, limit=limit, newest_first=True
        )
        stories = self._joined(found)
        undos = [s.decision.undo_id(each.t_s) for _, s in stories for each in s.undos_asked]
        if not undos:
            return stories
        made = self.read(kinds=("decision",), ids=undos, limit=len(undos))
        states = {undo.decision.undoes: undo.state for _, undo in self._joined(made)}
        return [
            (seq, replace(story, undo_state=states.get(story.decision.id)))
            for seq, story in stories
        ]

    def _joined(self, found: Sequence[JournalEntry]) -> list[tuple[int, Story]]:
        """Return the stories of these decisions, with each one's number."""
        consequences: dict[str, list[Record]] = defaultdict(list)
        for start in range(0, len(found), _PAGE_ROWS):
            causes = [entry.id for entry in found[start : start + _PAGE_ROWS]]
            wanted = _Wanted(causes=causes)
            for entry in self._entries(wanted, after=0, before=None, page_rows=_PAGE_ROWS):
                consequences[entry.cause].append(entry.value)
        return [
            (entry.seq, _story(entry.value, consequences[entry.id]))
            for entry in found
            if isinstance(entry.value, Decision)
        ]

    def story(self, decision: DecisionId) -> Story:
        """Return one decision's story, or raise an error that names the nearest known id."""
        found = self.stories(ids=(decision,), limit=1)
        if found:
            return found[0][1]
        raise self._no_such("decision", decision)

    def finding(self, finding: FindingId) -> Finding:
        """Return a finding as first reported, or raise an error that names the nearest id."""
        entries = self.read(kinds=("finding",), ids=(finding,), limit=1)
        found = entries[0].value if entries else None
        if isinstance(found, Finding):
            return found
        raise self._no_such("finding", finding)

    def upkeep(self) -> None:
        """Start the daily backup in the background, if it is due."""
        self._database.start_backup()

    def damage(self) -> tuple[str, ...]:
        """Return what was found broken at opening and while reading, and what was done."""
        bad = sorted(self._unreadable.items())
        if not bad:
            return self._database.damage
        named = "; ".join(f"seq {seq}: {why}" for seq, why in bad[:_NAMED_DAMAGES])
        more = f"; and {len(bad) - _NAMED_DAMAGES} more" if len(bad) > _NAMED_DAMAGES else ""
        skipped = f"{self._database.where}: {len(bad)} entries were skipped ({named}{more})"
        return (*self._database.damage, skipped)

    def close(self) -> None:
        """Release the database; the journal cannot be used afterwards."""
        self._database.close()

    def _no_such(self, kind: str, id_: str) -> StewardError:
        query = sa.select(ENTRIES.c.id).where(ENTRIES.c.kind == kind)
        with self._database.reading() as connection:
            known = connection.scalars(query.order_by(_SEQ.desc()).limit(_PAGE_ROWS)).all()
        return StewardError(
            f"there is no {kind} '{id_}' in the journal",
            where=self._database.where,
            hint=did_you_mean(id_, known) or f"`steward {kind}s list` shows their ids",
        )

    def _entries(
        self, wanted: _Wanted, *, after: int, before: int | None, page_rows: int
    ) -> Iterator[JournalEntry]:
        page_rows = min(page_rows, _PAGE_ROWS)
        while page_rows > 0:
            with self._database.reading() as connection:
                rows = wanted.rows(connection, after=after, before=before, limit=page_rows)
            for row in rows:
                try:
                    yield from_row(row)
                except UnreadableEntryError as fault:
                    self._unreadable[row.seq] = str(fault)
            if len(rows) < page_rows:
                return
            after, before = (after, rows[-1].seq) if wanted.newest_first else (rows[-1].seq, before)


class _Wanted:
    """Row filters as statements that each use one index, whatever the database's planner."""

    def __init__(
        self,
        *,
        kinds: Sequence[str] = (),
        causes: Sequence[str] = (),
        ids: Sequence[str] = (),
        newest_first: bool = False,
    ) -> None:
        self.newest_first = newest_first
        self._statements: tuple[sa.Select[Any], ...]
        self._named = {"ids": list(ids), "causes": list(causes), "kinds": list(kinds)}
        if ids or causes:
            columns = tuple(name for name, names in self._named.items() if names)
            self._statements = (_by_names(columns, newest_first=newest_first),)
        else:
            # One statement per kind, merged here: each stops after `limit` rows of its index.
            self._statements = _by_kinds(tuple(dict.fromkeys(kinds)), newest_first=newest_first)
            self._named = {}

    def rows(
        self, connection: sa.Connection, *, after: int, before: int | None, limit: int
    ) -> list[Row]:
        named = {name: names for name, names in self._named.items() if names}
        bounds = {"after": after, "before": _NO_END if before is None else before, "most": limit}
        found: list[Row] = []
        for statement in self._statements:
            result = connection.execute(statement, {**named, **bounds})
            found += [Row(*line) for line in result]
        found.sort(reverse=self.newest_first)
        return found[:limit]


@lru_cache(maxsize=128)  # to build a statement takes longer than to execute it
def _by_kinds(kinds: tuple[str, ...], *, newest_first: bool) -> tuple[sa.Select[Any], ...]:
    filters: list[list[sa.ColumnElement[bool]]]
    filters = [[ENTRIES.c.kind == kind] for kind in kinds] or [[]]
    return tuple(_bounded(each, newest_first=newest_first) for each in filters)


@lru_cache(maxsize=128)
def _by_names(columns: tuple[str, ...], *, newest_first: bool) -> sa.Select[Any]:
    # Ids and causes are selective. Adding '' keeps planners from walking along `kind` instead.
    all_of: dict[str, sa.ColumnElement[str]]
    all_of = {"ids": ENTRIES.c.id, "causes": ENTRIES.c.cause, "kinds": ENTRIES.c.kind + ""}
    filters = [all_of[name].in_(sa.bindparam(name, expanding=True)) for name in columns]
    return _bounded(filters, newest_first=newest_first)


def _bounded(filters: Sequence[sa.ColumnElement[bool]], *, newest_first: bool) -> sa.Select[Any]:
    bounds = sa.bindparam("after") < _SEQ, sa.bindparam("before") > _SEQ
    order = _SEQ.desc() if newest_first else _SEQ.asc()
    most = sa.bindparam("most", type_=sa.Integer)
    return sa.select(ENTRIES).where(*filters, *bounds).order_by(order).limit(most)


def _story(decision: Decision, consequences: Sequence[Record]) -> Story:
    def of(kind: type[Any]) -> tuple[Any, ...]:
        return tuple(value for value in consequences if isinstance(value, kind))

    return Story(
        decision=decision,
        verdicts=of(Verdict),
        choices=of(Choice),
        receipts=of(Receipt),
        outcomes=of(Outcome),
    )
