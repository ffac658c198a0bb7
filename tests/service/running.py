"""Starts the service as a program of its own, the way people do."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service that listens; `address` has no slash at its end. `token` is its owner's."""

    program: subprocess.Popen[str]
    address: str
    login_url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """What a program sends to be let in."""
        return {"Authorization": f"Bearer {self.token}"}


@contextmanager
def running(
    folder: Path,
    *,
    autonomy: str = "approve",
    host: str = "127.0.0.1",
    gateways: Sequence[str] = (),
    script: str = "tiny_service.py",
) -> Iterator[Running]:
    """Run the tiny world's service in a folder of its own until the block ends."""
    program = subprocess.Popen(
        [sys.executable, TESTS / "service" / script, folder, host, autonomy, *gateways],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert program.stdout is not None
    try:
        said = json.loads(program.stdout.readline().replace(host, "127.0.0.1"))
        yield Running(
            program=program, address=said["url"], login_url=said["login_url"], token=said["token"]
        )
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


@contextmanager
def running_jobs(folder: Path, *, slots: int = 4) -> Iterator[Running]:
    """Run `steward up` with its local engine; its owner's token submits as this account."""
    me = pwd.getpwuid(os.getuid()).pw_name
    config = folder / "steward.toml"
    config.write_text(
        f'[jobs]\nslots = {slots}\ngrace_s = 1\n[jobs.token_accounts]\n"{me}" = "{me}"\n'
        "[service]\nrequests_per_minute = 100000\n"
    )
    with started(config, folder) as service:
        yield service


@contextmanager
def started(config: Path, data: Path, *more: str) -> Iterator[Running]:
    """Run `steward up` with a configuration until the block ends."""
    options = ["--port", "0", "--no-browser", "--json", *more]
    program = subprocess.Popen(
        [sys.executable, "-m", "steward", "up", "--config", config, "--data", data, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    try:
        said = json.loads(program.stdout.readline())
        yield Running(
            program=program, address=said["url"], login_url=said["login_url"], token=said["token"]
        )
    finally:
        program.terminate()
        program.wait()
        program.stdout.close()
