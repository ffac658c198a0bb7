"""The journal, on every database that it can live in."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from factories import decision, finding, outcome, receipt
from steward.errors import StewardError
from steward.model.decision import Choice, DecisionState, Ruling, Verdict
from steward.model.event import Event
from steward.model.identity import DecisionId
from steward.store.journal import Journal, open_journal


def event(number: int, text: str = "") -> Event:
    return Event(t_s=float(number), kind="gpu.failed", subject="n1", text=text, source="test")


def verdict(name: str, ruling: Ruling, t_s: float = 1001.0) -> Verdict:
    return Verdict(decision=DecisionId(name), t_s=t_s, ruling=ruling, why="")


def statement(journal: Journal, text: str) -> None:
    with journal._database.writing() as connection:
        connection.exec_driver_sql(text)


def test_what_is_appended_is_read_back_in_order(journal: Journal) -> None:
    values = [event(1), finding(), decision(), verdict("d-1", Ruling.GO), outcome()]

    numbers = journal.append(values)

    assert numbers == (1, 2, 3, 4, 5)
    assert [entry.value for entry in journal.read()] == values
    assert [entry.seq for entry in journal.read()] == list(numbers)
    assert journal.newest() == 5
    assert journal.damage() == ()


def test_an_empty_journal_has_no_entries(journal: Journal) -> None:
    assert journal.append([]) == ()
    assert journal.read() == []
    assert journal.stories() == []
    assert journal.newest() == 0


def test_entries_outlive_the_process_that_wrote_them(journal_url: str) -> None:
    with closing(open_journal(journal_url)) as first:
        first.append([event(1), event(2)])

    with closing(open_journal(journal_url)) as second:
        assert [entry.t_s for entry in second.read()] == [1.0, 2.0]
        assert second.append([event(3)]) == (3,)


def test_an_entry_names_its_cause(journal: Journal) -> None:
    given = decision()

    journal.append(
        [given, receipt(given), Choice(decision=given.id, t_s=2.0, choice="undo", user="u")]
    )

    assert [entry.cause for entry in journal.read()] == ["f-j1", "d-1", "d-1"]
    assert [entry.kind for entry in journal.read(causes=["d-1"])] == ["receipt", "choice"]
    assert [entry.id for entry in journal.read(kinds=["decision"])] == ["d-1"]
    assert journal.read(ids=["d-1"], kinds=["finding"]) == []


def test_the_same_value_has_the_same_id_in_every_journal(journal: Journal) -> None:
    journal.append([event(1), event(1), event(2)])

    first, again, other = [entry.id for entry in journal.read()]

    assert first == again != other


def test_cursors_go_both_ways(journal: Journal) -> None:
    journal.append([event(number) for number in range(1, 11)])

    assert [e.seq for e in journal.read(after=3, limit=2)] == [4, 5]
    assert [e.seq for e in journal.read(newest_first=True, limit=2)] == [10, 9]
    assert [e.seq for e in journal.read(newest_first=True, before=9, limit=2)] == [8, 7]
    assert [e.seq for e in journal.read(after=3, before=6)] == [4, 5]
    assert journal.read(limit=0) == []


def test_several_kinds_come_merged_in_the_order_of_their_numbers(journal: Journal) -> None:
    journal.append([event(1), decision(), event(2), finding(), decision("d-2")])

    found = journal.read(kinds=["decision", "event"], limit=3)
    newest = journal.read(kinds=["event", "decision"], limit=2, newest_first=True)

    assert [entry.seq for entry in found] == [1, 2, 3]
    assert [entry.seq for entry in newest] == [5, 3]


def test_a_story_holds_all_that_came_of_a_decision(journal: Journal) -> None:
    first, second = decision("d-1"), decision("d-2")
    journal.append([first, second, verdict("d-1", Ruling.GO), verdict("d-2", Ruling.ASK)])
    journal.append([receipt(first), outcome("d-1"), outcome("d-1", final=True)])

    (two, one) = journal.stories()

    assert (two[0], two[1].decision.id, two[1].state) == (2, "d-2", DecisionState.WAITING)
    assert (one[0], one[1].decision, one[1].state) == (1, first, DecisionState.DONE)
    assert [len(one[1].verdicts), len(one[1].receipts), len(one[1].outcomes)] == [1, 1, 2]


def test_stories_are_paged_newest_first(journal: Journal) -> None:
    journal.append([decision(f"d-{number}") for number in range(5)])

    page = journal.stories(limit=2)
    following = journal.stories(limit=2, before=page[-1][0])

    assert [story.decision.id for _, story in page + following] == ["d-4", "d-3", "d-2", "d-1"]
    assert [s.decision.id for _, s in journal.stories(ids=["d-3", "d-0"])] == ["d-3", "d-0"]


def test_an_unknown_decision_is_answered_with_the_nearest_one(journal: Journal) -> None:
    journal.append([decision("d-abcdef")])

    with pytest.raises(StewardError, match="no decision 'd-abcdeg'") as caught:
        journal.story(DecisionId("d-abcdeg"))

    assert caught.value.hint == "did you mean 'd-abcdef'?"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET body = '{}' WHERE seq = 1",
        "DELETE FROM entries WHERE seq = 1",
        "DELETE FROM entries",
    ],
)
def test_nothing_in_the_journal_can_be_changed(journal: Journal, change: str) -> None:
    journal.append([event(1)])

    with pytest.raises(StewardError, match="append-only"):
        statement(journal, change)

    assert [entry.value for entry in journal.read()] == [event(1)]


def test_no_dialects_own_way_around_the_rule_works(journal: Journal) -> None:
    journal.append([event(1)])
    dialect = journal._database.engine.dialect.name
    trick = {
        "sqlite": "INSERT OR REPLACE INTO entries VALUES (1, 0, 'event', '', '', '{}', 0)",
        "postgresql": "TRUNCATE entries",
    }[dialect]

    with pytest.raises(StewardError, match="append-only"):
        statement(journal, trick)

    assert [entry.value for entry in journal.read()] == [event(1)]


def test_a_failed_append_leaves_nothing_and_takes_no_number(journal: Journal) -> None:
    journal.append([event(1)])

    with pytest.raises(StewardError, match="cannot be written as JSON"):
        journal.append([event(2), event(3, text="\udcff")])

    assert journal.append([event(4)]) == (2,)
    assert [entry.t_s for entry in journal.read()] == [1.0, 4.0]


def test_a_time_that_is_no_number_is_refused(journal: Journal) -> None:
    with pytest.raises(StewardError, match="cannot be kept"):
        journal.append([outcome(t_s=float("nan"))])

    assert journal.newest() == 0


def test_an_entry_whose_checksum_is_wrong_is_skipped_and_named(journal: Journal) -> None:
    journal.append([event(1), event(2)])
    statement(
        journal,
        "INSERT INTO entries SELECT 3, t_s, kind, id, cause, replace(body, 'n1', 'n2'), crc "
        "FROM entries WHERE seq = 2",
    )
    journal.append([event(4)])

    found = journal.read(limit=3)

    assert [entry.seq for entry in found] == [1, 2, 4]
    assert "1 entries were skipped (seq 3: its checksum does not match)" in journal.damage()[0]


def test_a_whole_page_of_bad_entries_does_not_look_like_the_end(journal: Journal) -> None:
    journal.append([event(1)])
    copies = "FROM entries a, (SELECT 1 n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) b"
    statement(
        journal,
        f"INSERT INTO entries SELECT 1 + n, t_s, kind, id, cause, body, 0 {copies}",
    )
    journal.append([event(6)])

    assert [entry.seq for entry in journal.read(after=1, limit=2)] == [6]
    assert [entry.seq for entry in journal.read(before=6, newest_first=True, limit=2)] == [1]
    assert "4 entries were skipped" in journal.damage()[0]


def test_a_journal_of_a_newer_steward_is_refused_with_a_reason(journal_url: str) -> None:
    with closing(open_journal(journal_url)) as opened:
        statement(opened, "UPDATE entries_meta SET value = '2' WHERE name = 'schema_version'")

    with pytest.raises(
        StewardError, match="newer steward wrote this journal \\(schema 2"
    ) as caught:
        open_journal(journal_url)

    assert "upgrade" in caught.value.hint


def test_threads_append_without_losing_or_repeating_a_number(journal: Journal) -> None:
    given: list[int] = []

    def work() -> None:
        for number in range(10):
            given.extend(journal.append([event(number), event(number)]))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(given) == list(range(1, 121))
    assert [entry.seq for entry in journal.read()] == list(range(1, 121))


def test_a_reader_that_follows_never_misses_an_entry(journal_url: str) -> None:
    writers = [open_journal(journal_url) for _ in range(3)]
    seen = [0]
    with closing(open_journal(journal_url)) as reader:
        threads = [
            threading.Thread(target=lambda j=j: [j.append([event(n)] * 3) for n in range(20)])
            for j in writers
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or reader.newest() > max(
            seen, default=0
        ):
            seen += [entry.seq for entry in reader.read(after=max(seen, default=0), limit=7)]
    for writer in writers:
        writer.close()

    assert seen == list(range(181))


@pytest.mark.parametrize("filters", [{"causes": ["d-1"]}, {"ids": ["d-1"], "kinds": ["decision"]}])
def test_looking_for_one_decision_does_not_walk_through_the_journal(
    tmp_path: Path, filters: dict[str, Any]
) -> None:
    plans: list[str] = []

    def explain(_: Any, cursor: Any, sql: str, values: Any, *__: Any) -> None:
        if sql.startswith("SELECT entries"):
            plans.extend(map(str, cursor.execute(f"EXPLAIN QUERY PLAN {sql}", values)))

    with closing(open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")) as journal:
        sa.event.listen(journal._database.engine, "before_cursor_execute", explain)
        journal.read(**filters)

    assert any(f"INDEX entries_{name[:-1]} " in plans[0] for name in filters)
