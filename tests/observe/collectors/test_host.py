"""The machine becomes one node and one row."""

from __future__ import annotations

from steward.clients.host import HostReading, HostSource
from steward.model.frame import check_frame
from steward.model.metrics import aliases_from
from steward.observe.collectors import COLLECTORS
from steward.observe.collectors.host import Host
from steward.observe.normalise import Normaliser


class Still(HostSource):
    """A machine that always says the same."""

    def __init__(self, **changes: float | None) -> None:
        values: dict[str, float | None] = dict.fromkeys(HostReading.__dataclass_fields__, 8.0)
        self.values = {**values, **changes}

    def cpus(self) -> int:
        return 16

    def memory_bytes(self) -> int:
        return 1000

    def reading(self) -> HostReading:
        return HostReading(**self.values)


def test_the_machine_is_one_node_without_gpus() -> None:
    seen = Host(node="n1", source=Still()).collect(5.0)

    assert seen.cluster is not None
    (node,) = seen.cluster.nodes
    assert (node.id, node.cpus, node.memory_bytes, node.gpus) == ("n1", 16, 1000, ())


def test_the_node_is_told_once() -> None:
    host = Host(node="n1", source=Still())
    host.collect(5.0)

    assert host.collect(6.0).cluster is None


def test_rows_are_in_psutils_words_and_every_word_is_known() -> None:
    seen = Host(node="n1", source=Still(cpu_percent=50.0, load_1m=None)).collect(5.0)

    check_frame(seen.frame, where="test")
    assert set(seen.frame.columns) - {"t_s", "entity"} <= set(aliases_from("psutil"))
    frame, events = Normaliser(source="host", vocabulary="psutil").normalise(seen.frame)
    (row,) = frame.to_dicts()
    assert events == ()
    assert (row["entity"], row["host.cpu.busy_share"], row["host.load_1m"]) == ("n1", 0.5, None)


def test_a_machine_that_tells_everything_is_ok_before_its_second_look() -> None:
    state = Host(node="n1", source=Still(cpu_percent=None)).available()

    assert state.status == "ok"
    assert "16 cores" in state.reason


def test_a_machine_that_keeps_something_back_is_limited() -> None:
    state = Host(node="n1", source=Still(disk_read_bytes=None)).available()

    assert state.status == "limited"
    assert "disk.read_bytes" in state.reason
    assert state.hint


def test_every_collector_is_in_the_table_under_its_own_name() -> None:
    assert {name: make().name for name, make in COLLECTORS.items()} == {n: n for n in COLLECTORS}


def test_this_machine_can_be_collected() -> None:
    seen = Host().collect(1.0)

    assert seen.frame.height == 1
