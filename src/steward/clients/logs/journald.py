"""Follows the systemd journal through one `journalctl` that stays open.

A new query at every read would cost a process that opens all journal files each time; a follower
costs nothing while nothing is written, and the pipe blocks it when we are slow. When it ends, the
next read starts another one after the last cursor.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from steward.errors import StewardError

__all__ = ["JournalctlFollower", "JournaldEntry", "parse"]

_FIELDS = (
    "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_COMM,_PID,_SYSTEMD_UNIT,_SYSTEMD_CGROUP,_TRANSPORT,"
    "_SYSTEMD_USER_UNIT"
)
_FOLDERS = (Path("/var/log/journal"), Path("/run/log/journal"))
_ENTRY_BYTES = 2**20  # a longer one is left out and counted
_READ_BYTES = 2**18
_MESSAGE_CHARS = 300  # of journalctl's error output


@dataclass(frozen=True, slots=True, kw_only=True)
class JournaldEntry:
    """One entry. `text` may have several lines."""

    cursor: str
    t_s: float
    level: int
    unit: str  # the systemd unit, else the program's own name for itself
    transport: str  # kernel, journal, stdout, syslog, audit, driver
    cgroup: str
    pid: int
    text: str


def parse(raw: bytes) -> JournaldEntry | None:
    """Read one line of `journalctl -o json`; None where it has no message or is not one."""
    try:
        fields = json.loads(raw)
        t_s = int(fields["__REALTIME_TIMESTAMP"]) / 1e6
        text = _text(fields["MESSAGE"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not text:
        return None
    names = ("_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER", "_COMM")
    return JournaldEntry(
        cursor=_text(fields.get("__CURSOR")),
        t_s=t_s,
        level=_number(fields.get("PRIORITY"), 6) & 7,
        unit=next((_text(fields[name]) for name in names if fields.get(name)), "journal"),
        transport=_text(fields.get("_TRANSPORT")),
        cgroup=_text(fields.get("_SYSTEMD_CGROUP")),
        pid=_number(fields.get("_PID"), 0),
        text=text,
    )


def _text(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """Return a field as text: it may be bytes as numbers, or the first of several values."""
    if isinstance(value, str):
        # JSON can hold halves of characters, which no file can.
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if not isinstance(value, list) or not value:
        return ""
    if not isinstance(value[0], int):
        return _text(value[0])
    try:
        return bytes(value).decode("utf-8", "replace")
    except (ValueError, TypeError):
        return ""


def _number(value: object, otherwise: int) -> int:
    text = _text(value)
    return int(text) if text.isdecimal() else otherwise


class JournalctlFollower:
    """The journal from now on, or after a cursor. `arguments` choose another journal or filter it.

    `unreadable` counts entries that could not be parsed or were too long.
    """

    def __init__(self, *, program: str = "journalctl", arguments: Sequence[str] = ()) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.unreadable = 0
        self._program = program
        self._arguments = tuple(arguments)
        self._cursor = ""
        self._begun = False
        self._rest = b""
        self._dropping = False
        self._complaint = b""

    def missing(self) -> str:
        """Return why there is no journal here; empty if there is one."""
        if shutil.which(self._program) is None:
            return f"there is no {self._program}"
        chosen = self._arguments or any(_has_files(folder) for folder in _FOLDERS)
        return "" if chosen else "journald has written nothing here (is it running?)"

    def positions(self) -> dict[str, Any]:
        """Return the cursor of the last entry that was read."""
        return {"cursor": self._cursor}

    def resume(self, positions: Mapping[str, Any]) -> None:
        """Resume after the last entry of an earlier run."""
        self._cursor = str(positions.get("cursor", ""))

    def look(self, *, at_most: int = 10_000) -> list[JournaldEntry]:
        """Return up to that many new entries; raises where journalctl does not work."""
        self._process = process = self._process or self._start()
        entries: list[JournaldEntry] = []
        while len(entries) < at_most:
            entries += self._parsed(at_most - len(entries))
            if len(entries) >= at_most or not self._read_more(process):
                break
        return entries

    def close(self) -> None:
        """End the follower; the next read starts another after the last entry."""
        process, self._process = self._process, None
        self._rest, self._dropping = b"", False
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()

    def __del__(self) -> None:
        self.close()

    # -- the follower --------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        if not self._cursor and not self._begun:
            self._cursor = self._newest()
        self._begun = True
        after = (f"--after-cursor={self._cursor}",) if self._cursor else ()
        process = subprocess.Popen(  # noqa: S603 - a program that we name, without a shell
            [*self._command("--follow", "--no-tail"), *after],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._complaint = b""
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(_number_of(pipe), False)
        return process

    def _newest(self) -> str:
        """Return the cursor that "from now on" means; empty for an empty journal."""
        try:
            done = subprocess.run(  # noqa: S603
                self._command("--lines=1"), capture_output=True, timeout=10.0, check=False
            )
        except subprocess.TimeoutExpired:
            raise StewardError(
                "journalctl did not answer in 10 s", where="journald", hint="try `journalctl -n 1`"
            ) from None
        if done.returncode:
            raise self._fault(done.returncode, done.stderr)
        entry = parse(done.stdout)
        return entry.cursor if entry else ""

    def _command(self, *more: str) -> list[str]:
        fixed = ("--output=json", f"--output-fields={_FIELDS}", "--all", "--no-pager", "--quiet")
        return [self._program, *fixed, *self._arguments, *more]

    def _read_more(self, process: subprocess.Popen[bytes]) -> bool:
        """Take what the follower has written; False when that is nothing, or it has ended."""
        self._complaint = (self._complaint + (_read(process.stderr) or b""))[-_MESSAGE_CHARS:]
        data = _read(process.stdout)
        if data is None:
            return False
        if not data:
            code, complaint = process.wait(), self._complaint + (_read(process.stderr) or b"")
            self.close()
            if code:
                raise self._fault(code, complaint)
            return False
        self._rest += data
        return True

    def _fault(self, code: int, complaint: bytes) -> StewardError:
        message = (
            complaint.decode("utf-8", "replace").strip()[-_MESSAGE_CHARS:] or "no reason given"
        )
        return StewardError(
            f"{self._program} ended with {code}: {message}",
            where="journald",
            hint="try `journalctl -n 1` as the same user; it may need the group systemd-journal",
        )

    # -- entries -------------------------------------------------------------------------------

    def _parsed(self, at_most: int) -> list[JournaldEntry]:
        """Take whole entries from what was read."""
        lines = self._rest.split(b"\n", at_most)
        self._rest = lines.pop()
        if self._dropping and lines:
            del lines[0]  # the end of one that is too long
            self._dropping = False
        entries = []
        for line in lines:
            entry = parse(line)
            if entry is None:
                self.unreadable += 1
                continue
            self._cursor = entry.cursor or self._cursor
            entries.append(entry)
        self._bound_rest()
        return entries

    def _bound_rest(self) -> None:
        """Drop an entry that is too long, including the part that is still to come."""
        if len(self._rest) > _ENTRY_BYTES and b"\n" not in self._rest:
            self.unreadable += not self._dropping
            self._rest, self._dropping = b"", True


def _number_of(pipe: IO[bytes] | None) -> int:
    assert pipe is not None  # noqa: S101 - opened as a pipe
    return pipe.fileno()


def _read(pipe: IO[bytes] | None) -> bytes | None:
    """Return what is there: None for nothing yet, empty when its writer has ended."""
    try:
        return os.read(_number_of(pipe), _READ_BYTES)
    except BlockingIOError:
        return None


def _has_files(folder: Path) -> bool:
    try:
        return any(folder.glob("*/*.journal"))
    except OSError:
        return False
