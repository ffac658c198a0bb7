from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observe.logs.slow_times import slow_time
from steward.errors import StewardError
from steward.observe.logs.formats import NO_TIME, PREQ, STRICT, Format, LineTimes, Years, stamp
from steward.observe.logs.formats.template import Template, compiled

NOW_S = 1_750_000_000.0  # 2025-06-15
S = 10**9
JUNE_1 = 1_748_736_000 * S  # 2025-06-01 00:00:00
EXAMPLES = [  # format, line, nanoseconds after that day began: strict, preq (None: not read)
    ("json-time-epoch", '{"level":"e","time":1748736001480541,"x":1}', S + 480_541_000, 0),
    ("rfc3339", "2025-06-01T02:00:01.5+02:00|poll", S + S // 2, 0),
    ("iso-comma-5", "2025-06-01 00:00:01,46570 WARN x", S + 465_700_000, 0),
    ("iso-micros-zone", "2025-06-01 01:00:01.250000+0100 x", S + 250_000_000, 0),
    ("iso-millis", "2025-06-01 00:00:01.421865+00:00 x", S + 421_865_000, S + 421_000_000),
    ("iso", "2025-06-01 00:00:01,587 x", S + 587_000_000, S),
    ("syslog-micros", "Jun  1 00:00:01.715984 WRN x", S + 715_984_000, 0),
    ("syslog", "Jun  1 00:00:01 host kernel: x", S, 0),
    ("klog", "E0601 00:00:01.000002 12 x.go:1] y", S + 2000, 0),
    ("bracketed", "[2025-06-01 00:00:01,003] INFO x", S + 3_000_000, 0),
    ("slashes", "2025/06/01 00:00:01 [error] 1#1: x", S, 0),
    ("us-comma", "06/01/2025, 00:00:01 x", S, 0),
    ("day-month-year", "01 Jun 2025 00:00:01.004 x", S + 4_000_000, 0),
    ("year-month-day", "2025 Jun 01 00:00:01.004 x", S + 4_000_000, 0),
    ("apache-millis", "01/Jun/2025:00:00:01.004 x", S + 4_000_000, 0),
    ("us-half-day", "06/01/2025 12:00:01 AM x", S, 0),
    ("year-month-day-s", "2025 Jun 01 00:00:01 x", S, 0),
    ("json-timestamp", '{"timestamp": "2025-06-01T00:00:01Z"}', S, 0),
    ("json-ts", '{"a":1,"ts":"2025-06-01T00:00:01.25Z"}', S + 250_000_000, 0),
    ("nats", "[7] 2025/06/01 00:00:01.339092 [ERR] x", S + 339_092_000, 0),
    ("json-creation", '{"creationTimestamp":"2025-06-01T00:00:01Z"}', S, 0),
    ("zap-console", "2025-06-01T00:00:01.535+0000\tINFO\tx", S + 535_000_000, 0),
    ("zap-json", '{"ts":1748736001.5355184}', S + 535_518_400, 0),
    ("logfmt-ts", "ts=2025-06-01T00:00:01.623431174Z x", S + 623_431_174, 0),
    ("json-timestamp-micros", '{"timestamp":"2025-06-01T00:00:01.000001Z"}', S + 1000, 0),
    ("windows-date", '{"T":"\\/Date(1748736001142)\\/"}', S + 142_000_000, 0),
    ("logfmt-time", 'time="2025-06-01T00:00:01Z" level=x', S, 0),
    ("vllm", "INFO 06-01 00:00:01 [core.py:1] x", S, None),
    ("vllm-process", "(EngineCore_0 pid=7) WARNING 06-01 00:00:01 [x.py:1] y", S, None),
    ("slurm", "[2025-06-01T00:00:01.123] error: x", S + 123_000_000, None),
    ("ctime-bracketed", "[Sun Jun  1 00:00:01 2025] NVRM: Xid", S, None),
    ("ctime", "Sun Jun  1 00:00:01 2025 x", S, None),
    ("ctime-zone", "Sun Jun  1 00:00:01 UTC 2025", S, None),
    ("ctime-no-year", "Sun Jun  1 00:00:01 x", S, None),
    ("glog-year", "I20250601 00:00:01.5 12 x.cc:1] y", S + S // 2, None),
    ("rfc5424", "<34>1 2025-06-01T00:00:01.003Z h a - - - x", S + 3_000_000, None),
    ("syslog-priority", "<6>Jun  1 00:00:01 h kernel: x", S, None),
    ("level-first", "INFO 2025-06-01 00:00:01,5 x", S + S // 2, None),
    ("level-first-t", "[INFO] 2025-06-01T00:00:01Z x", S, None),
    ("bracket-first", "[INFO|trainer.py:7] 2025-06-01 00:00:01,500 >> x", S + S // 2, None),
    ("redis", "1:M 01 Jun 2025 00:00:01.123 * Ready", S + 123_000_000, None),
    ("tomcat", "01-Jun-2025 00:00:01.123 INFO x", S + 123_000_000, None),
    ("json-time", '{"time":"2025-06-01T00:00:01Z"}', S, None),
    ("json-at-timestamp", '{"@timestamp":"2025-06-01T00:00:01Z"}', S, None),
    ("json-asctime", '{"asctime": "2025-06-01 00:00:01,250"}', S + 250_000_000, None),
    ("json-timestamp-epoch", '{"timestamp":1748736001.5}', S + S // 2, None),
    ("json-time-number", '{"time": 1748736001.5}', S + S // 2, None),
    ("logfmt-t", "t=2025-06-01T00:00:01Z lvl=info", S, None),
    ("access-log", '1.2.3.4 - - [01/Jun/2025:02:00:01 +0200] "GET / "', S, None),
    ("epoch", "1748736001000000 x", S, None),
    ("epoch", "1748736001.5 x", S + S // 2, None),
    ("epoch", "1748736001 x", S, None),
    ("epoch-bracketed", "[1748736001] x", S, None),
    ("us-half-day", "6/1/2025 12:00:01 AM x", S, None),
    ("level-first", "WARN  2025-06-01 00:00:01,5 x", S + S // 2, None),
    ("level-first-bar", "INFO | 2025-06-01 00:00:01 | x", S, None),
    ("cassandra", "INFO  [main] 2025-06-01 00:00:01,250 x", S + 250_000_000, None),
    ("java", "Jun 01, 2025 12:00:01 AM org.x", S, None),
    ("spark", "25/06/01 00:00:01 ERROR x", S, None),
    ("mysql-5", "250601  0:00:01 [ERROR] x", S, None),
    ("rabbitmq-3", "=INFO REPORT==== 1-Jun-2025::00:00:01 ===", S, None),
    ("mail", "Sun, 01 Jun 2025 02:00:01 +0200 x", S, None),
    ("dots", "01.06.2025 00:00:01 x", S, None),
    ("iso-dashed", "2025-06-01_00:00:01.5 x", S + S // 2, None),
    ("compact", "20250601 00:00:01.5 x", S + S // 2, None),
    ("compact-t", "20250601T020001+0200 x", S, None),
    ("json-date", '{"t":{"$date":"2025-06-01T00:00:01.5+00:00"}}', S + S // 2, None),
    ("logfmt-time-bare", "time=2025-06-01T00:00:01.5Z level=x", S + S // 2, None),
    ("rfc3339", "\x1b[2m2025-06-01T00:00:01Z\x1b[0m \x1b[32mINFO\x1b[0m x", S, None),
    ("clock", "00:00:01.5 [main] x", S + S // 2 - JUNE_1, None),
    ("clock-bracketed", "[00:00:01] x", S - JUNE_1, None),
]


def read(formats: tuple[Format, ...] | tuple[Template, ...], *lines: bytes) -> list[int | None]:
    templates = [each.template if isinstance(each, Format) else each for each in formats]
    buffer = np.frombuffer(b"\n".join(lines) + b"\n", np.uint8)
    lengths = np.array([len(line) for line in lines], np.int64)
    start = np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]).astype(np.int64)
    times = LineTimes.read((buffer, start, start + lengths), templates, Years(now_s=NOW_S))
    return [None if t == NO_TIME else int(t) for t in times.t_ns]


def named(name: str, formats: tuple[Format, ...]) -> Format:
    """Find a format; where several are one in strict mode, the one that they are."""
    shared = next((each for each in PREQ if each.name == name), None)
    exact = [each for each in formats if each.name == name]
    return exact[0] if exact else formats[PREQ.index(shared)] if shared else formats[-1]


@pytest.mark.parametrize(("name", "line", "strict", "preq"), EXAMPLES)
def test_every_format_is_read_to_its_last_digit_and_as_preq_reads_it(
    name: str, line: str, strict: int, preq: int | None
) -> None:
    fits = [each for each in STRICT if not each.packing and read((each,), line.encode())[0]]
    assert read((fits[0],), line.encode()) == [JUNE_1 + strict]
    if preq is None:
        return
    expected = JUNE_1 + (preq or strict)
    assert read((named(name, PREQ),), line.encode()) == [expected]


def test_all_27_formats_of_the_field_are_there_in_their_order() -> None:
    shared = [each.name for each in PREQ[3:]]

    assert shared == [name for name, _, _, preq in EXAMPLES if preq is not None]
    assert len(shared) == 27


def test_seconds_since_the_machine_started_count_from_then() -> None:
    dmesg = named("dmesg", STRICT)
    buffer = np.frombuffer(b"[  123.456789] NVRM: Xid", np.uint8)
    one = (buffer, np.zeros(1, np.int64), np.array([len(buffer)], np.int64))

    at_boot = LineTimes.read(one, [dmesg.template], Years(now_s=NOW_S, boot_ns=JUNE_1))

    assert at_boot.t_ns.tolist() == [JUNE_1 + 123_456_789_000]


@pytest.mark.parametrize(
    "prefix",
    ["\x1b[1;32m", "[rank3]: ", "[default0]:", "3: ", "  12: ", "[1,0]<stdout>:", "[rank11]:"],
)
def test_a_rank_before_the_time_is_gone_over_in_strict_mode_only(prefix: str) -> None:
    line = f"{prefix}2025-06-01 00:00:01,5 step".encode()

    assert read((named("iso", STRICT),), line) == [JUNE_1 + S + S // 2]
    assert read((named("iso", PREQ),), line) == [None]


def test_a_time_without_year_is_of_the_last_year_in_which_it_is_not_ahead_by_a_week() -> None:
    syslog = named("syslog", PREQ)
    next_week, later, leap = b"Jun 22 00:00:00 x", b"Jun 23 00:00:00 x", b"Feb 29 00:00:00 x"

    seen = read((syslog,), next_week, later, leap)

    assert seen == [JUNE_1 + 21 * 86400 * S, JUNE_1 + (22 - 365) * 86400 * S, 1_709_164_800 * S]


@pytest.mark.parametrize(
    ("digits", "t_ns"),
    [
        ("9223372035", 9_223_372_035 * S),
        ("9223372036", 9_223_372_036 * 10**6),
        ("9223372036000", 9_223_372_036_000 * 1000),
        ("9223372036000000", 9_223_372_036_000_000),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("0", None),
    ],
)
def test_the_size_of_a_number_reports_its_unit(digits: str, t_ns: int | None) -> None:
    assert read((Template(text="%A"),), digits.encode()) == [t_ns]


@pytest.mark.parametrize(
    "line",
    ["2025-02-30 00:00:00 x", "2025-13-01 00:00:00", "2025-06-01 24:00:00", "2025-06-01 00:60:00",
     "2025-06-01 00:00:60", "1500-06-01 00:00:00", "2025-06-01", "", "2025-06-01 0:00:00"],
)  # fmt: skip
def test_what_is_no_moment_is_no_time(line: str) -> None:
    assert read((named("iso", STRICT),), line.encode()) == [None]


PIECES = st.one_of(
    st.sampled_from([line for _, line, _, _ in EXAMPLES]),
    st.sampled_from(
        [
            "\x1b[2m",
            "\x1b[",
            "[rank1]: ",
            "3: ",
            "Z",
            " Z",
            "+00",
            " +01:30",
            " -0730",
            "-07",
            ",",
            ".5",
            " ",
        ]
    ),
    st.text("0123456789-:T ./[]\t", max_size=6),
)


@settings(max_examples=150, deadline=None)
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=3), at=st.integers(0, 80), drop=st.integers(0, 3)
)
def test_the_compiled_reader_agrees_with_a_slow_one(pieces: list[str], at: int, drop: int) -> None:
    text = "".join(pieces)
    text = text[:at] + text[at + drop :]
    for each in (*PREQ, *STRICT):
        if not each.packing:
            expected = slow_time(text, each.template, NOW_S)
            assert read((each,), text.encode()) == [expected], (each.name, text)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("2006-01-02 15:04:05.000", "2025-06-01 00:00:01.000"),
        ("2006-01-02 15:04:05,999 -0700", "2025-06-01 02:00:01 +0200"),
        ("Jan _2 2006 3:04:05 PM", "Jun  1 2025 12:00:01 AM"),
        ("Mon, 02 Jan 2006 15:04:05 MST", "Sun, 01 Jun 2025 00:00:01 UTC"),
        ("02/01/06 15:04:05", "01/06/25 00:00:01"),
        ("2006-1-2T15:04:05Z07:00", "2025-6-1T02:00:01+02:00"),
        ("January 2, 2006 15:04:05", "June 1, 2025 00:00:01"),
        ("rfc3339", "2025-06-01T00:00:01Z"),
        ("unix", "Sun Jun  1 00:00:01 UTC 2025"),
        ("epochany", "1748736001"),
        ("epochseconds", "1748736001"),
        ("epochmillis", "1748736001000"),
        ("epochmicros", "1748736001000000"),
        ("epochnanos", "1748736001000000000"),
        ("dotnotation", "1748736001.0"),
    ],
)
def test_a_source_can_have_a_pattern_and_a_layout_of_its_own(layout: str, text: str) -> None:
    own = stamp(r"at=<(.*?)> ", layout)

    span = own.search(f"x at=<{text}> y".encode())

    assert span == (6, 6 + len(text))
    assert read((own.template,), text.encode()) == [JUNE_1 + S]


@pytest.mark.parametrize(
    ("pattern", "layout", "message"),
    [
        ("(x", "rfc3339", "cannot be read"),
        ("x", "rfc3339", "no group"),
        ("(x)", "rfc3338", "no format of times"),
    ],
)
def test_a_wrong_pattern_or_layout_is_refused_with_what_was_possible(
    pattern: str, layout: str, message: str
) -> None:
    with pytest.raises(StewardError, match=message) as fault:
        stamp(pattern, layout, where="sources.yaml")

    assert fault.value.where == "sources.yaml"
    assert fault.value.hint


def test_a_template_with_an_unknown_code_is_refused() -> None:
    with pytest.raises(StewardError, match="no code '%j'"):
        compiled((Template(text="%j"),))
