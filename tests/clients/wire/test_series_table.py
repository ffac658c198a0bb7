"""Series are distinguished by their bytes, exactly."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.clients.wire.samples import WireSamples
from steward.clients.wire.series_table import SeriesTable


def message(keys: list[bytes]) -> WireSamples:
    ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    return WireSamples(
        buffer=np.frombuffer(b"".join(keys), np.uint8),
        starts=ends - np.array([len(key) for key in keys], np.int64),
        ends=ends,
        series=np.arange(len(keys)),
        t_ms=np.zeros(len(keys), np.int64),
        values=np.zeros(len(keys)),
    )


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=40), unique=True, max_size=60), st.data())
def test_a_table_finds_what_was_added_and_nothing_else(
    keys: list[bytes], data: st.DataObject
) -> None:
    known = data.draw(st.integers(0, len(keys)))
    table = SeriesTable()
    numbers = [table.add(key) for key in keys[:known]]

    found = table.find(message(keys)).tolist()

    assert found == [*numbers, *[-1] * (len(keys) - known)]
    assert [table.key(each) for each in numbers] == keys[:known]


def test_a_table_grows() -> None:
    keys = [f"series {number}".encode() for number in range(5000)]
    table = SeriesTable()
    for key in keys:
        table.add(key)

    assert table.find(message(keys)).tolist() == list(range(5000))
    assert len(table) == 5000
