"""Finds the entity of a line: a GPU by its place on the bus, a job by its process, a disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steward.clients.cgroups import CgroupReader, job_of
from steward.clients.host import hostname
from steward.clients.nvml import shared_registry
from steward.model.frame import job_entity
from steward.model.rules import syslog_host
from steward.observe.lines.kernel_patterns import KernelMatch

__all__ = ["EntityResolver"]


class EntityResolver:
    """The things of one machine that its lines can be about."""

    def __init__(
        self,
        node: str,
        *,
        cgroups: CgroupReader | None = None,
        gpu_at: Callable[[str], int | None] | None = None,
    ) -> None:
        self.node = node
        self._cgroups = cgroups or CgroupReader()
        self._gpu_at = gpu_at or shared_registry().number_at
        self._hostname = hostname()
        self._no_gpu: set[str] = set()  # places on the bus where there is no GPU

    def look_again(self) -> None:
        """Clear the cache of failed lookups: a driver may have been loaded since."""
        self._no_gpu.clear()

    def of(self, match: KernelMatch) -> str:
        """Return the entity that a line is about: the node where it names nothing smaller."""
        groups = match.groups
        if "bus" in groups:
            return self._at(groups["bus"])
        if match.kind.startswith("process."):
            return self._job(groups) or self.node
        for part, form in (("disk", "disk:{}"), ("net", "net:{}"), ("switch", "nvswitch{}")):
            if part in groups:
                return f"{self.node}/{form.format(groups[part])}"
        return self.node

    def is_of_another_host(self, line: str) -> bool:
        """Return True if a line of syslog names a host that is not this machine."""
        host = syslog_host(line.encode("utf-8", "replace")).partition(".")[0]
        return bool(host) and host not in (self.node.partition(".")[0], self._hostname)

    def owner(self, cgroup: str) -> str:
        """Return whose a line is that a process of a control group wrote: a job, or the node."""
        job = job_of(cgroup)
        return job_entity(job) if job else self.node

    def _at(self, bus_id: str) -> str:
        """Return the GPU at a place on the bus, also after it has fallen off; else the node."""
        number = None if bus_id in self._no_gpu else self._gpu_at(bus_id)
        if number is None:
            self._no_gpu.add(bus_id)
            return self.node
        return f"{self.node}/gpu{number}"

    def _job(self, groups: Mapping[str, str]) -> str:
        path = groups.get("cgroup", "")
        if not job_of(path) and "pid" in groups:
            path = self._cgroups.of_pid(int(groups["pid"]))
        job = job_of(path)
        return job_entity(job) if job else ""
