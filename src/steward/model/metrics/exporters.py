"""What well-known Prometheus exporters call our metrics.

node_exporter's names are given without labels, or with the one that tells readings apart after a
slash (`node_cpu_seconds_total/user`); `observe/translate` says which label that is. Those that
node_exporter gives per core, disk or interface are added up to the node's figure there.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXPORTER_NAMES"]

_CPU = tuple(
    (f"node_cpu_seconds_total/{mode}", f"host.cpu.{mode}_seconds", 1.0)
    for mode in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
)
_NODE = (
    *_CPU,
    ("node_context_switches_total", "host.context_switches_count", 1.0),
    ("node_disk_read_bytes_total", "host.disk.read_bytes", 1.0),
    ("node_disk_written_bytes_total", "host.disk.write_bytes", 1.0),
    ("node_load1", "host.load_1m", 1.0),
    ("node_memory_Cached_bytes", "host.memory.cached_bytes", 1.0),
    ("node_memory_MemAvailable_bytes", "host.memory.available_bytes", 1.0),
    ("node_memory_MemFree_bytes", "host.memory.free_bytes", 1.0),
    ("node_memory_MemTotal_bytes", "host.memory.limit_bytes", 1.0),
    ("node_network_receive_bytes_total", "host.network.receive_bytes", 1.0),
    ("node_network_transmit_bytes_total", "host.network.transmit_bytes", 1.0),
    ("node_procs_blocked", "host.processes.blocked_count", 1.0),
    ("node_procs_running", "host.processes.running_count", 1.0),
    ("node_vmstat_pgfault", "host.page_faults_count", 1.0),
    ("node_vmstat_pgmajfault", "host.page_faults.major_count", 1.0),
)

# vocabulary: (their name, our name, scale)
EXPORTER_NAMES: Mapping[str, tuple[tuple[str, str, float], ...]] = {"node_exporter": _NODE}
