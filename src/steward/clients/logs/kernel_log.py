"""Reads the kernel's ring buffer, record by record, from /dev/kmsg.

Its times count from the start of the machine, by a clock that stands still while the machine
sleeps and is never adjusted: after months it is seconds away from the wall clock. A record
that was not there at the last look was written since, and that is what keeps our times right.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = ["KernelBuffer", "KernelDevice", "KernelRecord", "parse"]

_RECORD_BYTES = 16384
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_LIVE_S = 120.0  # reads further apart than this bound the time of a record too loosely


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One message. `since_boot_s` is by the kernel's own clock, `t_s` by the wall clock."""

    sequence: int
    level: int
    facility: int
    since_boot_s: float
    flag: str  # `-` whole, `c` and `+` parts of a line
    text: str
    about: Mapping[str, str] = field(default_factory=dict)  # SUBSYSTEM, DEVICE, ...
    t_s: float = 0.0


def parse(raw: bytes) -> KernelRecord | None:
    r"""Read one record as the kernel gives it; None where it is not one.

    >>> parse(b"6,339,5140900,-;pci 0000:3b:00.0: enabled\n SUBSYSTEM=pci\n").about
    {'SUBSYSTEM': 'pci'}
    """
    head, found, body = raw.partition(b";")
    parts = head.split(b",")
    if not found or len(parts) < 3:
        return None
    try:
        priority, sequence, since_boot_us = (int(part) for part in parts[:3])
    except ValueError:
        return None
    text, _, rest = body.partition(b"\n")
    pairs = (_plain(line[1:]).partition("=") for line in rest.split(b"\n") if line[:1] == b" ")
    return KernelRecord(
        sequence=sequence,
        level=priority & 7,
        facility=priority >> 3,
        since_boot_s=since_boot_us / 1e6,
        flag=parts[3].decode("ascii", "replace")[:1] if len(parts) > 3 else "-",
        text=_plain(text),
        about={key: value for key, _, value in pairs},
    )


class KernelDevice:
    """/dev/kmsg: a read is one record, and does not wait for it."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self.path = path
        self._fd = -1

    def open(self, *, at_end: bool) -> None:
        """Begin after the newest record, or with the oldest that is still there."""
        if self._fd < 0:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END if at_end else os.SEEK_SET)

    def read(self) -> bytes:
        """Return the next record; raises BlockingIOError where there is none yet."""
        return os.read(self._fd, _RECORD_BYTES)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


class KernelBuffer:
    """The ring buffer from now on, or from the start of the machine (`from_boot`).

    `lost` counts messages that were overwritten before they were read, `unreadable` records that
    were not in the form that the kernel documents.
    """

    def __init__(
        self,
        device: KernelDevice | None = None,
        *,
        from_boot: bool = False,
        boot_id: Path = Path("/proc/sys/kernel/random/boot_id"),
        release: str = "",
    ) -> None:
        self.device = device or KernelDevice()
        self.lost = 0
        self.unreadable = 0
        self._from_boot = from_boot
        self._boot_id = boot_id
        self._next = -1  # the sequence number that comes next; -1: not known
        self._looked_s = float("-inf")
        self._drift_s = 0.0
        self._joins = _version(release or os.uname().release) >= (4, 10)

    def fault(self) -> str:
        """Return why the buffer cannot be read; empty if it can."""
        try:  # its mode may allow what the kernel then refuses (kernel.dmesg_restrict)
            os.close(os.open(self.device.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except FileNotFoundError:
            return "there is no such device"
        except OSError as fault:
            return (fault.strerror or str(fault)).lower()
        return ""

    def positions(self) -> dict[str, Any]:
        """Return which record comes next, and of which start of the machine."""
        return {"boot": self._boot(), "next": self._next}

    def resume(self, positions: Mapping[str, Any]) -> None:
        """Resume after what an earlier run has read; read all after a reboot."""
        if "next" not in positions:
            return
        self._from_boot = True
        if positions.get("boot") == self._boot():
            self._next = int(positions["next"])

    def look(self, t_s: float, *, at_most: int = 10_000) -> list[KernelRecord]:
        """Return up to that many new records; raises OSError where the buffer cannot be read."""
        self.device.open(at_end=not self._from_boot)
        self._from_boot = True  # opened again, it resumes by sequence numbers
        records: list[KernelRecord] = []
        while len(records) < at_most:
            raw = self._read()
            if raw is None:
                break
            record = parse(raw)
            if record is None:
                self.unreadable += 1
            elif record.sequence >= self._next:
                self._count_gap(record.sequence)
                records.append(record)
        offset_s = time.time() - time.monotonic()
        timed = [replace(each, t_s=self._wall_s(each, t_s, offset_s)) for each in records]
        self._looked_s = t_s if len(records) < at_most else float("-inf")
        return self._joined(timed)

    def close(self) -> None:
        """Close the device; a later read resumes after the last record."""
        self.device.close()

    def _read(self) -> bytes | None:
        while True:
            try:
                return self.device.read() or None
            except BlockingIOError:
                return None
            except OSError as fault:
                # EPIPE: records were overwritten; the next read continues with what is there. How
                # many they were follows from the sequence numbers.
                if fault.errno != errno.EPIPE:
                    self.device.close()
                    raise

    def _count_gap(self, sequence: int) -> None:
        if self._next >= 0:
            self.lost += sequence - self._next
        self._next = sequence + 1

    def _wall_s(self, record: KernelRecord, now_s: float, offset_s: float) -> float:
        """Return when a record was written: by its own clock, within what is possible."""
        stamped_s = record.since_boot_s + offset_s + self._drift_s
        since_s = self._looked_s if now_s - self._looked_s <= _LIVE_S else float("-inf")
        true_s = min(max(stamped_s, since_s), now_s)
        if since_s > float("-inf"):
            self._drift_s += true_s - stamped_s
        return true_s

    def _joined(self, records: list[KernelRecord]) -> list[KernelRecord]:
        """Put the parts of a line together. What `c` means has changed with Linux 4.10."""
        whole: list[KernelRecord] = []
        for each in records:
            continued = each.flag == "+" or (each.flag == "c" and self._joins)
            if continued and whole:
                whole[-1] = replace(whole[-1], text=whole[-1].text + each.text)
            else:
                whole.append(each)
        return whole

    def _boot(self) -> str:
        try:
            return self._boot_id.read_text(encoding="ascii").strip()
        except OSError:
            return ""


def _plain(raw: bytes) -> str:
    """Decode the kernel's escapes of unprintable bytes: a backslash, x and two digits."""
    if b"\\x" in raw:
        raw = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), raw)
    return raw.decode("utf-8", "replace")


def _version(release: str) -> tuple[int, int]:
    found = _RELEASE.match(release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
