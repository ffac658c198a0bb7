"""Reads what the jobs of this machine use, from their control groups."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steward.clients.cgroups import CgroupReader
from steward.clients.host import hostname
from steward.clients.linux.jobs import JobGroups
from steward.model.event import Availability, Observation
from steward.model.identity import JobId, NodeId
from steward.model.layout import Block, Layout

__all__ = ["Cgroups"]


class Cgroups:
    """Processor time, memory, disks, faults and pressure of each job on this machine.

    Jobs are those of Slurm, pods of Kubernetes, containers, and scopes called `steward-job-X`.
    `node` is what the machine is called; empty means its own host name. `root` is where a container
    has the control groups of its host.
    """

    name = "cgroups"
    vocabulary = "linux"

    def __init__(
        self, *, node: str = "", root: str = "/sys/fs/cgroup", jobs: JobGroups | None = None
    ) -> None:
        self.node = NodeId(node or hostname())
        self._jobs = jobs or JobGroups(CgroupReader(Path(root)))
        self._names: Mapping[JobId, tuple[str, ...]] = {}
        self._layout = Layout(blocks=())

    def available(self) -> Availability:
        hierarchies = self._jobs.groups.hierarchies()
        if not hierarchies:
            return Availability(
                status="missing",
                reason=f"there are no control groups in {self._jobs.groups.root}",
                hint="in a container, mount /sys/fs/cgroup of the host",
            )
        kind = "v2" if set(hierarchies) == {""} else "hybrid" if "" in hierarchies else "v1"
        count = len(self._jobs.groups.roots())
        return Availability(status="ok", reason=f"cgroup {kind}, {count} jobs now")

    def layout(self) -> Layout:
        names = self._jobs.names()
        if names is not self._names:
            self._names = names
            self._layout = Layout(
                blocks=tuple(
                    Block(entity=f"{self.node}@{job}", names=columns)
                    for job, columns in names.items()
                )
            )
        return self._layout

    def sample(self, into: NDArray[np.float64]) -> None:
        into[:] = self._jobs.read()

    def collect(self, t_s: float) -> Observation:  # noqa: ARG002 - the port's signature
        """Return nothing: control groups have samples only."""
        return Observation()

    def close(self) -> None:
        """Close the files of all control groups."""
        self._jobs.close()
