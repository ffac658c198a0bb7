"""Receives the messages of training scripts (`steward/marks.py`) on a local socket.

A thread empties the socket all the time: the kernel keeps only some ten messages for us. With
each message the kernel adds the sender's process id, which cannot be forged.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from steward.errors import StewardError

__all__ = ["MarksSocket", "Message", "default_place"]

MOST_BYTES = 8192
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid
_PASS_CREDENTIALS = getattr(socket, "SO_PASSCRED", 16)
_ARE_CREDENTIALS = getattr(socket, "SCM_CREDENTIALS", 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a process sent; `pid` is from the kernel, in this machine's pid namespace."""

    pid: int
    body: bytes


def default_place() -> Path:
    """Return where scripts look first: as configured, the machine's folder, or the user's own."""
    given = os.environ.get("STEWARD_MARKS", "")
    if given:
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.geteuid() and runtime:
        return Path(runtime) / "steward" / "marks.sock"
    return Path("/run/steward/marks.sock")


class MarksSocket:
    """A place to send marks to. At most `most` messages wait; `dropped` counts what was more."""

    def __init__(self, place: Path, *, most: int = 20_000) -> None:
        self.place = place
        self.dropped = 0
        self._waiting: deque[Message] = deque()
        self._most = most
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Listen, unless another process does so already."""
        if self._socket is not None:
            return
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._bind(listening)
        except OSError as fault:
            listening.close()
            hint = "run as root, or name another place: plugs.marks.place and $STEWARD_MARKS"
            problem = f"cannot listen on {self.place}: {fault.strerror or fault}"
            raise StewardError(problem, where="marks", hint=hint) from fault
        self._socket = listening
        self._thread = threading.Thread(target=self._listen, name="marks", daemon=True)
        self._thread.start()

    def take(self) -> list[Message]:
        """Return what has come since the last time."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        self._socket.close()
        self._socket = None
        self.place.unlink(missing_ok=True)

    def refused(self) -> bool:
        """Return whether this user may not make a socket there."""
        there = next(each for each in self.place.parents if each.exists() or each == each.parent)
        return not os.access(there, os.W_OK | os.X_OK)

    def taken(self) -> bool:
        """Return whether another process listens there already."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(str(self.place))
            except OSError:
                return False
            return True

    def _bind(self, listening: socket.socket) -> None:
        self.place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if self.place.is_socket():
            if self.taken():
                raise FileExistsError(0, "another steward listens there")
            self.place.unlink()  # left behind by one that was killed
        listening.setsockopt(socket.SOL_SOCKET, _PASS_CREDENTIALS, 1)
        listening.bind(str(self.place))
        self.place.chmod(0o666)  # jobs of all users may send

    def _listen(self) -> None:
        listening = self._socket
        space = socket.CMSG_SPACE(_CREDENTIALS.size)
        while listening is not None:
            try:
                body, extra, flags, _ = listening.recvmsg(MOST_BYTES, space)
            except OSError:
                return
            if not body and not extra:
                return  # shut down
            if flags & socket.MSG_TRUNC or len(self._waiting) >= self._most:
                self.dropped += 1
                continue
            self._waiting.append(Message(pid=_sender(extra), body=body))


def _sender(extra: list[tuple[int, int, bytes]]) -> int:
    for level, kind, body in extra:
        if level == socket.SOL_SOCKET and kind == _ARE_CREDENTIALS:
            return int(_CREDENTIALS.unpack(body[: _CREDENTIALS.size])[0])
    return 0
