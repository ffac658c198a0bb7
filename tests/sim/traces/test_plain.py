"""Plain CSV and Parquet: units, times, and all the ways in which a file can be wrong."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.trace import RowFault, Trace
from steward.sim.traces import read_trace


def written(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, **options: object) -> Trace:
    return read_trace(written(folder, text), **options)  # type: ignore[arg-type]


def fault(trace: Trace, words: str) -> RowFault:
    found = [fault for fault in trace.faults if words in fault.reason]
    assert len(found) == 1, trace.faults
    return found[0]


def refusal(folder: Path, text: str) -> StewardError:
    with pytest.raises(StewardError) as caught:
        read(folder, text)
    return caught.value


def test_all_columns_are_read(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "job_id,submit_s,duration_s,gpus,user,tenant,gpu_type,cpus,memory_bytes,model,batch,"
        "priority,deadline_s,checkpoint_s,after\n"
        "a,0,10,1,ann,bio,A100|H100,4,1e9,bert,32,2,100,5,\n"
        "b,1,20,0.25,bob,,,,,,,,,,a\n",
    )

    assert trace.job_id.tolist() == ["a", "b"]
    assert trace.gpus.tolist() == [1.0, 0.25]
    assert (trace.users, trace.user.tolist()) == (("ann", "bob"), [0, 1])
    assert (trace.tenants, trace.tenant.tolist()) == (("bio",), [0, -1])
    assert (trace.gpu_types, trace.models) == (("A100|H100",), ("bert",))
    assert trace.cpus[0] == 4.0
    assert math.isnan(trace.cpus[1])
    assert (trace.memory_bytes[0], trace.batch[0]) == (1e9, 32.0)
    assert trace.priority.tolist() == [2, 0]
    assert (trace.deadline_s[0], trace.checkpoint_s[0]) == (100.0, 5.0)
    assert trace.after.tolist() == [[1, 0]]
    assert trace.faults == ()
    assert not trace.synthetic


def test_rows_are_sorted_by_submission_and_ties_keep_their_order(tmp_path: Path) -> None:
    trace = read(tmp_path, "job_id,submit_s,duration_s,gpus\nc,5,1,1\na,1,1,1\nd,5,2,1\nb,1,2,1\n")

    assert trace.job_id.tolist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("header", "row", "seconds", "size"),
    [
        ("submit_min,duration_h,memory_mb", "2,0.5,3", (120.0, 1800.0), 3e6),
        ("submit_ms,duration_days,memory_gib", "2500,1,1", (2.5, 86400.0), 2.0**30),
        ("Submit Time,run_time_minutes,mem-kib", "7,2,4", (7.0, 120.0), 4096.0),
        ("arrival_s,runtime,memory_bytes", "7,2,4", (7.0, 2.0), 4.0),
        ("submit_s,duration,memory_tb", "7,1-02:03:04.5,1", (7.0, 93784.5), 1e12),
        ("submit_s,elapsed,memory_mib", "7,03:04,1", (7.0, 184.0), 2.0**20),
    ],
)
def test_units_are_told_from_the_ends_of_names(
    tmp_path: Path, header: str, row: str, seconds: tuple[float, float], size: float
) -> None:
    trace = read(tmp_path, f"job_id,{header},num_gpus\nx,{row},2\n")

    assert (trace.submit_s[0], trace.duration_s[0]) == pytest.approx(seconds)
    assert trace.memory_bytes[0] == size
    assert trace.gpus[0] == 2.0


def test_memory_without_a_unit_is_bytes_and_said(tmp_path: Path) -> None:
    trace = read(tmp_path, "job_id,submit_s,duration_s,gpus,memory\nx,0,1,1,5\n")

    assert trace.memory_bytes[0] == 5.0
    assert fault(trace, "taken as bytes").kept


def test_the_same_thing_in_two_units_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, "job_id,submit_s,duration_s,duration_min,gpus\nx,0,60,1,1\n")

    assert "'duration_s' and 'duration_min'" in error.problem


def test_bad_rows_are_counted_with_their_lines_and_the_rest_runs(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "# made by hand\n"
        "job_id,submit_s,duration_s,gpus\n"
        "ok,0,10,1\n"
        "neg,1,-5,1\n"
        "none,2,,1\n"
        "word,3,ten,1\n"
        "\n"
        "zero,4,10,0\n"
        "minus,5,10,-2\n"
        "inf,6,inf,1\n"
        "ok,7,11,1\n"
        "idle,8,0,1\n"
        "long,9,1,1,more,and more\n"
        "short,10\n"
        "# a remark\n"
        "old,11,1e12,1\n"
        "odd,12,5,1.5\n"
        "late,n/a,5,1\n"
        "n/a,13,5,1\n",
    )

    assert trace.job_id.tolist() == ["ok", "odd", "15"]
    assert trace.gpus.tolist() == [1.0, 2.0, 1.0]
    assert fault(trace, "duration_s is negative").examples == ("line 4: neg,1,-5,1",)
    assert fault(trace, "duration_s is missing").rows == 2
    assert fault(trace, "duration_s is no number").examples == (
        "line 6: word,3,ten,1",
        "line 10: inf,6,inf,1",
    )
    assert fault(trace, "gpus is 0").rows == 1
    assert fault(trace, "gpus is negative").rows == 1
    assert fault(trace, "twice").examples == ("line 11: ok,7,11,1",)
    assert fault(trace, "never ran").rows == 1
    assert fault(trace, "more cells").examples == ("line 13: long,9,1,1,more,and more",)
    assert fault(trace, "100 years").examples == ("line 16: old,11,1e12,1",)
    assert fault(trace, "rounded up").kept
    assert fault(trace, "the row is empty").examples == ("line 7: ",)
    assert fault(trace, "submit_s is missing").rows == 1
    assert fault(trace, "job_id is missing").kept
    left_out = sum(fault.rows for fault in trace.faults if not fault.kept)
    assert left_out + len(trace) == 16


def test_a_bad_row_does_not_push_out_a_good_one_with_its_id(tmp_path: Path) -> None:
    trace = read(tmp_path, "job_id,submit_s,duration_s,gpus\na,0,-1,1\na,1,5,1\n")

    assert trace.duration_s.tolist() == [5.0]


def test_optional_cells_that_make_no_sense_are_unknown_and_said(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "job_id,submit_s,duration_s,gpus,cpus,priority,deadline_s\na,0,1,1,-4,high,soon\n",
    )

    assert np.isnan([trace.cpus[0], trace.deadline_s[0]]).all()
    assert trace.priority[0] == 0
    assert len([f for f in trace.faults if f.kept]) == 3


def test_jobs_that_wait_for_each_other_in_a_ring_are_left_out_by_name(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "job_id,submit_s,duration_s,gpus,after\n"
        "a,0,1,1,c\nb,1,1,1,a\nc,2,1,1,b\n"
        "self,3,1,1,self\n"
        "d,4,1,1,c;gone\n"
        "e,5,1,1,d\n"
        "f,6,1,1,d;e\n",
    )

    assert trace.job_id.tolist() == ["d", "e", "f"]
    assert trace.after.tolist() == [[1, 0], [2, 0], [2, 1]]
    ring = fault(trace, "ring")
    assert ring.rows == 4
    assert "a, b, c, self" in ring.reason
    assert fault(trace, "not in the trace").rows == 1


def test_waits_follow_their_jobs_when_rows_are_sorted(tmp_path: Path) -> None:
    trace = read(
        tmp_path, "job_id,submit_s,duration_s,gpus,after\nlate,9,1,1,early\nearly,1,1,1,\n"
    )

    assert trace.job_id[trace.after].tolist() == [["late", "early"]]


def test_epoch_seconds_count_from_the_first_job(tmp_path: Path) -> None:
    trace = read(
        tmp_path, "job_id,submit_s,duration_s,gpus\na,1700000000,1,1\nb,1700000060.5,1,1\n"
    )

    assert trace.submit_s.tolist() == [0.0, 60.5]


@pytest.mark.parametrize(("unit", "scale"), [("milli", 10**3), ("micro", 10**6), ("nano", 10**9)])
def test_finer_epochs_are_told_by_their_size(tmp_path: Path, unit: str, scale: int) -> None:
    rows = "".join(f"j{i},{(1700000000 + i) * scale},1,1\n" for i in range(3))

    trace = read(tmp_path, "job_id,submit_s,duration_s,gpus\n" + rows)

    assert trace.submit_s == pytest.approx([0.0, 1.0, 2.0], abs=1e-3)
    assert fault(trace, f"{unit}seconds").rows == 3


def test_seconds_and_milliseconds_in_one_column_meet(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "job_id,submit_s,duration_s,gpus\na,1700000000,1,1\nb,1700000007000,1,1\n"
        "c,1700000009,1,1\nodd,55,1,1\n",
    )

    assert trace.submit_s.tolist() == [0.0, 7.0, 9.0]
    assert fault(trace, "milliseconds").rows == 1
    assert fault(trace, "another start").examples == ("line 5: odd,55,1,1",)


def test_negative_times_are_shifted(tmp_path: Path) -> None:
    trace = read(tmp_path, "job_id,submit_s,duration_s,gpus\na,-5,1,1\nb,5,1,1\n")

    assert trace.submit_s.tolist() == [0.0, 10.0]
    assert fault(trace, "shifted").rows == 1


def test_dates_with_zones_meet_dates_without(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "job_id,submit_time,duration_s,gpus\n"
        "a,2023-03-01T00:00:00Z,1,1\n"
        "b,2023-03-01 08:00:10+08:00,1,1\n"
        "c,2023/03/01 00:00:20,1,1\n"
        "d,2023-02-28 19:00:30.5 -0500,1,1\n"
        "e,2023-03-01 00:01 UTC,1,1\n"
        "f,soon,1,1\n"
        "g,12345,1,1\n"
        "h,2023-03-02,1,1\n",
    )

    assert trace.submit_s.tolist() == [0.0, 10.0, 20.0, 30.5, 60.0, 86400.0]
    assert fault(trace, "taken as UTC").rows == 2
    assert fault(trace, "no number").rows == 2


def test_dates_without_any_zone_need_no_remark(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "job_id,submit_time,duration_s,gpus\n"
        "a,2020-06-09 18:41:01,1,1\nb,2020-06-09 18:41:27,1,1\n",
    )

    assert trace.submit_s.tolist() == [0.0, 26.0]
    assert trace.faults == ()


def test_other_separators_a_byte_order_mark_and_windows_lines_are_understood(
    tmp_path: Path,
) -> None:
    path = tmp_path / "jobs.txt"
    path.write_bytes(b"\xef\xbb\xbfjob_id;submit_s;duration_s;gpus\r\na;0;1;2\r\nb;1;1;1\r\n")

    assert read_trace(path).gpus.tolist() == [2.0, 1.0]


def test_quotes_may_hold_separators_and_one_that_is_never_closed_is_said(tmp_path: Path) -> None:
    closed = read(tmp_path, 'job_id,submit_s,duration_s,gpus,user\n"a,1",0,1,1,"x"\nb,1,1,1,y\n')
    opened = read(tmp_path, 'job_id,submit_s,duration_s,gpus,user\na,0,1,1,"x\nb,1,1,1,y\n')
    broken = read(tmp_path, 'job_id,submit_s,duration_s,gpus,user\na,0,1,1,"x\ny"\nb,1,1,1,y\n')

    assert closed.job_id.tolist() == ["a,1", "b"]
    assert opened.users == ('"x', "y")
    assert fault(opened, "never closed").kept
    assert fault(broken, "line break").rows == 1


def test_gzip_and_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    rows = "".join(f"{i},{i},1,1\n" for i in range(50))
    path.write_bytes(gzip.compress(b"job_id,submit_s,duration_s,gpus\n" + rows.encode()))

    assert len(read_trace(path)) == 50
    assert len(read_trace(path, limit=7)) == 7


def test_parquet_with_types_reads_like_csv(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    frame = pl.DataFrame(
        {
            "job_id": [7, 8],
            "submit_time": pl.Series(
                ["2024-01-01T00:00:00", "2024-01-01T00:01:00"]
            ).str.to_datetime(time_zone="Europe/Berlin"),
            "duration_s": [1.5, None],
            "gpus": [1, 2],
            "tags": [["x"], ["y"]],
        }
    )
    frame.write_parquet(path)

    trace = read_trace(path)

    assert (trace.job_id.tolist(), trace.submit_s.tolist()) == (["7"], [0.0])
    assert fault(trace, "duration_s is missing").examples == ("row 2",)


def test_a_synthetic_file_says_so(tmp_path: Path) -> None:
    text = "# synthetic: made by hand\njob_id,submit_s,duration_s,gpus\na,0,1,1\n"

    assert read(tmp_path, text).synthetic


def test_rows_without_ids_are_numbered_and_that_is_said(tmp_path: Path) -> None:
    trace = read(tmp_path, "submit_s,duration_s,gpus\n0,1,1\n1,1,1\n")

    assert trace.job_id.tolist() == ["0", "1"]
    assert fault(trace, "numbered").kept


def test_wrong_columns_are_named_with_the_nearest(tmp_path: Path) -> None:
    error = refusal(tmp_path, "job_id,submit_s,durations,gpu_cnt\na,0,1,1\n")

    assert "duration_s" in error.problem
    assert "gpu_cnt" in error.problem
    assert "durations" in error.hint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"  \n\n", "empty"),
        (b"\x00\x01\x02binary", "no text"),
        (b"PK\x03\x04....", "zip"),
        (b"\x1f\x8bnot really", "cannot be read"),
        (gzip.compress(b"job_id,submit_s\n" * 999, mtime=0)[:-20], "cannot be read"),
        (b"PAR1 junk", "cannot be read"),
        (b"job_id,submit_s,duration_s,gpus\n", "no job rows"),
        (b"job_id,submit_s,duration_s,gpus\na,0,-1,1\n", "duration_s is negative"),
        (b"once upon a time", "no known format"),
        (b"# only a remark\n", "no known format"),
    ],
)
def test_a_file_without_usable_rows_is_refused_in_words(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)

    with pytest.raises(StewardError) as caught:
        read_trace(path)

    assert words in caught.value.problem
    assert caught.value.hint


def test_an_unknown_format_and_a_foolish_limit_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "job_id,submit_s,duration_s,gpus\na,0,1,1\n")

    with pytest.raises(StewardError, match="no trace format called 'plane'"):
        read_trace(path, format="plane")
    with pytest.raises(StewardError, match="limit is 0"):
        read_trace(path, limit=0)


_HEADERS = (
    b"job_id,submit_s,duration_s,gpus,after\n",
    b"JobID|Submit|Elapsed|State|AllocTRES\n",
    b"; SWF\n",
    b'[{"attempts": [], "submitted_time": "2017-10-07 01:11:39"}',
    b"PAR1",
    b"",
)


@given(header=st.sampled_from(_HEADERS), rest=st.binary(max_size=200))
def test_no_bytes_whatever_raise_anything_but_words(
    tmp_path_factory: pytest.TempPathFactory, header: bytes, rest: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(header + rest)

    try:
        trace = read_trace(path)
    except StewardError as error:
        assert error.problem
    else:
        assert len(trace) > 0


_CELLS = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "2.5",
        "1e400",
        "nan",
        "",
        '"',
        "a",
        "2020-01-01 00:00:00",
        "1700000000000",
        "#",
    ]
)


@given(rows=st.lists(st.lists(_CELLS, min_size=1, max_size=7), max_size=12))
def test_every_row_is_in_the_trace_or_in_a_fault(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    lines = [",".join(row) for row in rows if not row[0].startswith("#") and '"' not in row]
    header = "job_id,submit_s,duration_s,gpus,after\n"
    path.write_text(header + "".join(line + "\n" for line in [*lines, "ok,3,7,1,"]))

    try:
        trace = read_trace(path)
    except StewardError as error:  # the one good row may be the odd one out
        assert "no row can be used" in error.problem
    else:
        left_out = sum(fault.rows for fault in trace.faults if not fault.kept)
        assert len(trace) + left_out == len(lines) + 1
