"""Reads the kernel log: GPU faults, memory that ran out, disks and links that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.clients.host import hostname
from steward.clients.logs.kernel_log import KernelBuffer
from steward.model.event import Availability, LogLine, Observation
from steward.observe.lines import KERNEL, EntityResolver, LineFilter

__all__ = ["KernelLog"]


class KernelLog:
    """The kernel's ring buffer, from now on; `from_boot` begins with what it still has."""

    name = "kernel-log"
    vocabulary = "canonical"

    def __init__(
        self,
        *,
        from_boot: bool = False,
        node: str = "",
        buffer: KernelBuffer | None = None,
        entities: EntityResolver | None = None,
    ) -> None:
        self._buffer = buffer or KernelBuffer(from_boot=from_boot)
        self._filter = LineFilter(entities or EntityResolver(node or hostname()), name=self.name)
        self._lost = self._unreadable = 0
        self._reported = False

    def available(self) -> Availability:
        fault = self._buffer.fault()
        if not fault:
            return Availability(status="ok", reason=f"{self._buffer.device.path} can be read")
        return Availability(
            status="missing",
            reason=f"{self._buffer.device.path}: {fault}",
            hint="run as root or with CAP_SYSLOG, or set plugs.journald.kernel_lines = true",
        )

    def collect(self, t_s: float) -> Observation:
        self._filter.begin(t_s)
        try:
            records = self._buffer.look(t_s)
        except OSError as fault:
            return self._missing(f"{self._buffer.device.path}: {fault.strerror}", t_s)
        self._reported = False
        node = self._filter.entities.node
        for each in records:
            for text in filter(None, each.text.split("\n")):
                self._filter.add(
                    LogLine(t_s=each.t_s, entity=node, source=KERNEL, text=text, level=each.level)
                )
        self._report_losses(t_s)
        return self._filter.drain()

    def positions(self) -> dict[str, Any]:
        return self._buffer.positions()

    def resume(self, positions: Mapping[str, Any]) -> None:
        self._buffer.resume(positions)

    def close(self) -> None:
        """Close the kernel's buffer; the position stays as it is."""
        self._buffer.close()

    def _missing(self, why: str, t_s: float) -> Observation:
        """Report once that there is nothing to read; retry at each turn."""
        if not self._reported:
            self._filter.report("collector.missing", why, t_s)
        self._reported = True
        return self._filter.drain()

    def _report_losses(self, t_s: float) -> None:
        lost, self._lost = self._buffer.lost - self._lost, self._buffer.lost
        if lost:
            text = f"{lost} kernel messages were overwritten before they were read"
            self._filter.report("log.lost", text, t_s)
        unreadable = self._buffer.unreadable - self._unreadable
        self._unreadable = self._buffer.unreadable
        if unreadable:
            text = f"{unreadable} kernel messages are not in the form that is documented"
            self._filter.report("log.unreadable", text, t_s)
