"""Finds whom a line is about: a GPU by its place on the bus, a job by its process, a disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steward.clients.cgroups import CgroupReader, job_of
from steward.clients.logs.bus_ids import gpu_indices, short_bus_id
from steward.model.frame import job_entity
from steward.observe.lines.kernel_patterns import KernelMatch

__all__ = ["EntityResolver"]


class EntityResolver:
    """The things of one machine that its lines can be about."""

    def __init__(
        self,
        node: str,
        *,
        cgroups: CgroupReader | None = None,
        gpus: Callable[[], Mapping[str, int]] = gpu_indices,
    ) -> None:
        self.node = node
        self._cgroups = cgroups or CgroupReader()
        self._read_gpus = gpus
        self._gpus: dict[str, int] = {}
        self._strangers: set[str] = set()  # places that are no GPU's

    def look_again(self) -> None:
        """Forget what was not found: a driver may have been loaded since."""
        self._strangers.clear()

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

    def owner(self, cgroup: str) -> str:
        """Return whose a line is that a process of a control group wrote: a job, or the node."""
        job = job_of(cgroup)
        return job_entity(job) if job else self.node

    def _at(self, bus_id: str) -> str:
        """Name the GPU at a place; one that was known is known after it has fallen off the bus."""
        place = short_bus_id(bus_id)
        if place not in self._gpus and place not in self._strangers:
            self._gpus.update(self._read_gpus())
            self._strangers.add(place)
        return f"{self.node}/gpu{self._gpus[place]}" if place in self._gpus else self.node

    def _job(self, groups: Mapping[str, str]) -> str:
        path = groups.get("cgroup", "")
        if not job_of(path) and "pid" in groups:
            path = self._cgroups.of_pid(int(groups["pid"]))
        job = job_of(path)
        return job_entity(job) if job else ""
