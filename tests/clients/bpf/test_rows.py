from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from made_up_kernel import MadeUpKernel
from steward.clients.bpf.readings import Readings
from steward.clients.bpf.rows import Rows


def table(slots: int = 8) -> tuple[MadeUpKernel, Rows]:
    kernel = MadeUpKernel()
    return kernel, Rows(kernel, {"faults.count": 1, "runq.histogram": 49}, slots=slots, stripes=2)


def count(kernel: MadeUpKernel, rows: Rows, owner: int, times: int, *, stripe: int = 0) -> None:
    """Do what a program does: find or take a slot, and add to its row."""
    slots, free = kernel.maps[rows.places.slots], kernel.stacks[rows.places.free]
    key = struct.pack("<Q", owner)
    if key not in slots and free:
        slots[key] = free.pop()
    slot = struct.unpack("<I", slots.get(key, bytes(4)))[0]
    rows._rows[stripe, slot, 0] += np.uint64(times)


def seen(rows: Rows) -> dict[str, float]:
    return dict(zip((*rows.groups, "all"), rows.totals(rows.plain)[:, 0].tolist(), strict=True))


def test_what_groups_of_one_job_count_is_added_up() -> None:
    kernel, rows = table()
    count(kernel, rows, 11, 5)
    count(kernel, rows, 12, 7, stripe=1)
    count(kernel, rows, 13, 100)

    rows.refresh(lambda: {11: "@1", 12: "@1", 13: "@2"})

    assert seen(rows) == {"@1": 12, "@2": 100, "all": 112}


def test_who_belongs_to_nobody_is_in_the_total_and_leaves_its_slot() -> None:
    kernel, rows = table(slots=3)
    rows.prepare({20: None})
    count(kernel, rows, 20, 1)
    count(kernel, rows, 21, 2)

    rows.refresh(lambda: {20: None, 21: None})
    count(kernel, rows, 21, 3)
    rows.refresh(lambda: {20: None, 21: None})

    assert seen(rows) == {"all": 6}
    assert len(kernel.stacks[rows.places.free]) == 2


def test_a_job_keeps_what_a_step_that_is_over_has_counted() -> None:
    kernel, rows = table()
    count(kernel, rows, 11, 5)
    count(kernel, rows, 12, 7)
    rows.refresh(lambda: {11: "@1", 12: "@1"})

    rows.refresh(lambda: {11: "@1"})
    assert seen(rows) == {"@1": 12, "all": 12}

    rows.refresh(dict)
    assert seen(rows) == {"all": 12}


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 9), st.sets(st.integers(1, 6))), max_size=30
    )
)
def test_the_total_is_all_that_was_ever_counted(
    story: list[tuple[int, int, set[int]]],
) -> None:
    kernel, rows = table(slots=4)
    counted = 0
    for owner, times, here in story:
        count(kernel, rows, owner, times, stripe=times % 2)
        counted += times
        known = {each: f"@{each % 3}" if each % 3 else None for each in here}
        rows.refresh(lambda known=known: known)  # type: ignore[misc]
        assert seen(rows)["all"] == counted


def test_quantiles_are_those_since_the_last_second() -> None:
    _, rows = table()
    readings = Readings(rows)
    assert readings.words == ("faults.count", "runq.p50", "runq.p99")

    rows._rows[0, 0, 1 + 10] = 100
    first = readings.read(10.0)[-1]
    again = readings.read(10.1)[-1]
    later = readings.read(11.0)[-1]

    assert first[1] == again[1] > 0  # a tenth of a second is too short to tell
    assert np.isnan(later[1])  # nothing since
