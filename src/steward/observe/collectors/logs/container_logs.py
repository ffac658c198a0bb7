"""Follows what containers write, as Docker, containerd and CRI-O keep it in files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steward.clients.host import hostname
from steward.clients.logs.containers import PATTERNS, ContainerFiles
from steward.model.event import Availability, LogLine, Observation
from steward.model.frame import job_entity
from steward.model.identity import JobId
from steward.observe.lines import EntityResolver, LineFilter

__all__ = ["ContainerLogs"]

_ERROR, _INFORMATION = 3, 6  # levels of syslog


class ContainerLogs:
    """Lines of all containers of this machine, each as its pod's or container's.

    `paths` are where their files are; what is on standard error has the level of an error.
    """

    name = "container-logs"
    vocabulary = "canonical"

    def __init__(
        self,
        *,
        paths: tuple[str, ...] = PATTERNS,
        from_start: bool = False,
        node: str = "",
        entities: EntityResolver | None = None,
    ) -> None:
        self._paths = paths
        self._files = ContainerFiles(paths, from_start=from_start)
        self._filter = LineFilter(entities or EntityResolver(node or hostname()), name=self.name)
        self._unreadable = 0

    def available(self) -> Availability:
        folders = [Path(path.partition("*")[0]) for path in self._paths]
        there = [folder for folder in folders if folder.is_dir()]
        if not there:
            return Availability(
                status="missing",
                reason=f"there is no {' and no '.join(str(folder) for folder in folders)}",
                hint="on a node with containers, mount these folders of the host",
            )
        if not any(os.access(folder, os.R_OK | os.X_OK) for folder in there):
            return Availability(
                status="limited", reason=f"{there[0]} may not be read", hint="run as root"
            )
        return Availability(status="ok", reason=f"{' and '.join(str(each) for each in there)}")

    def collect(self, t_s: float) -> Observation:
        self._filter.begin(t_s)
        node = self._filter.entities.node
        for new in self._files.look(t_s):
            for each in new:
                job = each.origin.job
                self._filter.add(
                    LogLine(
                        t_s=each.t_s,
                        entity=job_entity(JobId(job)) if job else node,
                        source=each.origin.name,
                        text=each.text,
                        level=_ERROR if each.stderr else _INFORMATION,
                    )
                )
            if self._filter.full:
                break
        self._report_losses(t_s)
        return self._filter.drain()

    def positions(self) -> dict[str, Any]:
        return self._files.positions()

    def resume(self, positions: Mapping[str, Any]) -> None:
        self._files.resume(positions)

    def close(self) -> None:
        """Close all files; positions stay as they are."""
        self._files.close()

    def _report_losses(self, t_s: float) -> None:
        for note in self._files.taken_notes():
            self._filter.report_problem(note, t_s)
        unreadable = self._files.unreadable - self._unreadable
        self._unreadable = self._files.unreadable
        if unreadable:
            text = f"{unreadable} lines are in the form of neither Docker nor CRI"
            self._filter.report("log.unreadable", text, t_s)
