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
from steward.clients.bpf.programs.shared import DISK, ProbeSet
from steward.clients.bpf.readings import Readings
from steward.clients.bpf.syscalls import Kernel
from steward.clients.cgroups import CgroupReader, job_of

__all__ = ["Session"]

Values = NDArray[np.float64]
Part = tuple[str, tuple[str, ...]]

_CUDA = ("cuda", "cuda-launch")
_FULL_LOOK_S = 10.0  # so often is it checked who is gone
_SOONEST_S = 1.0  # so soon after a look is the next one, if somebody came
_MOST_OF_TIME = 0.005  # of one processor may go into walking over tasks
_IN_KERNEL = {"blkio": "io"}  # what the kernel calls a controller, where that is not its name


class Session:
    """Running probes. `parts` says what is read, as of the last `look`.

    A part is the end of an entity's name (`@812`, `/disk:vda`, nothing for the node) and the names
    of its numbers. It is the same object until somebody comes or goes.
    """

    def __init__(
        self,
        kernel: Kernel,
        types: Btf,
        sets: tuple[ProbeSet, ...],
        *,
        cgroups: CgroupReader,
        places: int,
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
            places=places,
        )
        self.libraries = Libraries(self.probes, [n for n in self.probes.running if n in _CUDA])
        self._controller = controller
        self._readings = Readings(self.probes.rows)
        self._looked_s = self._walked_s = -1e9
        self._walk_took_s = 0.0
        self._slots_seen = -1
        self.parts: tuple[Part, ...] = ()
        self._places: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.probes.rows.prepare(self._owners())
        self._arrange()

    def look(self, now_s: float) -> None:
        """Learn who came and went: at once when somebody took a slot, else from time to time."""
        slots = self.probes.note("new_slots")
        waited_s = now_s - self._looked_s
        if waited_s < (_SOONEST_S if slots != self._slots_seen else _FULL_LOOK_S):
            return
        self._looked_s, self._slots_seen = now_s, slots
        self.probes.rows.refresh(self._owners)
        self._arrange()

    def moved(self) -> bool:
        """Say whether jobs are told apart in another hierarchy by now, so that a new run is due."""
        return self._cgroups.hierarchy() != self.hierarchy

    def read(self, into: Values, now_s: float) -> None:
        """Write the numbers of all parts, in order."""
        self._book_waits(now_s)
        self._readings.read(now_s).take(self._places, out=into)

    def close(self) -> None:
        self.probes.close()

    # -- inside ----------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Work out who has which numbers, and where they are; `parts` stays what it is if it can.

        Without a CUDA library, nobody knows how often it is called; sockets know their v2 group
        only; disks have their own numbers and nothing else.
        """
        words = self._readings.words
        unknown = () if self.libraries.probed else ("cuda.", "nvtx.")
        node = _columns(words, without=(*unknown, "block."))
        job = _columns(
            words, without=(*unknown, "block.", *(("tcp.",) if self._controller else ()))
        )
        disk = [column for column, word in enumerate(words) if word.startswith("block.")]
        groups = self.probes.rows.groups
        columns = [*(disk if group.startswith("/") else job for group in groups), node]
        parts = tuple(
            (group, tuple(words[column] for column in have))
            for group, have in zip((*groups, ""), columns, strict=True)
        )
        if parts != self.parts:
            self.parts = parts
            self._places = np.array(
                [row * len(words) + column for row, have in enumerate(columns) for column in have],
                dtype=np.int64,
            )

    def _book_waits(self, now_s: float) -> None:
        """Walk over all tasks, less often where there are so many that it takes long."""
        if now_s - self._walked_s < self._walk_took_s / _MOST_OF_TIME:
            return
        began_s = time.thread_time()  # of a processor: while others have it, nothing is spent
        self.probes.book_waits()
        self._walked_s, self._walk_took_s = now_s, time.thread_time() - began_s

    def _owners(self) -> dict[int, str | None]:
        """Return to which part each cgroup and disk belongs."""
        jobs = ((inode, job_of(path)) for inode, path in self._cgroups.ids().items())
        found = {inode: None if job is None else f"@{job}" for inode, job in jobs}
        for folder in self._blocks.iterdir():
            try:
                major, minor = (folder / "dev").read_text().split(":")
            except OSError:  # it was pulled out
                continue
            found[DISK | int(major) << 20 | int(minor)] = f"/disk:{folder.name}"
        return found


def _columns(words: tuple[str, ...], *, without: tuple[str, ...]) -> list[int]:
    return [column for column, word in enumerate(words) if not word.startswith(without)]
