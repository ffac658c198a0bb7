"""Files of others become samples of ours: names, units, rates, places; nothing lost in silence."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.observe.importing import (
    IMPORTERS,
    Imported,
    ImportSource,
    import_all,
    importer_for,
    task_for,
)
from steward.store.query import Query

T0 = 1_700_000_000.0


def write(folder: Path, text: str, name: str = "n7.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def imported(file: Path, out: Path, format_: str | None = None, **fields: Any) -> Imported:
    return import_all([task_for(ImportSource(path=file, **fields), format_)], out)


def query_rows(out: Path, sql: str) -> list[tuple[object, ...]]:
    with Query(out) as query:
        return query.run(sql).rows


def test_wide_csv_with_names_of_several_vocabularies(tmp_path: Path) -> None:
    text = (
        "timestamp,gpu,DCGM_FI_DEV_GPU_UTIL,gpu.power_watts,load1,colour,speed\n"
        f"{T0},0,50,80.5,2,red,3\n{T0 + 1},1,nan,81,2,blue,\n"
    )

    reported = imported(write(tmp_path, text), tmp_path / "out")

    assert query_rows(
        tmp_path / "out",
        'SELECT entity, "gpu.busy_share", "gpu.power_watts", "host.load_1m" FROM telemetry '
        "ORDER BY entity, t_s",
    ) == [
        ("n7", None, None, 2.0),
        ("n7", None, None, 2.0),
        ("n7/gpu0", 0.5, 80.5, None),
        ("n7/gpu1", None, 81.0, None),
    ]
    assert query_rows(
        tmp_path / "out", "SELECT entity, metric, value FROM other WHERE metric = 'speed'"
    ) == [("n7/gpu0", "speed", 3.0)]
    assert reported.text == ("colour",)
    assert reported.columns["load1"] == "host.load_1m"
    assert reported.bad == {}


def test_long_csv_has_one_value_per_row(tmp_path: Path) -> None:
    text = (
        "t,entity,metric,value\n"
        f"{T0},n1/gpu0,gpu.busy_share,0.5\n{T0},n1/gpu0,gpu.power_watts,80\n"
        f"{T0},n1,host.disk.read_bytes,1000\n{T0 + 2},n1,host.disk.read_bytes,3000\n"
        f"{T0},n1,unheard,9\n"
    )

    reported = imported(write(tmp_path, text), tmp_path / "out")

    assert query_rows(
        tmp_path / "out",
        'SELECT t_s, "gpu.busy_share", "gpu.power_watts", "host.disk.read_bytes_per_s" '
        "FROM telemetry ORDER BY entity DESC, t_s",
    ) == [(T0, 0.5, 80.0, None), (T0, None, None, None), (T0 + 2, None, None, 1000.0)]
    assert reported.unknown == ("unheard",)
    assert reported.other == 1


def test_what_nvidia_smi_logs_is_parsed(tmp_path: Path) -> None:
    text = (
        "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"
        "2026/11/15 02:21:13.187, 3, NVIDIA H200, 57 %, 615 MiB, 78.58 W\n"
        "2026/11/15 02:21:14.187, 3, NVIDIA H200, [N/A], 615 MiB, [N/A]\n"
    )

    reported = imported(write(tmp_path, text, "n1.csv"), tmp_path / "out")

    rows = query_rows(
        tmp_path / "out",
        'SELECT t_s, entity, "gpu.busy_share", "gpu.memory.used_bytes", "gpu.power_watts" '
        "FROM telemetry ORDER BY t_s",
    )
    assert rows == [
        (pytest.approx(1794709273.187), "n1/gpu3", pytest.approx(0.57), 615 * 2.0**20, 78.58),
        (pytest.approx(1794709274.187), "n1/gpu3", None, 615 * 2.0**20, None),
    ]
    assert reported.bad == {}


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1700000000", T0),
        ("1700000000000", T0),
        ("1700000000000000", T0),
        ("1700000000000000000", T0),
        ("2023-11-14T22:13:20Z", T0),
        ("2023-11-14T22:13:20.5", T0 + 0.5),
        ("2023-11-15T00:13:20+02:00", T0),
        ("2023-11-14 22:13:20", T0),
    ],
)
def test_times_of_any_kind_are_seconds(tmp_path: Path, time: str, expected: float) -> None:
    imported(write(tmp_path, f"time,load1\n{time},1\n"), tmp_path / "out")

    assert query_rows(tmp_path / "out", "SELECT t_s FROM telemetry") == [(expected,)]


def test_reveal_text_has_devices_in_its_column_names(tmp_path: Path) -> None:
    text = (
        "# timestamp_ms  gpu0_util  GPU1:power_w  gpu.2.sm_active  load1  strange\n"
        "1700000000000   50         80            25               1.5    7\n"
        "1700000000100   60         81            26               1.5    8\n"
    ).replace("gpu0_util", "gpu0_gpu_util")

    reported = imported(write(tmp_path, text, "n1.txt"), tmp_path / "out", "reveal")

    assert query_rows(
        tmp_path / "out",
        'SELECT entity, max("gpu.busy_share"), max("gpu.power_watts"), max("gpu.sm.active_share"), '
        'max("host.load_1m") FROM telemetry GROUP BY 1 ORDER BY 1',
    ) == [
        ("n1", None, None, None, 1.5),
        ("n1/gpu0", 0.6, None, None, None),
        ("n1/gpu1", None, 81.0, None, None),
        ("n1/gpu2", None, None, 0.26, None),
    ]
    assert reported.unknown == ("strange",)


def test_prometheus_text_is_placed_by_its_labels(tmp_path: Path) -> None:
    text = (
        "# HELP DCGM_FI_DEV_GPU_UTIL busy\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        'DCGM_FI_DEV_GPU_UTIL{gpu="3",Hostname="n1",UUID="GPU-1"} 50 1700000000000\n'
        'up{instance="n2:9400",job="x"} 1 1700000000000\n'
        'weird{a="}\\"",instance="n2:1"} NaN 1700000000000\n'
        "no_time 3\n"
        "not a sample at all\n"
    )

    reported = imported(write(tmp_path, text, "dump.prom"), tmp_path / "out")

    assert reported.files[0]["format"] == "prometheus"
    assert query_rows(tmp_path / "out", 'SELECT t_s, entity, "gpu.busy_share" FROM telemetry') == [
        (T0, "n1/gpu3", 0.5)
    ]
    others = "SELECT entity, metric, value FROM other WHERE metric <> 'no_time'"
    assert query_rows(tmp_path / "out", others) == [("n2", "up", 1.0)]
    assert reported.bad == {"no sample in the exposition format": 1}


def test_a_scrape_without_times_has_that_of_its_file(tmp_path: Path) -> None:
    file = write(tmp_path, "# TYPE node_load1 gauge\nnode_load1 3.5\nnot a sample\n", "n1.prom")
    os.utime(file, (T0, T0))

    reported = imported(file, tmp_path / "out")

    assert query_rows(tmp_path / "out", 'SELECT t_s, entity, "host.load_1m" FROM telemetry') == [
        (T0, "n1", 3.5)
    ]
    assert reported.notes == (
        "n1.prom: samples without a time have that of the file's last change",
    )


def test_quotes_hold_a_name_together_and_one_that_is_not_closed_costs_its_line(
    tmp_path: Path,
) -> None:
    text = f't,load1,"a,b"\n{T0},1,2\n{T0 + 1},"1,2\n{T0 + 2},3,4\n'

    reported = imported(write(tmp_path, text), tmp_path / "out")

    assert reported.unknown == ("a,b",)
    assert reported.bad == {"not 3 fields": 1}
    assert query_rows(tmp_path / "out", 'SELECT "host.load_1m" FROM telemetry ORDER BY 1') == [
        (1.0,),
        (3.0,),
    ]


@pytest.mark.parametrize("name", ["csv", "h200", "reveal"])
def test_what_is_no_text_at_all_is_refused_with_a_message(tmp_path: Path, name: str) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(np.random.default_rng(7).bytes(60_000))

    with pytest.raises(StewardError):
        import_all([task_for(ImportSource(path=file), name)], tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_first_line_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "zeros.csv"
    with file.open("wb") as stream:
        stream.truncate(1 << 30)
    tracemalloc.start()

    with pytest.raises(StewardError, match="longer than 4 MiB"):
        import_all([task_for(ImportSource(path=file), "csv")], tmp_path / "out")

    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 64 << 20


def test_a_moment_before_1970_is_counted_as_one_that_cannot_be_read(tmp_path: Path) -> None:
    reported = imported(write(tmp_path, f"t,load1\n-5,1\n{T0},1\n"), tmp_path / "out")

    assert reported.bad == {"the time in 't' cannot be read": 1}
    assert reported.from_s == T0


def test_of_two_columns_of_time_the_stamp_is_taken(tmp_path: Path) -> None:
    text = f"Date,Time,Timestamp,load1\n2023.11.14,22-13-20,{T0},1\n"

    assert imported(write(tmp_path, text), tmp_path / "out").from_s == T0


def test_what_steward_exposed_comes_back_under_its_names(tmp_path: Path) -> None:
    text = (
        f'steward_gpu_busy_share{{node="n1",gpu="3"}} 0.5 {T0}\n'
        f'steward_disk_busy_share{{node="n1",disk="sda"}} 0.25 {T0}\n'
    )

    imported(write(tmp_path, text, "dump.prom"), tmp_path / "out")

    assert query_rows(
        tmp_path / "out",
        'SELECT entity, "gpu.busy_share", "disk.busy_share" FROM telemetry ORDER BY 1',
    ) == [("n1/disk:sda", None, 0.25), ("n1/gpu3", 0.5, None)]


def test_a_line_end_in_a_label_of_prometheus_text_stays_one(tmp_path: Path) -> None:
    text = "# TYPE up gauge\n" + r'up{instance="n2:1",path="a\nb\\n"} 1 1700000000000' + "\n"

    imported(write(tmp_path, text, "dump.prom"), tmp_path / "out")

    assert query_rows(tmp_path / "out", "SELECT metric FROM other") == [('up{path="a\nb\\n"}',)]


def test_prometheus_json_of_a_range_query(tmp_path: Path) -> None:
    series = {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "Hostname": "n1"}}
    series |= {"values": [[T0, "80"], [T0 + 15, "82.5"], [T0 + 30, "oops"]]}
    answer = {"status": "success", "data": {"resultType": "matrix", "result": [series, 7]}}

    reported = imported(write(tmp_path, json.dumps(answer), "q.json"), tmp_path / "out")

    assert query_rows(tmp_path / "out", 'SELECT "gpu.power_watts" FROM telemetry ORDER BY t_s') == [
        (80.0,),
        (82.5,),
    ]
    assert reported.bad == {"no point of the query API": 1, "no series of the query API": 1}


def test_parquet_of_others(tmp_path: Path) -> None:
    file = tmp_path / "n1.parquet"
    times = pl.Series([T0 * 1e3, T0 * 1e3 + 1000]).cast(pl.Int64).cast(pl.Datetime("ms"))
    pl.DataFrame({"time": times, "gpu_util": [10, 20], "host": ["n9", "n9"]}).write_parquet(file)

    imported(file, tmp_path / "out")

    assert query_rows(
        tmp_path / "out", 'SELECT t_s, entity, "gpu.busy_share" FROM telemetry ORDER BY 1'
    ) == [
        (T0, "n9/gpu0", 0.1),
        (T0 + 1, "n9/gpu0", 0.2),
    ]


def test_a_column_can_be_named_by_the_user(tmp_path: Path) -> None:
    file = write(tmp_path, f"t,auslastung\n{T0},50\n")

    imported(file, tmp_path / "out", columns={"auslastung": ("gpu.busy_share", 0.01)})

    assert query_rows(tmp_path / "out", 'SELECT entity, "gpu.busy_share" FROM telemetry') == [
        ("n7/gpu0", 0.5)
    ]


def test_rows_that_cannot_be_used_are_counted_with_their_lines(tmp_path: Path) -> None:
    text = (
        f"t,load1\n{T0},1\nsoon,1\n{T0 + 1},1,2\n{T0 + 2}\n{T0 + 3},many\n{T0 + 4},2\n{T0 + 4},3\n"
    )

    reported = imported(write(tmp_path, text), tmp_path / "out")

    assert reported.bad == {
        "not 2 fields": 2,
        "the time in 't' cannot be read": 1,
        "'load1' is no number": 1,
        "a second row of the same entity and time": 1,
    }
    assert reported.examples["not 2 fields"] == ["n7.csv, line 4", "n7.csv, line 5"]
    assert reported.examples["the time in 't' cannot be read"] == ["n7.csv, line 3"]
    assert reported.rows == 7


@pytest.mark.parametrize(
    ("content", "name", "problem"),
    [
        (b"", "x.csv", "its first line is empty"),
        (b"a,b\n1,2\n", "x.parquet", "has no known format"),
        (b"\x00\x01\x02", "x.bin", "has no known format"),
        (b"a,b\n1,2\n", "x.csv", "has no known format"),
        (b"PAR1 and nothing", "x.parquet", "cannot be read as Parquet"),
        (
            gzip.compress(b"t,load1\n1,2\n" * 100, mtime=0)[:40],
            "x.csv.gz",
            "compressed file is broken",
        ),
        (b"t,load1,load1\n1,2,3\n", "x.csv", "more than once"),
    ],
)
def test_a_file_that_is_none_is_named_and_leaves_no_folder(
    tmp_path: Path, content: bytes, name: str, problem: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)

    with pytest.raises(StewardError, match=problem) as caught:
        imported(file, tmp_path / "out")

    assert str(file) in caught.value.where
    assert sorted(each.name for each in tmp_path.iterdir()) == [name]


def test_when_one_of_many_files_fails_nothing_is_written(tmp_path: Path) -> None:
    good = write(tmp_path, f"t,load1\n{T0},1\n", "good.csv")
    bad = write(tmp_path, "PAR1", "bad.parquet")
    works = [task_for(ImportSource(path=each)) for each in (good, bad)]

    with pytest.raises(StewardError, match="cannot be read as Parquet"):
        import_all(works, tmp_path / "out")

    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad.parquet", "good.csv"]


def test_a_folder_that_holds_something_is_not_overwritten(tmp_path: Path) -> None:
    file = write(tmp_path, f"t,load1\n{T0},1\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()

    with pytest.raises(StewardError, match="not empty"):
        imported(file, tmp_path / "out")

    assert [each.name for each in (tmp_path / "out").iterdir()] == ["mine"]


def test_an_unknown_format_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        StewardError, match="known: csv, h200, parquet, prometheus, reveal"
    ) as caught:
        importer_for(tmp_path / "x", "h20")

    assert caught.value.hint == "did you mean 'h200'?"


def test_each_importer_is_called_what_its_table_has() -> None:
    assert {name: each.name for name, each in IMPORTERS.items()} == {n: n for n in IMPORTERS}


@settings(max_examples=40)
@given(st.binary(max_size=300), st.sampled_from(sorted(IMPORTERS)))
def test_no_bytes_make_an_importer_stumble(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    file = folder / "x"
    file.write_bytes(content)

    try:
        reported = imported(file, folder / "out", name)
    except StewardError as fault:
        assert fault.hint
        assert not (folder / "out").exists()
    else:
        assert reported.samples + reported.other > 0 or reported.notes
