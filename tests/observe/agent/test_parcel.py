"""Parcels: what goes in comes out, and no untrusted bytes do any harm."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import cramjam
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from factories import samples
from observe.parcels import BUSY, T0, WATTS, full, label, parcel, small
from steward.errors import StewardError
from steward.model.event import LogLine, Observation
from steward.observe.agent.parcel import (
    MAX_PARCEL_BYTES,
    ParcelHeader,
    open_parcel,
    pack_parcel,
    read_header,
    replace_header,
)
from steward.observe.agent.table_codec import columns_of, frame_of, pack, unpack


def test_everything_that_was_seen_comes_out_again() -> None:
    seen = full()

    opened = open_parcel(pack_parcel(label(), seen)).observation

    for ours, theirs in zip(seen.tables, opened.tables, strict=True):
        assert_frame_equal(ours, theirs)
    assert_frame_equal(seen.other, opened.other)
    assert opened.events == seen.events
    assert opened.lines == seen.lines
    assert opened.spans == seen.spans
    assert opened.jobs == seen.jobs
    assert opened.cluster == seen.cluster
    assert opened.health == seen.health
    assert opened.tenants is None


def test_the_label_reports_what_is_inside_without_opening() -> None:
    message = read_header(pack_parcel(label(7), full()))

    assert (message.agent, message.run, message.sequence, message.node) == ("a-1", "r-1", 7, "n1")
    assert (message.from_s, message.to_s, message.samples) == (T0, T0 + 1, 5)
    assert [kind for kind, _ in message.parts] == ["frame", "frame", "other", "lines", "news"]


def test_an_observation_of_nothing_is_a_parcel_too() -> None:
    opened = open_parcel(pack_parcel(label(), Observation()))

    assert opened.observation.tables == ()
    assert opened.label.samples == 0
    assert opened.label.from_s == T0


def test_a_new_label_leaves_the_rest_as_it_was_and_shifts_its_times() -> None:
    body = pack_parcel(label(), full())
    before = open_parcel(body).observation

    moved = open_parcel(replace_header(body, replace(read_header(body), shift_s=90.0))).observation

    assert moved.frames[0]["t_s"].to_list() == [T0 + 90, T0 + 90]
    assert moved.other["t_s"].to_list() == [T0 + 90]
    assert moved.events[0].t_s == moved.lines[0].t_s == moved.spans[0].from_s == T0 + 90
    assert (moved.spans[0].to_s, moved.spans[1].to_s) == (None, T0 + 95)
    assert moved.jobs == before.jobs
    assert_frame_equal(moved.frames[0].drop("t_s"), before.frames[0].drop("t_s"))


def test_half_characters_in_a_log_line_do_not_stop_a_parcel() -> None:
    line = LogLine(t_s=T0, entity="n1", source="app", text="bad \udcff byte")

    opened = open_parcel(pack_parcel(label(), Observation(lines=(line,)))).observation

    assert opened.lines[0].text == "bad ? byte"


@given(
    rows=st.lists(
        st.tuples(
            st.floats(0, 2e9),
            st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
            st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
        ),
        max_size=20,
    )
)
def test_any_table_comes_back_as_it_was(rows: list[tuple[float, str, float | None]]) -> None:
    schema = {"t_s": pl.Float64, "entity": pl.String, "x": pl.Float64}
    table = pl.DataFrame(rows, schema=schema, orient="row")

    back = frame_of((unpack(memoryview(pack(columns_of(table)))),))

    assert_frame_equal(back, table)


def test_tables_with_the_same_columns_become_one_frame() -> None:
    first, second = (
        samples(T0 + i, {f"n{i}/gpu0": {BUSY: float(i), WATTS: None}}) for i in range(2)
    )

    merged = frame_of((columns_of(first), columns_of(second)))

    assert_frame_equal(merged, pl.concat([first, second]))


# -- hostile -----------------------------------------------------------------------------------


def refused(body: bytes) -> str:
    with pytest.raises(StewardError) as fault:
        open_parcel(body)
    return fault.value.problem


def with_label(changes: dict[str, Any], body: bytes | None = None) -> bytes:
    """Return a parcel with a changed label."""
    whole = body or parcel()
    (length,) = struct.unpack_from("<I", whole, 5)
    text = json.dumps({**json.loads(whole[9 : 9 + length]), **changes}).encode()
    return struct.pack("<4sBI", b"STWP", 1, len(text)) + text + whole[9 + length :]


def with_table(table: bytes, kind: str = "frame") -> bytes:
    packed = bytes(cramjam.zstd.compress(table))
    text = json.dumps(
        {"agent": "a", "run": "r", "sequence": 1, "node": "n1", "parts": [[kind, len(table)]]}
    ).encode()
    return struct.pack("<4sBI", b"STWP", 1, len(text)) + text + packed


def table_bytes(head: object, rest: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return struct.pack("<I", len(text)) + text + rest


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "no parcel"),
        (b"GET / HTTP/1.1\r\n\r\n", "no parcel"),
        (b"STWP\x02\0\0\0\0", "version 2"),
        (b"STWP\x01\xff\xff\xff\xff", "cut off or too long"),
        (b"STWP\x01\x02\0\0\0{}", "its label is wrong"),
        (b"STWP\x01\x03\0\0\0[[[", "its label is wrong"),
        (b"x" * (MAX_PARCEL_BYTES + 1), "bytes are possible"),
    ],
)
def test_what_is_no_parcel_is_refused_with_a_message(body: bytes, expected: str) -> None:
    assert expected.replace("bytes are", "are") in refused(body)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"node": "n1/gpu0"}, "cannot be a node"),
        ({"node": "job:1"}, "cannot be a node"),
        ({"node": "*"}, "cannot be a node"),
        ({"node": ""}, "need names"),
        ({"agent": "a\n"}, "need names"),
        ({"run": "r" * 300}, "need names"),
        ({"sequence": 0}, "begin at 1"),
        ({"sequence": 2**70}, "begin at 1"),
        ({"sequence": "x"}, "its label is wrong"),
        ({"parts": [["frame", 2**40]]}, "bytes inside"),
        ({"parts": [["frame", -5], ["frame", 5]]}, "bytes inside"),
        ({"parts": [["frame", 0]] * 257}, "more than 256 parts"),
        ({"parts": [["frame", 5]]}, "unpacked"),
        ({"parts": [["frame", 100_000]]}, "shorter than its label"),
        ({"shift_s": 1e300}, "shifted"),
        ({"shift_s": float("nan")}, "shifted"),
    ],
)
def test_a_wrong_label_is_refused_with_a_message(changes: dict[str, Any], expected: str) -> None:
    assert expected in refused(with_label(changes))


def test_a_bomb_does_not_go_off() -> None:
    bomb = bytes(cramjam.zstd.compress(b"\0" * 50_000_000))
    body = with_label({"parts": [["frame", 1000]]})
    head = body[: body.index(b"}", 9) + 1]

    assert "unpacked" in refused(head + bomb)


GOOD: dict[str, Any] = {"rows": 1, "texts": {"entity": ["n1"]}, "numbers": ["t_s"]}
ROW = struct.pack("<I", 0) + struct.pack("<d", T0)


def test_the_table_that_the_next_test_spoils_is_good() -> None:
    places = np.frombuffer(struct.pack("<d", T0), np.uint8).tobytes()

    opened = open_parcel(with_table(table_bytes(GOOD, struct.pack("<I", 0) + places)))

    assert opened.observation.frames[0].rows() == [(T0, "n1")]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([], "cannot be read"),
        ({"rows": 1}, "cannot be read"),
        ({**GOOD, "rows": -1}, "rows"),
        ({**GOOD, "rows": True}, "rows"),
        ({**GOOD, "rows": 10**9}, "rows"),
        ({**GOOD, "rows": 2}, "bytes, not"),
        ({**GOOD, "numbers": [f"m{i}" for i in range(3000)]}, "columns"),
        ({**GOOD, "numbers": ["t_s", "t_s"]}, "of its own"),
        ({**GOOD, "numbers": ["entity"]}, "of its own"),
        ({**GOOD, "numbers": [""]}, "has no name"),
        ({**GOOD, "numbers": ["x" * 300]}, "has no name"),
        ({**GOOD, "numbers": ["a\x1b[2J"]}, "has no name"),
        ({**GOOD, "numbers": [3]}, "has no name"),
        ({**GOOD, "numbers": ["m"]}, "no t_s"),
        ({**GOOD, "texts": {"entity": []}}, "beyond its 0 texts"),
        ({**GOOD, "texts": {"entity": ["a", "b"]}}, "more texts than rows"),
        ({**GOOD, "texts": {"entity": [3]}}, "no text"),
        ({**GOOD, "texts": {"entity": "n1"}}, "no list"),
        ({**GOOD, "texts": {"entity": ["\ud800"]}}, "half characters"),
        ({**GOOD, "texts": {"entity": [""]}}, "no entity"),
        ({**GOOD, "texts": {"entity": ["n" * 300]}}, "no entity"),
        ({**GOOD, "texts": {"who": ["n1"]}}, "no t_s or no entity"),
    ],
)
def test_a_wrong_table_is_refused_with_a_message(head: object, expected: str) -> None:
    assert expected in refused(with_table(table_bytes(head, ROW)))


def test_a_table_that_is_nested_without_end_is_refused() -> None:
    text = b"[" * 100_000

    assert "cannot be read" in refused(with_table(struct.pack("<I", len(text)) + text))


@pytest.mark.parametrize("t_s", [float("nan"), float("inf"), -1.0, 1e15])
def test_a_row_without_a_time_of_this_age_is_refused(t_s: float) -> None:
    frame = pl.DataFrame({"t_s": [t_s], "entity": ["n1"], "x": [1.0]})

    assert "no time of this age" in refused(with_table(pack(columns_of(frame))))


def test_other_and_lines_have_to_have_their_columns() -> None:
    table = pack(columns_of(pl.DataFrame({"t_s": [T0], "entity": ["n1"], "x": [1.0]})))

    assert "not t_s, entity, metric, value" in refused(with_table(table, "other"))
    assert "not t_s, entity, source, text, level" in refused(with_table(table, "lines"))
    assert "unknown part 'virus'" in refused(with_table(table, "virus"))


@pytest.mark.parametrize(
    "news",
    [
        b"{",
        b'{"events": 3}',
        b'{"events": [{"t_s": NaN, "kind": "a", "subject": "b", "text": "c", "source": "d"}]}',
        b'{"tenants": [{"id": "a", "weight": -1}]}',
        b'{"cluster": {"id": "x", "nodes": [{"id": "n1"}, {"id": "n1"}]}}',
    ],
)
def test_wrong_news_are_refused(news: bytes) -> None:
    assert refused(with_table(news, "news"))


@settings(max_examples=300)
@given(data=st.data())
def test_whatever_is_changed_in_a_parcel_it_is_opened_or_refused(data: st.DataObject) -> None:
    body = bytearray(BODY)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]

    try:
        opened = open_parcel(bytes(body))
    except StewardError as fault:
        assert fault.problem
    else:
        assert isinstance(opened.label, ParcelHeader)


BODY = pack_parcel(label(), full())


@settings(max_examples=150)
@given(data=st.data())
def test_whatever_is_changed_inside_a_table_it_is_opened_or_refused(data: st.DataObject) -> None:
    table = bytearray(pack(columns_of(full().frame)))
    for _ in range(data.draw(st.integers(1, 3))):
        table[data.draw(st.integers(0, len(table) - 1))] = data.draw(st.integers(0, 255))

    try:
        opened = open_parcel(with_table(bytes(table)))
    except StewardError as fault:
        assert fault.problem
    else:
        assert opened.observation.frames[0].height <= 2


def test_infinities_are_unknown() -> None:
    frame = pl.DataFrame({"t_s": [T0, T0], "entity": ["n1", "n2"], "x": [float("inf"), 1.0]})

    opened = open_parcel(pack_parcel(label(), Observation(frame=frame)))

    assert opened.observation.frames[0]["x"].to_list() == [None, 1.0]
    assert opened.label.samples == 1


def test_samples_are_counted_without_those_that_are_unknown() -> None:
    assert read_header(pack_parcel(label(), small())).samples == 1
