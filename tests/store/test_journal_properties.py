"""Laws of the journal, for any values, on every database."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from enum import Enum
from itertools import count, islice

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import finding
from steward.model.event import Event
from steward.store.journal import Journal, open_journal
from steward.store.records import KINDS, Record


def can_be_kept(value: Record) -> bool:
    """Return whether the journal accepts it: times are finite, and PostgreSQL has no NUL."""
    row = {name: getattr(value, name, ()) for name in ("id", "decision", "finding", "findings")}
    return value.t_s == value.t_s and "\\x00" not in repr(row)


any_record = st.one_of([st.builds(kind) for kind in KINDS.values()]).filter(can_be_kept)
many = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@many
@given(values=st.lists(any_record, max_size=6))
def test_what_is_appended_is_read_back_equal(journal: Journal, values: list[Record]) -> None:
    before = journal.newest()

    journal.append(values)

    read = [entry.value for entry in journal.read(after=before)]
    assert repr(read) == repr(values)  # NaN does not equal itself
    assert journal.damage() == ()


class Way(Enum):
    """How one may walk through the journal."""

    UP = "up"
    DOWN = "down"


@many
@given(
    sizes=st.lists(st.integers(1, 5), max_size=8),
    page=st.integers(1, 7),
    kinds=st.lists(st.sampled_from(["event", "pattern", "finding"]), max_size=3),
    way=st.sampled_from(Way),
)
def test_paging_meets_every_entry_exactly_once(
    sizes: list[int], page: int, kinds: list[str], way: Way
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_journal(f"sqlite:///{folder}/journal.sqlite3")) as journal,
    ):
        for number, size in enumerate(sizes):
            journal.append(list(islice(mixed(number), size)))
        everything = [entry.seq for entry in journal.read(kinds=kinds, limit=10**6)]
        met = walked(journal, kinds, page=page, way=way)

    assert met == (everything if way is Way.UP else everything[::-1])
    assert kinds or everything == list(range(1, sum(sizes) + 1))


def mixed(number: int) -> Iterator[Record]:
    """Return values of several kinds by turns, so that pages of one kind have gaps."""
    for turn in count(number):
        if turn % 3:
            yield Event(t_s=float(turn), kind="k", subject="", text="", source="")
        else:
            yield finding(f"j{turn}")


def walked(journal: Journal, kinds: list[str], *, page: int, way: Way) -> list[int]:
    met: list[int] = []
    after, before = 0, None
    while True:
        entries = journal.read(
            after=after, before=before, kinds=kinds, limit=page, newest_first=way is Way.DOWN
        )
        met += [entry.seq for entry in entries]
        if len(entries) < page:
            return met
        if way is Way.UP:
            after = entries[-1].seq
        else:
            before = entries[-1].seq
