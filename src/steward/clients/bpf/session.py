"""One run of the probes: loaded, read by job and disk, and unloaded again."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.bpf.counter_reader import CounterReader
from steward.clients.bpf.cuda_libraries import CudaLibraries
from steward.clients.bpf.loader import KernelTypes, Loader
from steward.clients.bpf.probe_sets import ProbeSet
from steward.clients.bpf.probes import Probes
from steward.clients.cgroups import CgroupReader, job_of

__all__ = ["Session"]

Values = NDArray[np.float64]
Part = tuple[str, tuple[str, ...]]

_REFRESH_S = 10.0  # so often is it checked which owners are gone
_REFRESH_SOONEST_S = 1.0  # so soon after a refresh is the next one, if an owner took a slot
_MAX_COUNTING_SHARE = 0.005  # of one processor may go into counting waits that last
_IN_KERNEL = {"blkio": "io"}  # the kernel's name of a controller, where it differs
_DISK = 1 << 62  # OWNER_IS_DISK of `counters.h`


class Session:
    """Running probes. `parts` is what is read, as of the last `refresh`.

    A part is the end of an entity's name (`@812`, `/disk:vda`, empty for the node) and the names
    of its numbers. It is the same object until a job or disk comes or goes.
    """

    def __init__(
        self,
        loader: Loader,
        types: KernelTypes,
        sets: tuple[ProbeSet, ...],
        *,
        cgroups: CgroupReader,
        max_groups: int,
        blocks: Path = Path("/sys/block"),
    ) -> None:
        self._cgroups = cgroups
        self._blocks = blocks
        self.hierarchy = cgroups.hierarchy()
        controller = types.controllers.get(_IN_KERNEL.get(self.hierarchy, self.hierarchy), -1)
        self.attributed = controller >= 0 or not self.hierarchy
        self.probes = Probes(loader, types, sets, controller=controller, slots=max_groups)
        self.libraries = CudaLibraries(self.probes)
        self._reader = CounterReader(self.probes.table)
        self._refreshed_s = self._counted_s = -1e9
        self._counting_took_s = 0.0
        self._slots_seen = -1
        self.parts: tuple[Part, ...] = ()
        self._places: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.probes.table.reserve_shared(self._owners())
        self._arrange()

    def refresh(self, now_s: float) -> None:
        """Update jobs and disks: soon after an owner took a slot, else from time to time."""
        slots = self.probes.note("new_slots")
        waited_s = now_s - self._refreshed_s
        if waited_s < (_REFRESH_SOONEST_S if slots != self._slots_seen else _REFRESH_S):
            return
        self._refreshed_s, self._slots_seen = now_s, slots
        self.probes.table.refresh(self._owners)
        self._arrange()

    def is_outdated(self) -> bool:
        """Return True if jobs are in another hierarchy by now, so that a new session is due."""
        return self._cgroups.hierarchy() != self.hierarchy

    def read(self, into: Values, now_s: float) -> None:
        """Write the numbers of all parts, in order."""
        self._count_waits(now_s)
        self._reader.read(now_s).take(self._places, out=into)

    def close(self) -> None:
        self.probes.close()

    # -- inside ----------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Compute which numbers each part has, and where they are.

        Without a CUDA library the number of its calls is unknown, not 0; sockets have their v2
        group only; disks have their own numbers and nothing else. `parts` is kept if unchanged.
        """
        names = self._reader.names
        counted = tuple(prefix for each in self.probes.running for prefix in each.counters)
        unknown = () if self.libraries.probed else ("cuda.", "nvtx.")
        of_jobs = (*unknown, "block.", *(("tcp.",) if self.hierarchy else ()))
        node = _columns(names, counted, without=(*unknown, "block."))
        job = _columns(names, counted, without=of_jobs)
        disk = [column for column, name in enumerate(names) if name.startswith("block.")]
        groups = self.probes.table.groups
        columns = [*(disk if group.startswith("/") else job for group in groups), node]
        parts = tuple(
            (group, tuple(names[column] for column in have))
            for group, have in zip((*groups, ""), columns, strict=True)
        )
        if parts != self.parts:
            self.parts = parts
            self._places = np.array(
                [row * len(names) + column for row, have in enumerate(columns) for column in have],
                dtype=np.int64,
            )

    def _count_waits(self, now_s: float) -> None:
        """Count waits that last, less often where there are so many tasks that it takes long."""
        if now_s - self._counted_s < self._counting_took_s / _MAX_COUNTING_SHARE:
            return
        began_s = time.thread_time()
        self.probes.count_ongoing_waits()
        self._counted_s, self._counting_took_s = now_s, time.thread_time() - began_s

    def _owners(self) -> dict[int, str | None]:
        """Return the part that each cgroup and disk belongs to."""
        jobs = ((inode, job_of(path)) for inode, path in self._cgroups.ids().items())
        found = {inode: None if job is None else f"@{job}" for inode, job in jobs}
        for folder in self._blocks.iterdir():
            try:
                major, minor = (folder / "dev").read_text().split(":")
            except OSError:  # it was pulled out
                continue
            found[_DISK | int(major) << 20 | int(minor)] = f"/disk:{folder.name}"
        return found


def _columns(
    names: tuple[str, ...], prefixes: tuple[str, ...], *, without: tuple[str, ...]
) -> list[int]:
    return [
        column
        for column, name in enumerate(names)
        if name.startswith(prefixes) and not name.startswith(without)
    ]
