"""Programs that outlive who started them, told apart from others that get their pid later.

Each leads a session of its own. A process is known by its pid, the time it began and the boot of
the machine; what it starts itself is found by the session. Signals go through a pidfd, so none
reaches another process that has got the pid in between.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steward.errors import PermanentError, TemporaryError

__all__ = ["MARK", "ServerProcess", "find_marked", "launch"]

MARK = "STEWARD_INSTANCE"  # the variable that marks a process until its pid is written down


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """What tells a process from all others."""

    boot: str
    pid: int
    ticks: int  # since boot, when it began

    @classmethod
    def of(cls, pid: int) -> ServerProcess | None:
        """Return who has a pid now."""
        found = _stat(pid)
        return None if found is None else cls(boot=_boot(), pid=pid, ticks=found.ticks)

    @property
    def runs(self) -> bool:
        """Return whether it still runs: neither ended nor a zombie."""
        self._reap()
        found = _stat(self.pid)
        return found is not None and self._is(found) and found.state not in "ZX"

    def members(self) -> list[int]:
        """Return all processes of its session that run, itself included."""
        self._reap()
        leader = _stat(self.pid)
        if self.boot != _boot() or (leader is not None and not self._is(leader)):
            return []  # the pid is another's, which cannot be while anything of the session is left
        stats = ((pid, _stat(pid)) for pid in _pids())
        return [
            pid
            for pid, each in stats
            if each is not None and each.session == self.pid and each.state not in "ZX"
        ]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all processes of its session."""
        for pid in self.members():
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                try:
                    found = _stat(pid)  # behind the handle: the pid cannot change hands any more
                    if found is not None and found.session == self.pid:
                        signal.pidfd_send_signal(handle, number)
                finally:
                    os.close(handle)

    def _is(self, found: _Stat) -> bool:
        return found.ticks == self.ticks and self.boot == _boot()

    def _reap(self) -> None:
        """Take note of the end of a child of this process; it stays a zombie otherwise."""
        found = _stat(self.pid)
        if found is not None and found.state == "Z" and self._is(found):
            with suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    state: str
    session: int
    ticks: int


def launch(
    command: Sequence[str], *, mark: str, log: Path, environment: Mapping[str, str]
) -> ServerProcess:
    """Start a program that leads a session of its own; its output goes to the end of a file."""
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(  # noqa: S603 - the site's own command, without a shell
                [*command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**environment, MARK: mark},
                close_fds=True,
            )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as fault:
        problem = f"{command[0]} cannot be started: {(fault.strerror or str(fault)).lower()}"
        hint = "name a program of this machine: `instances.NAME.command`"
        raise PermanentError(problem, hint=hint) from fault
    except OSError as fault:
        problem = f"{command[0]} cannot be started: {(fault.strerror or str(fault)).lower()}"
        raise TemporaryError(problem, hint="the machine may lack memory or processes") from fault
    child.returncode = 0  # whoever holds the identity waits for it, after a restart nobody
    found = ServerProcess.of(child.pid)
    return found or ServerProcess(boot=_boot(), pid=child.pid, ticks=-1)


def find_marked(mark: str) -> ServerProcess | None:
    """Return the leader of a session that was started with a mark."""
    wanted = f"{MARK}={mark}".encode()
    for pid in _pids():
        found = _stat(pid)
        if found is None or found.session != pid or found.state in "ZX":
            continue
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return ServerProcess(boot=_boot(), pid=pid, ticks=found.ticks)
    return None


def _pids() -> Iterator[int]:
    return (int(each) for each in os.listdir("/proc") if each.isdecimal())  # noqa: PTH208 - names are enough


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return None
    return _Stat(state=text[0].decode(), session=int(text[3]), ticks=int(text[19]))


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
