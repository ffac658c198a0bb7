"""Damaged journals: nothing readable is lost, nothing is deleted, every loss is reported."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.event import Event
from steward.store.journal import Journal, open_journal
from steward.store.journal_backup import backup_of, write_backup

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
        (message,) = journal.damage()
        new = journal.append([event(401)])

    lost = sorted(set(range(1, 401)) - set(kept))
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert 0 < len(lost) < 30
    assert (
        f"{len(kept)} entries were restored from it and its backup; {len(lost)} entries are lost"
        in message
    )
    assert f"seq {lost[0]}-{lost[-1]}" in message
    assert new == (401,)
    assert (tmp_path / "journal.sqlite3.damaged-1").exists()


@pytest.mark.parametrize("junk", [bytes(PAGE), bytes(range(256)) * 16], ids=["zeros", "junk"])
def test_a_broken_first_page_costs_nothing(tmp_path: Path, junk: bytes) -> None:
    file = written(tmp_path / "journal.sqlite3")
    overwrite(file, 0, junk)

    with closing(opened(file)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (message,) = journal.damage()
        (new,) = journal.append([event(401)])

    assert values == [event(number) for number in range(1, 401)]
    assert "nothing is known to be lost up to seq 400" in message
    assert new == 401
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_broken_first_page_does_not_cost_what_is_in_the_log(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "journal.sqlite3")) as journal:
        journal.append([event(number) for number in range(1, 101)])
        file = left_by_a_crash(tmp_path / "journal.sqlite3", tmp_path / "copy")
    overwrite(file, 0, bytes(PAGE))

    with closing(opened(file)) as journal:
        assert [entry.seq for entry in journal.read(limit=1000)] == [*range(1, 101)]


def test_broken_first_pages_cost_what_came_after_the_backup(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3", entries=100)
    write_backup(file)
    with closing(opened(file)) as journal:
        journal.append([event(101)])
    overwrite(file, 0, bytes(8 * PAGE))  # with the pages at which all tables begin

    with closing(opened(file)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (message,) = journal.damage()
        (new,) = journal.append([event(102)])

    assert values == [event(number) for number in range(1, 101)]
    assert "100 entries were restored from it and its backup" in message
    assert new > 101  # no number that may have been given is given again


def test_a_backup_and_what_can_still_be_read_make_up_the_whole(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    write_backup(file)
    with closing(opened(file)) as journal:
        journal.append([event(401)])
    overwrite(file, leaf_pages(file)[3] * PAGE, random.Random(1).randbytes(PAGE))  # noqa: S311

    with closing(opened(file)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (message,) = journal.damage()

    assert values == [event(number) for number in range(1, 402)]
    assert "nothing is known to be lost" in message


def test_a_journal_whose_log_alone_is_left_is_restored_from_its_backup(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "journal.sqlite3")) as journal:
        journal.append([event(number) for number in range(1, 101)])
        file = left_by_a_crash(tmp_path / "journal.sqlite3", tmp_path / "copy")
        write_backup(tmp_path / "journal.sqlite3")
    backup_of(tmp_path / "journal.sqlite3").rename(backup_of(file))
    os.truncate(file, 0)

    with closing(opened(file)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (message,) = journal.damage()

    assert values == [event(number) for number in range(1, 101)]
    assert "it is empty, but its log is not" in message
    assert file.with_name("journal.sqlite3.damaged-1-wal").exists()


def test_upkeep_writes_a_backup_once_a_day(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3", entries=40)
    with closing(opened(file)) as journal:
        journal.upkeep()
    first = backup_of(file).stat()
    with closing(opened(file)) as journal:
        journal.upkeep()
    second = backup_of(file).stat()
    os.utime(backup_of(file), (0, 0))
    with closing(opened(file)) as journal:
        journal.upkeep()
        journal.upkeep()

    assert first.st_ino == second.st_ino
    assert backup_of(file).stat().st_mtime > 0
    assert first.st_mode & 0o777 == 0o600
    backup_of(file).replace(file)
    with closing(opened(file)) as journal:
        assert len(journal.read(limit=1000)) == 40


def test_a_backup_that_cannot_be_written_is_named_and_the_journal_continues(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3", entries=40)
    backup_of(file).mkdir()
    os.utime(backup_of(file), (0, 0))
    with closing(opened(file)) as journal:
        journal.upkeep()
        journal.append([event(41)])
    with closing(opened(file)) as again:
        assert len(again.read(limit=1000)) == 41

    assert "cannot be backed up" in journal.damage()[0]


def test_a_journal_is_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "new" / "journal.sqlite3"
    with closing(opened(file)) as journal:
        journal.append([event(1)])
        modes = {each.name: each.stat().st_mode & 0o777 for each in file.parent.iterdir()}

    assert {*modes.values()} == {0o600}
    assert len(modes) == 4  # journal, log, index of the log, lock
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_journal_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3", entries=1)
    file.chmod(0o644)

    opened(file).close()

    assert file.stat().st_mode & 0o777 == 0o600


def test_a_journal_that_may_not_be_written_to_is_read(unwritable: Path) -> None:
    with seen_as_owner():
        unwritable.chmod(0o755)
        file = unwritable / "journal.sqlite3"
        with closing(opened(file)) as journal:
            journal.append([event(number) for number in range(1, 11)])
        for each in (unwritable, *unwritable.rglob("*")):
            each.chmod(0o555 if each.is_dir() else 0o444)

    with closing(open_journal(f"sqlite:///{file}", read_only_ok=True)) as journal:
        found = [entry.seq for entry in journal.read()]
        with pytest.raises(StewardError):
            journal.append([event(11)])

    assert found == list(range(1, 11))
    with seen_as_owner():
        for each in (unwritable, *unwritable.rglob("*")):
            each.chmod(0o755)


@contextmanager
def seen_as_owner() -> Iterator[None]:
    """Be root again for a moment, where the fixture `unwritable` has given that up."""
    now, saved = os.geteuid(), os.getuid()
    os.seteuid(saved)
    try:
        yield
    finally:
        os.seteuid(now)


def test_numbers_of_lost_entries_are_not_given_again(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    for page in leaf_pages(file)[-2:]:
        overwrite(file, page * PAGE, bytes(PAGE))

    with closing(opened(file)) as journal:
        kept = [entry.seq for entry in journal.read(limit=1000)]
        (message,) = journal.damage()
        new = journal.append([event(401)])
    with closing(opened(file)) as again:
        newer = again.append([event(402)])
        clean = again.damage()

    assert kept[-1] < 400
    assert message.endswith("-400")
    assert (new, newer) == ((401,), (402,))
    assert clean == ()


def test_a_file_that_is_no_database_is_kept_under_another_name(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    file.write_text("a poem, much longer than a line, " * 100)

    with closing(opened(file)) as journal:
        assert journal.append([event(1)])
        assert "0 entries were restored from it and its backup" in journal.damage()[0]

    assert (tmp_path / "journal.sqlite3.damaged-1").read_text().startswith("a poem")


def test_each_damaged_file_is_kept(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3", entries=40)
    write_backup(file)
    for _ in range(2):
        overwrite(file, 0, bytes(PAGE))
        opened(file).close()

    with closing(opened(file)) as journal:
        assert len(journal.read()) == 40

    assert {path.name for path in tmp_path.glob("*damaged-?")} == {
        "journal.sqlite3.damaged-1",
        "journal.sqlite3.damaged-2",
    }


def test_a_restore_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    file = written(tmp_path / "journal.sqlite3")
    file.rename(tmp_path / "journal.sqlite3.restored")
    (tmp_path / "journal.sqlite3.damaged-1").write_bytes(b"it was here")
    log = tmp_path / "journal.sqlite3-wal"  # of the damaged one: it must not be applied
    log.write_bytes(b"an old log")

    with closing(opened(file)) as journal:
        kept = len(journal.read(limit=1000))
        (message,) = journal.damage()

    assert kept == 400
    assert "interrupted" in message
    assert not list(tmp_path.glob("*.restored"))
    assert (tmp_path / "journal.sqlite3.damaged-1-wal").read_bytes() == b"an old log"


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
        (message,) = journal.damage()

    assert kept == [number for number in range(1, 31) if number != 7]
    assert "seq 7: its checksum does not match" in message


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), blows=st.integers(1, 6))
def test_whatever_breaks_the_journal_opens_and_reports_the_truth(
    tmp_path_factory: pytest.TempPathFactory, seed: int, blows: int
) -> None:
    dice = random.Random(seed)  # noqa: S311
    file = written(tmp_path_factory.mktemp("blows") / "journal.sqlite3", entries=200)
    size = file.stat().st_size
    for _ in range(blows):
        overwrite(file, dice.randrange(size), dice.randbytes(dice.choice([1, 64, 5000])))

    with closing(opened(file)) as journal:
        entries = journal.read(limit=1000)
        message = " ".join(journal.damage())

    lost = 200 - len(entries)
    result = sum(map(int, re.findall(r"(\d+) entries (?:are lost|were skipped)", message)))
    assert all(entry.value == event(entry.seq) for entry in entries)
    assert result <= lost  # without the indexes, the number of entries is unknown
    assert message or not lost


def test_a_journal_that_was_emptied_is_restored_from_its_backup(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    with closing(opened(file)) as journal:
        journal.append([event(number) for number in range(1, 11)])
    write_backup(file)
    os.truncate(file, 0)

    with closing(opened(file)) as journal:
        values = [entry.value for entry in journal.read(limit=1000)]
        (message,) = journal.damage()

    assert values == [event(number) for number in range(1, 11)]
    assert "it is empty, but its backup is not" in message
