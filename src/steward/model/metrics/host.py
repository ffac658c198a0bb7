"""What a machine as a whole can be asked; its parts are in `parts.py`."""

from __future__ import annotations

from steward.model.metric import KIB, Metric, alias, counted, otel, slurm
from steward.model.metrics.parts import PART_METRICS
from steward.model.metrics.perf import PERF_METRICS
from steward.model.metrics.rows import LINUX, TICK, grows, held, level

__all__ = ["HOST_METRICS"]

_TOTALS: tuple[Metric, ...] = (
    Metric(
        name="host.clock.offset_seconds",
        unit="s",
        of="node",
        meaning="how far the server's clock is ahead of this node's",
    ),
    *counted(
        "host.disk.read_bytes",
        "host.disk.read_bytes_per_s",
        of="node",
        meaning="bytes read from all disks",
        aliases=(otel("system.disk.io/read"), alias(LINUX, "diskstats.read_sectors/all", 512)),
    ),
    *counted(
        "host.disk.write_bytes",
        "host.disk.write_bytes_per_s",
        of="node",
        meaning="bytes written to all disks",
        aliases=(otel("system.disk.io/write"), alias(LINUX, "diskstats.write_sectors/all", 512)),
    ),
    *counted(
        "host.network.receive_bytes",
        "host.network.receive_bytes_per_s",
        of="node",
        meaning="bytes received on all interfaces but loopback",
        aliases=(otel("system.network.io/receive"), alias(LINUX, "net.receive_bytes/all")),
    ),
    *counted(
        "host.network.transmit_bytes",
        "host.network.transmit_bytes_per_s",
        of="node",
        meaning="bytes sent on all interfaces but loopback",
        aliases=(otel("system.network.io/transmit"), alias(LINUX, "net.transmit_bytes/all")),
    ),
)

_PROCESSORS = (
    level(
        "host.cpu.busy_share",
        "1",
        "node",
        "mean share of all cores that is not idle",
        otel("system.cpu.utilization"),
        alias(LINUX, "stat.busy_share"),
    ),
    level(
        "host.load_1m",
        "1",
        "node",
        "runnable and blocked tasks, mean over a minute",
        otel("system.cpu.load_average.1m"),
        slurm("CPULoad"),
        alias(LINUX, "loadavg.1m"),
    ),
    *grows(
        "node",
        *(
            (f"host.cpu.{word}_seconds", f"host.cpu.{word}_cores", f"stat.{word}", TICK, meaning)
            for word, meaning in (
                ("user", "processor time of programs"),
                ("nice", "processor time of programs with lowered priority"),
                ("system", "processor time of the kernel"),
                ("idle", "processor time that nobody used"),
                ("iowait", "processor time idle while disks were waited for"),
                ("irq", "processor time of interrupts"),
                ("softirq", "processor time of soft interrupts"),
                ("steal", "processor time that the hypervisor gave to others"),
            )
        ),
        (
            "host.context_switches_count",
            "host.context_switches_per_s",
            "stat.ctxt",
            1.0,
            "context switches of all cores",
        ),
        (
            "host.interrupts_count",
            "host.interrupts_per_s",
            "stat.intr",
            1.0,
            "interrupts of all cores",
        ),
        (
            "host.processes.started_count",
            "host.processes.started_per_s",
            "stat.processes",
            1.0,
            "processes and threads started",
        ),
    ),
    level(
        "host.processes.running_count",
        "1",
        "node",
        "tasks that run or could run",
        alias(LINUX, "stat.procs_running"),
    ),
    level(
        "host.processes.blocked_count",
        "1",
        "node",
        "tasks that wait for a disk",
        alias(LINUX, "stat.procs_blocked"),
    ),
)

