"""The machine is asked through psutil; what it does not tell is unknown."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from steward.clients.host import HostSource, hostname

Times = namedtuple("Times", "user system idle iowait guest")


class RecordedHost:
    """Stands in for the module psutil, with values of a real machine."""

    def __init__(self) -> None:
        self.times = [Times(100.0, 50.0, 800.0, 50.0, 10.0)]
        self.disks: Any = {
            "vda": SimpleNamespace(read_bytes=1000, write_bytes=500),
            "vda1": SimpleNamespace(read_bytes=900, write_bytes=400),
            "dm-0": SimpleNamespace(read_bytes=800, write_bytes=300),
            "loop0": SimpleNamespace(read_bytes=7, write_bytes=7),
        }
        self.cards: Any = {
            "lo": SimpleNamespace(bytes_recv=99, bytes_sent=99),
            "eth0": SimpleNamespace(bytes_recv=10, bytes_sent=20),
            "eth1": SimpleNamespace(bytes_recv=1, bytes_sent=2),
        }

    def cpu_count(self) -> int:
        return 16

    def cpu_times(self) -> Times:
        return self.times[-1]

    def virtual_memory(self) -> Any:
        return SimpleNamespace(total=100, used=40, available=60)

    def getloadavg(self) -> tuple[float, float, float]:
        return (0.34, 0.2, 0.1)

    def disk_io_counters(self, *, perdisk: bool) -> Any:
        assert perdisk
        return self.disks

    def net_io_counters(self, *, pernic: bool) -> Any:
        assert pernic
        return self.cards


def blocks(folder: Path) -> Path:
    """Make a /sys/block with a disk and a volume on it; partitions have no entry there."""
    (folder / "vda" / "slaves").mkdir(parents=True)
    (folder / "dm-0" / "slaves" / "vda1").mkdir(parents=True)
    (folder / "loop0" / "slaves").mkdir(parents=True)
    return folder


def test_the_busy_share_is_that_between_two_looks(tmp_path: Path) -> None:
    library = RecordedHost()
    source = HostSource(library, blocks=blocks(tmp_path))

    first = source.reading().cpu_percent
    library.times.append(Times(130.0, 60.0, 840.0, 70.0, 30.0))
    second = source.reading().cpu_percent
    third = source.reading().cpu_percent

    assert first is None
    assert second == 40.0  # 40 of 100 seconds were neither idle nor waiting; guest time is in user
    assert third is None  # no time has passed


def test_bytes_are_counted_once_and_loopback_not_at_all(tmp_path: Path) -> None:
    source = HostSource(RecordedHost(), blocks=blocks(tmp_path))

    reading = source.reading()

    assert (reading.disk_read_bytes, reading.disk_write_bytes) == (1000.0, 500.0)
    assert (reading.net_received_bytes, reading.net_sent_bytes) == (11.0, 22.0)


def test_what_a_machine_does_not_tell_is_unknown(tmp_path: Path) -> None:
    class Silent(RecordedHost):
        def getloadavg(self) -> tuple[float, float, float]:
            raise OSError

        def virtual_memory(self) -> Any:
            raise RuntimeError

        def cpu_times(self) -> Times:
            raise PermissionError

        def cpu_count(self) -> Any:
            return None

    library = Silent()
    library.disks, library.cards = None, None
    source = HostSource(library, blocks=tmp_path)

    reading = source.reading()

    assert all(getattr(reading, name) is None for name in reading.__dataclass_fields__)
    assert (source.cpus(), source.memory_bytes()) == (0, 0)


def test_this_machine_can_be_read() -> None:
    source = HostSource()

    reading = source.reading()

    assert source.cpus() > 0
    assert (reading.memory_available_bytes or 0) > 0
    assert hostname()
