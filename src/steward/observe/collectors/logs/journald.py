"""Follows the systemd journal: what services and jobs under systemd write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.clients.host import hostname
from steward.clients.logs.journald import JournalctlFollower
from steward.model.event import Availability, LogLine, Observation
from steward.observe.lines import KERNEL, EntityResolver, LineFilter

__all__ = ["Journald"]


class Journald:
    """Entries of the journal from now on, each with its unit; those of a job are the job's.

    The kernel's own lines are left to `kernel-log` unless `kernel_lines` is set.
    """

    name = "journald"
    vocabulary = "canonical"

    def __init__(
        self,
        *,
        kernel_lines: bool = False,
        node: str = "",
        journal: JournalctlFollower | None = None,
        entities: EntityResolver | None = None,
    ) -> None:
        self._kernel_lines = kernel_lines
        self._journal = journal or JournalctlFollower()
        self._filter = LineFilter(entities or EntityResolver(node or hostname()), name=self.name)
        self._unreadable = 0
        self._reported = False

    def available(self) -> Availability:
        missing = self._journal.missing()
        if missing:
            return Availability(
                status="missing", reason=missing, hint="read files instead: plugs.log-files.paths"
            )
        return Availability(status="ok", reason="journalctl is there, and so is a journal")

    def collect(self, t_s: float) -> Observation:
        self._filter.begin(t_s)
        missing = self._journal.missing()
        if missing and not self._reported:
            self._filter.report("collector.missing", missing, t_s)
        self._reported = bool(missing)
        if missing:
            return self._filter.drain()
        for each in self._journal.look():
            kernel = each.transport == "kernel"
            if kernel and not self._kernel_lines:
                continue
            entity = self._filter.entities.owner(each.cgroup)
            source = KERNEL if kernel else each.unit
            for text in filter(None, each.text.split("\n")):
                self._filter.add(
                    LogLine(t_s=each.t_s, entity=entity, source=source, text=text, level=each.level)
                )
        unreadable = self._journal.unreadable - self._unreadable
        self._unreadable = self._journal.unreadable
        if unreadable:
            text = f"{unreadable} journal entries have no message, or one that is too long"
            self._filter.report("log.unreadable", text, t_s)
        return self._filter.drain()

    def positions(self) -> dict[str, Any]:
        return self._journal.positions()

    def resume(self, positions: Mapping[str, Any]) -> None:
        self._journal.resume(positions)

    def close(self) -> None:
        """End `journalctl`; the position stays as it is."""
        self._journal.close()
