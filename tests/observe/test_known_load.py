"""A program whose use is known runs on this machine; what is observed agrees within 5 %.

Others may use the machine meanwhile and can only add to what all of it does: such a figure is never
below what is known, and the least of a few tries agrees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steward.clients.cgroups import UNIFIED, CgroupReader, job_of
from steward.clients.host import HostSource
from steward.clients.linux.jobs import JobGroups
from steward.clients.perf import SOFTWARE, PerfCounters, online
from steward.observe.collectors import cgroups
from steward.observe.collectors.host import Host

pytestmark = pytest.mark.real

PROGRAM = Path(__file__).parents[1] / "known_load.py"
JOB = "81299"
GROUP = f"slurm_known_load_{os.getpid()}/uid_0/job_{JOB}"
CONTROLLERS = ("cpu", "cpuacct", "memory", "blkio", "pids")
WITHIN = 0.05


class Load:
    """The program, which waits for a signal to begin and to end."""

    def __init__(self, **wanted: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *(f"{name}={value}" for name, value in wanted.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready\n"
        self.pid = self._process.pid

    def run(self) -> dict[str, float]:
        """Start its work; it still holds its memory afterwards."""
        self._signal()
        return dict(json.loads(self._answer()))

    def end(self) -> None:
        self._process.communicate("\n", timeout=120)

    def _signal(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()


@pytest.fixture
def group() -> Iterator[dict[str, Path]]:
    """Make a job's control group, named like Slurm's, in each hierarchy."""
    hierarchies = CgroupReader().hierarchies()
    wanted = [name for name in (*CONTROLLERS, UNIFIED) if name in hierarchies]
    folders = {name: hierarchies[name] / GROUP for name in wanted}
    if set(folders) == {UNIFIED}:  # v2 needs its controllers enabled
        for folder in reversed(folders[UNIFIED].parents):
            if (folder / "cgroup.subtree_control").exists() or folder.name.startswith("slurm"):
                folder.mkdir(exist_ok=True)
                (folder / "cgroup.subtree_control").write_text("+cpu +memory +io +pids")
    for folder in folders.values():
        folder.mkdir(parents=True)
    yield folders
    for folder in folders.values():
        for each in (folder, *folder.parents[:2]):
            remove(each)


def remove(folder: Path) -> None:
    """Remove a group; the kernel needs a moment after its last process."""
    for _ in range(1000):
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.02)
        else:
            return
    folder.rmdir()


def device_of(folder: Path) -> tuple[str, str]:
    """Return number and name of the disk that a folder is on."""
    number = folder.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    disk = block.parent if (block / "partition").exists() else block
    return (disk / "dev").read_text().strip(), disk.name


def read(sampler: Any) -> dict[tuple[str, str], float]:
    layout = sampler.layout()
    row = np.empty(layout.width)
    sampler.sample(row)
    names = [(block.entity, name) for block in layout.blocks for name in block.names]
    return dict(zip(names, row.tolist(), strict=True))


def test_what_a_job_used_is_what_was_measured(group: dict[str, Path], tmp_path: Path) -> None:
    size, pages = 64 << 20, 50_000
    load = Load(spin_s=1.0, sleep_s=0.3, pages=pages, disk_bytes=size, folder=tmp_path)
    for folder in group.values():
        (folder / "cgroup.procs").write_text(str(load.pid))
    if "blkio" in group:  # newer kernels count for v1 only where there is a limit
        limit = f"{device_of(tmp_path)[0]} {10**12}"
        (group["blkio"] / "blkio.throttle.read_bps_device").write_text(limit)
    now_s = 0.0
    sampler = cgroups.Cgroups(node="n1", jobs=JobGroups(clock=lambda: now_s))
    counters = PerfCounters(SOFTWARE, online(), cgroup=group[UNIFIED])
    entity = f"n1@{JOB}"
    before = read(sampler)

    done = load.run()
    now_s = 10.0
    after = read(sampler)
    counted = counters.totals()
    counters.close()
    load.end()

    def grown(name: str) -> float:
        return after[entity, name] - before[entity, name]

    cpu_s = (
        grown("cgroup.cpuacct.usage") * 1e-9
        if "cpuacct" in group
        else grown("cgroup.cpu.stat.usage_usec") * 1e-6
    )
    assert job_of(CgroupReader().of_pid(os.getpid())) is None
    assert cpu_s == pytest.approx(done["cpu_s"], rel=WITHIN)
    assert done["took_s"] > done["cpu_s"] + 0.3  # it slept, and that is not processor time
    assert grown("cgroup.memory.current") == pytest.approx(pages * 4096, rel=WITHIN)
    assert grown("cgroup.memory.anon") == pytest.approx(pages * 4096, rel=WITHIN)
    assert after[entity, "cgroup.memory.pgfault/s"] * 10 == pytest.approx(pages, rel=WITHIN)
    assert grown("cgroup.io.rbytes") == pytest.approx(size, rel=WITHIN)
    assert grown("cgroup.io.wbytes") == pytest.approx(size, rel=WITHIN)
    assert after[entity, "cgroup.pids.current"] == 1
    # On a core is not the same as running there: a hypervisor may have taken the core away.
    assert (1 - WITHIN) * done["cpu_s"] <= counted["task-clock"] * 1e-9 <= done["took_s"] - 0.3
    assert counted["page-faults-min"] == pytest.approx(pages, rel=WITHIN)


def least(tries: Callable[[], float], known: float) -> None:
    """Retry until other load is small enough; it can only add."""
    seen: list[float] = []
    while len(seen) < 40 and not (seen and min(seen) <= known * (1 + WITHIN)):
        seen.append(tries())
        assert seen[-1] >= known * (1 - WITHIN)
    assert min(seen) <= known * (1 + WITHIN), seen


def all_tasks_s() -> float:
    """Return the processor time of all tasks, from another source than the host's, if any."""
    usage = Path("/sys/fs/cgroup/cpuacct/cpuacct.usage")
    return float(usage.read_text()) * 1e-9 if usage.exists() else 0.0


