"""Damaged journals: nothing readable is lost, nothing is deleted, nothing is kept quiet."""

from __future__ import annotations

import os
import random
import re
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.event import Event
from steward.store.journal import Journal, open_journal
from steward.store.pages import PageFile

PAGE = 4096


def event(number: int) -> Event:
    long = "x" * (9000 if number % 50 == 0 else 100)  # some entries need pages of their own
    return Event(t_s=float(number), kind="k", subject=str(number), text=long, source="test")


def opened(file: Path) -> Journal:
    return open_journal(f"sqlite:///{file}")


def written(file: Path, entries: int = 400) -> Path:
    """Write a journal of `entries` events, close it, and return its file."""
    with closing(opened(file)) as journal:
        for start in range(1, entries + 1, 20):
            journal.append([event(n) for n in range(start, min(start + 20, entries + 1))])
    return file


def left_by_a_crash(file: Path, folder: Path) -> Path:
    """Copy an open journal, so that its newest entries lie only in the write-ahead log."""
    folder.mkdir()
    for ending in ("", "-wal"):
        (folder / f"journal.sqlite3{ending}").write_bytes(Path(f"{file}{ending}").read_bytes())
    return folder / "journal.sqlite3"


def overwrite(file: Path, at: int, content: bytes) -> None:
    with file.open("r+b") as handle:
        handle.seek(at)
        handle.write(content)


def leaf_pages(file: Path) -> list[int]:
    """Return the pages (from 0) that hold rows, by the mark that they begin with."""
    content = file.read_bytes()
    starts = range(PAGE, len(content), PAGE)
    return [
        at // PAGE
        for at in starts
        if content[at] == 0x0D and b'"subject"' in content[at : at + PAGE]
    ]


