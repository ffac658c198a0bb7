"""How far each sender has got: the newest number of every stream, over restarts."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from steward.errors import TemporaryError
from steward.store.atomic import write_atomic

__all__ = ["StreamPositions"]

MOST_STREAMS = 50_000


class StreamPositions:
    """The newest number per stream. The least recently updated streams are dropped."""

    def __init__(self, file: Path, *, most: int = MOST_STREAMS) -> None:
        self._file = file
        self._most = most
        self._lock = threading.Lock()
        self._newest: OrderedDict[str, int] = OrderedDict()
        with suppress(FileNotFoundError, ValueError):  # a broken file costs repeated rows, no more
            known = json.loads(file.read_bytes())
            if isinstance(known, dict):
                numbers = {name: n for name, n in known.items() if type(n) is int and n >= 0}
                self._newest.update(numbers)

    def newest(self, stream: str) -> int:
        """Return the newest number of a stream; 0 when it is not known."""
        with self._lock:
            return self._newest.get(stream, 0)

    def advance(self, stream: str, number: int) -> None:
        """Record the newest number of a stream."""
        with self._lock:
            self._newest[stream] = max(number, self._newest.pop(stream, 0))
            while len(self._newest) > self._most:
                self._newest.popitem(last=False)

    def save(self) -> None:
        """Write all of it down; durable when it returns."""
        with self._lock:
            text = json.dumps(self._newest)
        try:
            write_atomic(self._file, text.encode())
        except OSError as fault:
            raise TemporaryError(
                f"it cannot be written: {(fault.strerror or str(fault)).lower()}",
                where=str(self._file),
                hint="make room on this disk",
            ) from fault