def test_the_machine_shows_the_processor_time_of_its_programs() -> None:
    host, spin_s = Host(node="n1"), 1.5

    def without_others_s() -> float:
        load = Load(spin_s=spin_s)
        before, all_s = read(host), all_tasks_s()
        done = load.run()
        # before the machine's own count: a busy machine does more of others' work in between
        others_s = max(0.0, all_tasks_s() - all_s - done["cpu_s"])
        after = read(host)
        load.end()
        busy = ("stat.user", "stat.nice", "stat.system")
        return sum(after["n1", name] - before["n1", name] for name in busy) * 0.01 - others_s

    least(without_others_s, spin_s)


def test_the_machine_shows_the_page_faults_of_its_programs() -> None:
    host, pages = Host(node="n1"), 100_000

    def faults() -> float:
        load = Load(pages=pages)
        before = read(host)
        load.run()
        after = read(host)
        load.end()
        return after["n1", "vmstat.pgfault"] - before["n1", "vmstat.pgfault"]

    least(faults, pages)


@pytest.mark.parametrize("way", ["read", "write"])
def test_a_disk_shows_the_bytes_of_its_programs(tmp_path: Path, way: str) -> None:
    host, size = Host(node="n1"), 128 << 20
    disk = f"n1/disk:{device_of(tmp_path)[1]}"

    def moved() -> float:
        load = Load(disk_bytes=size, folder=tmp_path)
        before = read(host)
        load.run()
        after = read(host)
        load.end()
        name = f"diskstats.{way}_sectors"
        return (after[disk, name] - before[disk, name]) * 512

    least(moved, size)


def test_a_card_shows_the_bytes_that_were_sent(tmp_path: Path) -> None:
    size = 20_000_000
    near, far = f"stw{os.getpid()}a"[-15:], f"stw{os.getpid()}b"[-15:]
    subprocess.run(["ip", "link", "add", near, "type", "veth", "peer", "name", far], check=True)
    try:
        subprocess.run(["ip", "addr", "add", "10.213.7.1/24", "dev", near], check=True)
        for end in (near, far):
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        neighbour = ["10.213.7.2", "lladdr", "02:00:00:00:00:02", "dev", near]
        subprocess.run(["ip", "neigh", "replace", *neighbour], check=True)
        # Without a /sys, interfaces without hardware are named too.
        host = Host(node="n1", source=HostSource(sys=tmp_path))
        load = Load(net_bytes=size, address="10.213.7.2")
        before = read(host)
        load.run()
        after = read(host)
        load.end()
    finally:
        subprocess.run(["ip", "link", "del", near], check=True)

    headers = size // 1000 * (14 + 20 + 8)  # Ethernet, IP, UDP
    for end, name in ((near, "net.transmit_bytes"), (far, "net.receive_bytes")):
        key = (f"n1/net:{end}", name)
        assert after[key] - before[key] == pytest.approx(size + headers, rel=WITHIN)
