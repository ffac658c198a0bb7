"""What jobs can have on this machine: GPUs by UUID, or CPU slots; and who else is on the GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from steward.clients.host import hostname
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.nvml import Driver, DriverMissingError, GpuLostError, shared_registry
from steward.clients.nvml.processes import GpuProcesses
from steward.clients.processes import ProcessTable, user_name
from steward.model.cluster import Gpu, GpuModel, Node
from steward.model.identity import GpuId, NodeId

__all__ = ["SLOT_MODEL", "ForeignProcess", "JobDevices"]

SLOT_MODEL = GpuModel(name="cpu-slot", generation="", memory_bytes=0, idle_watts=0.0, max_watts=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProcess:
    """A process on a GPU that belongs to no job of ours."""

    pid: int
    gpu: GpuId
    name: str
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDevices:
    """GPUs and CPU slots of one node."""

    node: NodeId
    uuids: Mapping[GpuId, str] = field(default_factory=dict)
    models: Mapping[GpuId, str] = field(default_factory=dict)
    slots: tuple[Gpu, ...] = ()
    driver: Driver | None = None

    @classmethod
    def find(cls, *, slots: int | None = None, node: str = "") -> JobDevices:
        """Look for GPUs; `slots` is by default the number of cores where there is none."""
        name = NodeId(node or hostname())
        driver, found = _gpus()
        ids = {GpuId(f"{name}/gpu{index}"): (uuid, model) for index, uuid, model in found}
        default = 0 if ids else len(os.sched_getaffinity(0))
        count = default if slots is None else slots
        return cls(
            node=name,
            uuids={id_: uuid for id_, (uuid, _) in ids.items()},
            models={id_: model for id_, (_, model) in ids.items()},
            slots=tuple(_slot(name, index) for index in range(count)),
            driver=driver,
        )

    def slot_node(self) -> Node:
        """Return the node with its slots; its GPUs are the driver's to report."""
        return Node(id=self.node, gpus=self.slots, cpus=os.cpu_count() or 0)

    def memory(self, gpu: GpuId) -> dict[int, int]:
        """Return the processes on a GPU with what each has there in bytes, 0 where unknown."""
        if self.driver is None or gpu not in self.uuids:
            return {}
        with suppress(GpuLostError, DriverMissingError):
            found = GpuProcesses(self.driver.library, _index(gpu)).read()
            return {each.pid: int(each.memory_used_bytes or 0) for each in found}
        return {}

    def is_lost(self, gpu: GpuId) -> bool:
        """Return whether the driver says that a GPU is gone; a slot never is."""
        if self.driver is None or gpu not in self.uuids:
            return False
        try:
            self.driver.device(_index(gpu))
        except GpuLostError:
            return True
        except DriverMissingError:
            return False  # nobody can tell
        return False

    def foreign(self, folder: Path) -> Iterator[ForeignProcess]:
        """Return the processes on GPUs that are in no attempt below `folder`."""
        engine = LocalEngine(folder)
        table = ProcessTable()
        for gpu in self.uuids if self.driver is not None else ():
            with suppress(GpuLostError, DriverMissingError):
                for pid in self.driver.pids(_index(gpu)) if self.driver is not None else ():
                    if not engine.owns(pid):
                        known = table.one(pid)
                        name = known.name if known is not None else f"pid {pid}"
                        yield ForeignProcess(pid=pid, gpu=gpu, name=name, user=_owner(pid))


def _gpus() -> tuple[Driver | None, list[tuple[int, str, str]]]:
    try:
        driver = shared_registry().acquire().driver
        count = driver.count()
    except DriverMissingError:
        return None, []
    found = []
    for index in range(count):
        with suppress(GpuLostError):
            device = driver.device(index)
            found.append((index, device.uuid, device.name))
    return driver, found


def _index(gpu: GpuId) -> int:
    return int(gpu.rpartition("gpu")[2])


def _slot(node: NodeId, index: int) -> Gpu:
    return Gpu(id=GpuId(f"{node}/cpu{index}"), node=node, index=1000 + index, model=SLOT_MODEL)


def _owner(pid: int) -> str:
    with suppress(OSError):
        return user_name(Path(f"/proc/{pid}").stat().st_uid)
    return ""
