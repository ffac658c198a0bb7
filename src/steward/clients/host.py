"""Asks this machine how it is, through psutil, in psutil's words and units.

What a machine does not tell (a container without disks, a kernel without a counter) is None.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

__all__ = ["HostReading", "HostSource", "hostname"]

T = TypeVar("T")
Library = Any  # psutil, or a recording of it

_NOT_DISKS = ("loop", "ram", "zram", "sr", "fd")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """One look at a machine. Disks and network are counters since the machine started."""

    cpu_percent: float | None
    memory_used_bytes: float | None
    memory_available_bytes: float | None
    load_1m: float | None
    disk_read_bytes: float | None
    disk_write_bytes: float | None
    net_received_bytes: float | None
    net_sent_bytes: float | None


def hostname() -> str:
    """Return this machine's own name, without its domain."""
    return socket.gethostname().partition(".")[0] or "localhost"


class HostSource:
    """One machine. The busy share of its cores is that between two looks, so the first has none."""

    def __init__(self, library: Library = psutil, *, blocks: Path = Path("/sys/block")) -> None:
        self._library = library
        self._blocks = blocks
        self._cpu_s: tuple[float, float] | None = None  # busy, all

    def cpus(self) -> int:
        return int(_tried(self._library.cpu_count) or 0)

    def memory_bytes(self) -> int:
        memory = _tried(self._library.virtual_memory)
        return int(memory.total) if memory else 0

    def reading(self) -> HostReading:
        """Look once."""
        memory = _tried(self._library.virtual_memory)
        load = _tried(self._library.getloadavg)
        read, written = self._disks()
        received, sent = self._network()
        return HostReading(
            cpu_percent=self._cpu_percent(),
            memory_used_bytes=float(memory.used) if memory else None,
            memory_available_bytes=float(memory.available) if memory else None,
            load_1m=float(load[0]) if load else None,
            disk_read_bytes=read,
            disk_write_bytes=written,
            net_received_bytes=received,
            net_sent_bytes=sent,
        )

    def _cpu_percent(self) -> float | None:
        times = _tried(self._library.cpu_times)
        if times is None:
            return None
        # Guest time is counted in user time already, so it must not be added again.
        parts: dict[str, float] = {
            name: seconds
            for name, seconds in times._asdict().items()
            if not name.startswith("guest")
        }
        total = sum(parts.values())
        busy = total - parts.get("idle", 0.0) - parts.get("iowait", 0.0)
        before, self._cpu_s = self._cpu_s, (busy, total)
        if before is None or total <= before[1]:
            return None
        return 100.0 * min(1.0, max(0.0, (busy - before[0]) / (total - before[1])))

    def _disks(self) -> tuple[float | None, float | None]:
        each = _tried(lambda: self._library.disk_io_counters(perdisk=True)) or {}
        disks = [counters for name, counters in each.items() if self._is_disk(name)]
        return _sum(disks, "read_bytes"), _sum(disks, "write_bytes")

    def _is_disk(self, name: str) -> bool:
        """Leave out partitions and volumes on top of disks: their bytes are counted below."""
        device = self._blocks / name
        if name.startswith(_NOT_DISKS) or not device.exists():
            return False
        slaves = device / "slaves"
        return not (slaves.is_dir() and any(slaves.iterdir()))

    def _network(self) -> tuple[float | None, float | None]:
        each: Mapping[str, Any] = _tried(lambda: self._library.net_io_counters(pernic=True)) or {}
        cards = [counters for name, counters in each.items() if name != "lo"]
        return _sum(cards, "bytes_recv"), _sum(cards, "bytes_sent")


def _sum(parts: list[Any], name: str) -> float | None:
    return float(sum(getattr(part, name) for part in parts)) if parts else None


def _tried(ask: Callable[[], T]) -> T | None:
    """Ask; a machine that cannot tell has not told."""
    try:
        return ask()
    except (OSError, RuntimeError, NotImplementedError, AttributeError, psutil.Error):
        return None
