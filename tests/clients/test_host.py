"""The machine is read through /proc and /sys; what it does not have is unknown."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fake_machine as fake
from patience import until
from steward.clients.host import HostSource, hostname

Values = dict[tuple[str, str], float]


class ManualClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Machine:
    """A machine in a folder, and its reader."""

    def __init__(self, folder: Path, *, cores: int = 4) -> None:
        self.proc, self.sys = fake.proc(folder / "proc", cores=cores), fake.sys(folder / "sys")
        self.clock = ManualClock()
        self.source = HostSource(proc=self.proc, sys=self.sys, clock=self.clock)

    def read(self, after_s: float = 0.0) -> Values:
        self.clock.now_s += after_s
        return values(self.source)


def values(source: HostSource) -> Values:
    blocks = source.blocks()
    names = [(block.entity, name) for block in blocks for name in block.names]
    into = np.empty(len(names))
    source.read(into)
    return dict(zip(names, into.tolist(), strict=True))


def entities(seen: Values) -> set[str]:
    return {entity for entity, _ in seen}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# -- what is there ---------------------------------------------------------------------------------


def test_a_node_reports_all_its_parts(machine: Machine) -> None:
    seen = machine.read()

    assert entities(seen) == {
        "",
        *(f"/cpu{i}" for i in range(4)),
        "/disk:nvme0n1",
        "/disk:nvme1n1",
        "/net:eth0",
        "/net:ib0",
        "/numa0",
        "/numa1",
        *(f"/ib:mlx5_{i}:1" for i in range(8)),
        "/mount:/data",
        "/mount:scratch",
        "/fs:/",
    }
    assert machine.source.hidden() == {}
    assert (machine.source.cpus(), machine.source.memory_bytes()) == (4, 24682416 * 1024)


def test_numbers_are_those_of_the_files(machine: Machine) -> None:
    seen = machine.read()

    assert seen["", "stat.user"] == 400.0
    assert seen["", "stat.intr"] == 26988736.0
    assert seen["", "stat.ctxt"] == 178603643.0
    assert seen["", "stat.procs_blocked"] == 1.0
    assert seen["", "meminfo.MemAvailable"] == 24071528.0
    assert seen["", "meminfo.used"] == 24682416.0 - 24071528.0
    assert seen["", "meminfo.swap_used"] == 400.0
    assert seen["", "vmstat.pgfault"] == 241417366.0
    assert seen["", "vmstat.pgsteal"] == 15.0
    assert seen["", "loadavg.1m"] == 1.15
    assert seen["", "pressure.io.full"] == 115887530.0
    assert seen["", "snmp.Tcp.CurrEstab"] == 6.0
    assert seen["", "hwmon.cpu"] == 51001.0
    assert seen["", "hwmon.hottest"] == 62850.0
    assert seen["/ib:mlx5_3:1", "ib.state"] == 4.0
    assert seen["/ib:mlx5_3:1", "ib.rate"] == 400.0
    assert seen["/numa1", "numa.MemFree"] == 1001.0
    assert seen["/net:ib0", "net.transmit_drops"] == 4.0


def test_bytes_are_counted_once_and_loopback_not_at_all(machine: Machine) -> None:
    seen = machine.read()

    assert seen["", "diskstats.read_sectors/all"] == 1600.0  # not the partition, not the volume
    assert seen["", "net.receive_bytes/all"] == 2007.0  # eth0, ib0 and veth1
    assert seen["", "net.transmit_bytes/all"] == 1008.0


def test_busy_shares_are_those_since_the_last_reading(machine: Machine) -> None:
    first = machine.read()
    cores = {i: fake.times(user=100, idle=1000) for i in range(3)}
    fake.write(machine.proc / "stat", fake.stat({**cores, 3: fake.times(user=200, idle=900)}))

    second = machine.read(after_s=1.0)
    third = machine.read(after_s=1.0)

    assert math.isnan(first["", "stat.busy_share"])
    assert second["", "stat.busy_share"] == 0.25
    assert [second[f"/cpu{i}", "stat.core.busy_share"] for i in range(4)] == [0, 0, 0, 1.0]
    assert math.isnan(third["", "stat.busy_share"])  # no time has passed


def test_the_mean_time_of_requests_is_that_since_the_last_reading(machine: Machine) -> None:
    machine.read()
    line = fake.disk_line("nvme0n1", reads=110, read_ms=90)
    rest = (machine.proc / "diskstats").read_text().splitlines(keepends=True)[1:]
    fake.write(machine.proc / "diskstats", line + "".join(rest))

    seen = machine.read()

    assert seen["/disk:nvme0n1", "diskstats.read_mean_ms"] == 4.0
    assert math.isnan(seen["/disk:nvme0n1", "diskstats.write_mean_ms"])  # nothing was written


# -- what is read seldom ---------------------------------------------------------------------------


def test_slow_counters_become_rates_and_are_held(machine: Machine) -> None:
    counter = machine.sys / "class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    key = ("/ib:mlx5_0:1", "ib.port_rcv_data/s")
    first = machine.read()
    fake.write(counter, 6000)

    early = machine.read(after_s=0.5)
    due = machine.read(after_s=0.5)
    still = machine.read(after_s=0.5)
    fake.write(counter, 0)
    reset = machine.read(after_s=0.5)

    assert math.isnan(first[key])
    assert math.isnan(early[key])
    assert due[key] == still[key] == 5000.0
    assert math.isnan(reset[key])


def test_far_away_file_systems_report_bytes_requests_and_waiting(machine: Machine) -> None:
    machine.read()
    fake.mounts(machine.proc, reads=60, received=9_000_000, read_ms=3000)

    seen = machine.read(after_s=2.0)

    assert seen["/mount:/data", "mount.read_bytes/s"] == 2_500_000.0
    assert seen["/mount:/data", "mount.reads/s"] == 10.0
    assert seen["/mount:/data", "mount.read_ms/s"] == 1000.0  # one request at any time
    assert seen["/mount:/data", "mount.writes/s"] == 0.0
    assert seen["/mount:scratch", "mount.read_bytes/s"] == 2_500_000.0
    assert math.isnan(seen["/mount:scratch", "mount.read_ms/s"])  # Lustre does not have it


def test_a_file_system_that_is_unmounted_is_gone(machine: Machine) -> None:
    machine.read()
    fake.write(machine.proc / "self/mountstats", "device /dev/vda mounted on / with fstype ext4\n")

    now = machine.read(after_s=1.0)
    later = machine.read(after_s=1.0)

    assert math.isnan(now["/mount:/data", "mount.reads/s"])
    assert "/mount:/data" not in entities(later)
    assert "/mount:scratch" in entities(later)


# -- counters that begin anew ----------------------------------------------------------------------


def test_milliseconds_of_a_disk_continue_beyond_32_bits(machine: Machine) -> None:
    def busy(milliseconds: int) -> float:
        lines = (machine.proc / "diskstats").read_text().splitlines(keepends=True)[1:]
        line = fake.disk_line("nvme0n1", busy_ms=milliseconds)
        fake.write(machine.proc / "diskstats", line + "".join(lines))
        return machine.read()["/disk:nvme0n1", "diskstats.busy_ms"]

    assert busy(2**32 - 10) == 2**32 - 10
    assert busy(30) == 2**32 + 30
    assert busy(2**32 - 5) == 2**33 - 5
    assert busy(1) == 2**33 + 1


def test_milliseconds_that_fall_from_far_below_were_reset(machine: Machine) -> None:
    before = machine.read()["/disk:nvme0n1", "diskstats.busy_ms"]
    lines = (machine.proc / "diskstats").read_text().splitlines(keepends=True)[1:]
    fake.write(machine.proc / "diskstats", fake.disk_line("nvme0n1", busy_ms=4) + "".join(lines))

    assert (before, machine.read()["/disk:nvme0n1", "diskstats.busy_ms"]) == (300.0, 4.0)


def test_energy_continues_where_its_counter_begins_anew(machine: Machine) -> None:
    fake.energy(machine.sys, 0, used=262143328850 - 1_000_000)
    first = machine.read()["", "powercap.package"]
    fake.energy(machine.sys, 0, used=500_000)
    fake.energy(machine.sys, 1, used=3_000_000)

    second = machine.read()["", "powercap.package"]

    assert second - first == 1_500_000 + 2_000_000


# -- devices come and go ---------------------------------------------------------------------------


def test_what_is_read_is_the_same_object_while_nothing_changes(machine: Machine) -> None:
    blocks = machine.source.blocks()
    machine.read(after_s=11.0)  # looks for new hardware, too

    assert machine.source.blocks() is blocks


def test_a_disk_that_is_plugged_in_has_a_row_at_the_next_reading(machine: Machine) -> None:
    machine.read()
    with (machine.proc / "diskstats").open("a") as file:
        file.write(fake.disk_line("nvme2n1"))
    (machine.sys / "block/nvme2n1").mkdir()

    now = machine.read()
    later = machine.read()

    assert "/disk:nvme2n1" not in entities(now)
    assert now["/disk:nvme0n1", "diskstats.reads"] == 100.0  # the others keep their values
    assert later["/disk:nvme2n1", "diskstats.reads"] == 100.0


def test_a_disk_that_is_pulled_is_unknown_and_then_gone(machine: Machine) -> None:
    machine.read()
    fake.write(machine.proc / "diskstats", fake.disk_line("nvme1n1"))

    now = machine.read()
    later = machine.read()

    assert math.isnan(now["/disk:nvme0n1", "diskstats.reads"])
    assert now["/disk:nvme1n1", "diskstats.reads"] == 100.0
    assert "/disk:nvme0n1" not in entities(later)


def test_interfaces_of_containers_come_and_go_unseen(machine: Machine) -> None:
    machine.read()
    blocks = machine.source.blocks()
    cards = [fake.net_line("lo"), fake.net_line("veth9", 1, 1), fake.net_line("ib0", 7, 8)]
    fake.write(machine.proc / "net/dev", fake.NET_HEADER + "".join([*cards, fake.net_line("eth0")]))

    seen = machine.read()

    assert machine.source.blocks() is blocks
    assert seen["/net:ib0", "net.receive_bytes"] == 7.0
    assert seen["", "net.receive_bytes/all"] == 1008.0


def test_a_card_that_is_pulled_is_gone(machine: Machine) -> None:
    machine.read()
    fake.write(machine.proc / "net/dev", fake.NET_HEADER + fake.net_line("eth0"))

    now = machine.read()
    later = machine.read()

    assert math.isnan(now["/net:ib0", "net.receive_bytes"])
    assert "/net:ib0" not in entities(later)


def test_a_core_that_goes_offline_is_gone_and_the_others_continue(machine: Machine) -> None:
    machine.read()
    three = {i: fake.times(user=150, idle=950) for i in (0, 1, 3)}
    fake.write(machine.proc / "stat", fake.stat(three))

    machine.read(after_s=1.0)
    later = machine.read(after_s=1.0)

    assert {e for e in entities(later) if "cpu" in e} == {"/cpu0", "/cpu1", "/cpu3"}
    assert machine.source.cpus() == 3


def test_hardware_that_is_plugged_in_is_found_in_a_while(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    shutil.rmtree(machine.sys / "class/infiniband")
    before = machine.read()
    fake.write(machine.sys / "class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")

    after = machine.read(after_s=11.0)

    assert not [entity for entity in entities(before) if "ib:" in entity]
    assert after["/ib:mlx5_0:1", "ib.state"] == 1.0


# -- what is missing, refused or broken ------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    ["stat", "meminfo", "vmstat", "loadavg", "pressure", "diskstats", "net/dev"],
)
def test_one_file_that_is_missing_costs_only_its_own_numbers(tmp_path: Path, file: str) -> None:
    machine = Machine(tmp_path)
    whole = set(machine.read())
    path = machine.proc / file
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    source = HostSource(proc=machine.proc, sys=machine.sys, clock=machine.clock)

    seen = set(values(source))

    assert seen < whole
    assert len(seen) > len(whole) / 2
    assert file.rsplit("/", maxsplit=1)[-1] in "".join(source.hidden().values())


def test_a_file_that_cannot_be_read_any_more_is_a_gap_until_it_can(machine: Machine) -> None:
    first = machine.read()
    saved = (machine.proc / "meminfo").read_text()
    fake.write(machine.proc / "meminfo", "MemTotal: rubbish kB\n")
    broken = machine.read()
    fake.write(machine.proc / "meminfo", saved)

    again = machine.read()

    assert math.isnan(broken["", "meminfo.MemTotal"])
    assert broken["", "loadavg.1m"] == 1.15
    assert again["", "meminfo.MemTotal"] == first["", "meminfo.MemTotal"]


def test_what_is_there_and_refused_is_hidden_and_not_absent(machine: Machine) -> None:
    zone = machine.sys / "class/powercap/intel-rapl:0/energy_uj"
    zone.unlink()
    zone.mkdir()  # cannot be read, even by root

    hidden = machine.source.hidden()

    assert list(hidden) == ["energy"]
    assert "energy_uj" in hidden["energy"]


def test_a_container_without_sys_reports_disks_and_cards_by_their_names(tmp_path: Path) -> None:
    proc = fake.proc(tmp_path)
    source = HostSource(proc=proc, sys=tmp_path / "nothing")

    seen = values(source)

    assert {e for e in entities(seen) if "disk" in e} == {"/disk:nvme0n1", "/disk:nvme1n1"}
    assert {e for e in entities(seen) if "net" in e} == {"/net:eth0", "/net:ib0", "/net:veth1"}
    assert source.hidden() == {}


def test_the_network_is_that_of_the_first_process_and_not_our_own(tmp_path: Path) -> None:
    proc = fake.proc(tmp_path)
    fake.write(proc / "1/net/dev", fake.NET_HEADER + fake.net_line("bond0", 5, 6))

    seen = values(HostSource(proc=proc, sys=tmp_path / "nothing"))

    assert seen["/net:bond0", "net.receive_bytes"] == 5.0


def test_a_machine_without_anything_is_empty(tmp_path: Path) -> None:
    source = HostSource(proc=tmp_path, sys=tmp_path)

    assert values(source) == {}
    assert source.present() == ()
    assert (source.cpus(), source.memory_bytes()) == (0, 0)


def test_an_old_kernel_without_available_memory_does_not_guess(machine: Machine) -> None:
    lines = (machine.proc / "meminfo").read_text().splitlines(keepends=True)
    fake.write(machine.proc / "meminfo", "".join(x for x in lines if "Available" not in x))

    seen = machine.read()

    assert math.isnan(seen["", "meminfo.used"])
    assert seen["", "meminfo.MemTotal"] == 24682416.0


def test_four_thousand_cores_are_read(tmp_path: Path) -> None:
    machine = Machine(tmp_path, cores=4096)
    machine.read()

    seen = machine.read(after_s=1.0)

    assert len([entity for entity in entities(seen) if "cpu" in entity]) == 4096
    assert seen["", "stat.user"] == 409600.0


FILES = [
    *("stat", "meminfo", "vmstat", "loadavg", "pressure/io", "diskstats", "net/dev", "net/snmp"),
    *("self/mountstats", "fs/lustre/llite/scratch-ffff8810/stats"),
]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(file=st.sampled_from(FILES), keep=st.floats(0, 1), rubbish=st.binary(max_size=20))
def test_a_file_that_is_cut_or_spoilt_anywhere_costs_only_its_own_values(
    tmp_path_factory: pytest.TempPathFactory, file: str, keep: float, rubbish: bytes
) -> None:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    before = machine.read()
    path = machine.proc / file
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)] + rubbish)

    for after_s in (1.0, 1.0, 11.0):
        seen = machine.read(after_s=after_s)
        assert seen["/numa0", "numa.MemFree"] == before["/numa0", "numa.MemFree"]


# -- this machine ----------------------------------------------------------------------------------


def test_this_machine_reports_the_same_as_psutil() -> None:
    source = HostSource()

    until(lambda: saw_the_same(source), why="a moment in which little changed between two looks")


def saw_the_same(source: HostSource) -> bool:
    """Compare what cannot differ, and return whether what may change meanwhile is equal."""
    values(source)
    before = psutil.cpu_times()
    until_s = time.process_time() + 0.3
    while time.process_time() < until_s:
        sum(range(10_000))

    theirs_low = psutil.disk_io_counters(perdisk=True), psutil.net_io_counters(pernic=True)
    ours = values(source)
    after, memory, load = psutil.cpu_times(), psutil.virtual_memory(), psutil.getloadavg()
    theirs_high = psutil.disk_io_counters(perdisk=True), psutil.net_io_counters(pernic=True)

    kib = 1024.0
    assert ours["", "meminfo.MemTotal"] * kib == memory.total
    for entity in entities(ours):
        kind, _, name = entity.removeprefix("/").partition(":")
        if kind == "disk":
            low, high = theirs_low[0][name], theirs_high[0][name]
            read = ours[entity, "diskstats.read_sectors"] * 512
            assert low.read_bytes <= read <= high.read_bytes
        if kind == "net":
            low, high = theirs_low[1][name], theirs_high[1][name]
            assert low.bytes_recv <= ours[entity, "net.receive_bytes"] <= high.bytes_recv
            assert low.packets_sent <= ours[entity, "net.transmit_packets"] <= high.packets_sent
    idle = (after.idle + after.iowait) - (before.idle + before.iowait)
    whole = sum(after[:8]) - sum(before[:8])
    return (
        ours["", "meminfo.MemAvailable"] * kib == pytest.approx(memory.available, rel=0.02)
        and ours["", "meminfo.used"] * kib == pytest.approx(memory.used, abs=0.02 * memory.total)
        and ours["", "loadavg.1m"] == pytest.approx(load[0], abs=0.2)
        and ours["", "stat.busy_share"] == pytest.approx(1 - idle / whole, abs=0.1)
    )


def test_this_machine_has_a_name() -> None:
    assert hostname()
