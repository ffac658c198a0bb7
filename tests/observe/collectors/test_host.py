"""The machine becomes one node with its parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fake_machine as fake
from steward.clients.host import HostSource
from steward.model.frame import ENTITY, T_S
from steward.model.metrics import aliases_from
from steward.observe.collectors import COLLECTORS
from steward.observe.collectors.host import Host
from steward.observe.sampling import Track


class ManualHost:
    """A clock and a host name that are set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.name = "n1"


@pytest.fixture
def manual() -> ManualHost:
    return ManualHost()


@pytest.fixture
def host(tmp_path: Path, manual: ManualHost) -> Host:
    source = HostSource(
        proc=fake.proc(tmp_path / "proc"),
        sys=fake.sys(tmp_path / "sys"),
        clock=lambda: manual.now_s,
        named=lambda: manual.name,
    )
    return Host(source=source)


def test_the_machine_is_one_node_without_gpus(host: Host) -> None:
    seen = host.collect(5.0)

    assert seen.cluster is not None
    (node,) = seen.cluster.nodes
    assert (node.id, node.cpus, node.memory_bytes, node.gpus) == ("n1", 4, 24682416 * 1024, ())
    assert seen.frame.height == 0  # numbers are sampled


def test_the_node_is_reported_again_only_when_it_changed(host: Host, tmp_path: Path) -> None:
    host.collect(5.0)
    same = host.collect(6.0).cluster
    fake.write(tmp_path / "proc/stat", fake.stat({0: fake.times(user=1, idle=1)}))

    changed = host.collect(7.0).cluster

    assert same is None
    assert changed is not None
    assert changed.nodes[0].cpus == 1


def test_every_name_that_is_sampled_is_known(host: Host) -> None:
    names = {name for block in host.layout().blocks for name in block.names}

    assert names <= set(aliases_from("linux"))
    assert len(names) > 90


def test_the_layout_is_the_same_object_until_a_part_comes(
    host: Host, manual: ManualHost, tmp_path: Path
) -> None:
    layout = host.layout()
    same = host.layout()
    fake.write(tmp_path / "sys/class/infiniband/mlx5_8/ports/1/state", "4: ACTIVE\n")
    manual.now_s += 11

    other = host.layout()

    assert same is layout
    assert other is not layout
    assert {block.entity for block in other.blocks} - {block.entity for block in layout.blocks} == {
        "n1/ib:mlx5_8:1"
    }


def test_parts_that_come_and_go_are_events(host: Host, manual: ManualHost, tmp_path: Path) -> None:
    host.layout()
    host.collect(1.0)
    fake.write(tmp_path / "proc/diskstats", fake.disk_line("nvme1n1") + fake.disk_line("sda"))
    (tmp_path / "sys/block/sda").mkdir()
    for _ in range(2):  # the tick that finds out, and the one after it
        host.sample(np.empty(host.layout().width))

    seen = host.collect(2.0)

    host.layout()
    again = host.collect(3.0)
    assert [(event.kind, event.subject) for event in (*seen.events, *again.events)] == [
        ("host.part-gone", "n1/disk:nvme0n1"),
        ("host.part-came", "n1/disk:sda"),
    ]


def test_a_machine_that_is_renamed_keeps_its_name_and_this_is_reported_once(
    host: Host, manual: ManualHost
) -> None:
    host.collect(1.0)
    manual.name = "n99"

    first, second = host.collect(2.0), host.collect(3.0)

    assert [event.kind for event in first.events] == ["host.renamed"]
    assert "n99" in first.events[0].text
    assert second.events == ()
    assert {block.entity.partition("/")[0] for block in host.layout().blocks} == {"n1"}


def test_a_configured_name_counts_whatever_the_machine_calls_itself(tmp_path: Path) -> None:
    host = Host(node="gpu-7", proc=str(tmp_path), sys=str(tmp_path))

    assert host.node == "gpu-7"
    assert host.collect(1.0).events == ()


def test_ticks_become_shares_rates_and_bytes(
    host: Host, manual: ManualHost, tmp_path: Path
) -> None:
    pace = Track(host, every_s=1.0)
    pace.tick(100.0)
    cores = {i: fake.times(user=150, idle=950) for i in range(4)}
    fake.write(tmp_path / "proc/stat", fake.stat(cores))
    fake.write(tmp_path / "proc/pressure/cpu", fake.PSI.format("some", 8508155112 + 250_000))
    counter = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    fake.write(counter, 1_000 + 25_000_000)
    manual.now_s += 1.0
    pace.tick(101.0)

    tables, events = pace.drain()
    rows = {
        row[ENTITY]: row for table in tables for row in table.filter(pl.col(T_S) == 101).to_dicts()
    }

    assert events == ()
    assert rows["n1"]["host.cpu.busy_share"] == pytest.approx(0.5)
    assert rows["n1"]["host.cpu.user_cores"] == pytest.approx(2.0)
    assert rows["n1"]["host.pressure.cpu.some_share"] == pytest.approx(0.25)
    assert rows["n1"]["host.memory.swap_used_bytes"] == 400 * 1024
    assert rows["n1"]["host.temperature_celsius"] == pytest.approx(62.85)
    assert rows["n1/cpu2"]["cpu.busy_share"] == pytest.approx(0.5)
    assert rows["n1/ib:mlx5_0:1"]["ib.receive_bytes_per_s"] == pytest.approx(1e8)
    assert rows["n1/ib:mlx5_0:1"]["ib.limit_bytes_per_s"] == pytest.approx(50e9)
    assert rows["n1/disk:nvme0n1"]["disk.busy_share"] == 0.0


def test_a_machine_that_reports_everything_is_ok(host: Host) -> None:
    state = host.available()

    assert state.status == "ok"
    assert "4 cores" in state.reason


def test_a_machine_that_keeps_something_back_is_limited(host: Host, tmp_path: Path) -> None:
    (tmp_path / "proc/diskstats").unlink()

    state = host.available()

    assert state.status == "limited"
    assert "diskstats" in state.reason
    assert state.hint


def test_without_proc_there_is_nothing_to_see(tmp_path: Path) -> None:
    host = Host(node="n1", proc=str(tmp_path), sys=str(tmp_path))

    assert host.available().status == "missing"
    assert host.layout().width == 0


def test_every_collector_is_in_the_table_under_its_own_name() -> None:
    assert {name: make().name for name, make in COLLECTORS.items()} == {n: n for n in COLLECTORS}


def test_this_machine_can_be_sampled() -> None:
    host = Host(cores=False)
    row = np.full(host.layout().width, np.nan)

    host.sample(row)

    assert np.isfinite(row).sum() > 30
    assert not [block for block in host.layout().blocks if "/cpu" in block.entity]
