"""A /proc and a /sys in a folder, as a GPU node with two sockets has them.

What /proc says was recorded on a virtual machine (Linux 6.18) and cut; InfiniBand, RAPL, hwmon and
EDAC are written after the kernel's documentation of their files (Documentation/ABI).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

STAT_TAIL = (
    "intr 26988736 0 0 1 16\nctxt 178603643\nbtime 1794716267\nprocesses 168421\n"
    "procs_running 3\nprocs_blocked 1\nsoftirq 11677116 0 1601987 6 327943\n"
)
MEMINFO = {
    "MemTotal": 24682416,
    "MemFree": 22936788,
    "MemAvailable": 24071528,
    "Buffers": 24420,
    "Cached": 1032932,
    "SwapTotal": 1000,
    "SwapFree": 600,
    "Dirty": 4884,
    "Writeback": 0,
    "AnonPages": 155128,
    "Mapped": 49296,
    "Shmem": 12776,
    "Slab": 442820,
    "PageTables": 4728,
    "Mlocked": 23500,
    "AnonHugePages": 0,
    "Hugetlb": 0,
}
VMSTAT = {
    "nr_free_pages": 2043909,
    "pswpin": 1,
    "pswpout": 2,
    "pgfault": 241417366,
    "pgmajfault": 44490,
    "pgsteal_kswapd": 10,
    "pgsteal_direct": 5,
    "pgscan_kswapd": 20,
    "pgscan_direct": 7,
    "oom_kill": 0,
    "workingset_refault_file": 4768251,
    "compact_stall": 0,
    "thp_fault_alloc": 14003,
    "thp_fault_fallback": 0,
    "numa_pages_migrated": 0,
    "numa_hint_faults": 0,
}
NET_HEADER = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop "
    "fifo colls carrier compressed\n"
)
SNMP = (
    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
    "Tcp: RtoAlgorithm CurrEstab InSegs OutSegs RetransSegs InErrs EstabResets\n"
    "Tcp: 1 6 366263 329473 1146 0 563\n"
    "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 5783 0 2 5787 1\n"
)
NETSTAT = "TcpExt: SyncookiesSent ListenDrops TCPTimeouts\nTcpExt: 0 3 6\n"
PSI = "{} avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"


MOUNTSTATS = """device /dev/vda mounted on / with fstype ext4
device filer:/data mounted on /data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576
\tage:\t8100
\tbytes:\t500 600 0 0 {received} 700 10 20
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: {reads} 40 0 9000 {received} 5 900 {read_ms} 0
\t       WRITE: 7 7 0 800 900 1 20 33 0

device nfsd mounted on /proc/fs/nfsd with fstype nfsd
"""
LLITE = """snapshot_time             1794716267.123 secs.nsecs
read_bytes                {reads} samples [bytes] 4096 1048576 {received}
write_bytes               5 samples [bytes] 1 4096 9000
open                      31 samples [regs]
"""


def write(path: Path, text: str | float) -> None:
    """Write a file in place, as the kernel changes what it shows: the file stays the same one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n" if not isinstance(text, str) else text)


def stat(cores: Mapping[int, tuple[int, ...]]) -> str:
    """Return /proc/stat of some cores, each with its times."""
    total = [sum(parts) for parts in zip(*cores.values(), strict=True)]
    lines = [f"cpu  {' '.join(map(str, total))}"]
    lines += [f"cpu{core} {' '.join(map(str, times))}" for core, times in cores.items()]
    return "\n".join(lines) + "\n" + STAT_TAIL


def times(*, user: int, idle: int) -> tuple[int, ...]:
    """Return a core's times: user, nice, system, idle, iowait, irq, softirq, steal, guests."""
    return (user, 0, 10, idle, 5, 0, 1, 0, 0, 0)


def disk_line(name: str, **fields: int) -> str:
    """Return a line of /proc/diskstats."""
    parts = {
        "reads": 100,
        "merged": 0,
        "read_sectors": 800,
        "read_ms": 50,
        "writes": 200,
        "write_merged": 0,
        "write_sectors": 1600,
        "write_ms": 400,
        "now": 0,
        "busy_ms": 300,
        "queue_ms": 450,
        **fields,
    }
    return f" 259       0 {name} {' '.join(map(str, parts.values()))} 0 0 0 0 0 0\n"


def net_line(name: str, received: int = 1000, sent: int = 500) -> str:
    """Return a line of /proc/net/dev."""
    return f"{name:>6}: {received} 10 1 2 0 0 0 0 {sent} 5 3 4 0 0 0 0\n"


