"""Gateways as processes of their own, which tests may kill."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from patience import LONG_S

__all__ = ["GatewayProcess"]


class GatewayProcess:
    """A `steward serve gateway` with its store in `folder`; it listens on any free port."""

    def __init__(self, folder: Path, upstreams: Sequence[str], *, config: str = "") -> None:
        self.folder = folder
        self.url = ""
        self._upstreams = upstreams
        self._config = config
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """Start it, and return its address once it listens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "steward.toml"
        file.write_text(f"{self._config}\n")
        options = [part for each in self._upstreams for part in ("--upstream", each)]
        with (self.folder / "gateway.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "steward", "serve", "gateway", "--json"),
                *("--port", "0", "--config", str(file), "--data", str(self.folder), *options),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        stdout = self._process.stdout
        assert stdout is not None
        said = b""
        async with asyncio.timeout(LONG_S):
            while not self.url:
                line = await stdout.readline()
                assert line, (self.folder / "gateway.log").read_text()
                said += line
                self.url = _url(said)
        return self.url

    async def kill(self) -> None:
        """End it with SIGKILL, as a machine that fails does."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """End it in order."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        process, self._process, self.url = self._process, None, ""
        if process is not None and process.returncode is None:
            process.send_signal(number)
            await process.communicate()


def _url(said: bytes) -> str:
    try:
        return str(json.loads(said)["url"])
    except ValueError:
        return ""  # not all of it is there yet
