"""Reads the NVIDIA GPUs of this machine: use, counters, power, damage, and processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from steward.clients.cgroups import CgroupReader, job_of
from steward.clients.host import hostname
from steward.clients.nvml import (
    SWITCH,
    Device,
    DriverMissingError,
    DriverProcess,
    GpuLostError,
    GpuRegistry,
    SamplingPlan,
    Slice,
    shared_registry,
)
from steward.model.cluster import Cluster, Gpu, GpuModel, Health, Node
from steward.model.event import Availability, Event, Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_frame, share_entity
from steward.model.identity import GpuId, JobId, NodeId
from steward.model.layout import Block, Layout

__all__ = ["JobOfPid", "Nvml"]

# NVML has no figure for idle power. An H200 whose memory is held was measured at 121 W of
# its 700 W; the loop measures each GPU while it is quiet and needs this only until then.
IDLE_PER_MAX_WATTS = 121 / 700

Row = dict[str, float | str | None]


class JobOfPid(Protocol):
    """Returns the job of a process, or None."""

    def __call__(self, pid: int, /) -> JobId | None: ...


class Nvml:
    """NVIDIA GPUs of this machine: their samples at every tick, and their processes each turn.

    `node` is what the machine is called; empty means its own host name.
    """

    name = "nvml"
    vocabulary = "nvml"

    def __init__(
        self,
        *,
        node: str = "",
        registry: GpuRegistry | None = None,
        job_of_pid: JobOfPid | None = None,
        borrower_of_pid: JobOfPid | None = None,
    ) -> None:
        self.node = NodeId(node or hostname())
        self._registry = (registry or shared_registry()).acquire()
        self._driver = self._registry.driver
        self._closed = False
        self._job_of_pid = job_of_pid or _job_by_cgroup()
        self._borrower_of_pid = borrower_of_pid or CgroupReader().borrower_of_pid
        self._layout = Layout(blocks=())
        self._plan: SamplingPlan | None = None
        self._announced: set[int] = set()  # lost GPUs that were reported
        self._last_devices: dict[int, Device] = {}
        self._missing = False

    # -- for the doctor ------------------------------------------------------------------------

    def available(self) -> Availability:
        try:
            count = self._driver.count()
        except DriverMissingError as fault:
            return Availability(status="missing", reason=fault.problem, hint=fault.hint)
        if not count:
            return Availability(
                status="missing",
                reason=f"the driver ({self._driver.version()}) shows no GPU",
                hint="pass the devices into this container, or look at `nvidia-smi -L`",
            )
        return self._state_of(range(count))

    def _state_of(self, indices: Iterable[int]) -> Availability:
        devices, lost = [], []
        for index in indices:
            try:
                devices.append(self._driver.device(index))
            except GpuLostError as fault:
                lost.append(fault)
        names = ", ".join(sorted({device.name for device in devices}))
        counters = devices and all(device.has_counters for device in devices)
        reason = f"{len(devices)} GPUs ({names}), {self._driver.version()}"
        reason += ", with hardware counters" if counters else ", without hardware counters"
        if lost:
            reason = f"{reason}; {'; '.join(fault.problem for fault in lost)}"
            return Availability(status="limited", reason=reason, hint=lost[0].hint)
        return Availability(status="ok", reason=reason)

    # -- every tick ----------------------------------------------------------------------------

    def layout(self) -> Layout:
        if self._plan is None:
            self._first_look()
        plan = self._registry.plan()
        if plan is not self._plan:
            self._plan = plan
            blocks = tuple(
                Block(entity=self._entity(meter.of, plan.numbers), names=meter.names)
                for meter in plan.meters.meters
            )
            if blocks != self._layout.blocks:
                self._layout = Layout(blocks=blocks)
        return self._layout

    def sample(self, into: NDArray[np.float64]) -> None:
        self._registry.read(into)

    def _first_look(self) -> None:
        try:
            self._registry.refresh()
        except DriverMissingError:
            return  # `collect` reports it, once, and retries

    # -- every turn ----------------------------------------------------------------------------

    def collect(self, t_s: float) -> Observation:
        try:
            self._registry.refresh()
        except DriverMissingError as fault:
            return self._without_driver(fault, t_s)
        self._missing = False
        rows = [row for number in self._registry.indices() for row in self._shares(number, t_s)]
        events, health = self._changes(t_s)
        return Observation(
            frame=_frame(rows),
            events=(*events, *self._xids(t_s)),
            cluster=self._new_cluster(),
            health=health,
        )

    def close(self) -> None:
        """Release the driver; NVML is shut down when nothing else uses it."""
        if not self._closed:
            self._closed = True
            self._registry.release()

    def _without_driver(self, fault: DriverMissingError, t_s: float) -> Observation:
        """Report once that there is nothing to read; retry each turn."""
        reported, self._missing = self._missing, True
        if reported:
            return Observation()
        event = Event(
            t_s=t_s,
            kind="collector.missing",
            subject=self.node,
            text=f"{fault.problem}; {fault.hint}",
            source=self.name,
        )
        unknown = {self._gpu_id(number): Health.UNKNOWN for number in self._registry.devices}
        return Observation(events=(event,), health=unknown)

    def _changes(self, t_s: float) -> tuple[list[Event], dict[GpuId, Health]]:
        """Return events for GPUs that were lost or came back since the last turn."""
        lost = self._registry.lost
        new = sorted(set(lost) - self._announced)
        back = sorted(self._announced - set(lost))
        self._announced = set(lost)
        events = [self._event(t_s, "gpu.failed", number, lost[number]) for number in new]
        events += [self._event(t_s, "gpu.repaired", number, "it answers again") for number in back]
        health = {self._gpu_id(number): Health.BAD for number in new}
        return events, health | {self._gpu_id(number): Health.GOOD for number in back}

    def _xids(self, t_s: float) -> list[Event]:
        events = []
        for number, xid in self._registry.xids():
            where = "" if xid.gpu_instance is None else f" in slice {xid.gpu_instance}"
            events.append(self._event(t_s, "gpu.xid", number, f"XID {xid.code}{where}"))
        return events

    def _shares(self, number: int, t_s: float) -> list[Row]:
        """Return what each job has of a GPU, or of a slice; a process of no job is one itself."""
        try:
            processes = self._registry.processes(number)
        except GpuLostError:
            return []  # the next tick or turn finds it lost
        whole = self._gpu_id(number)
        parts: dict[str, list[DriverProcess]] = {}
        for process in processes:
            part = process.gpu_instance
            gpu = whole if part is None else GpuId(f"{whole}/mig{part}")
            job = self._job_of_pid(process.pid) or JobId(f"pid:{process.pid}")
            owner = parts.setdefault(share_entity(gpu, job), [])
            borrower = self._borrower_of_pid(process.pid)
            own = owner if borrower is None else parts.setdefault(share_entity(gpu, borrower), [])
            own.append(process)
        return [{T_S: t_s, ENTITY: entity, **_share(each)} for entity, each in parts.items()]

    def _entity(self, of: int | Slice, numbers: Mapping[int, int]) -> str:
        if isinstance(of, Slice):
            return f"{self._gpu_id(numbers[of.gpu])}/mig{of.id}"
        return self._gpu_id(numbers[of])

    def _gpu_id(self, number: int) -> GpuId:
        return GpuId(f"{self.node}/gpu{number}")

    def _event(self, t_s: float, kind: str, number: int, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=self._gpu_id(number), text=text, source=self.name)

    def _new_cluster(self) -> Cluster | None:
        """Return the hardware if it has changed since it was last reported."""
        devices = dict(sorted(self._registry.devices.items()))
        if devices == self._last_devices:
            return None
        self._last_devices = devices
        domains = _domains(self.node, devices)
        gpus = tuple(
            Gpu(
                id=self._gpu_id(number),
                node=self.node,
                index=number,
                model=_model(device),
                nvlink_domain=domains.get(number, ""),
                uuid=device.uuid,
            )
            for number, device in devices.items()
        )
        return Cluster(id=self.node, nodes=(Node(id=self.node, gpus=gpus),))


def _job_by_cgroup() -> JobOfPid:
    groups = CgroupReader()
    return lambda pid: job_of(groups.of_pid(pid))


def _model(device: Device) -> GpuModel:
    return GpuModel(
        name=device.name,
        generation=device.generation,
        memory_bytes=device.memory_bytes,
        idle_watts=round(device.max_watts * IDLE_PER_MAX_WATTS, 1),
        max_watts=device.max_watts,
        least_watts=device.least_watts,
    )


def _domains(node: str, devices: Mapping[int, Device]) -> dict[int, str]:
    """Return the groups of GPUs that NVLink connects, by switches or directly."""
    of = {i: i for i in devices}
    by_bus = {device.bus_id: i for i, device in devices.items()}
    switched = [i for i, device in devices.items() if SWITCH in device.peers]
    pairs = [(i, switched[0]) for i in switched]
    pairs += [
        (i, by_bus[bus_id])
        for i, device in devices.items()
        for bus_id in device.peers
        if bus_id in by_bus
    ]
    for a, b in pairs:
        low, high = sorted((of[a], of[b]))
        of = {i: low if domain == high else domain for i, domain in of.items()}
    return {i: f"{node}/nvlink{of[i]}" for i, device in devices.items() if device.peers}


def _share(processes: Iterable[DriverProcess]) -> dict[str, float | None]:
    """Add up what the processes of one job have; what has no value stays unknown.

    A job without any has nothing of a GPU that it has lent.
    """
    known = list(processes)
    if not known:
        return {"process.sm_util": 0.0, "process.used_memory": 0.0}
    busy = [each.busy_percent for each in known if each.busy_percent is not None]
    used = [each.memory_used_bytes for each in known if each.memory_used_bytes is not None]
    return {
        "process.sm_util": min(100.0, sum(busy)) if busy else None,
        "process.used_memory": sum(used) if used else None,
    }


def _frame(rows: list[Row]) -> Frame:
    if not rows:
        return empty_frame()
    names = ("process.sm_util", "process.used_memory")
    schema = {T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(names, pl.Float64)}
    return pl.DataFrame(rows, schema=schema)
