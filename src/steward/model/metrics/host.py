"""What a machine as a whole, and its parts, can be asked."""

from __future__ import annotations

from steward.model.metric import COUNTER, Metric, counted, otel, psutil, slurm

__all__ = ["HOST_METRICS"]

HOST_METRICS: tuple[Metric, ...] = (
    Metric(
        name="host.cpu.busy_share",
        unit="1",
        of="node",
        meaning="mean share of all cores that is not idle",
        aliases=(otel("system.cpu.utilization"), psutil("cpu_percent", 0.01)),
    ),
    Metric(
        name="host.memory.used_bytes",
        unit="By",
        of="node",
        meaning="memory in use, page cache left out",
        aliases=(otel("system.memory.usage"), psutil("virtual_memory.used")),
    ),
    Metric(
        name="host.memory.available_bytes",
        unit="By",
        of="node",
        meaning="memory that a new program could have without swapping",
        aliases=(otel("system.memory.linux.available"), psutil("virtual_memory.available")),
    ),
    Metric(
        name="host.load_1m",
        unit="1",
        of="node",
        meaning="runnable and blocked tasks, mean over a minute",
        aliases=(otel("system.cpu.load_average.1m"), slurm("CPULoad"), psutil("load_1m")),
    ),
    Metric(
        name="host.clock.offset_seconds",
        unit="s",
        of="node",
        meaning="how far the server's clock is ahead of this node's",
    ),
    Metric(
        name="host.disk.read_bytes",
        unit="By",
        of="node",
        meaning="bytes read from all disks",
        kind=COUNTER,
        rate="host.disk.read_bytes_per_s",
        aliases=(otel("system.disk.io/read"), psutil("disk.read_bytes")),
    ),
    Metric(
        name="host.disk.read_bytes_per_s", unit="By/s", of="node", meaning="read rate of all disks"
    ),
    Metric(
        name="host.disk.write_bytes",
        unit="By",
        of="node",
        meaning="bytes written to all disks",
        kind=COUNTER,
        rate="host.disk.write_bytes_per_s",
        aliases=(otel("system.disk.io/write"), psutil("disk.write_bytes")),
    ),
    Metric(
        name="host.disk.write_bytes_per_s",
        unit="By/s",
        of="node",
        meaning="write rate of all disks",
    ),
    Metric(
        name="host.network.receive_bytes",
        unit="By",
        of="node",
        meaning="bytes received on all interfaces but loopback",
        kind=COUNTER,
        rate="host.network.receive_bytes_per_s",
        aliases=(otel("system.network.io/receive"), psutil("net.bytes_recv")),
    ),
    Metric(
        name="host.network.receive_bytes_per_s",
        unit="By/s",
        of="node",
        meaning="receive rate of all interfaces but loopback",
    ),
    Metric(
        name="host.network.transmit_bytes",
        unit="By",
        of="node",
        meaning="bytes sent on all interfaces but loopback",
        kind=COUNTER,
        rate="host.network.transmit_bytes_per_s",
        aliases=(otel("system.network.io/transmit"), psutil("net.bytes_sent")),
    ),
    Metric(
        name="host.network.transmit_bytes_per_s",
        unit="By/s",
        of="node",
        meaning="send rate of all interfaces but loopback",
    ),
    *counted(
        "host.cpu.user_seconds",
        "host.cpu.user_cores",
        of="node",
        meaning="processor time of programs",
    ),
    *counted(
        "host.cpu.nice_seconds",
        "host.cpu.nice_cores",
        of="node",
        meaning="processor time of programs with lowered priority",
    ),
    *counted(
        "host.cpu.system_seconds",
        "host.cpu.system_cores",
        of="node",
        meaning="processor time of the kernel",
    ),
    *counted(
        "host.cpu.idle_seconds",
        "host.cpu.idle_cores",
        of="node",
        meaning="processor time that nobody used",
    ),
    *counted(
        "host.cpu.iowait_seconds",
        "host.cpu.iowait_cores",
        of="node",
        meaning="processor time idle while disks were waited for",
    ),
    *counted(
        "host.cpu.irq_seconds",
        "host.cpu.irq_cores",
        of="node",
        meaning="processor time of interrupts",
    ),
    *counted(
        "host.cpu.softirq_seconds",
        "host.cpu.softirq_cores",
        of="node",
        meaning="processor time of soft interrupts",
    ),
    *counted(
        "host.cpu.steal_seconds",
        "host.cpu.steal_cores",
        of="node",
        meaning="processor time that the hypervisor gave to others",
    ),
    *counted(
        "host.context_switches_count",
        "host.context_switches_per_s",
        of="node",
        meaning="context switches of all cores",
    ),
    *counted(
        "host.page_faults_count",
        "host.page_faults_per_s",
        of="node",
        meaning="page faults of all programs",
    ),
    *counted(
        "host.page_faults.major_count",
        "host.page_faults.major_per_s",
        of="node",
        meaning="page faults that had to read from a disk",
    ),
    Metric(
        name="host.processes.running_count",
        unit="1",
        of="node",
        meaning="tasks that run or could run",
    ),
    Metric(
        name="host.processes.blocked_count",
        unit="1",
        of="node",
        meaning="tasks that wait for a disk",
    ),
    Metric(
        name="host.memory.limit_bytes",
        unit="By",
        of="node",
        meaning="memory in all",
    ),
    Metric(
        name="host.memory.free_bytes",
        unit="By",
        of="node",
        meaning="memory that holds nothing at all",
    ),
    Metric(
        name="host.memory.cached_bytes",
        unit="By",
        of="node",
        meaning="page cache",
    ),
)
