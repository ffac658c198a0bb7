"""Telemetry files as the rule engine reads them."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from steward.errors import StewardError
from steward.inspection.series import telemetry
from steward.inspection.series.telemetry import telemetry_frames
from steward.model.event import Event, Observation
from steward.model.span import Span
from steward.observe.importing.source import ImportCounts
from steward.store.recording import Recording

BUSY = "gpu.busy_share"
H200 = "run,t,gpu_util,sm_active,fb_used_mib\n"


def frames(path: Path, *wants: str, tally: ImportCounts | None = None) -> list[pl.DataFrame]:
    found = telemetry_frames(path, frozenset(wants), tally=tally)
    return [each for each in found if isinstance(each, pl.DataFrame)]


def events(path: Path, *wants: str) -> list[tuple[float, str, str, str]]:
    return [
        (event.t_s, event.kind, event.subject, event.text)
        for each in telemetry_frames(path, frozenset(wants))
        if not isinstance(each, pl.DataFrame)
        for event in each
    ]


def h200(folder: Path) -> Path:
    lines = [f"a-00,{1000 + i},{i},50,615\n" for i in range(20)]
    file = folder / "telemetry.csv.gz"
    file.write_bytes(gzip.compress((H200 + "".join(lines)).encode()))
    marks = [
        {"t": 1005.0, "run": "a-00", "workload": "train", "part": "x", "phase": "compile"},
        {"t": 1010.0, "run": "a-00", "workload": "train", "part": "x", "phase": "train"},
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in marks))
    return file


def test_our_recorders_files_have_samples_phases_and_runs(tmp_path: Path) -> None:
    file = h200(tmp_path)

    found = pl.concat(frames(file, BUSY, "steward_phase"), how="diagonal")

    gpu = found.filter(pl.col("entity") == "h200/gpu0")
    assert gpu[BUSY].to_list() == [i / 100 for i in range(20)]
    compiling = found.filter(pl.col("phase:compile").is_not_null())
    assert compiling["t_s"].to_list() == [1005.0, 1010.0]
    assert compiling["phase:compile"].is_nan().to_list() == [False, True]
    assert events(file, BUSY)[:3] == [
        (1000.0, "run.began", "h200", "a-00"),
        (1000.0, "workload.began", "h200", "train"),
        (1005.0, "phase.began", "h200", "compile"),
    ]


def test_frames_and_events_come_in_the_order_of_time(tmp_path: Path) -> None:
    file = h200(tmp_path)
    now_s = 0.0

    for each in telemetry_frames(file, frozenset({BUSY, "steward_phase"})):
        if isinstance(each, pl.DataFrame):
            assert each["t_s"].is_sorted()
            assert each["t_s"][0] >= now_s
            now_s = each["t_s"][-1]
        else:
            assert each[0].t_s >= now_s
            now_s = each[-1].t_s


def test_a_folder_may_hold_the_files_among_others(tmp_path: Path) -> None:
    h200(tmp_path)
    (tmp_path / "README.md").write_text("# What this is\n")
    tally = ImportCounts()

    found = frames(tmp_path, BUSY, tally=tally)

    assert sum(each.height for each in found) == 20
    assert "README.md is no telemetry" in tally.notes


def test_a_plain_table_with_our_names_is_read_in_any_order(tmp_path: Path) -> None:
    file = tmp_path / "test.csv"
    file.write_text(
        "t_s,entity,gpu.busy_share,vllm:waiting\n"
        "1010,n1/gpu0,0.2,5\n1000,n1/gpu0,0.1,\n1000,n1/gpu1,0.9,7\n"
    )

    found = pl.concat(frames(file, BUSY, "vllm:waiting"), how="diagonal")

    rows = [
        (1000.0, "n1/gpu0", 0.1, None),
        (1000.0, "n1/gpu1", 0.9, 7.0),
        (1010.0, "n1/gpu0", 0.2, 5.0),
    ]
    once = found.group_by("t_s", "entity").agg(pl.col(BUSY, "vllm:waiting").drop_nulls().first())
    assert once.sort("t_s", "entity").rows() == rows


def test_a_table_may_say_who_held_what_and_in_which_phase(tmp_path: Path) -> None:
    file = tmp_path / "test.csv"
    said = [("812", "compile"), ("812", "compile"), ("812", "train"), ("", ""), ("830", "train")]
    rows = [f"{1000 + 10 * i},n1/gpu0,0.1,{job},{name}\n" for i, (job, name) in enumerate(said)]
    file.write_text("t_s,entity,gpu.busy_share,job_id,phase\n" + "".join(rows))

    found = pl.concat(frames(file, BUSY, "steward_phase"), how="diagonal")

    held = found.filter(pl.col(BUSY).is_not_null()).sort("t_s")
    assert held["job_id"].to_list() == ["812", "812", "812", None, "830"]
    compiling = found.filter(pl.col("phase:compile").is_not_null())
    assert compiling["t_s"].to_list() == [1000.0, 1020.0]
    assert (1030.0, "job.ended", "n1/gpu0", "812") in events(file, BUSY)
    assert (1040.0, "job.began", "n1/gpu0", "830") in events(file, BUSY)


def test_a_phase_that_goes_on_in_the_next_block_of_a_file_begins_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steward.observe.importing.delimited_text._BLOCK_BYTES", 200)
    file = tmp_path / "test.csv"
    rows = [f"{1000 + i},n1/gpu0,0.1,compile\n" for i in range(50)]
    file.write_text("t_s,entity,gpu.busy_share,phase\n" + "".join(rows))

    kinds = [kind for _, kind, _, _ in events(file, BUSY)]

    assert kinds == ["phase.began", "phase.ended"]


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    file = tmp_path / "test.csv"
    file.write_text("t_s,entity,gpu.busy_share,gpu.power_watts\n1000,n1/gpu0,0.2,100\n")

    assert frames(file, "gpu.power_watts")[0].columns == ["t_s", "entity", "gpu.power_watts"]
    assert frames(file) == []


def recording(folder: Path) -> None:
    rows = {"t_s": [1000.0, 1700.0, 5000.0], "entity": ["n1/gpu0"] * 3, BUSY: [0.1, 0.2, 0.3]}
    other = pl.DataFrame(
        {"t_s": [1000.0], "entity": ["n1"], "metric": ["vllm:waiting"], "value": [3.0]}
    )
    span = Span(id="s", entity="n1/gpu0", kind="job", name="812", from_s=900.0, to_s=1500.0)
    event = Event(t_s=1200.0, kind="gpu.failed", subject="n1/gpu0", text="Xid 79", source="kernel")
    with closing(Recording(folder)) as kept:
        kept.keep(
            Observation(frame=pl.DataFrame(rows), other=other, spans=(span,), events=(event,))
        )


def test_what_steward_recorded_is_read_with_events_and_holders(tmp_path: Path) -> None:
    recording(tmp_path)
    tally = ImportCounts()

    found = frames(tmp_path, BUSY, tally=tally)

    assert [(t, job) for each in found for t, job in each.select("t_s", "job_id").rows()] == [
        (1000.0, "812"),
        (1700.0, None),
        (5000.0, None),
    ]
    assert tally.rows == 3
    assert events(tmp_path, BUSY) == [
        (900.0, "job.began", "n1/gpu0", "812"),
        (1200.0, "gpu.failed", "n1/gpu0", "Xid 79"),
        (1500.0, "job.ended", "n1/gpu0", "812"),
    ]


def test_metrics_that_nobody_has_translated_are_read_from_a_recording(tmp_path: Path) -> None:
    recording(tmp_path)

    found = pl.concat(frames(tmp_path, BUSY, "vllm:waiting"), how="diagonal")
    alone = frames(tmp_path, "vllm:waiting")

    assert found["vllm:waiting"].drop_nulls().to_list() == [3.0]
    assert found[BUSY].drop_nulls().to_list() == [0.1, 0.2, 0.3]
    assert [each["vllm:waiting"].to_list() for each in alone] == [[3.0]]
    assert frames(tmp_path) == []


def test_a_file_larger_than_memory_goes_through_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "MOST_ROWS", 5)
    rows = [f"{1000 + i},n1/gpu0,0.{i},{i},812\n" for i in range(10)]
    for name, part in (("a.csv", rows[5:]), ("b.csv", rows[:5])):
        text = "t_s,entity,gpu.busy_share,vllm:waiting,job_id\n" + "".join(part)
        (tmp_path / name).write_text(text)

    found = pl.concat(frames(tmp_path, BUSY, "vllm:waiting"), how="diagonal")

    assert found[BUSY].drop_nulls().to_list() == [i / 10 for i in range(10)]
    assert found["vllm:waiting"].drop_nulls().to_list() == [float(i) for i in range(10)]
    assert found["job_id"].null_count() == 0


def test_a_long_table_is_cut_between_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_WINDOW_ROWS", 4)
    rows = [f"{1000 + i},n1/gpu{g},0.5\n" for i in range(6) for g in range(3)]
    (tmp_path / "test.csv").write_text("t_s,entity,gpu.busy_share\n" + "".join(rows))

    found = frames(tmp_path / "test.csv", BUSY)

    assert [each.height for each in found] == [6, 6, 6]


def test_many_events_do_not_cut_telemetry_to_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_MOST_CUTS", 3)
    file = h200(tmp_path)

    found = list(telemetry_frames(file, frozenset({BUSY})))

    assert sum(isinstance(each, pl.DataFrame) for each in found) <= 4
    assert len(events(file, BUSY)) == 8


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("gone", None, "no such file or folder"),
        ("a.txt", "hello\n", "has no known format"),
        ("a.csv", "hello world\n", "has no known format"),
        ("a.csv", "", "its first line is empty"),
        ("a.csv", "gpu,power\n0,3\n", "has no known format"),
        ("a.csv.gz", "not packed\n", "has no known format"),
        ("a.log", "Jan 01 00:00:01 host kernel: disk full\n", "has no known format"),
        ("a.csv", "t,x\nnoon,1\nnight,2\n", "read as csv, and has no sample in 2 rows .*'t'.*: 2"),
        ("a.csv.gz", "t_s,entity\n", ""),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, name: str, text: str | None, problem: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    if not problem:
        assert frames(tmp_path / name, BUSY) == []
        return

    with pytest.raises(StewardError, match=problem) as caught:
        frames(tmp_path / name, BUSY)

    assert name in caught.value.where


def test_a_folder_without_telemetry_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# nothing\n")

    with pytest.raises(StewardError, match="no file in it is telemetry"):
        frames(tmp_path, BUSY)


def test_a_file_without_samples_among_others_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t_s,entity,gpu.busy_share\n1700000000,n1/gpu0,0.5\n")
    (tmp_path / "b.csv").write_text("t,x\nnoon,1\n")
    tally = ImportCounts()

    list(telemetry_frames(tmp_path, frozenset({BUSY}), tally=tally))

    assert any("b.csv: it was read as csv, and has no sample" in note for note in tally.notes)


def test_it_is_said_when_no_rule_looks_at_anything_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,foo\n1700000000,1\n")
    tally = ImportCounts()

    list(telemetry_frames(tmp_path / "a.csv", frozenset({BUSY}), tally=tally))

    assert tally.notes[-1] == "a.csv: no rule looks at any metric of it; it has foo"
