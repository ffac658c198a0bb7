"""Reasons to save: a request file, a signal, or the time since the last save."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from steward.training.protocol import (
    ANSWER,
    REQUEST,
    REQUEST_VARIABLE,
    SaveRequest,
    TrainingError,
    read_json,
)
from steward.training.protocol import read_request as _read

__all__ = ["SAVE", "STOP", "RequestFile", "SignalFlag"]

SAVE, STOP = 1, 2  # ranks take the greatest; 0 is nothing


class SignalFlag:
    """Set by USR2 and TERM. Nothing else happens in the handler but a call of the previous one."""

    def __init__(self) -> None:
        self.raised: int = 0  # the last signal, until `clear`
        self.names: list[str] = []
        self._previous: dict[int, Any] = {}
        self._pid = os.getpid()
        if threading.current_thread() is not threading.main_thread():
            return  # Python allows handlers only there
        for number in (signal.SIGUSR2, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
            self.names.append(number.name.removeprefix("SIG"))
        _installed.append(weakref.ref(self, _installed.remove))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        previous: Callable[[int, FrameType | None], object] | int | None
        previous = self._previous.get(number)  # nothing once restored: a later handler calls this
        if os.getpid() != self._pid:  # a child that was forked a moment ago, see _restore_in_child
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
            os.kill(os.getpid(), number)
            return
        self.raised = max(self.raised, number)  # TERM (15) after USR2 (12) stays TERM
        if callable(previous):
            previous(number, frame)

    def clear(self) -> int:
        """Return the signal and wait for the next one."""
        raised, self.raised = self.raised, 0
        return raised

    def restore(self) -> None:
        """Install the previous handlers again, where nothing was installed since."""
        for number, previous in self._previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if previous is None else previous)
        self._previous = {}


_installed: list[weakref.ref[SignalFlag]] = []  # oldest first


def _restore_in_child() -> None:
    """Give a forked child, such as a worker of a loader, the handlers from before the training.

    Ours would run there only between two Python instructions: a child that has just gone to sleep
    in C would sleep on after a signal to end. The newest first: each has the one before it.
    """
    for reference in reversed(_installed):
        flag = reference()
        if flag is not None:
            flag.restore()


os.register_at_fork(after_in_child=_restore_in_child)


class RequestFile:
    """The engine's request, looked at with one `stat`, or two where it has a second place.

    `first`: whether this is the rank that looks; the others follow it.
    """

    def __init__(self, folder: Path | None, *, first: bool = True) -> None:
        own = [str(folder / REQUEST)] if folder and first else []
        self._second = os.environ.get(REQUEST_VARIABLE, "") if first else ""
        self._paths = [*own, *([self._second] if self._second else [])]
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._from = ""  # the place of the present request
        self._answered = _answered(folder) if folder else ""
        self.request: SaveRequest | None = None
        self.fault: str = ""  # why a request was refused, until `clear`

    def level(self) -> int:
        """Return what is requested: SAVE, STOP, or 0."""
        for path in self._paths:
            try:
                found = os.stat(path)  # noqa: PTH116 - Path.stat takes twice as long
            except OSError:
                self._seen.pop(path, None)
                if self._from == path:
                    self.request = None  # withdrawn
            else:
                signature = (found.st_mtime_ns, found.st_ino, found.st_size)
                if signature != self._seen.get(path):
                    self._seen[path] = signature
                    self._read(path, found.st_size)
        if self.request is None or self.fault:
            return 0
        return STOP if self.request.stop else SAVE

    def _read(self, path: str, size: int) -> None:
        if path == self._second and not size:  # a kubelet writes an empty file: nothing is asked
            if self._from == path:
                self.request = None
            return
        self.request, self.fault, self._from = None, "", path
        try:
            request = _read(Path(path))
        except TrainingError as fault:
            self.fault = str(fault)
            return
        if request.id == self._answered:
            return
        self.request = request
        if request.is_late():
            self.fault = f"met after its deadline ({request.deadline_s:.0f} s, Unix time)"

    def clear(self) -> str:
        """Return the id of the request, which is then answered."""
        request_id = self.request.id if self.request else ""
        self._answered = request_id or self._answered
        self.request, self.fault = None, ""
        return request_id


def _answered(folder: Path) -> str:
    """Return the id of the last request that an earlier run of this job answered."""
    try:
        return str(read_json(folder / ANSWER).get("id", ""))
    except TrainingError:
        return ""
