"""A `steward up --demo` in a process of its own, as a user starts it: asked, stopped and killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

__all__ = ["Demo"]

STEWARD = [sys.executable, "-m", "steward"]
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # users do not set it, and it costs seconds at every start


class Demo:
    """One run of the demo on a data folder. Ask it nothing before `wait_until_ready` returns."""

    def __init__(self, folder: str, *, speed: float, policy: str | None = None) -> None:
        scheduling = ["--policy", policy] if policy else []
        command = [*STEWARD, "up", "--demo", "--json", "--no-browser", "--port", "0"]
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `kill`
        self.process = subprocess.Popen(
            [*command, "--speed", str(speed), "--data", folder, *scheduling],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={name: each for name, each in os.environ.items() if name != _NO_BYTECODE},
        )
        self.url = self._token = ""

    def wait_until_ready(self) -> None:
        """Return when it answers; end the program with its errors if it never will."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self._errors.seek(0)
            sys.exit(f"steward up ended before it was ready: {self._errors.read().decode()}")
        announced = json.loads(line)
        self.url, self._token = announced["url"].rstrip("/"), announced["token"]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Return what the API answers; a body makes it a POST."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers)  # noqa: S310 - our own server
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - the same
            return json.loads(reply.read())

    def chooses(self, decision: str, choice: str) -> bool:
        """Return whether a choice about a decision was acknowledged."""
        try:
            self.ask(f"/api/v1/decisions/{decision}/{choice}", {})
        except (urllib.error.URLError, OSError):
            return False
        return True

    def stop(self) -> int:
        """Ask it to end, and return its exit status."""
        self.process.terminate()
        return self._end()

    def kill(self) -> None:
        """End it at once, as a power failure would."""
        self.process.kill()
        self._end()

    def _end(self) -> int:
        code = self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        return code


def data_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for a demo that is removed afterwards."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def report_of(folder: str) -> dict[str, Any]:
    """Return what `steward report` says of a folder."""
    command = [*STEWARD, "report", "--data", folder, "--json"]
    after = subprocess.run(command, capture_output=True, check=True, cwd=Path(folder))
    found: dict[str, Any] = json.loads(after.stdout)
    return found
