"""Reads the NVIDIA GPUs of this machine: use, memory, power, clocks, and who uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from steward.clients.host import hostname
from steward.clients.nvml import (
    SWITCH,
    Device,
    Driver,
    DriverMissingError,
    DriverProcess,
    GpuLostError,
    GpuReading,
)
from steward.model.cluster import Cluster, Gpu, GpuModel, Health, Node
from steward.model.event import Availability, Event, Observation
from steward.model.frame import ENTITY, T_S, Frame, empty_frame, share_entity
from steward.model.identity import GpuId, JobId, NodeId

__all__ = ["Nvml"]

# NVML does not say what an idle GPU draws. An H200 whose memory is held was measured at 121 W of
# its 700 W; the loop measures each GPU while it is quiet and needs this only until then.
IDLE_PER_MAX_WATTS = 121 / 700

Row = dict[str, float | str | None]


class Nvml:
    """NVIDIA GPUs of this machine, and what each process has of them, once per turn.

    `node` is what the machine is called; empty means its own host name.
    """

    name = "nvml"
    vocabulary = "nvml"

    def __init__(self, *, node: str = "", driver: Driver | None = None) -> None:
        self.node = NodeId(node or hostname())
        self._driver = driver or Driver()
        self._devices: dict[int, Device] = {}
        self._lost: set[int] = set()
        self._missing = False

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

    def collect(self, t_s: float) -> Observation:
        try:
            count = self._driver.count()
        except DriverMissingError as fault:
            return self._without_driver(fault, t_s)
        self._missing = False
        rows: list[Row] = []
        events: list[Event] = []
        health: dict[GpuId, Health] = {}
        known = set(self._devices)
        for index in range(count):
            try:
                rows += self._look(index, t_s)
            except GpuLostError as fault:
                if index not in self._lost:
                    events.append(self._event(t_s, "gpu.failed", index, str(fault)))
                    health[self._gpu_id(index)] = Health.BAD
                self._lost.add(index)
                continue
            if index in self._lost:
                events.append(self._event(t_s, "gpu.repaired", index, "it answers again"))
                health[self._gpu_id(index)] = Health.GOOD
            self._lost.discard(index)
        return Observation(
            frame=_frame(rows),
            events=tuple(events),
            cluster=self._cluster() if set(self._devices) != known else None,
            health=health,
        )

    def _state_of(self, indices: Iterable[int]) -> Availability:
        names, lost = [], []
        for index in indices:
            try:
                names.append(self._driver.device(index).name)
            except GpuLostError as fault:
                lost.append(fault)
        reason = f"{len(names)} GPUs ({', '.join(sorted(set(names)))}), {self._driver.version()}"
        if lost:
            reason = f"{reason}; {'; '.join(fault.problem for fault in lost)}"
            return Availability(status="limited", reason=reason, hint=lost[0].hint)
        return Availability(status="ok", reason=reason)

    def _without_driver(self, fault: DriverMissingError, t_s: float) -> Observation:
        """Say once that there is nothing to read; try again each turn."""
        said, self._missing = self._missing, True
        if said:
            return Observation()
        event = Event(
            t_s=t_s,
            kind="collector.missing",
            subject=self.node,
            text=f"{fault.problem}; {fault.hint}",
            source=self.name,
        )
        unknown = {self._gpu_id(index): Health.UNKNOWN for index in self._devices}
        return Observation(events=(event,), health=unknown)

    def _look(self, index: int, t_s: float) -> list[Row]:
        if index not in self._devices:
            self._devices[index] = self._driver.device(index)
        gpu = self._gpu_id(index)
        rows: list[Row] = [{T_S: t_s, ENTITY: gpu, **_raw(self._driver.reading(index))}]
        rows += [
            {T_S: t_s, ENTITY: share_entity(gpu, JobId(f"pid:{process.pid}")), **_share(process)}
            for process in self._driver.processes(index)
        ]
        return rows

    def _gpu_id(self, index: int) -> GpuId:
        return GpuId(f"{self.node}/gpu{index}")

    def _event(self, t_s: float, kind: str, index: int, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=self._gpu_id(index), text=text, source=self.name)

    def _cluster(self) -> Cluster:
        domains = _domains(self.node, self._devices)
        gpus = tuple(
            Gpu(
                id=self._gpu_id(index),
                node=self.node,
                index=index,
                model=_model(device),
                nvlink_domain=domains.get(index, ""),
                uuid=device.uuid,
            )
            for index, device in sorted(self._devices.items())
        )
        return Cluster(id=self.node, nodes=(Node(id=self.node, gpus=gpus),))


def _model(device: Device) -> GpuModel:
    return GpuModel(
        name=device.name,
        generation=device.generation,
        memory_bytes=device.memory_bytes,
        idle_watts=round(device.max_watts * IDLE_PER_MAX_WATTS, 1),
        max_watts=device.max_watts,
    )


def _domains(node: str, devices: Mapping[int, Device]) -> dict[int, str]:
    """Name what reaches what over NVLink: all GPUs on the switches, or those joined by links."""
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


def _raw(reading: GpuReading) -> dict[str, float | None]:
    return {
        "utilization.gpu": reading.busy_percent,
        "utilization.memory": reading.copy_percent,
        "memory.used": reading.memory_used_bytes,
        "memory.free": reading.memory_free_bytes,
        "memory.total": reading.memory_total_bytes,
        "power.usage": reading.power_milliwatts,
        "energy.total": reading.energy_millijoules,
        "temperature.gpu": reading.temperature_celsius,
        "clock.sm": reading.sm_clock_mhz,
        "clocks.event_reasons": reading.throttle_bits,
    }


def _share(process: DriverProcess) -> dict[str, float | None]:
    return {
        "process.sm_util": process.busy_percent,
        "process.used_memory": process.memory_used_bytes,
    }


def _frame(rows: list[Row]) -> Frame:
    if not rows:
        return empty_frame()
    names = {name for row in rows for name in row} - {T_S, ENTITY}
    schema = {T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(sorted(names), pl.Float64)}
    return pl.DataFrame(rows, schema=schema)
