"""Journals on both databases; PostgreSQL is a real server that the tests start themselves."""

from __future__ import annotations

import os
import pwd
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from beds.postgresql import new_database, running_postgresql
from steward.store.journal import Journal, open_journal


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a server of its own and give the URL of its maintenance database."""
    with running_postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def journal_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a journal that does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.sqlite3"
    return new_database(request.getfixturevalue("postgresql"))


@pytest.fixture
def journal(journal_url: str) -> Iterator[Journal]:
    with closing(open_journal(journal_url)) as opened:
        yield opened


@pytest.fixture
def small_disk() -> Callable[[int], AbstractContextManager[None]]:
    """Refuse, for a while, to let any file grow beyond a size: that is how a full disk looks."""

    @contextmanager
    def limited(size_bytes: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in which this process may not write, even if it began as root."""
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    tmp_path.chmod(0o755)
    was = os.geteuid()
    parents = [parent for parent in tmp_path.parents if parent.stat().st_uid == was]
    if was == 0:
        for parent in (parent for parent in parents if not parent.stat().st_mode & 0o001):
            parent.chmod(parent.stat().st_mode | 0o011)
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield folder
    finally:
        if was == 0:
            os.seteuid(was)
        folder.chmod(0o755)
