"""Reads the control groups of all jobs on this machine, as jobs come and go."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from steward.clients.cgroups import CgroupReader
from steward.clients.linux.files import CachedReader, HostReader
from steward.clients.linux.groups import often, seldom
from steward.model.identity import JobId

__all__ = ["JobGroups"]

_SEARCH_EVERY_S = 5.0  # jobs last minutes; a search costs as much as a tick
_SEARCH_SHARE = 0.005  # of one core; a machine with thousands of groups is searched less often
_SELDOM_S = 1.0


class JobGroups:
    """All jobs that have control groups now, and what those count."""

    def __init__(
        self, groups: CgroupReader | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.groups = groups or CgroupReader()
        self._clock = clock
        self._known: dict[JobId, tuple[str, ...]] = {}
        self._readers: dict[JobId, _JobReader] = {}
        self._names: dict[JobId, tuple[str, ...]] = {}
        self._search_s = -math.inf  # when to look next

    def names(self) -> Mapping[JobId, tuple[str, ...]]:
        """Return what is read of each job: the same object until a job comes or goes."""
        now_s = self._clock()
        if now_s >= self._search_s:
            began_s = time.thread_time()
            self._search()
            cost_s = time.thread_time() - began_s
            self._search_s = now_s + max(_SEARCH_EVERY_S, cost_s / _SEARCH_SHARE)
        return self._names

    def read(self) -> list[float]:
        """Read all jobs once, in their order; a job that has just ended is NaN."""
        return [value for reader in self._readers.values() for value in reader.read()]

    def close(self) -> None:
        """Drop all readers, which closes their files; the next call of `names` finds them again."""
        self._readers, self._known, self._names = {}, {}, {}
        self._search_s = -math.inf

    def _search(self) -> None:
        found = self.groups.roots()
        if found == self._known:
            return
        hierarchies = self.groups.hierarchies()
        self._readers = {
            job: self._readers[job]
            if paths == self._known.get(job)
            else _JobReader([_folders(hierarchies, path) for path in paths], clock=self._clock)
            for job, paths in found.items()
        }
        self._known = found
        self._names = {job: reader.names for job, reader in self._readers.items()}


class _JobReader:
    """One job. Where it has several groups, their numbers are added up."""

    def __init__(self, groups: Sequence[Mapping[str, Path]], *, clock: Callable[[], float]) -> None:
        readers: list[HostReader] = []
        for folders in groups:
            readers += [
                often(folders),
                CachedReader(seldom(folders), every_s=_SELDOM_S, clock=clock),
            ]
        self._readers = readers
        each = [[name for block in reader.blocks for name in block.names] for reader in readers]
        self.names = tuple(dict.fromkeys(name for names in each for name in names))
        at = {name: i for i, name in enumerate(self.names)}
        self._places = [[at[name] for name in names] for names in each]

    def read(self) -> list[float]:
        values = [math.nan] * len(self.names)
        for reader, places in zip(self._readers, self._places, strict=True):
            for place, value in zip(places, reader.read(), strict=True):
                # NaN is not itself: the first value is taken, further ones are added
                values[place] = values[place] + value if values[place] == values[place] else value
        return values


def _folders(hierarchies: Mapping[str, Path], path: str) -> dict[str, Path]:
    """Return the folder of one group in each hierarchy that has it."""
    folders = {name: root / path.lstrip("/") for name, root in hierarchies.items()}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}
