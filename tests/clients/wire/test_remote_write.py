"""Remote write is read as Prometheus sends it, and lengths are never trusted beyond its bytes."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.clients.wire.compression import pack_snappy, unpack_snappy
from steward.clients.wire.remote_write import (
    STALE_BITS,
    decode_write,
    encode_write,
    field,
    labels_of_key,
    number,
)
from steward.clients.wire.samples import WireLimits
from steward.errors import StewardError
from wire_messages import T_MS, one_series, recorded

LABELS = {"__name__": "up", "instance": "n01:9100"}


def packed(series: bytes) -> bytes:
    return pack_snappy(field(0x0A, series))


def test_what_a_real_prometheus_sent_is_read() -> None:
    found = decode_write(recorded(1))

    labels = [labels_of_key(found.key(series)) for series in range(len(found.starts))]
    by_name = {each["__name__"]: each for each in labels}
    assert len(found.values) == 15
    assert by_name["DCGM_FI_DEV_FB_USED"]["modelName"] == "NVIDIA H100 80GB HBM3"
    assert by_name["vllm:num_requests_running"]["engine"] == "0"
    assert found.values[0] == 97.0
    assert set(found.t_ms) == {found.t_ms[0]}
    assert not found.skipped


def test_metadata_is_counted_and_left_out() -> None:
    found = decode_write(recorded(0))

    assert len(found.values) == 0
    assert found.skipped == {"metadata": 6}


def test_the_stale_marker_of_a_real_prometheus_is_a_missing_value() -> None:
    found = decode_write(recorded(5))

    (gone,) = np.flatnonzero(np.isnan(found.values))
    assert labels_of_key(found.key(int(found.series[gone])))["gpu"] == "1"
    assert found.values[gone : gone + 1].view(np.int64)[0] == STALE_BITS


def test_exemplars_and_native_histograms_are_counted_and_left_out() -> None:
    inside = field(0x0A, field(0x0A, b"__name__") + field(0x12, b"x"))

    found = decode_write(packed(inside + field(0x1A, b"ab") + field(0x22, b"cd")))

    assert found.skipped == {"exemplars": 1, "histograms": 1}


names = st.text("abcdefg_", min_size=1, max_size=8)
series = st.tuples(
    st.dictionaries(names, st.text(max_size=20), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(-(2**40), 2**60), st.floats()), max_size=5),
)


@settings(max_examples=40)
@given(st.lists(series, max_size=8))
def test_what_is_encoded_is_decoded(
    written: list[tuple[dict[str, str], list[tuple[int, float]]]],
) -> None:
    body = encode_write([(ls, [t for t, _ in ps], [v for _, v in ps]) for ls, ps in written])

    found = decode_write(body)

    read = [labels_of_key(found.key(each)) for each in range(len(found.starts))]
    samples = [(each, t, v) for each, (_, ps) in enumerate(written) for t, v in ps]
    assert read == [labels for labels, _ in written]
    assert found.series.tolist() == [each for each, _, _ in samples]
    assert found.t_ms.tolist() == [t for _, t, _ in samples]
    assert found.values.tobytes() == b"".join(struct.pack("<d", v) for _, _, v in samples)


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read_and_nothing_else(data: bytes) -> None:
    for body in (data, pack_snappy(data)):
        try:
            found = decode_write(body)
        except StewardError as fault:
            assert fault.problem
        else:
            assert len(found.series) == len(found.values)


@settings(max_examples=40)
@given(st.data())
def test_a_mutated_request_never_does_more_than_be_refused(data: st.DataObject) -> None:
    plain = bytearray(unpack_snappy(recorded(1), most_bytes=2**20))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(plain) - 1))
        plain[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(plain)))

    for body in (bytes(plain), bytes(plain[:cut])):
        try:
            found = decode_write(pack_snappy(body))
            for each in range(len(found.starts)):
                labels_of_key(found.key(each))
        except StewardError as fault:
            assert fault.problem


def test_a_request_that_is_cut_off_reports_at_which_byte() -> None:
    plain = unpack_snappy(one_series(LABELS, [1.0]), most_bytes=2**20)

    with pytest.raises(StewardError, match=r"cut off.*byte 0"):
        decode_write(pack_snappy(plain[:-3]))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (WireLimits(series=1), "too many series"),
        (WireLimits(samples=1), "too many samples"),
        (WireLimits(labels=1), "too many labels"),
        (WireLimits(label_bytes=10), "labels are too long"),
        (WireLimits(body_bytes=20), "more than 20 bytes"),
    ],
)
def test_each_limit_is_named_when_it_is_passed(limits: WireLimits, message: str) -> None:
    body = encode_write([(LABELS, [T_MS], [1.0]), ({**LABELS, "a": "b"}, [T_MS], [2.0])])

    with pytest.raises(StewardError, match=message):
        decode_write(body, limits)


def test_a_snappy_bomb_is_refused_by_its_first_bytes() -> None:
    bomb = number(2**31) + b"\x00" * 100

    with pytest.raises(StewardError, match="unpacks to more than"):
        decode_write(bomb)


@pytest.mark.parametrize(
    "label",
    [
        field(0x0A, b"a") + field(0x12, b"\xff\xfe"),  # not UTF-8
        field(0x12, b"value"),  # no name
        b"\x0a\x7f",  # leads beyond its end
        b"\x0a",
    ],
)
def test_labels_that_cannot_be_read_are_refused(label: bytes) -> None:
    found = decode_write(packed(field(0x0A, label)))

    with pytest.raises(StewardError):
        labels_of_key(found.key(0))


def test_a_label_given_twice_is_refused() -> None:
    twice = 2 * field(0x0A, field(0x0A, b"a") + field(0x12, b"b"))

    with pytest.raises(StewardError, match="twice: 'a'"):
        labels_of_key(decode_write(packed(twice)).key(0))


def test_infinities_and_nan_come_through_as_they_are() -> None:
    found = decode_write(one_series(LABELS, [math.inf, -math.inf, math.nan]))

    assert found.values[0] == math.inf
    assert found.values[1] == -math.inf
    assert math.isnan(found.values[2])
