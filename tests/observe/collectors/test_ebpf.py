from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from fake_bpf import FakeLoader, FakeMap
from steward.clients.bpf.columns import COLUMNS
from steward.clients.bpf.counter_reader import CounterReader
from steward.clients.bpf.probe_sets import PROBE_SETS, PROGRAMS, choose_sets
from steward.clients.bpf.probes import Probes
from steward.clients.bpf.support import obstacle
from steward.clients.cgroups import CgroupReader
from steward.errors import StewardError
from steward.model.metrics import aliases_from
from steward.observe.collectors.ebpf import Ebpf


class FakeGroups(CgroupReader):
    """Control groups by id, in the v2 hierarchy unless another is given."""

    def __init__(self, groups: dict[int, str], hierarchy: str = "") -> None:
        super().__init__()
        self.groups = groups
        self.name = hierarchy

    def hierarchy(self) -> str:
        return self.name

    def ids(self) -> dict[int, str]:
        return dict(self.groups)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Bench:
    """A collector over a fake loader, and what its programs would do."""

    def __init__(self, **options: object) -> None:
        self.loader = FakeLoader(**options)  # type: ignore[arg-type]
        self.groups = FakeGroups({1: "/", 7: "/slurm/uid_0/job_812/step_0"})
        self.clock = Clock()
        self.probes = Ebpf(
            node="n1",
            sets=("faults", "tcp"),
            loader=self.loader,
            cgroups=self.groups,
            now_s=self.clock,
        )

    def fault(self, group: int, times: int = 1) -> None:
        session = self.probes._session
        assert session
        maps = self.loader.objects[-1].maps
        slots, free = maps["slots"].elements, maps["free_slots"].stack  # type: ignore[attr-defined]
        key = struct.pack("<Q", group)
        if key not in slots:
            slots[key] = free.pop()
            session.probes._notes[0] += np.uint64(1)
        slot = struct.unpack("<I", slots[key])[0]
        session.probes.table.rows[0, slot, COLUMNS["faults.count"]] += np.uint64(times)

    def read(self, *, after_s: float = 1.0) -> dict[str, dict[str, float]]:
        self.clock.now_s += after_s
        layout = self.probes.layout()
        values = np.full(layout.width, np.nan)
        self.probes.sample(values)
        numbers = iter(values.tolist())
        return {
            block.entity: {name: next(numbers) for name in block.names} for block in layout.blocks
        }


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_job_has_its_own_numbers_and_the_node_has_all(bench: Bench) -> None:
    bench.probes.layout()
    bench.fault(1, 3)
    bench.fault(7, 5)

    seen = bench.read()

    assert seen["n1@812"] == {"faults.count": 5}
    assert seen["n1"] == {"faults.count": 8, "probes.lost": 0, "probes.unattributed": 0}


def test_the_layout_is_the_same_object_until_a_job_comes_or_goes(bench: Bench) -> None:
    empty = bench.probes.layout()
    assert bench.probes.layout() is empty

    bench.fault(7)
    bench.clock.now_s += 1.0
    one = bench.probes.layout()
    assert [block.entity for block in one.blocks] == ["n1@812", "n1"]
    bench.clock.now_s += 60.0
    assert bench.probes.layout() is one

    del bench.groups.groups[7]
    bench.clock.now_s += 60.0
    assert [block.entity for block in bench.probes.layout().blocks] == ["n1"]
    assert bench.read()["n1"]["faults.count"] == 1  # what a job counted stays in the total


def test_a_set_that_cannot_run_is_reported_once_and_the_others_run(bench: Bench) -> None:
    assert bench.probes.available().status == "limited"
    assert "tcp: this kernel has no tracepoint tcp_retransmit_skb" in (
        bench.probes.available().reason
    )

    reported = [bench.probes.collect(float(turn)).events for turn in range(2)]

    assert [event.kind for event in reported[0]] == ["collector.limited"]
    assert "no probes for tcp" in reported[0][0].text
    assert reported[1] == ()
    assert "faults.count" in bench.read()["n1"]


@pytest.mark.parametrize("step", ["refuses", "refuses_to_attach"])
def test_a_set_that_the_kernel_refuses_leaves_nothing_behind(step: str) -> None:
    tracepoints = {"page_fault_user": 3, "tcp_retransmit_skb": 2, "tcp_probe": 2}
    bench = Bench(tracepoints=tracepoints, **{step: ("tcp",)})

    bench.probes.layout()

    assert bench.probes.available().status == "limited"
    assert "Permission denied" in bench.probes.available().reason
    assert [each.name for each in bench.loader.objects if each.is_open] == ["faults"]
    assert bench.read()["n1"]["faults.count"] == 0
    bench.probes.close()
    assert not bench.loader.leftovers()


def test_a_kernel_that_refuses_every_set_is_reported_as_missing() -> None:
    bench = Bench(refuses=("faults",))

    assert bench.probes.layout().width == 0
    assert bench.probes.available().status == "missing"
    assert "Permission denied" in bench.probes.available().reason
    assert not bench.loader.leftovers()


def test_closing_unloads_everything_and_the_next_look_starts_anew(bench: Bench) -> None:
    bench.probes.layout()
    bench.fault(7, 9)
    assert bench.loader.leftovers()

    bench.probes.close()

    assert not bench.loader.leftovers()
    assert bench.read()["n1"]["faults.count"] == 0


def test_jobs_that_move_to_another_hierarchy_are_followed(bench: Bench) -> None:
    bench.probes.layout()
    assert bench.loader.settings
    assert bench.loader.settings.controller == -1
    bench.groups.name = "memory"

    bench.clock.now_s += 100.0
    bench.probes.collect(1.0)

    assert bench.loader.settings.controller == 4