def proc(folder: Path, *, cores: int = 4) -> Path:
    """Make a /proc."""
    write(folder / "stat", stat({core: times(user=100, idle=900) for core in range(cores)}))
    write(folder / "meminfo", "".join(f"{k}: {v:14d} kB\n" for k, v in MEMINFO.items()))
    write(folder / "vmstat", "".join(f"{k} {v}\n" for k, v in VMSTAT.items()))
    write(folder / "loadavg", "1.15 0.50 0.87 2/183 6107\n")
    write(folder / "pressure/cpu", PSI.format("some", 8508155112) + PSI.format("full", 0))
    write(folder / "pressure/memory", PSI.format("some", 30) + PSI.format("full", 20))
    write(folder / "pressure/io", PSI.format("some", 213961732) + PSI.format("full", 115887530))
    disks = [disk_line(name) for name in ("nvme0n1", "nvme0n1p1", "nvme1n1", "dm-0", "loop0")]
    write(folder / "diskstats", "".join(disks))
    cards = [net_line("lo", 99, 99), net_line("eth0"), net_line("ib0", 7, 8), net_line("veth1")]
    write(folder / "net/dev", NET_HEADER + "".join(cards))
    write(folder / "net/snmp", SNMP)
    write(folder / "net/netstat", NETSTAT)
    write(folder / "self/mountinfo", "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n")
    mounts(folder, reads=40, received=4_000_000, read_ms=1000)
    return folder


def mounts(folder: Path, *, reads: int, received: int, read_ms: int) -> None:
    """Set what an NFS mount and a Lustre file system have counted."""
    numbers = {"reads": reads, "received": received, "read_ms": read_ms}
    write(folder / "self/mountstats", MOUNTSTATS.format(**numbers))
    write(folder / "fs/lustre/llite/scratch-ffff8810/stats", LLITE.format(**numbers))


def sys(folder: Path, *, ports: int = 8, sockets: int = 2) -> Path:
    """Make a /sys: disks, cards, sockets, ports, energy, temperatures, memory controllers."""
    for name in ("nvme0n1", "nvme1n1", "loop0"):
        (folder / "block" / name / "slaves").mkdir(parents=True)
    (folder / "block/dm-0/slaves/nvme0n1p1").mkdir(parents=True)
    for name in ("eth0", "ib0"):
        (folder / "class/net" / name / "device").mkdir(parents=True)
    for i in range(sockets):
        node = folder / f"devices/system/node/node{i}"
        write(
            node / "meminfo",
            f"Node {i} MemTotal:  9921092 kB\nNode {i} MemFree: {1000 + i} kB\n"
            f"Node {i} FilePages: 500 kB\nNode {i} AnonPages: 300 kB\n",
        )
        write(
            node / "numastat",
            "numa_hit 239028342\nnuma_miss 5\nnuma_foreign 6\ninterleave_hit 1128\n"
            "local_node 239028342\nother_node 7\n",
        )
        energy(folder, i, used=1_000_000)
        write(folder / f"class/hwmon/hwmon{i}/name", "coretemp\n")
        write(folder / f"class/hwmon/hwmon{i}/temp1_input", 51000 + i)
        write(folder / f"devices/system/edac/mc/mc{i}/ce_count", 2)
        write(folder / f"devices/system/edac/mc/mc{i}/ue_count", 0)
    write(folder / "class/hwmon/hwmon9/name", "nvme\n")
    write(folder / "class/hwmon/hwmon9/temp1_input", 62850)
    for i in range(ports):
        port = folder / f"class/infiniband/mlx5_{i}/ports/1"
        write(port / "state", "4: ACTIVE\n")
        write(port / "rate", "400 Gb/sec (4X NDR)\n")
        for word in ("port_rcv_data", "port_xmit_data", "port_rcv_packets", "link_downed"):
            write(port / "counters" / word, 1_000 * (i + 1))
        write(port / "hw_counters/out_of_sequence", 0)
    return folder


def energy(folder: Path, socket: int, *, used: int) -> None:
    """Set the energy counters of a socket; they begin anew at 262,143 J."""
    for zone, name in (
        (f"intel-rapl:{socket}", f"package-{socket}"),
        (f"intel-rapl:{socket}:0", "dram"),
    ):
        write(folder / "class/powercap" / zone / "name", f"{name}\n")
        write(folder / "class/powercap" / zone / "energy_uj", used)
        write(folder / "class/powercap" / zone / "max_energy_range_uj", 262143328850)


def second_group(folder: Path, **numbers: int) -> Path:
    """Make a control group of v2; `numbers` change what it counts."""
    seen = {"usage": 5_000_000, "current": 1 << 30, "read": 4096, "faults": 100, "stall": 0}
    seen |= numbers
    write(
        folder / "cpu.stat",
        f"usage_usec {seen['usage']}\nuser_usec {seen['usage'] * 3 // 4}\n"
        f"system_usec {seen['usage'] // 4}\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
    )
    write(folder / "cpu.max", "1600000 100000\n")
    write(folder / "memory.current", seen["current"])
    write(folder / "memory.peak", seen["current"])
    write(folder / "memory.max", "max\n")
    write(folder / "memory.swap.current", 0)
    write(
        folder / "memory.stat",
        f"anon 1000\nfile 500\nkernel 3\nfile_mapped 200\npgfault {seen['faults']}\npgmajfault 1\n",
    )
    write(folder / "memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n")
    write(
        folder / "io.stat",
        f"259:0 rbytes={seen['read']} wbytes=10 rios=1 wios=2 dbytes=0 dios=0\n"
        f"259:1 rbytes={seen['read']} wbytes=0 rios=3 wios=0 dbytes=0 dios=0\n",
    )
    write(folder / "pids.current", 12)
    for what in ("cpu", "memory", "io"):
        write(
            folder / f"{what}.pressure",
            PSI.format("some", seen["stall"]) + PSI.format("full", seen["stall"] // 2),
        )
    return folder