_MEMORY = (
    level(
        "host.memory.used_bytes",
        "By",
        "node",
        "memory in use, page cache left out",
        otel("system.memory.usage"),
        alias(LINUX, "meminfo.used", KIB),
    ),
    level(
        "host.memory.available_bytes",
        "By",
        "node",
        "memory that a new program could have without swapping",
        otel("system.memory.linux.available"),
        alias(LINUX, "meminfo.MemAvailable", KIB),
    ),
    *(
        level(f"host.memory.{name}_bytes", "By", "node", meaning, alias(LINUX, word, KIB))
        for name, word, meaning in (
            ("limit", "meminfo.MemTotal", "memory in all"),
            ("free", "meminfo.MemFree", "memory that holds nothing at all"),
            ("cached", "meminfo.Cached", "page cache"),
            ("buffers", "meminfo.Buffers", "blocks of disks kept in memory"),
            ("anonymous", "meminfo.AnonPages", "memory of programs that no file backs"),
            ("mapped", "meminfo.Mapped", "files that programs have mapped"),
            ("shared", "meminfo.Shmem", "shared memory and files in tmpfs"),
            ("slab", "meminfo.Slab", "structures of the kernel"),
            ("page_tables", "meminfo.PageTables", "tables of pages"),
            ("dirty", "meminfo.Dirty", "changed pages that a disk has not got yet"),
            ("writeback", "meminfo.Writeback", "pages on their way to a disk"),
            ("locked", "meminfo.Mlocked", "memory that may not be swapped out"),
            ("huge_pages", "meminfo.AnonHugePages", "memory of programs in huge pages"),
            ("huge_pool", "meminfo.Hugetlb", "memory set aside for huge pages"),
            ("swap_limit", "meminfo.SwapTotal", "swap space in all"),
            ("swap_used", "meminfo.swap_used", "swap space in use"),
        )
    ),
    *grows(
        "node",
        *(
            (f"host.{name}_count", f"host.{name}_per_s", f"vmstat.{word}", 1.0, meaning)
            for name, word, meaning in (
                ("page_faults", "pgfault", "page faults of all programs"),
                ("page_faults.major", "pgmajfault", "page faults that had to read from a disk"),
                ("memory.swapped_in", "pswpin", "pages read back from swap"),
                ("memory.swapped_out", "pswpout", "pages written to swap"),
                ("memory.oom_kills", "oom_kill", "processes killed for want of memory"),
                ("memory.reclaimed", "pgsteal", "pages taken back, in the background or not"),
                ("memory.reclaimed_directly", "pgsteal_direct", "pages taken back while waiting"),
                ("memory.scanned", "pgscan", "pages looked at to be taken back"),
                ("memory.refaults", "workingset_refault_file", "pages of files read once more"),
                (
                    "memory.compaction_stalls",
                    "compact_stall",
                    "waits for memory to be in one piece",
                ),
                ("memory.huge_faults", "thp_fault_alloc", "page faults answered by a huge page"),
                (
                    "memory.huge_failures",
                    "thp_fault_fallback",
                    "huge pages that were not to be had",
                ),
                ("memory.numa_migrated", "numa_pages_migrated", "pages moved between sockets"),
                ("memory.numa_hints", "numa_hint_faults", "faults to learn who uses a page"),
            )
        ),
    ),
    *held(
        "node",
        (
            "host.memory.corrected_errors_count",
            "host.memory.corrected_errors_per_s",
            "edac.ce_count",
            1.0,
            "errors of memory that were corrected",
        ),
        (
            "host.memory.uncorrected_errors_count",
            "host.memory.uncorrected_errors_per_s",
            "edac.ue_count",
            1.0,
            "errors of memory that were not corrected",
        ),
    ),
)

_PRESSURE = grows(
    "node",
    *(
        (
            f"host.pressure.{what}.{who}_seconds",
            f"host.pressure.{what}.{who}_share",
            f"pressure.{what}.{who}",
            1e-6,
            f"time in which {'all tasks' if who == 'full' else 'a task'} waited for {what}",
        )
        for what, who in (
            ("cpu", "some"),
            ("memory", "some"),
            ("memory", "full"),
            ("io", "some"),
            ("io", "full"),
            ("irq", "full"),
        )
    ),
)

_TCP = (
    level(
        "host.tcp.connections_count",
        "1",
        "node",
        "connections that are open",
        alias(LINUX, "snmp.Tcp.CurrEstab"),
    ),
    *held(
        "node",
        *(
            (f"host.{name}_count", f"host.{name}_per_s", word, 1.0, meaning)
            for name, word, meaning in (
                ("tcp.segments_received", "snmp.Tcp.InSegs", "TCP segments received"),
                ("tcp.segments_sent", "snmp.Tcp.OutSegs", "TCP segments sent"),
                ("tcp.retransmits", "snmp.Tcp.RetransSegs", "TCP segments sent once more"),
                ("tcp.receive_errors", "snmp.Tcp.InErrs", "bad TCP segments received"),
                ("tcp.resets", "snmp.Tcp.EstabResets", "open connections that were reset"),
                ("tcp.timeouts", "netstat.TcpExt.TCPTimeouts", "waits for an answer that ran out"),
                ("tcp.listen_drops", "netstat.TcpExt.ListenDrops", "connections refused a place"),
                ("udp.receive_errors", "snmp.Udp.InErrors", "UDP datagrams that were lost here"),
                ("udp.buffer_errors", "snmp.Udp.RcvbufErrors", "UDP datagrams without a buffer"),
            )
        ),
    ),
)

_SENSORS = (
    *grows(
        "node",
        (
            "host.cpu.energy_joules",
            "host.cpu.mean_watts",
            "powercap.package",
            1e-6,
            "energy of all processors",
        ),
        (
            "host.dram.energy_joules",
            "host.dram.mean_watts",
            "powercap.dram",
            1e-6,
            "energy of the memory",
        ),
    ),
    level(
        "host.cpu.temperature_celsius",
        "Cel",
        "node",
        "the hottest place of the processors",
        alias(LINUX, "hwmon.cpu", 0.001),
    ),
    level(
        "host.temperature_celsius",
        "Cel",
        "node",
        "the hottest chip of the machine",
        alias(LINUX, "hwmon.hottest", 0.001),
    ),
)

HOST_METRICS: tuple[Metric, ...] = (
    *_PROCESSORS,
    *_MEMORY,
    *_TOTALS,
    *_PRESSURE,
    *_TCP,
    *_SENSORS,
    *PART_METRICS,
    *PERF_METRICS,
)
