"""The H200 recording: canonical, with rates per run, and runs and phases as spans."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from steward.observe.importing import Imported, ImportSource, import_all, task_for
from steward.store.query import Query

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
T0 = 1_794_709_273.0
HEADER = "run,t,gpu_util,fb_used_mib,energy_mj,sm_active,cpu_user_ticks,load1"


def row(run: str, second: float, energy_mj: int, ticks: int, sm: str = "25") -> str:
    return f"{run},{T0 + second},50,615,{energy_mj},{sm},{ticks},0.5"


def recorded(folder: Path, marks: list[dict[str, object]]) -> tuple[Imported, Path]:
    rows = [
        row("a-00", 0, 1_000_000, 100, sm="nan"),
        row("a-00", 1, 1_080_000, 150),
        row("a-00", 2, 1_160_000, 250),
        row("a-01", 60, 9_000_000, 5000),
        row("a-01", 61, 9_500_000, 5100),
    ]
    file = folder / "telemetry.csv"
    file.write_text("\n".join([HEADER, *rows]) + "\n")
    (folder / "events.jsonl").write_text("\n".join(json.dumps(mark) for mark in marks))
    out = folder / "out"
    return import_all([task_for(ImportSource(path=file))], out), out


def mark(run: str, second: float, phase: str, part: str = "w", **more: object) -> dict[str, object]:
    return {"t": T0 + second, "run": run, "workload": "w", "part": part, "phase": phase, **more}


MARKS = [
    mark("a-00", 0.5, "start"),
    mark("a-00", 1.5, "train", steps=3),
    mark("a-00", 2, "exit", code=0),
    mark("a-01", 60.5, "start"),
    mark("a-01", 61, "exit", code=137, stderr_tail="killed"),
]


def query_rows(out: Path, sql: str) -> list[tuple[object, ...]]:
    with Query(out) as query:
        return query.run(sql).rows


def test_names_units_and_rates_are_ours_and_no_rate_crosses_runs(tmp_path: Path) -> None:
    result, out = recorded(tmp_path, MARKS)

    assert result.files[0]["format"] == "h200"
    assert query_rows(
        out,
        'SELECT "gpu.busy_share", "gpu.memory.used_bytes", "gpu.energy.mean_watts", '
        "\"gpu.sm.active_share\" FROM telemetry WHERE entity = 'h200/gpu0' ORDER BY t_s",
    ) == [
        (0.5, 615 * 2.0**20, None, None),
        (0.5, 615 * 2.0**20, pytest.approx(80.0), 0.25),
        (0.5, 615 * 2.0**20, pytest.approx(80.0), 0.25),
        (0.5, 615 * 2.0**20, None, 0.25),
        (0.5, 615 * 2.0**20, pytest.approx(500.0), 0.25),
    ]
    assert query_rows(
        out, "SELECT \"host.cpu.user_cores\" FROM telemetry WHERE entity = 'h200' ORDER BY t_s"
    ) == [(None,), (0.5,), (1.0,), (None,), (1.0,)]


def test_runs_workloads_and_phases_are_joined_to_samples(tmp_path: Path) -> None:
    _, out = recorded(tmp_path, MARKS)

    for kind in ("gpu", "node"):
        rows = query_rows(
            out,
            "SELECT run, workload, phase, count(*) FROM telemetry "
            f"WHERE kind = '{kind}' GROUP BY ALL ORDER BY ALL NULLS FIRST",
        )
        assert rows == [
            ("a-00", "w", None, 2),
            ("a-00", "w", "start", 1),
            ("a-01", "w", None, 2),
        ]
    about = query_rows(
        out, "SELECT about FROM spans WHERE kind = 'run' AND entity = 'h200' ORDER BY name"
    )
    assert [json.loads(str(each)) for (each,) in about] == [
        {"workload": "w", "exit": "0"},
        {"workload": "w", "exit": "137", "stderr": "killed"},
    ]


def test_two_workloads_at_once_are_both_named(tmp_path: Path) -> None:
    marks = [
        mark("a-00", 0, "train", part="x"),
        mark("a-00", 1, "checkpoint", part="y"),
        mark("a-00", 1.5, "exit", part="x", code=0),
        mark("a-00", 1.8, "exit", part="y", code=1),
    ]

    _, out = recorded(tmp_path, marks)

    phases = query_rows(
        out, "SELECT phase FROM telemetry WHERE entity = 'h200' AND run = 'a-00' ORDER BY t_s"
    )
    assert phases == [("train",), ("checkpoint+train",), (None,)]


def test_marks_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    result, _ = recorded(tmp_path, [*MARKS, {"t": "soon", "run": "a-00", "phase": "x"}, {"a": 1}])

    assert result.bad == {"a mark cannot be read": 2}
    assert result.examples["a mark cannot be read"] == [
        "events.jsonl, line 6",
        "events.jsonl, line 7",
    ]


def test_without_marks_there_are_still_runs(tmp_path: Path) -> None:
    result, out = recorded(tmp_path, [])

    assert result.spans == {"run": 2}
    assert query_rows(out, "SELECT DISTINCT run FROM telemetry ORDER BY 1") == [
        ("a-00",),
        ("a-01",),
    ]


@pytest.mark.data
def test_the_real_recording_imports_whole(tmp_path: Path) -> None:
    file = DATA / "h200" / "telemetry.csv.gz"

    result = import_all([task_for(ImportSource(path=file))], tmp_path / "out")

    assert (result.rows, result.bad, result.unknown, len(result.columns)) == (9150, {}, (), 37)
    ((runs, least, most),) = query_rows(
        tmp_path / "out",
        'SELECT count(DISTINCT run), min("gpu.energy.mean_watts"), max("gpu.energy.mean_watts") '
        "FROM telemetry WHERE kind = 'gpu'",
    )
    assert runs == 28
    assert 0 <= least < most < 1500  # watts: the counter is updated late at times, then twice
    ((apart,),) = query_rows(
        tmp_path / "out",
        'SELECT avg(abs("gpu.energy.mean_watts" - "gpu.power_watts")) / avg("gpu.power_watts") '
        "FROM telemetry WHERE kind = 'gpu'",
    )
    assert apart < 0.15
