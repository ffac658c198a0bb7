"""Starts programs of steward that print their address, and ends them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from steward.errors import StewardError

__all__ = ["started"]

_STARTS_WITHIN_S = 300.0  # the first start on a machine compiles
_ENDS_WITHIN_S = 10.0


@asynccontextmanager
async def started(*arguments: str, log: Path) -> AsyncIterator[str]:
    """Run `steward ARGUMENTS --json` until the block ends; return the address that it prints."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "steward", *arguments, "--json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        url = await asyncio.wait_for(_address(process), _STARTS_WITHIN_S)
        if not url:
            raise _ended(arguments, log)
        yield url
    finally:
        if process.returncode is None:
            process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.communicate(), _ENDS_WITHIN_S)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    """Return what the program prints when it listens; "" if it ends before."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    said = b""
    while line := await process.stdout.readline():
        said += line
        with suppress(json.JSONDecodeError, KeyError):  # not all of it is there yet
            return str(json.loads(said)["url"])
    return ""


def _ended(arguments: tuple[str, ...], log: Path) -> StewardError:
    lines = log.read_text(errors="replace").splitlines()[-5:]
    return StewardError(
        f"`steward {' '.join(arguments)}` ended: {' '.join(lines) or 'without a word'}",
        where="demo",
        hint="run that command alone to see more",
    )
