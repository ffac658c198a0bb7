"""Every body that can be pushed is decoded, and decoded again after a crash."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.clients.wire.otlp import LogRecord, OutgoingSeries, encode_logs, encode_metrics
from steward.clients.wire.samples import WireLimits
from steward.errors import StewardError
from steward.model.event import LogLine
from steward.observe.intake import Intake
from steward.observe.receive import Decoders, observation_of
from wire_messages import T_MS, pushed, recorded, request_of

BUSY = OutgoingSeries(
    name="hw.gpu.utilization",
    unit="1",
    attributes={"hw.id": "0"},
    counter=False,
    t_ns=[T_MS * 10**6],
    values=[0.5],
)


def test_otlp_metrics_are_decoded_packed_or_not() -> None:
    body = encode_metrics({"host.name": "n01"}, [BUSY])
    decoders = Decoders()

    for encoding, data in (("identity", body), ("gzip", gzip.compress(body))):
        readings = decoders.otlp_metrics(pushed(data, encoding=encoding))
        (table,) = observation_of([readings]).tables
        assert table.rows() == [(T_MS / 1000, "n01/gpu0", 0.5)]


def test_histograms_are_kept_as_count_and_sum() -> None:
    point = {"count": "3", "sum": 1.5, "timeUnixNano": str(T_MS * 10**6)}
    metric = {"name": "latency", "histogram": {"dataPoints": [point]}}
    text = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()

    seen = observation_of([Decoders().otlp_metrics(pushed(text, encoding="identity", json=True))])

    assert dict(zip(seen.other["metric"], seen.other["value"], strict=True)) == {
        "latency/count": 3.0,
        "latency/sum": 1.5,
    }


def test_log_records_become_lines_with_syslogs_levels() -> None:
    resource = {"host.name": "n01", "service.name": "trainer"}
    record = LogRecord(
        t_ns=T_MS * 10**6, severity=17, text="boom", resource=resource, attributes={}
    )
    of_job = LogRecord(
        t_ns=T_MS * 10**6, severity=9, text="ok", resource=resource, attributes={"job_id": "8"}
    )
    body = encode_logs([record, of_job])

    seen = Decoders().otlp_logs(pushed(body, encoding="identity"))

    assert seen.lines == (
        LogLine(t_s=T_MS / 1000, entity="n01", source="trainer", text="boom", level=3),
        LogLine(t_s=T_MS / 1000, entity="job:8", source="trainer", text="ok", level=6),
    )


def test_a_gzip_bomb_is_refused() -> None:
    decoders = Decoders(limits=WireLimits(body_bytes=1000))

    with pytest.raises(StewardError, match="more than 1000 bytes"):
        decoders.otlp_metrics(pushed(gzip.compress(bytes(10**6)), encoding="gzip"))


@settings(max_examples=40)
@given(st.binary(max_size=60), st.sampled_from(["remote-write", "otlp-metrics", "otlp-logs"]))
def test_whatever_is_pushed_is_refused_in_words_or_taken(body: bytes, kind: str) -> None:
    decoders = Decoders()

    for data in (body, pushed(body), pushed(body, encoding="identity", json=True)):
        try:
            decoders.by_kind[kind](data)
        except StewardError as fault:
            assert fault.problem


def test_what_the_intake_took_is_there_after_a_crash(tmp_path: Path) -> None:
    bodies = [pushed(recorded(1)), pushed(recorded(2))]
    first = Intake(tmp_path)
    first.decoders.update(Decoders().by_kind)
    for body in bodies:
        first.accept("remote-write", body)
    seen = first.collect(1.0)
    first.close()  # and nothing was kept

    again = Intake(tmp_path)
    again.decoders.update(Decoders().by_kind)
    replayed = again.collect(2.0)
    again.close()

    assert [table.to_dicts() for table in replayed.tables] == [
        table.to_dicts() for table in seen.tables
    ]
    assert sum(table.height for table in seen.tables) == 6  # two GPUs and the node, twice
    assert seen.other.equals(replayed.other)


def test_many_messages_become_one_table_per_kind(tmp_path: Path) -> None:
    intake = Intake(tmp_path)
    intake.decoders.update(Decoders().by_kind)
    for number in range(50):
        labels = {"__name__": "node_load1", "instance": f"n{number}:9100"}
        intake.accept("remote-write", request_of([(labels, 1.0)]))

    seen = intake.collect(1.0)
    intake.close()

    assert [table.shape for table in seen.tables] == [(50, 3)]
