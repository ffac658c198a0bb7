"""One run of the probes: loaded, told apart by job and disk, read, and taken off again."""

from __future__ import annotations

import platform
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.btf import Btf
from steward.clients.bpf.libraries import Libraries
from steward.clients.bpf.probes import Probes
from steward.clients.bpf.programs.shared import ProbeSet
from steward.clients.bpf.readings import Readings
from steward.clients.bpf.syscalls import Kernel
from steward.clients.cgroups import Cgroups, job_of

__all__ = ["Session"]

Values = NDArray[np.float64]

_CUDA = ("cuda", "cuda-launch")
_FULL_LOOK_S = 10.0  # so often is it checked who is gone
_SOONEST_S = 1.0  # so soon after a look is the next one, if somebody came
_MOST_OF_TIME = 0.01  # of one processor may go into walking over tasks
_IN_KERNEL = {"blkio": "io"}  # what the kernel calls a controller, where that is not its name


class Session:
    """Running probes. `jobs` and `disks` are those that have counters, as of the last `look`."""

    def __init__(
        self,
        kernel: Kernel,
        types: Btf,
        sets: tuple[ProbeSet, ...],
        *,
        cgroups: Cgroups,
        blocks: Path = Path("/sys/block"),
    ) -> None:
        self._cgroups = cgroups
        self._blocks = blocks
        self.hierarchy = cgroups.hierarchy()
        controller = _IN_KERNEL.get(self.hierarchy, self.hierarchy)
        known = types.enumerator("cgroup_subsys_id", f"{controller}_cgrp_id") is not None
        self.attributed = known or not controller
        self.probes = Probes(
            kernel,
            types,
            sets,
            controller=controller if known else "",
            machine=platform.machine(),
        )
        self._jobs, self._disks = Readings(self.probes.jobs), Readings(self.probes.disks)
        self.libraries = Libraries(self.probes, [n for n in self.probes.running if n in _CUDA])
        self._controller = controller
        self.node_columns, self.job_columns = self._columns()
        self._looked_s = self._walked_s = -1e9
        self._walk_took_s = 0.0
        self._slots_seen = -1
        self.probes.jobs.prepare(self._job_owners())

    @property
    def jobs(self) -> tuple[str, ...]:
        return self.probes.jobs.groups

    @property
    def disks(self) -> tuple[str, ...]:
        return self.probes.disks.groups

    @property
    def shape(self) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        """What decides which numbers there are."""
        return self.jobs, self.disks, len(self.node_columns)

    @property
    def node_words(self) -> tuple[str, ...]:
        return tuple(self._jobs.words[column] for column in self.node_columns)

    @property
    def job_words(self) -> tuple[str, ...]:
        return tuple(self._jobs.words[column] for column in self.job_columns)

    @property
    def disk_words(self) -> tuple[str, ...]:
        return self._disks.words

    def look(self, now_s: float) -> None:
        """Learn who came and went: at once when somebody took a slot, else from time to time."""
        slots = self.probes.notes()["new_slots"]
        waited_s = now_s - self._looked_s
        if waited_s < (_SOONEST_S if slots != self._slots_seen else _FULL_LOOK_S):
            return
        self._looked_s, self._slots_seen = now_s, slots
        self.probes.jobs.refresh(self._job_owners)
        self.probes.disks.refresh(self._disk_owners)
        self.node_columns, self.job_columns = self._columns()

    def moved(self) -> bool:
        """Say whether jobs are told apart in another hierarchy by now, so that a new run is due."""
        return self._cgroups.hierarchy() != self.hierarchy

    def read(self) -> tuple[Values, Values]:
        """Return a row per job and one for the node; a row per disk and one for all."""
        self._book_waits()
        return self._jobs.read(), self._disks.read()

    def close(self) -> None:
        self.probes.close()

    def _columns(self) -> tuple[list[int], list[int]]:
        """Return what can be known of a node and of a job now.

        Without a CUDA library, nobody knows how often it is called; and sockets know their v2 group
        only.
        """
        without = () if self.libraries.probed else ("cuda.", "nvtx.")
        words = enumerate(self._jobs.words)
        node = [column for column, word in words if not word.startswith(without)]
        hidden = ("tcp.",) if self._controller else ()
        return node, [each for each in node if not self._jobs.words[each].startswith(hidden)]

    def _book_waits(self) -> None:
        """Walk over all tasks, less often where there are so many that it takes long."""
        began_s = time.perf_counter()
        if began_s - self._walked_s < self._walk_took_s / _MOST_OF_TIME:
            return
        self.probes.book_waits()
        self._walked_s, self._walk_took_s = began_s, time.perf_counter() - began_s

    def _job_owners(self) -> dict[int, str | None]:
        return {inode: job_of(path) for inode, path in self._cgroups.ids().items()}

    def _disk_owners(self) -> dict[int, str | None]:
        found: dict[int, str | None] = {}
        for folder in self._blocks.iterdir():
            try:
                major, minor = (folder / "dev").read_text().split(":")
            except OSError:  # it was pulled out
                continue
            found[int(major) << 20 | int(minor)] = folder.name
        return found