def test_waits_that_last_are_counted_before_each_reading() -> None:
    tracepoints = {"sched_switch": 4, "sched_wakeup": 1, "sched_wakeup_new": 1}
    bench = Bench(tracepoints={**tracepoints, "sched_process_free": 1})
    bench.probes = Ebpf(
        sets=("sched",), loader=bench.loader, cgroups=bench.groups, now_s=bench.clock
    )
    for _ in range(3):
        bench.read()

    loaded = bench.loader.objects[-1]
    assert loaded.runs == ["count_ongoing"] * 3
    assert bench.loader.settings
    assert bench.loader.settings.switch_has_state


def test_a_hierarchy_without_a_controller_is_reported(bench: Bench) -> None:
    bench.groups.name = "systemd"

    events = bench.probes.collect(1.0).events

    assert "probes.unattributed" in [event.kind for event in events]


def test_lost_events_are_counted_and_reported(bench: Bench) -> None:
    bench.probes.layout()
    session = bench.probes._session
    assert session
    session.probes._notes[1:4] = (4, 2, 1)

    assert bench.read()["n1"] == {
        "faults.count": 0,
        "probes.lost": 3,
        "probes.unattributed": 4,
    }
    kinds = {event.kind for event in bench.probes.collect(1.0).events}
    assert kinds == {"collector.limited", "probes.full", "probes.lost"}


def test_without_the_right_to_probe_nothing_is_read_and_the_reason_is_reported() -> None:
    fault = StewardError("this user may not load probes", hint="run as root")
    bench = Bench(problem=fault)

    assert bench.probes.available().status == "missing"
    assert bench.probes.layout().width == 0
    bench.probes.sample(np.empty(0))
    first, second = (bench.probes.collect(float(turn)).events for turn in range(2))
    assert [event.kind for event in first] == ["collector.missing"]
    assert second == ()


def test_damaged_types_are_a_reason_and_no_crash() -> None:
    bench = Bench(damaged_types=True)

    assert bench.probes.available().status == "missing"
    assert bench.probes.layout().width == 0
    assert "cannot read the kernel's types" in bench.probes.collect(0.0).events[0].text


def test_an_unknown_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(StewardError, match="no probe set called 'shed'") as caught:
        Ebpf(sets=("shed",))
    assert "sched" in caught.value.hint


def test_every_name_of_every_set_is_a_metric() -> None:
    names = {*CounterReader.names, "probes.lost", "probes.unattributed"}

    assert names == set(aliases_from("ebpf"))


def test_every_name_belongs_to_one_set() -> None:
    for name in CounterReader.names:
        assert sum(name.startswith(each.counters) for each in PROBE_SETS.values()) == 1, name


def test_a_machine_without_libbpf_reports_what_to_install(tmp_path: Path) -> None:
    fake_proc(tmp_path, release="6.1.0", capabilities="000001ffffffffff")

    found = obstacle(vmlinux=tmp_path, proc=tmp_path, library="libbpf-none.so.1")

    assert found
    assert found.problem == "libbpf-none.so.1 is not installed"
    assert "apt-get install libbpf1" in found.hint


def fake_proc(folder: Path, *, release: str, capabilities: str) -> None:
    (folder / "sys/kernel").mkdir(parents=True)
    (folder / "self").mkdir()
    (folder / "sys/kernel/osrelease").write_text(f"{release}\n")
    (folder / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")


@pytest.mark.parametrize(
    ("release", "capabilities", "problem"),
    [
        ("5.4.0-generic", "000001ffffffffff", "the kernel is 5.4.0-generic"),
        ("6.1.0", "0000000000000000", "may not load probes"),
        ("6.1.0", "0000008000000000", "may not load probes"),  # CAP_BPF alone
        ("6.1.0", "000000c000000000", ""),  # CAP_BPF and CAP_PERFMON
        ("5.13.1", "0000000000200000", ""),  # CAP_SYS_ADMIN
    ],
)
def test_the_obstacle_is_named(
    tmp_path: Path, release: str, capabilities: str, problem: str
) -> None:
    fake_proc(tmp_path, release=release, capabilities=capabilities)
    libc = "libc.so.6"  # a library that is there

    found = obstacle(vmlinux=tmp_path, proc=tmp_path, library=libc)

    assert problem in (found.problem if found else "")
    assert bool(found) == bool(problem)
    assert obstacle(vmlinux=tmp_path / "none", proc=tmp_path, library=libc) is not None


def test_an_object_that_is_missing_from_the_package_leaves_out_its_set(tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "faults.bpf.o", tmp_path)
    loader = FakeLoader(tracepoints={"page_fault_user": 3, "tcp_retransmit_skb": 2, "tcp_probe": 2})
    sets = choose_sets(("faults", "tcp"))
    types = loader.types([name for each in sets for name in each.tracepoints])

    probes = Probes(loader, types, sets, controller=-1, slots=4, programs=tmp_path)

    assert [each.name for each in probes.running] == ["faults"]
    assert "tcp.bpf.o: No such file" in probes.refused["tcp"]


def test_maps_that_cannot_be_used_leave_nothing_loaded() -> None:
    class FullMap(FakeMap):
        def update(self, key: bytes, value: bytes) -> None:
            raise StewardError("cannot write to a map: Cannot allocate memory")

    bench = Bench(shared_maps=FullMap)

    assert bench.probes.layout().width == 0
    assert "Cannot allocate memory" in bench.probes.available().reason
    assert not bench.loader.leftovers()
