"""OTLP is read as the official classes write it, and hostile payloads are refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, NumberDataPoint

from steward.clients.wire.otlp import (
    LogRecord,
    OutgoingSeries,
    decode_logs,
    decode_metrics,
    encode_logs,
    encode_metrics,
    from_json,
    point_of_key,
)
from steward.clients.wire.otlp_scan import COUNT_OF, GAUGE, PER_SECOND, SUM, SUM_OF, TOTAL
from steward.clients.wire.samples import WireLimits
from steward.errors import StewardError
from wire_messages import otlp_request, pairs_of

T_NS = 1_700_000_000_000_000_000


def points(body: bytes) -> list[tuple[int, str, dict[str, str], int, float]]:
    found = decode_metrics(body)
    rows = []
    for each in range(len(found.values)):
        point = point_of_key(found.key(each))
        attributes = dict(point.attributes)
        rows.append(
            (point.kind, point.name, attributes, int(found.t_ms[each]), float(found.values[each]))
        )
    return rows


def test_gauges_and_sums_of_both_kinds_are_distinguished() -> None:
    request, _ = otlp_request()
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    point = NumberDataPoint(
        time_unix_nano=T_NS, start_time_unix_nano=T_NS - 2 * 10**9, as_double=7.0
    )
    metrics.add(name="g").gauge.data_points.add(time_unix_nano=T_NS, as_int=-3)
    for name, temporality, monotonic in (("c", 2, True), ("d", 1, True), ("u", 2, False)):
        added = metrics.add(name=name).sum
        added.aggregation_temporality = temporality
        added.is_monotonic = monotonic
        added.data_points.append(point)

    found = [(kind, name, value) for kind, name, _, _, value in points(request.SerializeToString())]

    assert found == [(GAUGE, "g", -3.0), (TOTAL, "c", 7.0), (PER_SECOND, "d", 3.5), (SUM, "u", 7.0)]


def test_a_change_without_a_beginning_has_no_rate() -> None:
    request, _ = otlp_request()
    added = request.resource_metrics[0].scope_metrics[0].metrics.add(name="d").sum
    added.aggregation_temporality = 1
    added.data_points.add(time_unix_nano=T_NS, as_double=7.0)

    ((_, _, _, _, value),) = points(request.SerializeToString())

    assert math.isnan(value)


def test_of_histograms_and_summaries_count_and_sum_are_kept() -> None:
    request, _ = otlp_request()
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    plain = HistogramDataPoint(
        time_unix_nano=T_NS, count=4, sum=1.5, bucket_counts=[1, 3], attributes=pairs_of({"a": "b"})
    )
    metrics.add(name="h").histogram.data_points.append(plain)
    metrics.add(name="e").exponential_histogram.data_points.add(
        time_unix_nano=T_NS, count=5, sum=2.5, attributes=pairs_of({"a": "b"})
    )
    metrics.add(name="s").summary.data_points.add(
        time_unix_nano=T_NS, count=6, sum=3.5, attributes=pairs_of({"a": "b"})
    )
    body = request.SerializeToString()

    found = [(kind, name, attributes, value) for kind, name, attributes, _, value in points(body)]

    assert found == [
        (kind, name, {"a": "b"}, value)
        for name, values in (("h", (4.0, 1.5)), ("e", (5.0, 2.5)), ("s", (6.0, 3.5)))
        for kind, value in zip((COUNT_OF, SUM_OF), values, strict=True)
    ]
    assert decode_metrics(body).skipped == {"buckets": 3}


def test_a_point_that_reports_it_has_no_value_is_missing() -> None:
    request, _ = otlp_request()
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    metrics.add(name="g").gauge.data_points.add(time_unix_nano=T_NS, as_double=1.0, flags=1)

    found = decode_metrics(request.SerializeToString())

    assert math.isnan(found.values[0])
    assert found.skipped == {"no_value": 1}


def test_attributes_of_every_kind_become_text() -> None:
    request, _ = otlp_request()
    values = {
        "text": AnyValue(string_value="x"),
        "yes": AnyValue(bool_value=True),
        "whole": AnyValue(int_value=-5),
        "real": AnyValue(double_value=0.5),
        "none": AnyValue(),
        "many": AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)])),
    }
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    metrics.add(name="g").gauge.data_points.add(
        time_unix_nano=T_NS, attributes=[KeyValue(key=k, value=v) for k, v in values.items()]
    )

    ((_, _, found, _, _),) = points(request.SerializeToString())

    many = found.pop("many")
    assert found == {"text": "x", "yes": "true", "whole": "-5", "real": "0.5", "none": ""}
    assert "int_value: 1" in many


names = st.text("abc.", min_size=1, max_size=6)
sent = st.builds(
    OutgoingSeries,
    name=names,
    unit=st.just("1"),
    attributes=st.dictionaries(names, st.text(max_size=8), max_size=3),
    counter=st.sampled_from([False]),
    t_ns=st.just([T_NS, T_NS + 10**6]),
    values=st.lists(st.floats(), min_size=2, max_size=2),
)


@settings(max_examples=40)
@given(st.lists(sent, max_size=5))
def test_what_is_encoded_is_decoded(series: list[OutgoingSeries]) -> None:
    found = points(encode_metrics({"host.name": "n"}, series))

    wanted = [
        (each.name, dict(each.attributes), t_ns // 10**6, value)
        for each in series
        for t_ns, value in zip(each.t_ns, each.values, strict=True)
    ]
    assert sorted(map(repr, (row[1:] for row in found))) == sorted(map(repr, wanted))


def test_json_is_read_as_well() -> None:
    point = {"asDouble": 0.5, "timeUnixNano": str(T_NS)}
    metric = {"name": "hw.gpu.utilization", "gauge": {"dataPoints": [point]}, "newField": 1}
    text = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()

    ((_, name, _, t_ms, value),) = points(from_json(text, logs=False))

    assert (name, t_ms, value) == ("hw.gpu.utilization", T_NS // 10**6, 0.5)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"resourceMetrics": 3}', b"\xff", b'{"a":' * 5000 + b"1"]
)
def test_json_that_is_not_otlp_is_refused(text: bytes) -> None:
    with pytest.raises(StewardError, match="not OTLP in JSON"):
        from_json(text, logs=False)


@settings(max_examples=40)
@given(st.binary(max_size=120))
def test_random_bytes_are_refused_or_read_and_nothing_else(data: bytes) -> None:
    for decode in (points, decode_logs):
        try:
            decode(data)
        except StewardError as fault:
            assert fault.problem


@settings(max_examples=40)
@given(st.data())
def test_a_mutated_request_never_does_more_than_be_refused(data: st.DataObject) -> None:
    series = OutgoingSeries(
        name="g",
        unit="1",
        attributes={"a": "b"},
        counter=True,
        t_ns=[T_NS, T_NS + 1],
        values=[1.0, 2.0],
    )
    body = bytearray(encode_metrics({"host.name": "n"}, [series, series]))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))

    for mutated in (bytes(body), bytes(body[:cut])):
        try:
            points(mutated)
        except StewardError as fault:
            assert fault.problem


def test_attribute_explosions_and_sizes_are_refused() -> None:
    series = OutgoingSeries(
        name="g",
        unit="1",
        attributes={str(n): "x" for n in range(100)},
        counter=False,
        t_ns=[T_NS],
        values=[1.0],
    )
    body = encode_metrics({}, [series])

    with pytest.raises(StewardError, match="more than 64 attributes"):
        points(body)
    with pytest.raises(StewardError, match="labels are too long"):
        decode_metrics(body, WireLimits(label_bytes=100))
    with pytest.raises(StewardError, match="more than 10 bytes"):
        decode_metrics(body, WireLimits(body_bytes=10))


def test_too_many_points_are_refused_with_the_byte() -> None:
    series = OutgoingSeries(
        name="g", unit="", attributes={}, counter=False, t_ns=[T_NS] * 9, values=[0.0] * 9
    )

    with pytest.raises(StewardError, match=r"too many samples \(byte \d+\)"):
        decode_metrics(encode_metrics({}, [series]), WireLimits(samples=5))


def test_log_records_come_back_as_they_were_sent() -> None:
    record = LogRecord(
        t_ns=T_NS,
        severity=17,
        text="NCCL timeout",
        resource={"host.name": "n01"},
        attributes={"rank": "3"},
    )

    assert decode_logs(encode_logs([record])) == [record]


def test_logs_are_limited_like_metrics() -> None:
    record = LogRecord(t_ns=T_NS, severity=0, text="x", resource={}, attributes={})
    body = encode_logs([record] * 3)

    with pytest.raises(StewardError, match="more than 2 log records"):
        decode_logs(body, WireLimits(samples=2))
    with pytest.raises(StewardError, match="more than 3 bytes"):
        decode_logs(body, WireLimits(body_bytes=3))
