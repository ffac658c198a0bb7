"""What parts of a machine can be asked: cores, disks, cards, ports, sockets, file systems."""

from __future__ import annotations

from steward.model.metric import KIB, Metric, alias
from steward.model.metrics.rows import LINUX, grows, held, level

__all__ = ["PART_METRICS"]

_CORE = (
    level(
        "cpu.busy_share",
        "1",
        "cpu",
        "part of the time in which the core was not idle",
        alias(LINUX, "stat.core.busy_share"),
    ),
)

_DISK = (
    *grows(
        "disk",
        ("disk.read_bytes", "disk.read_bytes_per_s", "diskstats.read_sectors", 512, "bytes read"),
        (
            "disk.write_bytes",
            "disk.write_bytes_per_s",
            "diskstats.write_sectors",
            512,
            "bytes written",
        ),
        ("disk.reads_count", "disk.reads_per_s", "diskstats.reads", 1.0, "reads completed"),
        ("disk.writes_count", "disk.writes_per_s", "diskstats.writes", 1.0, "writes completed"),
        (
            "disk.busy_seconds",
            "disk.busy_share",
            "diskstats.busy_ms",
            0.001,
            "time in which the disk had something to do",
        ),
        (
            "disk.queue_seconds",
            "disk.queue_count",
            "diskstats.queue_ms",
            0.001,
            "requests waiting or in work, times how long",
        ),
    ),
    level(
        "disk.read.mean_seconds",
        "s",
        "disk",
        "how long a read took, mean of those since the last look",
        alias(LINUX, "diskstats.read_mean_ms", 0.001),
    ),
    level(
        "disk.write.mean_seconds",
        "s",
        "disk",
        "how long a write took, mean of those since the last look",
        alias(LINUX, "diskstats.write_mean_ms", 0.001),
    ),
)

_NETWORK = grows(
    "net",
    *(
        row
        for way, verb in (("receive", "received"), ("transmit", "sent"))
        for row in (
            (
                f"net.{way}_bytes",
                f"net.{way}_bytes_per_s",
                f"net.{way}_bytes",
                1.0,
                f"bytes {verb}",
            ),
            (
                f"net.{way}_packets_count",
                f"net.{way}_packets_per_s",
                f"net.{way}_packets",
                1.0,
                f"packets {verb}",
            ),
            (
                f"net.{way}_errors_count",
                f"net.{way}_errors_per_s",
                f"net.{way}_errors",
                1.0,
                f"packets not {verb} for an error",
            ),
            (
                f"net.{way}_drops_count",
                f"net.{way}_drops_per_s",
                f"net.{way}_drops",
                1.0,
                f"packets dropped that should have been {verb}",
            ),
        )
    ),
)

_NUMA = (
    *(
        level(f"numa.memory.{name}_bytes", "By", "numa", meaning, alias(LINUX, word, KIB))
        for name, word, meaning in (
            ("limit", "numa.MemTotal", "memory of the socket in all"),
            ("free", "numa.MemFree", "memory of the socket that holds nothing"),
            ("cached", "numa.FilePages", "page cache in memory of the socket"),
            ("anonymous", "numa.AnonPages", "memory of programs in memory of the socket"),
        )
    ),
    *held(
        "numa",
        *(
            (f"numa.{name}_count", f"numa.{name}_per_s", f"numastat.{word}", 1.0, meaning)
            for name, word, meaning in (
                ("hits", "numa_hit", "pages that were got where they were wanted"),
                ("misses", "numa_miss", "pages got here since the wanted socket was full"),
                ("foreign", "numa_foreign", "pages wanted here and got elsewhere"),
                ("remote", "other_node", "pages got here by programs that ran elsewhere"),
            )
        ),
    ),
)

_PORT = (
    level(
        "ib.state_code",
        "1",
        "ib",
        "state of the port: 1 down, 2 initialising, 3 armed, 4 active",
        alias(LINUX, "ib.state"),
    ),
    level(
        "ib.limit_bytes_per_s",
        "By/s",
        "ib",
        "how fast the port is in each direction",
        alias(LINUX, "ib.rate", 1e9 / 8),
    ),
    *held(
        "ib",
        # The data counters count words of four bytes.
        ("ib.receive_bytes", "ib.receive_bytes_per_s", "ib.port_rcv_data", 4.0, "bytes received"),
        ("ib.transmit_bytes", "ib.transmit_bytes_per_s", "ib.port_xmit_data", 4.0, "bytes sent"),
        *(
            (f"ib.{name}_count", f"ib.{name}_per_s", f"ib.{word}", 1.0, meaning)
            for name, word, meaning in (
                ("receive_packets", "port_rcv_packets", "packets received"),
                ("transmit_packets", "port_xmit_packets", "packets sent"),
                ("waits", "port_xmit_wait", "ticks in which data waited for room at the far end"),
                ("receive_errors", "port_rcv_errors", "packets received with an error"),
                ("transmit_discards", "port_xmit_discards", "packets given up"),
                ("symbol_errors", "symbol_error", "errors on the wire"),
                ("link_recoveries", "link_error_recovery", "times the link trained anew"),
                ("link_failures", "link_downed", "times the link went down"),
                ("integrity_errors", "local_link_integrity_errors", "too many errors in a row"),
                ("sequence_errors", "packet_seq_err", "RDMA packets out of sequence, as told"),
                ("out_of_sequence", "out_of_sequence", "RDMA packets received out of sequence"),
                ("ack_timeouts", "local_ack_timeout_err", "RDMA waits that ran out"),
                ("congestion_marks", "np_ecn_marked_roce_packets", "packets marked for congestion"),
                ("congestion_handled", "rp_cnp_handled", "requests to send more slowly, obeyed"),
            )
        ),
    ),
)

_MOUNT = held(
    "mount",
    ("mount.read_bytes", "mount.read_bytes_per_s", "mount.read_bytes", 1.0, "bytes got"),
    ("mount.write_bytes", "mount.write_bytes_per_s", "mount.write_bytes", 1.0, "bytes given"),
    ("mount.reads_count", "mount.reads_per_s", "mount.reads", 1.0, "requests to read"),
    ("mount.writes_count", "mount.writes_per_s", "mount.writes", 1.0, "requests to write"),
    (
        "mount.read_seconds",
        "mount.read_queue_count",
        "mount.read_ms",
        0.001,
        "requests to read that wait or are in work, times how long",
    ),
    (
        "mount.write_seconds",
        "mount.write_queue_count",
        "mount.write_ms",
        0.001,
        "requests to write that wait or are in work, times how long",
    ),
)

_FILE_SYSTEM = tuple(
    level(f"fs.{name}", unit, "fs", meaning, alias(LINUX, word))
    for name, unit, word, meaning in (
        ("used_bytes", "By", "statvfs.used", "bytes that files take up"),
        ("limit_bytes", "By", "statvfs.size", "bytes in all, with those kept for root"),
        ("available_bytes", "By", "statvfs.available", "bytes that users can still write"),
        ("inodes_used_share", "1", "statvfs.inodes_used", "part of the inodes that is taken"),
    )
)

PART_METRICS: tuple[Metric, ...] = (
    *_CORE, *_DISK, *_NETWORK, *_NUMA, *_PORT, *_MOUNT, *_FILE_SYSTEM,
)  # fmt: skip
