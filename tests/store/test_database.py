"""Failures of the journal's database, and their messages."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import psycopg
import pytest

from steward.errors import StewardError
from steward.model.event import Event
from steward.store.journal import open_journal


def event(number: int, length: int = 10) -> Event:
    return Event(t_s=float(number), kind="k", subject="s", text="x" * length, source="test")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("journal.sqlite3", "not a database URL"),
        ("mysql://root:hunter2@db/steward", "cannot be kept in 'mysql'; known: sqlite, postgresql"),
        ("sqlite://", "in memory would be lost"),
        ("sqlite:///:memory:", "in memory would be lost"),
        ("postgresql://u:hunter2@db:port/x", "not a database URL"),
    ],
)
def test_a_wrong_url_is_answered_with_right_ones(url: str, problem: str) -> None:
    with pytest.raises(StewardError, match=problem) as caught:
        open_journal(url)

    assert "postgresql://USER" in caught.value.hint
    assert "hunter2" not in str(caught.value.as_record())


def test_a_folder_that_may_not_be_written_to_is_named(unwritable: Path) -> None:
    with pytest.raises(StewardError, match="Permission denied") as caught:
        open_journal(f"sqlite:///{unwritable}/journal.sqlite3")

    assert str(unwritable) in caught.value.where
    assert "[store] folder" in caught.value.hint


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StewardError, match="the journal cannot be opened"):
        open_journal(f"sqlite:///{tmp_path}/file/journal.sqlite3")


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    with closing(open_journal(f"sqlite:///{tmp_path}/a/b/journal.sqlite3")) as journal:
        assert journal.append([event(1)]) == (1,)


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "bookmarks.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")

    with pytest.raises(StewardError, match="other things than a journal: bookmarks"):
        open_journal(f"sqlite:///{file}")

    with closing(sqlite3.connect(file)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("bookmarks",)]


def test_a_full_disk_loses_nothing_and_the_journal_continues_when_there_is_room(
    tmp_path: Path, small_disk: Callable[[int], AbstractContextManager[None]]
) -> None:
    with closing(open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")) as journal:
        journal.append([event(1), event(2)])

        with (
            small_disk(200_000),
            pytest.raises(StewardError, match="nothing was written") as caught,
        ):
            journal.append([event(number, length=1000) for number in range(3, 600)])
        kept = [entry.t_s for entry in journal.read()]
        after = journal.append([event(3)])

    assert "make room" in caught.value.hint
    assert kept == [1.0, 2.0]
    assert after == (3,)
    with closing(open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")) as journal:
        assert [entry.t_s for entry in journal.read()] == [1.0, 2.0, 3.0]
        assert journal.damage() == ()


def test_a_file_system_without_room_is_called_a_full_disk(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs more rights")
    try:
        with closing(open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")) as journal:
            journal.append([event(1)])

            with pytest.raises(StewardError, match="the disk is full: nothing was written"):
                journal.append([event(number, length=1000) for number in range(2, 600)])

            assert [entry.t_s for entry in journal.read()] == [1.0]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_processes_append_to_one_journal_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.sqlite3"
    program = f"""
from steward.model.event import Event
from steward.store.journal import open_journal
journal = open_journal({url!r})
for number in range(50):
    journal.append([Event(t_s=0.0, kind="k", subject="s", text="", source="child")] * 2)
"""

    children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    with closing(open_journal(url)) as journal:
        for number in range(50):
            journal.append([event(number)])
        statuses = [child.wait() for child in children]
        numbers = [entry.seq for entry in journal.read(limit=1000)]

    assert statuses == [0, 0]
    assert numbers == list(range(1, 251))


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StewardError, match="cannot be used") as caught:
        open_journal("postgresql://steward:hunter2@127.0.0.1:1/steward?application_name=x")

    assert caught.value.where == "postgresql://steward@127.0.0.1:1/steward"
    assert "the server runs" in caught.value.hint
    assert "hunter2" not in str(caught.value.as_record())


@pytest.mark.real
def test_a_wrong_password_is_not_shown_either(postgresql: str) -> None:
    with pytest.raises(StewardError, match="password authentication failed") as caught:
        open_journal(postgresql.replace("correct-horse", "hunter2"))

    assert "hunter2" not in str(caught.value.as_record())


@pytest.mark.real
def test_the_journal_finds_its_server_again(postgresql: str) -> None:
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("CREATE DATABASE again")
    with closing(open_journal(postgresql.removesuffix("postgres") + "again")) as journal:
        journal.append([event(1)])

        with psycopg.connect(postgresql, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'again'"
            )
        after = journal.append([event(2)])

    assert after == (2,)
