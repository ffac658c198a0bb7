"""Reads this machine: cores, memory, disks and network as a whole."""

from __future__ import annotations

import polars as pl

from steward.clients.host import HostReading, HostSource, hostname
from steward.model.cluster import Cluster, Node
from steward.model.event import Availability, Observation
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.identity import NodeId

__all__ = ["Host"]


class Host:
    """Processors, memory, disks and network of this machine, once per turn.

    `node` is what the machine is called; empty means its own host name.
    """

    name = "host"
    vocabulary = "psutil"

    def __init__(self, *, node: str = "", source: HostSource | None = None) -> None:
        self.node = NodeId(node or hostname())
        self._source = source or HostSource()
        self._told = False

    def available(self) -> Availability:
        reading = self._source.reading()
        unknown = [word for word, value in _raw(reading).items() if value is None]
        unknown = [word for word in unknown if word != "cpu_percent"]  # needs two looks
        if not unknown:
            return Availability(status="ok", reason=f"{self._source.cpus()} cores, {self.node}")
        return Availability(
            status="limited",
            reason=f"this machine does not tell {', '.join(unknown)}",
            hint="in a container, mount /proc and /sys of the host",
        )

    def collect(self, t_s: float) -> Observation:
        cluster = None if self._told else self._cluster()
        self._told = True
        return Observation(frame=self._frame(t_s), cluster=cluster)

    def _cluster(self) -> Cluster:
        node = Node(
            id=self.node, cpus=self._source.cpus(), memory_bytes=self._source.memory_bytes()
        )
        return Cluster(id=self.node, nodes=(node,))

    def _frame(self, t_s: float) -> Frame:
        raw = _raw(self._source.reading())
        return pl.DataFrame(
            {T_S: [t_s], ENTITY: [str(self.node)], **{word: [raw[word]] for word in raw}},
            schema={T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(raw, pl.Float64)},
        )


def _raw(reading: HostReading) -> dict[str, float | None]:
    return {
        "cpu_percent": reading.cpu_percent,
        "virtual_memory.used": reading.memory_used_bytes,
        "virtual_memory.available": reading.memory_available_bytes,
        "load_1m": reading.load_1m,
        "disk.read_bytes": reading.disk_read_bytes,
        "disk.write_bytes": reading.disk_write_bytes,
        "net.bytes_recv": reading.net_received_bytes,
        "net.bytes_sent": reading.net_sent_bytes,
    }
