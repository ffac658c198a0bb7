"""What jobs use is read from their control groups, v1 and v2, while they come and go."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import fake_machine as fake
from steward.clients.cgroups import CgroupReader
from steward.clients.linux.jobs import JobGroups
from steward.model.metrics import aliases_from
from steward.observe.collectors.cgroups import Cgroups

SCOPE = "system.slice/slurmstepd.scope"


class Site:
    """A cgroup tree in a folder, with a clock that is set by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_s = 100.0
        groups = JobGroups(CgroupReader(root), clock=lambda: self.now_s)
        self.collector = Cgroups(node="n1", jobs=groups)

    def read(self, after_s: float = 0.0) -> dict[str, dict[str, float]]:
        self.now_s += after_s
        layout = self.collector.layout()
        row = np.empty(layout.width)
        self.collector.sample(row)
        left = row.tolist()
        return {
            block.entity: {name: left.pop(0) for name in block.names} for block in layout.blocks
        }


@pytest.fixture
def second(tmp_path: Path) -> Site:
    (tmp_path / "cgroup.controllers").touch()
    fake.second_group(tmp_path / SCOPE / "job_812")
    fake.second_group(tmp_path / SCOPE / "job_812/step_0")
    fake.second_group(tmp_path / "system.slice/sshd.service")
    return Site(tmp_path)


