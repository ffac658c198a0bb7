"""Exposition text is read as Prometheus reads it, and hostile text is refused with a message."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from steward.clients.wire.exposition import decode_text, labels_of_text, shown_labels
from steward.clients.wire.label_escapes import escape_label, unescape_label
from steward.clients.wire.samples import WireLimits, WireSamples
from steward.errors import StewardError
from wire_messages import RECORDED


def read(found: WireSamples) -> list[tuple[str, dict[str, str], float]]:
    rows = []
    for each, value in enumerate(found.values.tolist()):
        labels = labels_of_text(found.key(each))
        rows.append((labels.pop("__name__"), labels, value))
    return rows


def test_it_agrees_with_the_official_parser_on_exporters_text() -> None:
    text = (RECORDED / "exposition.txt").read_bytes()

    ours = read(decode_text(text, now_ms=5))

    theirs = [
        (sample.name, dict(sample.labels), float(sample.value))
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    ]
    assert sorted(ours, key=str) == sorted(theirs, key=str)


label_values = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abc"), label_values), st.floats())
def test_it_agrees_with_the_official_writer_on_any_label(
    labels: dict[str, str], value: float
) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("x", "y", sorted(labels), registry=registry)
    (gauge.labels(**labels) if labels else gauge).set(value)

    ((name, found, read_value),) = read(decode_text(generate_latest(registry), now_ms=5))

    assert (name, found) == ("x", labels)
    assert read_value == value or (math.isnan(read_value) and math.isnan(value))


def test_openmetrics_with_exemplars_and_times_is_read() -> None:
    registry = CollectorRegistry()
    Counter("c", "y", registry=registry).inc(3, {"trace": "a b"})
    Histogram("h", "y", registry=registry).observe(0.2, {"trace": "x"})
    text = openmetrics.generate_latest(registry) + b'\n t{a="b"} 1 1700000000.5 \r\n'

    found = decode_text(text, now_ms=5, openmetrics=True)

    by_name = {name: value for name, _, value in read(found)}
    assert (by_name["c_total"], by_name["h_count"], by_name["t"]) == (3.0, 1.0, 1.0)
    assert found.t_ms[-1] == 1_700_000_000_500


def test_times_are_milliseconds_in_the_older_format_and_missing_ones_are_now() -> None:
    found = decode_text(b"a 1 1700000000500\nb 2\n", now_ms=7)

    assert found.t_ms.tolist() == [1_700_000_000_500, 7]


def test_names_in_quotes_as_prometheus_3_writes_them_are_read() -> None:
    assert labels_of_text(b'{"my.metric","a.b"="c"}') == {"__name__": "my.metric", "a.b": "c"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a", "line 1"),
        (b'ok 1\na{b="c" 1\n', "line 2"),
        (b"a 1 2 3\n", "line 1"),
        (b"a x\n", "not a number"),
        (b"a 1 1e300\n", "no usable time"),
        (b"a 1 nan\n", "no usable time"),
        (b"<html>hello</html>\n", "line 1"),
    ],
)
def test_what_is_not_exposition_text_is_refused_with_its_line(text: bytes, message: str) -> None:
    with pytest.raises(StewardError, match=message):
        decode_text(text, now_ms=0)


@pytest.mark.parametrize(
    "key",
    [b'a{b="c"', b"a{b}", b'a{b="c",b="d"}', b"a{b='c'}", b"a-b", b'{b="c"}', b'a{"b"="\xff"}'],
)
def test_labels_that_are_malformed_are_refused(key: bytes) -> None:
    if key == b'a{b="c"':
        assert labels_of_text(key)["b"] == "c"  # the scan has seen the brace already
        return
    with pytest.raises(StewardError):
        labels_of_text(key)


def test_limits_of_a_scrape_are_named() -> None:
    many = b"".join(b"a%d 1\n" % number for number in range(50))

    with pytest.raises(StewardError, match="more than 10 samples"):
        decode_text(many, now_ms=0, limits=WireLimits(samples=10))
    with pytest.raises(StewardError, match="more than 100 bytes"):
        decode_text(many, now_ms=0, limits=WireLimits(body_bytes=100))
    with pytest.raises(StewardError, match="line 1 has labels of more than 9 bytes"):
        decode_text(b'a{b="ccccccccc"} 1\n', now_ms=0, limits=WireLimits(label_bytes=9))


@settings(max_examples=40)
@given(st.binary(max_size=120) | st.text('a{}="\\ \n#1', max_size=60).map(str.encode))
def test_hostile_text_is_refused_or_read_and_nothing_else(text: bytes) -> None:
    try:
        found = decode_text(text, now_ms=0)
        for each in range(len(found.values)):
            labels_of_text(found.key(each))
    except StewardError as fault:
        assert fault.problem


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abc"), label_values, min_size=1))
def test_labels_that_are_shown_are_read_again(labels: dict[str, str]) -> None:
    assert labels_of_text(f"x{shown_labels(labels)}".encode()) == {"__name__": "x", **labels}


@given(st.text(max_size=20))
def test_label_values_come_back_from_their_escapes(text: str) -> None:
    assert unescape_label(escape_label(text)) == text


def test_a_line_end_in_a_label_is_a_line_end() -> None:
    assert unescape_label(r"a\nb\\nc\"d\x") == 'a\nb\\nc"d\\x'
