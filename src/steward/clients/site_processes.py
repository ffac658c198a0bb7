"""One steward process per site: started, watched, restarted when it ends, and ended with us.

Processes, not threads: an engine that hangs, a plug that leaks or a crash stays in its own site.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from steward.clients.site_health import ask_health
from steward.model.site import SiteHealth, SiteState

__all__ = ["SiteProcesses", "command_of"]

LOOK_EVERY_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # before a restart; each is twice the one before
STEADY_S = 60.0  # after so long, a site that ends counts as one that ran
END_S = 15.0  # for a site to end by itself; then it is killed
LONGEST_REASON = 300


class SiteProcesses:
    """Runs a command for each site while the block lasts.

    A site whose steward runs already is left to whoever started it, and is started once that ends.
    """

    def __init__(
        self,
        command: Callable[[str], Sequence[str]],
        sockets: Mapping[str, Path],
        *,
        report: Callable[[str], None] = lambda _line: None,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._stop = threading.Event()
        self._sites = [
            _Site(name, command(name), socket, report, self._stop, first_pause_s)
            for name, socket in sockets.items()
        ]

    def healths(self) -> tuple[SiteHealth, ...]:
        """Return how each site did when it was last asked, in the order of the configuration."""
        return tuple(site.health for site in self._sites)

    def __enter__(self) -> Self:
        for site in self._sites:
            site.thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _fault: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for site in self._sites:
            site.thread.join()


class _Site:
    """One site: a thread that keeps its process running and asks how it does."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        socket: Path,
        report: Callable[[str], None],
        stop: threading.Event,
        first_pause_s: float,
    ) -> None:
        self.health = SiteHealth(name=name, state=SiteState.STARTING)
        self.thread = threading.Thread(target=self._run, name=f"site-{name}", daemon=True)
        self._name, self._command, self._socket = name, command, socket
        self._report_line, self._stop, self._first_pause_s = report, stop, first_pause_s
        self._last_line = ""

    def _run(self) -> None:
        pause_s = self._first_pause_s
        while not self._stop.is_set():
            self.health = ask_health(self._name, self._socket)
            if self.health.state is not SiteState.STOPPED:  # started by somebody else
                self._stop.wait(LOOK_EVERY_S)
                continue
            began_s = time.monotonic()
            why = self._live()
            if self._stop.is_set():
                break
            if time.monotonic() - began_s >= STEADY_S:
                pause_s = self._first_pause_s
            self._report(f"{why}; it is started again in {pause_s:g} s")
            self.health = SiteHealth(name=self._name, state=SiteState.STOPPED, text=why)
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _live(self) -> str:
        """Start the process, look at it until it ends or we do; return why it ended."""
        self.health = SiteHealth(name=self._name, state=SiteState.STARTING)
        self._last_line = ""
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.PIPE,  # it ends when this does, however we end
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C is ours: we end it in good order
            )
        except OSError as fault:
            return f"it cannot be started: {fault.strerror or fault}"
        reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        reader.start()
        try:
            while process.poll() is None and not self._stop.wait(LOOK_EVERY_S):
                self._look()
        finally:
            code = _end(process)
            reader.join(1.0)
        return f"it has ended with status {code}" + (f": {line}" if (line := self._reason) else "")

    def _look(self) -> None:
        found = ask_health(self._name, self._socket)
        if found.state is SiteState.STOPPED:  # it does not listen yet
            found = replace(found, state=SiteState.STARTING, text=self._reason)
        self.health = found

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None  # noqa: S101 - a pipe, as asked for
        with process.stderr as lines:
            for line in lines:
                self._report(line.rstrip("\n"))
                if line.strip() and not line.startswith("hint:"):
                    self._last_line = line.strip()

    def _report(self, line: str) -> None:
        self._report_line(f"site {self._name}: {line}")

    @property
    def _reason(self) -> str:
        return self._last_line[:LONGEST_REASON]


def _end(process: subprocess.Popen[str]) -> int:
    """End a process in good order, or at last by force; return its status."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        if process.stdin is not None:
            process.stdin.close()


def command_of(name: str, *, config: Path | None, folder: Path) -> tuple[str, ...]:
    """Return the command that runs one site of a configuration."""
    file = () if config is None else ("--config", str(config))
    start = (sys.executable, "-m", "steward", "up", "--site", name, *file)
    return (*start, "--data", str(folder), "--no-browser", "--until-eof")
