"""Follows log files of programs: Slurm's, the fabric manager's, training runs'."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steward.clients.host import hostname
from steward.clients.logs.follower import FileFollower
from steward.clients.logs.rotation import found
from steward.errors import StewardError
from steward.model.event import Availability, Observation
from steward.observe.lines import EntityResolver, LineFilter

__all__ = ["LogFiles"]

# Not syslog and messages: the journal and the kernel's buffer have these lines first.
_PATHS = (
    "/var/log/slurm/*.log",
    "/var/log/slurm*.log",
    "/var/log/fabricmanager.log",
    "/var/log/nvidia-fabricmanager.log",
)


class LogFiles:
    """Lines of files, each as it is written: `paths` may have `*` and `**`.

    Files are followed through rotation; `from_start` reads what is in them already.
    """

    name = "log-files"
    vocabulary = "canonical"

    def __init__(
        self,
        *,
        paths: tuple[str, ...] = _PATHS,
        from_start: bool = False,
        node: str = "",
        entities: EntityResolver | None = None,
    ) -> None:
        wrong = [path for path in paths if not Path(path).is_absolute()]
        if wrong:
            raise StewardError(
                f"{', '.join(repr(path) for path in wrong)}: not a whole path",
                where="log-files.paths",
                hint="write paths from the root: /var/log/app/*.log",
            )
        self._files = FileFollower(paths, from_start=from_start)
        self._filter = LineFilter(entities or EntityResolver(node or hostname()), name=self.name)

    def available(self) -> Availability:
        there = [path for path in found(self._files.patterns) if Path(path).exists()]
        if not there:
            return Availability(
                status="missing",
                reason=f"no file is there: {', '.join(self._files.patterns) or 'no paths given'}",
                hint="set plugs.log-files.paths; files that come later are followed then",
            )
        closed = [path for path in there if not os.access(path, os.R_OK)]
        if closed:
            return Availability(
                status="limited",
                reason=f"{len(closed)} of {len(there)} files may not be read, as {closed[0]}",
                hint="run as root, or as a member of the files' group (often adm)",
            )
        return Availability(status="ok", reason=f"{len(there)} files")

    def collect(self, t_s: float) -> Observation:
        self._filter.begin(t_s)
        for new in self._files.look(t_s):
            node = self._filter.entities.node
            self._filter.add_texts(new.texts, new.numbers, entity=node, source=new.path, now_s=t_s)
            if self._filter.full:
                break
        for note in self._files.taken_notes():
            self._filter.report_problem(note, t_s)
        return self._filter.drain()

    def positions(self) -> dict[str, Any]:
        return self._files.positions()

    def resume(self, positions: Mapping[str, Any]) -> None:
        self._files.resume(positions)

    def close(self) -> None:
        """Close all files; positions stay as they are."""
        self._files.close()
