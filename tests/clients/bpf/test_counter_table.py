from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fake_bpf import SHARED_MAPS, FakeMap
from steward.clients.bpf.columns import COLUMNS
from steward.clients.bpf.counter_reader import CounterReader
from steward.clients.bpf.counter_table import CounterTable

FAULTS = COLUMNS["faults.count"]
Maps = dict[str, FakeMap]


def table(slots: int = 8) -> tuple[Maps, CounterTable]:
    maps = {name: FakeMap() for name in SHARED_MAPS}
    return maps, CounterTable(maps, slots=slots, stripes=2)


def count(maps: Maps, counters: CounterTable, owner: int, times: int, *, stripe: int = 0) -> None:
    """Do what a program does: find or take a slot, and add to its row."""
    slots, free = maps["slots"].elements, maps["free_slots"].stack
    key = struct.pack("<Q", owner)
    if key not in slots and free:
        slots[key] = free.pop()
    slot = struct.unpack("<I", slots.get(key, bytes(4)))[0]
    counters.rows[stripe, slot, FAULTS] += np.uint64(times)


def seen(counters: CounterTable) -> dict[str, float]:
    totals = counters.totals(FAULTS)[:, 0].tolist()
    return dict(zip((*counters.groups, "all"), totals, strict=True))


def test_counts_of_the_groups_of_one_job_are_added_up() -> None:
    maps, counters = table()
    count(maps, counters, 11, 5)
    count(maps, counters, 12, 7, stripe=1)
    count(maps, counters, 13, 100)

    counters.refresh(lambda: {11: "@1", 12: "@1", 13: "@2"})

    assert seen(counters) == {"@1": 12, "@2": 100, "all": 112}


def test_an_owner_without_a_group_is_in_the_total_and_frees_its_slot() -> None:
    maps, counters = table(slots=3)
    counters.reserve_shared({20: None})
    count(maps, counters, 20, 1)
    count(maps, counters, 21, 2)

    counters.refresh(lambda: {20: None, 21: None})
    count(maps, counters, 21, 3)
    counters.refresh(lambda: {20: None, 21: None})

    assert seen(counters) == {"all": 6}
    assert len(maps["free_slots"].stack) == 2


def test_a_job_keeps_the_counts_of_a_step_that_has_ended() -> None:
    maps, counters = table()
    count(maps, counters, 11, 5)
    count(maps, counters, 12, 7)
    counters.refresh(lambda: {11: "@1", 12: "@1"})

    counters.refresh(lambda: {11: "@1"})
    assert seen(counters) == {"@1": 12, "all": 12}

    counters.refresh(dict)
    assert seen(counters) == {"all": 12}


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 9), st.sets(st.integers(1, 6))), max_size=30
    )
)
def test_the_total_is_all_that_was_ever_counted(
    story: list[tuple[int, int, set[int]]],
) -> None:
    maps, counters = table(slots=4)
    counted = 0
    for owner, times, present in story:
        count(maps, counters, owner, times, stripe=times % 2)
        counted += times
        known = {each: f"@{each % 3}" if each % 3 else None for each in present}
        counters.refresh(lambda known=known: known)  # type: ignore[misc]
        assert seen(counters)["all"] == counted


def test_quantiles_are_those_since_the_last_second() -> None:
    _, counters = table()
    reader = CounterReader(counters)
    p50 = reader.names.index("runq.p50")

    counters.rows[0, 0, COLUMNS["runq.histogram"].start + 10] = 100
    first = reader.read(10.0)[-1, p50]
    again = reader.read(10.1)[-1, p50]
    later = reader.read(11.0)[-1, p50]

    assert first == again > 0  # a tenth of a second is too short
    assert np.isnan(later)  # nothing since


def test_a_group_that_is_new_does_not_shift_the_quantiles_of_others() -> None:
    maps, counters = table()
    reader = CounterReader(counters)
    p50 = reader.names.index("runq.p50")
    bucket = COLUMNS["runq.histogram"].start + 10
    count(maps, counters, 11, 1)
    counters.refresh(lambda: {11: "@2"})
    counters.rows[0, 1, bucket] += 100
    before = reader.read(10.0)[0, p50]

    count(maps, counters, 12, 1)
    counters.refresh(lambda: {11: "@2", 12: "@1"})
    counters.rows[0, 1, bucket] += 100
    after = reader.read(10.1)[:, p50]

    assert counters.groups == ("@1", "@2")
    assert np.isnan(after[0])
    assert after[1] == before
