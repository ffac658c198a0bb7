"""A real PostgreSQL server that tests start themselves."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from patience import LONG_S, free_port

PASSWORD = "correct-horse"  # noqa: S105 - of a server that lives for seconds
_NUMBERS = count()


def _unprivileged_user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@contextmanager
def running_postgresql() -> Iterator[str]:
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


def new_database(server: str) -> str:
    """Make an empty database; return its URL."""
    name = f"journal_{next(_NUMBERS)}_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.removesuffix("postgres") + name
