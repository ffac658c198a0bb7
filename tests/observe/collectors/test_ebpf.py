from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from made_up_kernel import MadeUpKernel, small_kernel
from steward.clients.bpf.support import obstacle
from steward.clients.cgroups import CgroupReader
from steward.errors import StewardError
from steward.model.metrics import aliases_from
from steward.observe.collectors.ebpf import DEFAULT_SETS, Ebpf


class MadeUpGroups(CgroupReader):
    """Control groups by id, in the v2 hierarchy unless it says another."""

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
    """A collector over a made-up kernel, and what its programs would do."""

    def __init__(self, folder: Path, **options: object) -> None:
        types = folder / "vmlinux"
        types.write_bytes(small_kernel())
        self.kernel = MadeUpKernel(types=types, **options)  # type: ignore[arg-type]
        self.groups = MadeUpGroups({1: "/", 7: "/slurm/uid_0/job_812/step_0"})
        self.clock = Clock()
        self.probes = Ebpf(
            node="n1",
            sets=("faults", "tcp"),
            kernel=self.kernel,
            cgroups=self.groups,
            now_s=self.clock,
        )

    def fault(self, group: int, times: int = 1) -> None:
        session = self.probes._session
        assert session
        rows = session.probes.rows
        slots = self.kernel.maps[rows.places.slots]
        key = struct.pack("<Q", group)
        if key not in slots:
            slots[key] = self.kernel.stacks[rows.places.free].pop()
            session.probes._notes[0] += np.uint64(1)
        slot = struct.unpack("<I", slots[key])[0]
        rows._rows[0, slot, 0] += np.uint64(times)

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
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


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


def test_a_set_that_cannot_run_is_told_once_and_the_others_go_on(bench: Bench) -> None:
    assert bench.probes.available().status == "limited"
    assert "tcp: this kernel has no 'btf_trace_tcp_retransmit_skb'" in (
        bench.probes.available().reason
    )

    told = [bench.probes.collect(float(turn)).events for turn in range(2)]

    assert [event.kind for event in told[0]] == ["collector.limited"]
    assert "no probes for tcp" in told[0][0].text
    assert told[1] == ()
    assert "faults.count" in bench.read()["n1"]


def test_what_the_kernel_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    bench = Bench(tmp_path, refuses=("page_fault_user",))

    bench.probes.layout()

    assert "Permission denied" in bench.probes.available().reason
    assert not bench.kernel.programs
    bench.probes.close()
    assert not bench.kernel.open


def test_closing_takes_everything_off_and_the_next_look_starts_anew(bench: Bench) -> None:
    bench.probes.layout()
    bench.fault(7, 9)
    assert bench.kernel.open

    bench.probes.close()

    assert not bench.kernel.open
    assert bench.read()["n1"]["faults.count"] == 0


def test_jobs_that_move_to_another_hierarchy_are_followed(bench: Bench) -> None:
    bench.probes.layout()
    first = set(bench.kernel.programs)
    bench.groups.name = "memory"

    bench.clock.now_s += 100.0
    bench.probes.collect(1.0)

    assert set(bench.kernel.programs) > first


def test_a_hierarchy_without_a_controller_is_told(bench: Bench) -> None:
    bench.groups.name = "systemd"

    told = bench.probes.collect(1.0).events

    assert "probes.unattributed" in [event.kind for event in told]


def test_what_was_lost_is_counted_and_told(bench: Bench) -> None:
    bench.probes.layout()
    session = bench.probes._session
    assert session
    session.probes._notes[1:] = (4, 2, 1)

    assert bench.read()["n1"] == {
        "faults.count": 0,
        "probes.lost": 3,
        "probes.unattributed": 4,
    }
    kinds = {event.kind for event in bench.probes.collect(1.0).events}
    assert kinds == {"collector.limited", "probes.full", "probes.lost"}


def test_without_the_right_to_probe_nothing_is_read_and_it_says_so(tmp_path: Path) -> None:
    fault = StewardError("this user may not load probes", hint="run as root")
    bench = Bench(tmp_path, hinders=fault)

    assert bench.probes.available().status == "missing"
    assert bench.probes.layout().width == 0
    bench.probes.sample(np.empty(0))
    first, second = (bench.probes.collect(float(turn)).events for turn in range(2))
    assert [event.kind for event in first] == ["collector.missing"]
    assert second == ()


def test_damaged_types_are_a_reason_and_no_crash(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.kernel.types.write_bytes(b"garbage")

    assert bench.probes.available().status == "missing"
    assert bench.probes.layout().width == 0
    assert "not BTF" in bench.probes.collect(0.0).events[0].text


def test_an_unknown_set_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(StewardError, match="no probe set called 'shed'") as caught:
        Ebpf(sets=("shed",))
    assert "sched" in caught.value.hint


def test_every_word_of_every_set_is_a_metric() -> None:
    from steward.clients.bpf.probes import chosen
    from steward.clients.bpf.readings import Readings
    from steward.clients.bpf.rows import Rows

    sets = chosen((*DEFAULT_SETS, "cuda-launch"))
    counters = {name: count for each in sets for name, count in each.counters.items()}
    words = Readings(Rows(MadeUpKernel(), counters, slots=2, stripes=1)).words

    assert {*words, "probes.lost", "probes.unattributed"} == set(aliases_from("ebpf"))


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
def test_what_stands_in_the_way_is_named(
    tmp_path: Path, release: str, capabilities: str, problem: str
) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "self").mkdir()
    (tmp_path / "sys/kernel/osrelease").write_text(f"{release}\n")
    (tmp_path / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    types = tmp_path / "vmlinux"
    types.write_bytes(b"")

    found = obstacle(types=types, proc=tmp_path)

    assert problem in (found.problem if found else "")
    assert bool(found) == bool(problem)
    missing = obstacle(types=tmp_path / "none", proc=tmp_path)
    assert missing is not None