def test_a_torn_page_costs_only_its_own_entries(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    torn = leaf_pages(file)[3]
    overwrite(file, torn * PAGE, random.Random(1).randbytes(PAGE))  # noqa: S311

    with closing(opened(file)) as journal:
        kept = [entry.seq for entry in journal.read(limit=1000)]
        (said,) = journal.damage()
        new = journal.append([event(401)])

    lost = sorted(set(range(1, 401)) - set(kept))
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert 0 < len(lost) < 30
    assert f"{len(kept)} entries were salvaged; {len(lost)} entries are lost" in said
    assert f"seq {lost[0]}-{lost[-1]}" in said
    assert new == (401,)
    assert (tmp_path / "journal.sqlite3.damaged-1").exists()


def test_a_broken_first_page_costs_nothing(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    overwrite(file, 0, bytes(PAGE))

    with closing(opened(file)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (said,) = journal.damage()

    assert values == [event(number) for number in range(1, 401)]
    assert "400 entries were salvaged; nothing is known to be lost" in said


def test_entries_that_only_the_log_holds_are_salvaged_too(tmp_path: Path) -> None:
    file, number = written(tmp_path / "journal.sqlite3", entries=60), 60
    frames = {1}
    while 1 in frames:  # SQLite itself can do without a first page that the log holds
        number += 1
        with closing(opened(file)) as journal:
            journal.append([event(number)])
            copy = left_by_a_crash(file, tmp_path / f"copy-{number}")
        frames = frames_of(copy)
    overwrite(copy, 0, bytes(PAGE))

    with closing(opened(copy)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (said,) = journal.damage()

    assert values == [event(n) for n in range(1, number + 1)]
    assert "nothing is known to be lost" in said
    assert copy.with_name("journal.sqlite3.damaged-1-wal").exists()


def test_a_log_without_its_journal_is_enough(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "journal.sqlite3")) as journal:
        journal.append([event(number) for number in range(1, 101)])
        file = left_by_a_crash(tmp_path / "journal.sqlite3", tmp_path / "copy")
    os.truncate(file, 0)

    with closing(opened(file)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (said,) = journal.damage()

    assert values == [event(number) for number in range(1, 101)]
    assert "it is empty, but its log is not" in said


def frames_of(file: Path) -> set[int]:
    """Return the numbers of the pages in a journal's log."""
    log = Path(f"{file}-wal").read_bytes()
    return {int.from_bytes(log[at : at + 4], "big") for at in range(32, len(log), PAGE + 24)}


def numbers_in(file: Path) -> list[int]:
    """Return the numbers of all entries that the pages of a file hold."""
    cells = list(PageFile.cells(file))
    return sorted(rowid for rowid, values in cells if rowid is not None and len(values) == 7)


def test_pages_are_read_as_the_last_commit_left_them(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "journal.sqlite3")) as journal:
        journal.append([event(number) for number in range(1, 51)])
        journal.append([event(number) for number in range(51, 101)])
        file = left_by_a_crash(tmp_path / "journal.sqlite3", tmp_path / "copy")
    whole = numbers_in(file)
    wal = Path(f"{file}-wal")
    os.truncate(wal, wal.stat().st_size - PAGE // 2)

    torn = numbers_in(file)

    assert whole == list(range(1, 101))
    assert torn == list(range(1, 51))


def test_numbers_of_lost_entries_are_not_given_again(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    for page in leaf_pages(file)[-2:]:
        overwrite(file, page * PAGE, bytes(PAGE))

    with closing(opened(file)) as journal:
        kept = [entry.seq for entry in journal.read(limit=1000)]
        (said,) = journal.damage()
        new = journal.append([event(401)])
    with closing(opened(file)) as again:
        newer = again.append([event(402)])
        clean = again.damage()

    assert kept[-1] < 400
    assert said.endswith("-400")
    assert (new, newer) == ((401,), (402,))
    assert clean == ()


def test_a_file_that_is_no_database_is_kept_under_another_name(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    file.write_text("a poem, much longer than a line, " * 100)

    with closing(opened(file)) as journal:
        assert journal.append([event(1)]) == (1,)
        assert "0 entries were salvaged" in journal.damage()[0]

    assert (tmp_path / "journal.sqlite3.damaged-1").read_text().startswith("a poem")


def test_each_damaged_file_is_kept(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3", entries=40)
    for _ in range(2):
        overwrite(file, 0, bytes(PAGE))
        opened(file).close()

    with closing(opened(file)) as journal:
        assert len(journal.read()) == 40

    assert {path.name for path in tmp_path.glob("*damaged-?")} == {
        "journal.sqlite3.damaged-1",
        "journal.sqlite3.damaged-2",
    }


def test_a_salvage_that_was_interrupted_is_done_again(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    (tmp_path / "journal.sqlite3.salvaging").write_bytes(b"half a copy")
    file.rename(tmp_path / "journal.sqlite3.damaged-1")

    with closing(opened(file)) as journal:
        kept = len(journal.read(limit=1000))
        (said,) = journal.damage()

    assert kept == 400
    assert "interrupted" in said
    assert not list(tmp_path.glob("*.salvaging"))


def test_a_salvage_that_had_hardly_begun_changes_nothing(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    (tmp_path / "journal.sqlite3.salvaging").touch()

    with closing(opened(file)) as journal:
        assert len(journal.read(limit=1000)) == 400
        assert journal.damage() == ()

    assert not list(tmp_path.glob("*.salvaging"))


def test_a_journal_in_use_is_not_taken_away_from_its_user(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    with closing(opened(written(file))) as user:
        overwrite(file, 0, bytes(PAGE))

        with pytest.raises(StewardError, match="damaged and in use") as caught:
            opened(file)

        assert "stop every steward process" in caught.value.hint
        assert not list(tmp_path.glob("*damaged*"))
        assert user.damage() == ()


def test_a_flipped_byte_in_a_text_is_found_when_it_is_read(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3", entries=30)
    place = file.read_bytes().index(b'"subject":"7"')
    overwrite(file, place + 11, b"8")

    with closing(opened(file)) as journal:
        kept = [entry.seq for entry in journal.read()]
        (said,) = journal.damage()

    assert kept == [number for number in range(1, 31) if number != 7]
    assert "seq 7: its checksum does not match" in said


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), blows=st.integers(1, 6))
def test_whatever_breaks_the_journal_opens_and_tells_the_truth(
    tmp_path_factory: pytest.TempPathFactory, seed: int, blows: int
) -> None:
    dice = random.Random(seed)  # noqa: S311
    file = written(tmp_path_factory.mktemp("blows") / "journal.sqlite3", entries=200)
    size = file.stat().st_size
    for _ in range(blows):
        overwrite(file, dice.randrange(size), dice.randbytes(dice.choice([1, 64, 5000])))

    with closing(opened(file)) as journal:
        entries = journal.read(limit=1000)
        said = " ".join(journal.damage())

    lost = 200 - len(entries)
    told = sum(map(int, re.findall(r"(\d+) entries (?:are lost|were skipped)", said)))
    assert all(entry.value == event(entry.seq) for entry in entries)
    assert told <= lost  # where the indexes are gone too, nobody knows how many there were
    assert said or not lost
