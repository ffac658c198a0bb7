from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pynvml
import pytest

from factories import cluster, gpu_row, job, node, samples, tenants
from patience import LONG_S, until
from recorded_nvml import RecordedNvml
from steward.clients.nvml import Driver, GpuRegistry
from steward.errors import StewardError
from steward.model.cluster import Health, Link, LinkKind, Node, Switch
from steward.model.event import Availability, Fault, LogLine, Observation
from steward.model.identity import GpuId, NodeId, TenantId
from steward.model.site import Autonomy, TenantCeiling
from steward.observe import watch as module
from steward.observe.collectors.nvml import Nvml
from steward.observe.watch import Watch


class Eye:
    """A collector with prepared observations."""

    vocabulary = "canonical"

    def __init__(self, name: str, see: Callable[[float], Observation]) -> None:
        self.name = name
        self.see = see

    def available(self) -> Availability:
        return Availability(status="ok", reason="always")

    def collect(self, t_s: float) -> Observation:
        return self.see(t_s)

    def close(self) -> None: ...


def entities(seen: Observation) -> list[str]:
    return [entity for table in seen.tables for entity in table["entity"].to_list()]


def busy(gpu: str, share: float) -> Callable[[float], Observation]:
    return lambda t_s: Observation(frame=samples(t_s, {gpu: gpu_row(share)}))


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Hold a collector up until the end of the test at the latest."""
    held = threading.Event()
    yield held
    held.set()


def test_what_all_collectors_see_comes_together() -> None:
    watch = Watch(
        [Eye("a", busy("n1/gpu0", 0.1)), Eye("b", busy("n2/gpu0", 0.2))], timeout_s=LONG_S
    )

    seen, faults = watch.look(5.0)

    assert faults == ()
    assert sorted(entities(seen)) == ["n1/gpu0", "n2/gpu0"]


def test_a_collector_that_throws_costs_only_its_own_samples() -> None:
    def broken(_t_s: float) -> Observation:
        raise RuntimeError("sensor gone")

    def unhappy(_t_s: float) -> Observation:
        raise StewardError("no driver", hint="install it")

    watch = Watch(
        [Eye("a", broken), Eye("b", busy("n2/gpu0", 0.2)), Eye("c", unhappy)], timeout_s=LONG_S
    )

    seen, faults = watch.look(5.0)

    assert entities(seen) == ["n2/gpu0"]
    assert [(fault.where, fault.problem) for fault in faults] == [
        ("collector a", "RuntimeError: sensor gone"),
        ("collector c", "no driver"),
    ]
    assert faults[1].hint == "install it"


def test_a_collector_that_hangs_is_named_once_and_read_when_it_comes_back(
    gate: threading.Event,
) -> None:
    def slow(t_s: float) -> Observation:
        gate.wait(LONG_S)
        return busy("n1/gpu0", 0.1)(t_s)

    watch = Watch([Eye("slow", slow), Eye("b", busy("n2/gpu0", 0.2))], timeout_s=0.2)
    seen: list[list[str]] = []
    faults: list[Fault] = []

    def looked() -> bool:
        """Look once more; on a busy machine the other collector may be late as well."""
        observed, found = watch.look(1.0 + len(seen))
        seen.append(entities(observed))
        faults.extend(fault for fault in found if fault.where == "collector slow")
        return seen.count(["n2/gpu0"]) >= 2

    until(looked)
    gate.set()
    watch.timeout_s = LONG_S
    last, after = watch.look(1000.0)

    assert not any("n1/gpu0" in each for each in seen)
    assert ["has not answered its first read" in fault.problem for fault in faults] == [True]
    assert after == ()
    late = pl.concat(last.tables).filter(pl.col("entity") == "n1/gpu0")
    assert late["t_s"].to_list() == [1.0]  # requested at 1.0, and it still counts


def test_the_first_read_of_a_collector_may_take_longer_than_later_ones(
    gate: threading.Event,
) -> None:
    def slow(t_s: float) -> Observation:
        gate.wait(LONG_S)
        return busy("n1/gpu0", 0.1)(t_s)

    watch = Watch([Eye("slow", slow)], timeout_s=0.2)
    began_s = time.monotonic()
    _, (first,) = watch.look(1.0)
    took_s = time.monotonic() - began_s
    gate.set()
    watch.timeout_s = LONG_S
    watch.look(2.0)
    gate.clear()
    watch.timeout_s = 0.2
    _, (later,) = watch.look(3.0)

    assert took_s >= 0.8
    assert first.problem.startswith("has not answered its first read within 0.8 s")
    assert first.where == "collector slow"
    assert "its samples are missing until it does" in first.problem
    assert later.problem.startswith("does not answer within 0.2 s")


def test_a_frame_of_wrong_shape_is_a_fault_of_its_collector() -> None:

    watch = Watch(
        [Eye("odd", lambda _t: Observation(frame=pl.DataFrame({"t_s": [1.0]})))], timeout_s=LONG_S
    )

    seen, (fault,) = watch.look(1.0)

    assert seen.frame.height == 0
    assert fault.where == "collector odd"


def test_nodes_of_the_same_name_are_one_node_with_all_its_gpus() -> None:
    host = Observation(
        cluster=cluster(Node(id=NodeId("n1"), cpus=16)),
        tenants=tenants("a"),
        health={GpuId("n1/gpu0"): Health.GOOD},
    )
    full = cluster(node("n1", 2))
    gpus = Observation(
        cluster=type(full)(
            id="nvml",
            nodes=full.nodes,
            links=(Link(a="n1/gpu0", b="n1/gpu1", kind=LinkKind.NVLINK, bytes_per_s=9e11),),
            switches=(Switch(id="s1"),),
        ),
        jobs=(job(),),
    )
    watch = Watch([Eye("host", lambda _t: host), Eye("nvml", lambda _t: gpus)], timeout_s=LONG_S)

    seen, _ = watch.look(1.0)

    assert seen.cluster is not None
    (only,) = seen.cluster.nodes
    assert (only.cpus, len(only.gpus)) == (16, 2)
    assert len(seen.cluster.links) == len(seen.cluster.switches) == len(seen.jobs) == 1
    assert seen.tenants == tenants("a")
    assert seen.health == {GpuId("n1/gpu0"): Health.GOOD}


class Stream(Eye):
    """A collector that reads a stream of numbers and can go on in it."""

    def __init__(self) -> None:
        super().__init__("stream", self._read)
        self.at = 0

    def _read(self, t_s: float) -> Observation:
        self.at += 1
        return busy("n1/gpu0", self.at / 10)(t_s)

    def positions(self) -> dict[str, int]:
        return {"at": self.at}

    def resume(self, positions: Mapping[str, int]) -> None:
        self.at = positions["at"]


def test_streams_continue_where_an_earlier_watch_was() -> None:
    first = Watch([Stream(), Eye("plain", busy("n2/gpu0", 0.2))], timeout_s=LONG_S)
    first.look(1.0)
    first.look(2.0)

    second = Watch([Stream(), Eye("plain", busy("n2/gpu0", 0.2))], timeout_s=LONG_S)
    second.resume({**first.positions(), "plain": {"at": 9}, "gone": {"at": 9}})
    seen, _ = second.look(3.0)

    assert first.positions() == {"stream": {"at": 2}}
    assert seen.tables[0]["gpu.busy_share"].to_list() == [0.3]


def test_what_a_late_answer_has_read_counts_only_when_it_is_fetched(gate: threading.Event) -> None:
    stream = Stream()
    read = stream.see

    def slow(t_s: float) -> Observation:
        gate.wait(LONG_S)
        return read(t_s)

    stream.see = slow
    watch = Watch([stream], timeout_s=0.05)
    watch.look(1.0)
    before = watch.positions()
    gate.set()
    watch.timeout_s = LONG_S
    watch.look(2.0)

    assert before == {}
    assert watch.positions() == {"stream": {"at": 1}}


class Engine(Eye):
    """A collector that lists what an engine has at its second look."""

    def __init__(self, name: str) -> None:
        super().__init__(name, lambda _: Observation())
        self.looks = 0

    def collect(self, t_s: float) -> Observation:
        self.looks += 1
        return super().collect(t_s)

    def has_listed(self) -> bool:
        return self.looks > 1


def test_engines_have_listed_what_they_have_when_the_last_of_them_has() -> None:
    quick, slow = Engine("quick"), Engine("slow")
    quick.looks = 1
    watch = Watch([quick, slow, Eye("plain", busy("n2/gpu0", 0.2))], timeout_s=LONG_S)
    seen = [watch.has_listed]
    for t_s in (1.0, 2.0):
        watch.look(t_s)
        seen.append(watch.has_listed)

    assert seen == [False, False, True]
    assert not Watch([Eye("plain", busy("n2/gpu0", 0.2))]).has_listed


def test_an_engine_is_unreachable_from_its_first_fault_until_it_brings_something() -> None:
    def throws(_t_s: float) -> Observation:
        raise StewardError("no answer", hint="look at it")

    engine, plain = Engine("slurm"), Eye("plain", throws)
    watch = Watch([engine, plain], timeout_s=LONG_S, gap_after_s=100.0)
    found = []
    for t_s, see in (
        (10.0, throws),
        (20.0, throws),
        (30.0, lambda _: Observation()),  # between two polls
        (40.0, lambda _: Observation(jobs=(job(),))),
    ):
        engine.see = see
        watch.look(t_s)
        found.append([(each.t_s, each.where, each.problem) for each in watch.unreachable])

    assert found == [*[[(10.0, "collector slurm", "no answer")]] * 3, []]


def test_an_engine_that_throws_nothing_for_long_is_there_though_it_brings_nothing() -> None:
    engine = Engine("slurm")
    engine.see = _missing_or_nothing
    watch = Watch([engine], timeout_s=LONG_S, gap_after_s=100.0)
    found = []
    for t_s in (10.0, 20.0, 119.0, 120.0):
        watch.look(t_s)
        found.append(bool(watch.unreachable))

    assert found == [True, True, True, False]


def _missing_or_nothing(t_s: float) -> Observation:
    if t_s <= 20.0:
        raise StewardError("no answer")
    return Observation()


def test_an_engine_that_hangs_is_unreachable_since_it_did(gate: threading.Event) -> None:
    def hangs(_t_s: float) -> Observation:
        gate.wait(LONG_S)
        return Observation(jobs=(job(),))

    engine = Engine("slurm")
    engine.see = hangs
    watch = Watch([engine], timeout_s=0.01)
    for t_s in (10.0, 20.0):
        watch.look(t_s)
    (found,) = watch.unreachable
    gate.set()
    until(lambda: watch.look(30.0)[0].jobs)

    assert (found.t_s, "within" in found.problem) == (10.0, True)
    assert watch.unreachable == ()


def test_tenants_that_are_seen_join_those_that_the_site_has_named() -> None:
    named = replace(tenants("bio")[0], guaranteed_gpus=4)
    seen = [Observation(tenants=tenants("bio", "chem")), Observation(tenants=tenants("physics"))]
    watch = Watch(
        [Eye("a", lambda _t: seen[0]), Eye("b", lambda _t: seen[1])],
        tenants=(named,),
        timeout_s=LONG_S,
    )

    result, _ = watch.look(1.0)

    assert result.tenants is not None
    assert {each.id: each.guaranteed_gpus for each in result.tenants} == {
        "bio": 4,
        "chem": 0,
        "physics": 0,
    }


def test_what_several_engines_allow_for_a_tenant_is_the_strictest_of_them() -> None:
    a, bio = TenantCeiling(autonomy=Autonomy.APPROVE), TenantId("bio")
    first = [Observation(ceilings={bio: a}), Observation(), Observation(ceilings={})]
    other = {bio: TenantCeiling(autonomy=Autonomy.ADVISE), TenantId("chem"): a}
    second = [Observation(), Observation(ceilings=other), Observation()]
    watch = Watch(
        [Eye("a", lambda t: first[int(t)]), Eye("b", lambda t: second[int(t)])], timeout_s=LONG_S
    )

    looks = [watch.look(float(t_s))[0].ceilings for t_s in range(3)]

    assert looks == [{bio: a}, other, other]
    assert watch.look(1.0)[0].ceilings == other


def test_the_description_with_a_gpus_memory_is_preferred() -> None:
    full, bare = cluster(node("n1", 1)), cluster(node("n1", 1))
    gpu = bare.nodes[0].gpus[0]
    unknown = replace(gpu, model=replace(gpu.model, memory_bytes=0, max_watts=0.0))
    bare = replace(bare, nodes=(replace(bare.nodes[0], gpus=(unknown,)),))

    for order in ((full, bare), (bare, full)):
        eyes = [Eye(f"e{i}", lambda _t, c=c: Observation(cluster=c)) for i, c in enumerate(order)]
        seen, _ = Watch(eyes, timeout_s=LONG_S).look(1.0)
        assert seen.cluster is not None
        assert seen.cluster.nodes[0].gpus[0].model.memory_bytes > 0


def test_closing_closes_all_sources_even_if_one_refuses() -> None:
    closed = []

    class ClosableCollector(Eye):
        def close(self) -> None:
            closed.append(self.name)
            raise OSError("it sticks")

    watch = Watch(
        [
            ClosableCollector("a", busy("n1/gpu0", 0.1)),
            ClosableCollector("b", busy("n1/gpu0", 0.1)),
        ],
        timeout_s=LONG_S,
    )

    watch.close()

    assert closed == ["a", "b"]


def test_a_source_that_is_being_read_or_does_not_close_blocks_nothing(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.1)
    closed = []

    class ClosableCollector(Eye):
        def close(self) -> None:
            closed.append(self.name)
            if self.name == "sticks":
                gate.wait(LONG_S)

    def hang(_t_s: float) -> Observation:
        gate.wait(LONG_S)
        return Observation()

    watch = Watch(
        [
            ClosableCollector("read", hang),
            ClosableCollector("sticks", busy("a", 0.1)),
            ClosableCollector("c", busy("b", 0.1)),
        ],
        timeout_s=LONG_S,
    )
    watch.timeout_s = 0.2
    answered: set[str] = set()
    until(lambda: answered.update(entities(watch.look(1.0)[0])) or answered == {"a", "b"})
    before_s = time.monotonic()
    watch.close()

    until(lambda: len(closed) >= 2)
    assert sorted(closed) == ["c", "sticks"]
    assert time.monotonic() - before_s < LONG_S / 2  # it does not wait for the gate


def test_a_panic_of_a_library_is_a_fault_of_the_collector_that_had_it() -> None:
    def panic(_t_s: float) -> Observation:
        raise pl.exceptions.PanicException("index out of bounds")

    watch = Watch([Eye("a", panic), Eye("b", busy("n2/gpu0", 0.2))], timeout_s=LONG_S)

    first, (fault,) = watch.look(1.0)
    second, (again,) = watch.look(2.0)

    assert entities(first) == entities(second) == ["n2/gpu0"]
    assert "index out of bounds" in fault.problem
    assert again.where == "collector a"


def test_other_values_of_wrong_shape_are_a_fault_of_their_collector() -> None:
    odd = pl.DataFrame({"t_s": [1.0], "entity": ["n1"], "metric": ["x"], "value": [1]})
    watch = Watch(
        [Eye("odd", lambda _t: Observation(other=odd)), Eye("b", busy("n2/gpu0", 0.2))],
        timeout_s=LONG_S,
    )

    seen, (fault,) = watch.look(1.0)

    assert entities(seen) == ["n2/gpu0"]
    assert fault.where == "collector odd"
    assert "value (Float64)" in fault.hint


def test_an_account_of_the_cluster_that_does_not_fit_costs_only_itself() -> None:
    one, two = cluster(node("n1", 1)), cluster(node("n2", 1))
    strange = replace(two, nodes=(replace(two.nodes[0], gpus=one.nodes[0].gpus),))
    result = {"a": one, "b": strange}
    watch = Watch(
        [Eye(name, lambda _t, n=name: Observation(cluster=result[n])) for name in "ab"],
        timeout_s=LONG_S,
    )

    seen, (fault,) = watch.look(1.0)
    result["b"] = two
    later, faults = watch.look(2.0)

    assert seen.cluster is not None
    assert [each.id for each in seen.cluster.nodes] == ["n1"]
    assert fault.where == "collector b"
    assert later.cluster is not None
    assert [each.id for each in later.cluster.nodes] == ["n1", "n2"]
    assert faults == ()


def test_a_collector_that_has_nothing_to_read_has_a_reason_until_it_brings_something() -> None:
    library = RecordedNvml(1)
    library.refuses["nvmlInit"] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    registry = GpuRegistry(Driver(library, plugged=Path("/nowhere")))
    watch = Watch(
        [Nvml(node="n1", registry=registry), Eye("b", busy("n2/gpu0", 0.2))], timeout_s=LONG_S
    )

    watch.look(5.0)
    watch.look(6.0)
    before = dict(watch.missing)
    library.refuses.clear()
    watch.look(7.0)
    after = dict(watch.missing)
    watch.close()

    assert list(before) == ["nvml"]
    assert "driver does not answer" in before["nvml"]
    assert after == {}


def test_a_line_with_an_impossible_time_is_of_now_and_harms_no_other() -> None:
    times = (5.0, 2.5e11, float("nan"), float("inf"), -1.0, 1e300)
    lines = tuple(LogLine(t_s=each, entity="n1", source="app", text="x") for each in times)
    watch = Watch([Eye("a", lambda _t_s: Observation(lines=lines))], timeout_s=LONG_S)

    seen, faults = watch.look(10.0)

    assert [line.t_s for line in seen.lines] == [5.0, 10.0, 10.0, 10.0, 10.0, 10.0]
    assert faults == ()


def test_lines_come_as_they_are_where_joining_them_fails() -> None:
    def broken(_lines: Sequence[LogLine]) -> tuple[LogLine, ...]:
        raise ValueError("no")

    line = LogLine(t_s=5.0, entity="n1", source="app", text="x")
    watch = Watch(
        [Eye("a", lambda _t_s: Observation(lines=(line,)))], join_lines=broken, timeout_s=LONG_S
    )

    seen, (fault,) = watch.look(10.0)

    assert seen.lines == (line,)
    assert "could not be joined" in fault.problem