@pytest.fixture
def first(tmp_path: Path) -> Site:
    """A v1 tree in which Slurm uses some controllers; as recorded in a group on Linux 6.18."""
    job = "slurm/uid_0/job_812"
    for name in ("cpu", "cpuacct", "memory", "blkio", "pids", "freezer"):
        fake.write(tmp_path / name / "cgroup.procs", "")
    fake.write(tmp_path / "cpuacct" / job / "cpuacct.usage", 1162311948)
    fake.write(tmp_path / "cpuacct" / job / "cpuacct.usage_user", 1047921448)
    fake.write(tmp_path / "cpuacct" / job / "cpuacct.usage_sys", 114390500)
    fake.write(
        tmp_path / "cpu" / job / "cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 5000\n"
    )
    fake.write(tmp_path / "cpu" / job / "cpu.cfs_quota_us", 800000)
    fake.write(tmp_path / "cpu" / job / "cpu.cfs_period_us", 100000)
    fake.write(tmp_path / "memory" / job / "memory.usage_in_bytes", 208928768)
    fake.write(tmp_path / "memory" / job / "memory.max_usage_in_bytes", 209977344)
    fake.write(tmp_path / "memory" / job / "memory.limit_in_bytes", 9223372036854771712)
    fake.write(
        tmp_path / "memory" / job / "memory.stat",
        "cache 0\nrss 0\ntotal_cache 500\ntotal_rss 208084992\ntotal_mapped_file 8\n"
        "total_swap 0\ntotal_pgfault 52000\ntotal_pgmajfault 3\n",
    )
    fake.write(
        tmp_path / "memory" / job / "memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    )
    for what, factor in (("io_service_bytes", 524288), ("io_serviced", 1)):
        fake.write(
            tmp_path / "blkio" / job / f"blkio.throttle.{what}_recursive",
            f"254:0 Read {128 * factor}\n254:0 Write {134 * factor}\n254:0 Sync 262\n"
            f"254:0 Total {262 * factor}\n254:16 Read {2 * factor}\nTotal {264 * factor}\n",
        )
    fake.write(tmp_path / "pids" / job / "pids.current", 17)
    (tmp_path / "freezer" / job / "step_0").mkdir(parents=True)
    return Site(tmp_path)


def test_a_job_of_v2_is_read_at_its_outermost_group(second: Site) -> None:
    seen = second.read()

    assert list(seen) == ["n1@812"]
    job = seen["n1@812"]
    assert job["cgroup.cpu.stat.usage_usec"] == 5_000_000
    assert job["cgroup.memory.current"] == 1 << 30
    assert job["cgroup.memory.resident"] == 1200  # without a file, and mapped
    assert job["cgroup.io.rbytes"] == 8192  # of both disks
    assert job["cgroup.io.wios"] == 2
    assert job["cgroup.cpu.limit"] == 16
    assert job["cgroup.pids.current"] == 12
    assert math.isnan(job["cgroup.memory.limit"])  # has none


def test_a_job_of_v1_is_read_in_all_its_hierarchies(first: Site) -> None:
    (job,) = first.read().values()

    assert job["cgroup.cpuacct.usage"] == 1162311948
    assert job["cgroup.cpu.stat.throttled_time"] == 5000
    assert job["cgroup.cpu.limit"] == 8
    assert job["cgroup.memory.current"] == 208928768
    assert job["cgroup.memory.anon"] == 208084992
    assert math.isnan(job["cgroup.memory.limit"])
    assert job["cgroup.io.rbytes"] == 130 * 524288
    assert job["cgroup.io.wios"] == 134
    assert job["cgroup.pids.current"] == 17


def test_disk_bytes_that_the_kernel_does_not_count_are_unknown(first: Site) -> None:
    group = first.root / "blkio/slurm/uid_0/job_812"
    fake.write(group / "blkio.throttle.io_service_bytes_recursive", "Total 0\n")
    fake.write(group / "blkio.bfq.io_service_bytes_recursive", "Total 0\n")

    assert math.isnan(first.read()["n1@812"]["cgroup.io.rbytes"])

    fake.write(group / "blkio.bfq.io_service_bytes_recursive", "8:0 Read 7\n8:0 Write 1\n")
    assert first.read()["n1@812"]["cgroup.io.rbytes"] == 7


def test_faults_and_pressure_are_rates_that_are_held(second: Site) -> None:
    before = second.read()["n1@812"]
    fake.second_group(second.root / SCOPE / "job_812", faults=300, stall=500_000)

    now = second.read(after_s=1.0)["n1@812"]

    assert math.isnan(before["cgroup.memory.pgfault/s"])
    assert now["cgroup.memory.pgfault/s"] == 200.0
    assert now["cgroup.pressure.io.some/s"] == 500_000.0
    assert now["cgroup.pressure.io.full/s"] == 250_000.0


@pytest.mark.parametrize("kind", ["first", "second"])
def test_every_name_is_known(kind: str, request: pytest.FixtureRequest) -> None:
    (job,) = request.getfixturevalue(kind).read().values()

    assert set(job) <= set(aliases_from("linux"))
    assert len(job) >= 19


def test_jobs_come_and_go_and_the_others_continue(second: Site) -> None:
    layout = second.collector.layout()
    fake.second_group(second.root / SCOPE / "job_813", usage=7)
    early = second.collector.layout()

    both = second.read(after_s=5.0)
    shutil.rmtree(second.root / SCOPE / "job_812")
    after = second.read(after_s=5.0)

    assert early is layout  # groups are looked for every few seconds
    assert second.collector.layout() is not layout
    assert list(both) == ["n1@812", "n1@813"]
    assert list(after) == ["n1@813"]
    assert after["n1@813"]["cgroup.cpu.stat.usage_usec"] == 7


def test_a_group_that_vanishes_under_the_reader_is_unknown(second: Site) -> None:
    fake.second_group(second.root / SCOPE / "job_813")
    second.read()
    for file in (second.root / SCOPE / "job_812").glob("*.*"):
        file.write_text("") if file.is_file() else None

    seen = second.read()

    assert math.isnan(seen["n1@812"]["cgroup.memory.current"])
    assert seen["n1@813"]["cgroup.memory.current"] == 1 << 30


def test_groups_of_two_daemons_on_one_machine_are_one_job(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    for daemon in ("n1", "n2"):
        fake.second_group(tmp_path / f"system.slice/{daemon}_slurmstepd.scope/job_5", usage=3)

    seen = Site(tmp_path).read()

    assert list(seen) == ["n1@5"]
    assert seen["n1@5"]["cgroup.cpu.stat.usage_usec"] == 6


def test_where_groups_are_reports_which_kind_they_are(
    first: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("second")
    (folder / "cgroup.controllers").touch()
    nothing = Site(folder / "nothing")

    assert first.collector.available().reason == "cgroup v1, 1 jobs now"
    assert Site(folder).collector.available().reason == "cgroup v2, 0 jobs now"
    assert nothing.collector.available().status == "missing"
    assert nothing.read() == {}
    assert nothing.collector.collect(1.0).frame.height == 0
