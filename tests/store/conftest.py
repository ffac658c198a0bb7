"""Journals on both databases; PostgreSQL is a real server that the tests start themselves."""

from __future__ import annotations

import os
import pwd
import resource
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from patience import LONG_S, free_port
from steward.store.journal import Journal, open_journal

PASSWORD = "correct-horse"  # noqa: S105 - of a server that lives for seconds
_NUMBERS = count()


def _unprivileged_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a server of its own and give the URL of its maintenance database."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.fail("PostgreSQL is not installed: run scripts/install-real-parts")
    programs, account_options = Path(initdb).parent, _unprivileged_user()
    folder = Path(tempfile.mkdtemp(prefix="steward-postgresql-"))
    (folder / "password").write_text(PASSWORD)
    if account_options:
        for path in (folder, folder / "password"):
            os.chown(path, account_options["user"], account_options["group"])
    port, data = free_port(), str(folder / "data")

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", data, *arguments]
        log = folder.with_suffix(".log")
        with log.open("ab") as output:
            subprocess.run(
                command, check=True, stdout=output, stderr=output, cwd="/", **account_options
            )
        log.unlink()

    options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -k {folder}"
    call("initdb", "-U", "steward", "-A", "scram-sha-256", f"--pwfile={folder}/password")
    call("pg_ctl", "start", "-w", "-t", f"{LONG_S:.0f}", "-l", f"{folder}/log", "-o", options)
    try:
        yield f"postgresql://steward:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "stop", "-t", f"{LONG_S:.0f}", "-m", "immediate")
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def journal_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a journal that does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.sqlite3"
    server: str = request.getfixturevalue("postgresql")
    name = f"journal_{next(_NUMBERS)}_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.removesuffix("postgres") + name


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
