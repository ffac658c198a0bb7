"""Reads /proc/stat: what the cores did, each and together."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from steward.clients.linux.files import OpenFile, Row
from steward.model.layout import Block

__all__ = ["Processors"]

_PARTS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_TAIL = (b"ctxt", b"processes", b"procs_running", b"procs_blocked")
_WORDS = (
    "stat.busy_share",
    *(f"stat.{part}" for part in _PARTS),
    "stat.intr",
    *(f"stat.{word.decode()}" for word in _TAIL),
)
_IDLE, _WAITING = 1 + _PARTS.index("idle"), 1 + _PARTS.index("iowait")


class Processors:
    """All cores together, and how busy each is. Busy shares are those since the last reading."""

    def __init__(self, proc: Path, *, cores: bool = True) -> None:
        self._file = OpenFile(proc / "stat")
        self._each = cores
        table = _table(self._file.read())
        self._cores = table[:, 0]
        width = table.shape[1]
        # Times that count as busy, and all of them. Guest time is in user time already.
        counted = np.zeros((width, 2))
        counted[1 : 1 + len(_PARTS)] = 1.0
        counted[[_IDLE, _WAITING], 0] = 0.0
        self._counted = counted
        self._before = np.full((len(self._cores), 2), np.nan)
        self._parts = min(width - 1, len(_PARTS))  # old kernels know fewer
        self.changed = False
        each = [f"/cpu{core}" for core in self._cores[1:]] if cores else []
        self.blocks = (
            Block(entity="", names=_WORDS),
            *(Block(entity=core, names=("stat.core.busy_share",)) for core in each),
        )

    def read(self, into: Row) -> None:
        into[:] = np.nan
        data = self._file.read()
        table = _table(data)
        into[1 : 1 + self._parts] = table[0, 1 : 1 + self._parts]
        into[9:14] = _tail(data)
        if not np.array_equal(table[:, 0], self._cores):
            self.changed = True  # a core went offline or came back
            return
        now = table @ self._counted
        grown = now - self._before
        self._before = now
        with np.errstate(invalid="ignore", divide="ignore"):
            busy = np.clip(grown[:, 0] / grown[:, 1], 0.0, 1.0)
        busy[grown[:, 1] <= 0] = np.nan
        into[0] = busy[0]
        if self._each:
            into[14:] = busy[1:]


def _table(data: bytes) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return a row for all cores (its number is -1) and one for each: number, then times."""
    end = data.find(b"\nintr")
    lines = data[: end if end >= 0 else data.rfind(b"\ncpu")]
    if not lines.startswith(b"cpu "):
        raise ValueError("/proc/stat does not begin with its processors")
    width = lines.partition(b"\n")[0].count(b" ")  # `cpu` is followed by two
    numbers = lines.replace(b"cpu ", b"-1 ", 1).replace(b"cpu", b"")
    table = np.fromstring(numbers.decode("ascii"), dtype=np.int64, sep=" ")
    return table.reshape(-1, width)  # raises where a line is cut short


def _tail(data: bytes) -> list[float]:
    at = data.find(b"\nintr ")
    intr = float(data[at + 6 : at + 27].split(None, 1)[0]) if at >= 0 else np.nan
    tail = data[data.find(b"\nctxt ") :].split() if b"\nctxt " in data else []
    at_word = dict(zip(tail[::2], tail[1::2], strict=False))
    return [intr, *(float(at_word.get(word, b"nan")) for word in _TAIL)]
