"""Reads the counters of the processors: how much work a cycle does, and what it waits for."""

from __future__ import annotations

import errno
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.cgroups import UNIFIED, CgroupReader
from steward.clients.host import hostname
from steward.clients.linux.files import CachedReader
from steward.clients.perf import HARDWARE, SOFTWARE, PerfCounters, PerfKernel, PerfSyscalls, online
from steward.errors import StewardError
from steward.model.event import Availability, Observation
from steward.model.identity import JobId, NodeId
from steward.model.layout import Block, Layout

__all__ = ["Perf"]

# The node's context switches and processor time are in /proc already, and cost less there.
_NODE = (*HARDWARE, "cpu-migrations", "page-faults-min")
_JOB = (*HARDWARE, *SOFTWARE)
_RATIOS = (
    ("ipc", "instructions", "cycles"),
    ("cache-miss-ratio", "cache-misses", "cache-references"),
    ("branch-miss-ratio", "branch-misses", "branches"),
    ("stall-frontend-ratio", "stalled-cycles-frontend", "cycles"),
    ("stall-backend-ratio", "stalled-cycles-backend", "cycles"),
)
_KEPT = ("cycles", "instructions", *SOFTWARE)  # the others matter only as parts of a ratio
_EVERY_S = 1.0  # reading another core's counters interrupts that core
_SEARCH_EVERY_S = 5.0
_REFUSED = (errno.EACCES, errno.EPERM)


class Perf:
    """Instructions per cycle, cache and branch misses, stalls, migrations and faults.

    `jobs` counts each job's part too, where its control group is one that perf can follow; every
    switch between jobs then costs a little more. `node` is what the machine is called; empty means
    its own host name. `root` is where a container has the control groups of its host.
    """

    name = "perf"
    vocabulary = "perf"

    def __init__(
        self,
        *,
        node: str = "",
        jobs: bool = False,
        root: str = "/sys/fs/cgroup",
        kernel: PerfKernel | None = None,
    ) -> None:
        self.node = NodeId(node or hostname())
        self._jobs = jobs
        self._kernel = kernel or PerfSyscalls()
        self._groups = CgroupReader(Path(root))
        self._search_s = -math.inf
        self._cpus: tuple[int, ...] = ()
        self._folders: dict[JobId, Path] = {}
        self._counters: dict[str, PerfCounters] = {}
        self._readers: dict[str, CachedReader] = {}
        self._fault: StewardError | None = None
        self._layout = Layout(blocks=())

    def available(self) -> Availability:
        tried = PerfCounters(_NODE, (online()[0],), kernel=self._kernel)
        tried.close()
        if not tried.refused:
            return Availability(status="ok", reason=f"{len(tried.events)} events on each core")
        fault = next(iter(tried.refused.values()))
        status = "limited" if tried.events else "missing"
        return Availability(status=status, reason=_why(tried), hint=_hint(fault))

    def layout(self) -> Layout:
        now_s = self._kernel.now_s()
        if now_s >= self._search_s:
            self._search_s = now_s + _SEARCH_EVERY_S
            try:
                self._search()
                self._fault = None
            except StewardError as fault:
                self._fault = fault
        if self._fault is not None:
            raise self._fault
        return self._layout

    def sample(self, into: NDArray[np.float64]) -> None:
        into[:] = [value for reader in self._readers.values() for value in reader.read()]

    def collect(self, t_s: float) -> Observation:  # noqa: ARG002 - the port's signature
        """Return nothing: these counters are samples only."""
        return Observation()

    def close(self) -> None:
        """Close all counters; the next layout opens them again."""
        for counters in self._counters.values():
            counters.close()
        self._counters, self._readers = {}, {}
        self._cpus, self._folders = (), {}
        self._search_s = -math.inf
        self._layout = Layout(blocks=())

    def _search(self) -> None:
        """Open what is there to be counted; all anew where cores came or went."""
        cpus, folders = online(), self._job_folders() if self._jobs else {}
        if cpus == self._cpus and folders == self._folders:
            return
        wanted = {str(self.node): None, **{f"{self.node}@{job}": folders[job] for job in folders}}
        gone = set(self._counters) if cpus != self._cpus else set(self._counters) - set(wanted)
        for entity in gone:
            self._counters.pop(entity).close()
            del self._readers[entity]
        self._cpus, self._folders = (), {}  # until all of them are open
        for entity, folder in wanted.items():
            if entity not in self._counters:
                self._open(entity, folder, cpus)
        self._cpus, self._folders = cpus, folders
        self._layout = Layout(
            blocks=tuple(block for each in self._readers.values() for block in each.blocks)
        )

    def _open(self, entity: str, folder: Path | None, cpus: tuple[int, ...]) -> None:
        events = _NODE if folder is None else _JOB
        try:
            counters = PerfCounters(events, cpus, kernel=self._kernel, cgroup=folder)
        except FileNotFoundError:
            return  # the job has ended meanwhile
        self._counters[entity] = counters
        reader = _Counted(counters, entity=entity, scope="" if folder is None else "job.")
        self._readers[entity] = CachedReader(reader, every_s=_EVERY_S, clock=self._kernel.now_s)

    def _job_folders(self) -> dict[JobId, Path]:
        """Return where perf can follow each job: v1's own hierarchy, or v2."""
        hierarchies = self._groups.hierarchies()
        roots = [hierarchies[name] for name in ("perf_event", UNIFIED) if name in hierarchies]
        found: dict[JobId, Path] = {}
        for job, paths in self._groups.roots().items():
            folders = [root / path.lstrip("/") for root in roots for path in paths]
            found.update((job, folder) for folder in folders[::-1] if folder.is_dir())
        return found


class _Counted:
    """Counts and ratios of one node or job; ratios are those since the last reading."""

    changed = False

    def __init__(self, counters: PerfCounters, *, entity: str, scope: str) -> None:
        self._counters = counters
        events = set(counters.events)
        self._kept = [event for event in counters.events if event in _KEPT]
        self._ratios = [each for each in _RATIOS if {each[1], each[2]} <= events]
        self._before: Mapping[str, float] = dict.fromkeys(events, math.nan)
        names = [f"{event}/s" for event in self._kept] + [each[0] for each in self._ratios]
        self.blocks = (Block(entity=entity, names=tuple(scope + name for name in names)),)

    def read(self) -> list[float]:
        now = self._counters.totals()
        before, self._before = self._before, now
        grown = {event: now[event] - before[event] for event in now}
        return [
            *(now[event] for event in self._kept),
            *(
                grown[part] / grown[whole] if grown[whole] > 0 else math.nan
                for _, part, whole in self._ratios
            ),
        ]


def _why(tried: PerfCounters) -> str:
    codes = {fault.errno for fault in tried.refused.values()}
    works = f"; counted: {', '.join(tried.events)}" if tried.events else ""
    if codes & set(_REFUSED):
        return f"the kernel does not let this user count what all cores do{works}"
    if codes == {errno.ENOSYS}:
        return "this kernel has no perf_event_open"
    if set(HARDWARE) <= set(tried.refused):
        return f"no hardware counters (a virtual machine?){works}"
    return f"this processor does not count {', '.join(tried.refused)}"


def _hint(fault: OSError) -> str:
    if fault.errno in _REFUSED:
        return "sysctl kernel.perf_event_paranoid=0, or run with CAP_PERFMON"
    if fault.errno == errno.ENOSYS:
        return "in a container, allow the system call in its seccomp profile"
    return "on a virtual machine, enable a virtual PMU in the hypervisor"
