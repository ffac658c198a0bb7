"""Starts the service as a program of its own, the way people do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service that listens; `address` has no slash at its end."""

    program: subprocess.Popen[str]
    address: str


@contextmanager
def running(
    folder: Path, *, autonomy: str = "approve", host: str = "127.0.0.1"
) -> Iterator[Running]:
    """Run the tiny world's service in a folder of its own until the block ends."""
    program = subprocess.Popen(
        [sys.executable, TESTS / "service" / "tiny_service.py", folder, host, autonomy],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{SOURCE}"},
    )
    assert program.stdout is not None
    try:
        address = program.stdout.readline().strip().replace(host, "127.0.0.1")
        yield Running(program=program, address=address)
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
