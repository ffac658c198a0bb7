"""Every body that can be pushed is decoded, and decoded again after a crash."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
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
        (table,) = observation_of([readings.convert()]).tables
        assert table.rows() == [(T_MS / 1000, "n01/gpu0", 0.5)]


def test_histograms_are_kept_as_count_and_sum() -> None:
    point = {"count": "3", "sum": 1.5, "timeUnixNano": str(T_MS * 10**6)}
    metric = {"name": "latency", "histogram": {"dataPoints": [point]}}
    text = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()

    seen = observation_of(
        [Decoders().otlp_metrics(pushed(text, encoding="identity", json=True)).convert()]
    )

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


@pytest.mark.parametrize("t_ns", [2**63, 2**64 - 1, 7_258_118_400 * 10**9])  # one of them: 2200
def test_a_log_record_of_a_time_to_come_costs_itself_only_and_is_counted(t_ns: int) -> None:
    decoders = Decoders()
    good, bad = (
        LogRecord(t_ns=each, severity=9, text="x", resource={"host.name": "n01"}, attributes={})
        for each in (T_MS * 10**6, t_ns)
    )

    found = decoders.otlp_logs(pushed(encode_logs([good, bad]), encoding="identity"))

    assert [line.t_s for line in found.lines] == [T_MS / 1000]
    assert (found.refused, decoders.stats["otlp-logs"].out_of_time) == (1, 1)
    assert [event.kind for event in found.events] == ["telemetry.time-refused"]
    with pytest.raises(StewardError, match="1 log records from p are refused"):
        decoders.otlp_logs(pushed(encode_logs([bad]), encoding="identity"))


def test_a_log_record_without_a_time_has_that_of_its_arrival() -> None:
    decoders = Decoders(wall_s=lambda: 5_000.0)
    record = LogRecord(t_ns=0, severity=9, text="x", resource={}, attributes={})

    found = decoders.otlp_logs(pushed(encode_logs([record]), encoding="identity"))

    assert found.lines[0].t_s == 5_000.0


@pytest.mark.parametrize("t_ns", [2**63, 2**64 - 1, 7_258_118_400 * 10**9])
def test_otlp_points_of_a_time_to_come_are_refused(t_ns: int) -> None:
    body = encode_metrics({"host.name": "n01"}, [replace(BUSY, t_ns=[t_ns])])

    with pytest.raises(StewardError, match=r"ahead of this machine|before 1970"):
        Decoders().otlp_metrics(pushed(body, encoding="identity"))


def test_a_gzip_bomb_is_refused() -> None:
    decoders = Decoders(limits=WireLimits(body_bytes=1000))

    with pytest.raises(StewardError, match="more than 1000 bytes"):
        decoders.otlp_metrics(pushed(gzip.compress(bytes(10**6)), encoding="gzip"))


@settings(max_examples=40)
@given(st.binary(max_size=60), st.sampled_from(["remote-write", "otlp-metrics", "otlp-logs"]))
def test_whatever_is_pushed_is_refused_with_a_message_or_accepted(body: bytes, kind: str) -> None:
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
