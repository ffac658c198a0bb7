"""Xids that the driver queues (NVML events), as the same faults that a kernel log would give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steward.clients.nvml import Device, Xid
from steward.model.faults import Fault, FaultKind, GpuSighting
from steward.observe.faults.forms import place_of

__all__ = ["faults_of_events", "sightings_of_devices"]


def faults_of_events(
    events: Iterable[tuple[int, Xid]], devices: Mapping[int, Device], *, node: str, t_s: float
) -> list[Fault]:
    """Return a fault per event; `events` are as `GpuRegistry.xids` gives them, with its numbers."""
    return [
        Fault(
            kind=FaultKind.XID,
            device=_slot(devices[number]) if number in devices else f"gpu{number}",
            code=xid.code,
            text="reported by the driver",
            detail={"source": "nvml"}
            | ({} if xid.gpu_instance is None else {"instance": str(xid.gpu_instance)}),
            t_s=t_s,
            node=node,
        )
        for number, xid in events
    ]


def sightings_of_devices(
    devices: Mapping[int, Device], *, node: str, t_s: float
) -> list[GpuSighting]:
    """Return which GPU is where."""
    return [
        GpuSighting(
            node=node,
            slot=_slot(each),
            uuid=each.uuid,
            index=number,
            part=each.name,
            t_s=t_s,
        )
        for number, each in devices.items()
    ]


def _slot(device: Device) -> str:
    return place_of(device.bus_id.rpartition(".")[0] or device.bus_id)
