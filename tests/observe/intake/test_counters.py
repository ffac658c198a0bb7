"""Counters that are pushed: no rate is lost or wrong, whatever happens on the way to the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from factories import samples
from steward.clients.wire.remote_write import encode_write
from steward.errors import StewardError, TemporaryError
from steward.model.event import Observation
from steward.model.frame import Frame
from steward.observe.intake import Intake
from steward.observe.intake.merger import without_stored
from steward.observe.receive import Decoders
from wire_messages import T_MS, pushed, request_of

RATE = "host.context_switches_per_s"
COUNTER = {"__name__": "node_context_switches_total", "instance": "n01:9100"}


def body(second: int) -> bytes:
    """Return a counter that grows by 100 each second."""
    return request_of([(COUNTER, 100.0 * second)], t_ms=T_MS + 1000 * second)


def opened(folder: Path, **options: int) -> Intake:
    intake = Intake(folder, **options)  # type: ignore[arg-type]
    intake.decoders.update(Decoders().by_kind)
    return intake


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    with closing(opened(tmp_path)) as made:
        yield made


def rates(seen: Observation) -> dict[float, float]:
    tables = [table for table in seen.tables if RATE in table.columns]
    rows = [row for table in tables for row in table.select("t_s", RATE).drop_nulls().rows()]
    return {t_s - T_MS / 1000: value for t_s, value in rows}


def test_a_full_spool_and_a_retry_lose_no_rate(tmp_path: Path) -> None:
    refused, found = 0, {}
    with closing(opened(tmp_path, max_bytes=600)) as intake:
        for second in range(12):
            try:
                intake.accept("remote-write", body(second))
            except TemporaryError:
                refused += 1
                found |= rates(intake.collect(0.0))
                intake.collect(0.0)
                intake.release(intake.stored)
                intake.accept("remote-write", body(second))  # the sender tries again
        found |= rates(intake.collect(0.0))

    assert refused
    assert found == dict.fromkeys(map(float, range(1, 12)), 100.0)


def test_a_refused_sample_of_a_time_to_come_does_not_mute_its_counter(intake: Intake) -> None:
    ahead = T_MS + 100 * 365 * 86_400_000
    intake.accept("remote-write", body(0))

    with pytest.raises(StewardError, match="ahead of this machine"):
        intake.accept("remote-write", request_of([(COUNTER, 5.0)], t_ms=ahead))
    mixed = encode_write([(COUNTER, [T_MS + 1000, ahead], [100.0, 200.0])])
    intake.accept("remote-write", pushed(mixed))
    intake.accept("remote-write", body(2))

    assert rates(intake.collect(0.0)) == {1.0: 100.0, 2.0: 100.0}


def test_a_first_sample_of_a_time_to_come_does_not_mute_its_counter(intake: Intake) -> None:
    with pytest.raises(StewardError, match="ahead of this machine"):
        intake.accept("remote-write", request_of([(COUNTER, 5.0)], t_ms=T_MS * 10))

    for second in range(3):
        intake.accept("remote-write", body(second))

    assert rates(intake.collect(0.0)) == {1.0: 100.0, 2.0: 100.0}


def test_bodies_that_are_read_back_from_disk_have_their_rates(tmp_path: Path) -> None:
    with closing(opened(tmp_path, max_open_bytes=1)) as intake:  # nothing stays in memory
        for second in range(4):
            intake.accept("remote-write", body(second))
        found = {}
        for _ in range(10):
            found |= rates(intake.collect(0.0))
            intake.release(intake.stored)

    assert found == {1.0: 100.0, 2.0: 100.0, 3.0: 100.0}


def test_a_body_that_a_check_refuses_changes_nothing(intake: Intake) -> None:
    def refuse(_decoded: object) -> None:
        raise StewardError("not today")

    intake.accept("remote-write", body(0))
    odd = request_of([(COUNTER, 150.0)], t_ms=T_MS + 1000)
    with pytest.raises(StewardError, match="not today"):
        intake.accept("remote-write", odd, check=refuse)
    intake.accept("remote-write", body(2))

    assert rates(intake.collect(0.0)) == {2.0: 100.0}


# -- after kill -9 -------------------------------------------------------------------------------

LOAD = {"__name__": "node_load1", "instance": "n01:9100"}
MEMORY = {"__name__": "node_memory_MemAvailable_bytes", "instance": "n01:9100"}


def stored_values(stored: list[Frame]) -> list[tuple[float, str, float]]:
    return [
        (t_s, metric, value)
        for table in stored
        for t_s, _, metric, value in table.unpivot(index=["t_s", "entity"])
        .drop_nulls("value")
        .iter_rows()
    ]


def test_a_moment_that_came_in_two_messages_is_not_doubled_after_a_kill(tmp_path: Path) -> None:
    stored: list[Frame] = []

    def read(metrics: object, from_s: float, to_s: float) -> Frame:
        return pl.concat(stored, how="diagonal").filter(pl.col("t_s").is_between(from_s, to_s))

    first = opened(tmp_path)
    first.accept("remote-write", request_of([(LOAD, 1.0), (COUNTER, 0.0)]))
    stored += first.collect(0.0).tables
    first.accept("remote-write", request_of([(COUNTER, 200.0)], t_ms=T_MS + 2000))
    first.accept("remote-write", request_of([(LOAD, 3.0)], t_ms=T_MS + 2000))
    stored += first.collect(0.0).tables
    first.accept("remote-write", request_of([(MEMORY, 7.0)]))
    first.close()  # killed: the store has the first two, the spool has all

    with closing(Intake(tmp_path, read_stored=read)) as again:
        again.decoders.update(Decoders().by_kind)
        stored += again.collect(1.0).tables

    values = stored_values(stored)
    assert len(values) == len({(t_s, metric) for t_s, metric, _ in values})
    assert {value for *_, value in values} == {1.0, 3.0, 7.0, 100.0}


def test_only_values_that_the_store_has_are_left_out() -> None:
    one = samples(10.0, {"n1": {"host.load_1m": 1.0, "host.load_5m": 2.0}})
    other = samples(2000.0, {"n2": {"host.load_1m": 5.0, "host.load_5m": 6.0}})
    stored = samples(10.0, {"n1": {"host.load_1m": 1.0}})

    def read(_metrics: object, from_s: float, to_s: float) -> Frame:
        return stored.filter(pl.col("t_s").is_between(from_s, to_s))

    (left,) = without_stored([pl.concat([one, other])], read)

    assert left.rows() == [(10.0, "n1", None, 2.0), (2000.0, "n2", 5.0, 6.0)]
    assert without_stored([stored], read)[0].height == 0
