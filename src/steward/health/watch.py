"""Faults as they happen: sources of lines that grow, and what is new in them at each look."""

from __future__ import annotations

import os
import selectors
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from steward.clients.logs.follower import FileFollower
from steward.clients.logs.journald import JournalctlFollower
from steward.clients.logs.kernel_log import KernelBuffer
from steward.errors import StewardError
from steward.health.cases import CaseBook
from steward.health.live_faults import LiveFaults
from steward.model.event import LogLine
from steward.model.faults import FaultCase, Incident
from steward.observe.lines import KERNEL

__all__ = ["FileLog", "JournalLog", "KernelRing", "LineSource", "PipedLog", "Watcher"]

_PIPE_BYTES = 1 << 20


class LineSource(Protocol):
    """Lines that come as time goes on."""

    @property
    def over(self) -> bool:
        """Return whether nothing will come any more."""
        ...

    def look(self, now_s: float) -> list[LogLine]:
        """Return what is new."""
        ...


class FileLog:
    """Files of logs, named by paths or patterns, also when they are rotated."""

    over = False

    def __init__(self, paths: Sequence[str], *, node: str, from_start: bool = False) -> None:
        self._files = FileFollower(paths, from_start=from_start)
        self._node = node

    def look(self, now_s: float) -> list[LogLine]:
        """Return new lines of all files."""
        return [
            LogLine(t_s=now_s, entity=self._node, source=new.path, text=text)
            for new in self._files.look(now_s)
            for text in new.texts
        ]


class JournalLog:
    """The kernel's lines in the journal of systemd."""

    over = False

    def __init__(self, *, node: str, journal: JournalctlFollower | None = None) -> None:
        self._journal = journal or JournalctlFollower(arguments=("-k",))
        self._node = node
        if missing := self._journal.missing():
            raise StewardError(missing, where="--journal", hint="name files instead")

    def look(self, now_s: float) -> list[LogLine]:
        """Return new entries."""
        del now_s
        return [
            LogLine(t_s=each.t_s, entity=self._node, source=KERNEL, text=text)
            for each in self._journal.look()
            for text in each.text.split("\n")
        ]


class KernelRing:
    """The ring buffer of the kernel of this machine."""

    over = False

    def __init__(self, *, node: str, buffer: KernelBuffer | None = None) -> None:
        self._buffer = buffer or KernelBuffer()
        self._node = node
        if fault := self._buffer.fault():
            raise StewardError(
                f"the kernel's log cannot be read: {fault}",
                where=str(self._buffer.device.path),
                hint="run as root, or name files: steward health watch /var/log/kern.log",
            )

    def look(self, now_s: float) -> list[LogLine]:
        """Return new records."""
        return [
            LogLine(t_s=each.t_s, entity=self._node, source=KERNEL, text=text)
            for each in self._buffer.look(now_s)
            for text in each.text.split("\n")
        ]


class PipedLog:
    """What another program writes: `journalctl -kf | steward health watch -`."""

    def __init__(self, stream: BinaryIO | None = None, *, node: str) -> None:
        self._fd = (stream or sys.stdin.buffer).fileno()
        self._node = node
        self._rest = b""
        self.over = False
        self._selector: selectors.BaseSelector | None = selectors.DefaultSelector()
        try:
            self._selector.register(self._fd, selectors.EVENT_READ)
        except PermissionError:  # a plain file can always be read
            self._selector = None

    def look(self, now_s: float) -> list[LogLine]:
        """Return whole lines, and what is left when the other end has closed."""
        while not self.over and (self._selector is None or self._selector.select(0.0)):
            data = os.read(self._fd, _PIPE_BYTES)
            self.over = not data
            self._rest += data
        *whole, self._rest = self._rest.split(b"\n")
        if self.over and self._rest:
            whole, self._rest = [*whole, self._rest], b""
        return [
            LogLine(t_s=now_s, entity=self._node, source="-", text=each.decode("utf-8", "replace"))
            for each in whole
            if each
        ]


@dataclass(slots=True, kw_only=True)
class Watcher:
    """Looks at sources, and returns each incident once, when its cause is known."""

    sources: Sequence[LineSource]
    lines: LiveFaults = field(default_factory=lambda: LiveFaults(any_file=True))
    book: CaseBook = field(default_factory=CaseBook)
    read: int = 0

    @property
    def over(self) -> bool:
        """Return whether no source will have more."""
        return all(each.over for each in self.sources)

    def look(self, now_s: float, *, ahead_s: float = 0.0) -> Iterator[tuple[Incident, FaultCase]]:
        """Yield what is new, with what is known of its node; `ahead_s` settles all at once."""
        new = [line for source in self.sources for line in source.look(now_s)]
        self.read += len(new)
        faults = self.lines.split_old(self.lines.read(new, now_s), now_s)
        before = set(map(id, self.book.incidents))
        self.book.turn(faults, {}, self.lines.verdicts, now_s + ahead_s, gpus=self.lines.gpus)
        for each in self.book.incidents:
            if id(each) not in before:
                held = self.book.open.get(each.episode.node)
                yield each, held.case if held is not None else _alone(each)


def _alone(incident: Incident) -> FaultCase:
    """Return what is known of a node whose incident opens no case."""
    episode = incident.episode
    return FaultCase(
        node=episode.node,
        devices=(episode.device,),
        remedy=incident.remedy,
        part=incident.part,
        since_s=episode.t_s,
        last_s=episode.until_s,
    )


def files_of(paths: Sequence[Path]) -> list[str]:
    """Return the names of files that are there, or patterns; raise for what cannot be followed."""
    for path in paths:
        if path.is_dir():
            raise StewardError(
                "a folder cannot be followed", where=str(path), hint=f"name files: '{path}/*.log'"
            )
        if not path.exists() and not any(letter in str(path) for letter in "*?["):
            raise StewardError("there is no such file", where=str(path), hint="name logs")
    return [str(path) for path in paths]
