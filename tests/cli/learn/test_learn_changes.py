from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from steward.cli.app import app
from steward.model.event import Observation
from steward.store.recording import Recording

ROWS = 700


def values() -> np.ndarray:
    found = np.random.default_rng(2).normal(50.0, 1.0, ROWS)
    found[400:] += 20.0
    return found


def nab_file(folder: Path) -> Path:
    lines = ["timestamp,value"]
    for row, value in enumerate(values()):
        at = datetime.fromtimestamp(1_400_000_100 + 300 * row, UTC)
        lines.append(f"{at:%Y-%m-%d %H:%M:%S},{value}")
    file = folder / "cpu.csv"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def answer(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(app, ["learn", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_file_of_nab_gives_a_score_for_each_of_its_times(tmp_path: Path) -> None:
    found = answer("anomalies", str(nab_file(tmp_path)))

    times, scores = found["times"], found["scores"]
    assert isinstance(times, list)
    assert isinstance(scores, list)
    assert len(times) == len(scores) == ROWS
    assert times[0] == 1_400_000_100.0
    assert 400 <= int(np.argmax(scores)) <= 403


def test_a_file_of_nab_gives_the_times_of_its_changes(tmp_path: Path) -> None:
    found = answer("changes", str(nab_file(tmp_path)))

    assert found["times"] == [1_400_000_100.0 + 300 * 400]
    assert found["changes"][0]["metrics"][0]["metric"] == "value"  # type: ignore[index]


def test_a_wide_table_names_the_columns_at_fault(tmp_path: Path) -> None:
    file = tmp_path / "pods.parquet"
    calm = np.random.default_rng(4).normal(size=(ROWS, 3))
    calm[500, 1] += 40.0
    table = pl.DataFrame({"t_s": np.arange(ROWS) * 60.0, **{f"p{i}": calm[:, i] for i in range(3)}})
    table.write_parquet(file)

    found = answer("anomalies", str(file), "--most", "1")

    (event,) = found["events"]  # type: ignore[misc]
    assert event["culprits"][0]["metric"] == "p1"  # type: ignore[has-type]


def test_two_rows_of_one_time_and_rows_out_of_order_are_all_scored(tmp_path: Path) -> None:
    file = tmp_path / "twice.csv"
    times = [*range(300), 150, 150]
    file.write_text("\n".join(["t_s,value", *(f"{t},{t % 7}" for t in times)]), encoding="utf-8")

    found = answer("anomalies", str(file))

    assert found["times"] == sorted(float(t) for t in times)


@pytest.mark.parametrize("command", ["changes", "anomalies"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "format"),
        ("", "empty"),
        ("t_s,value\n1,high\n2,low\n", "no sample"),
        ("t_s,value\n", "no number"),
    ],
)
def test_a_file_without_series_is_refused(
    tmp_path: Path, command: str, text: str, said: str
) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text, encoding="utf-8")

    done = CliRunner().invoke(app, ["learn", command, str(file)])

    assert done.exit_code == 2
    assert "error:" in done.output
    assert said in done.output


def test_an_unknown_method_or_file_is_refused(tmp_path: Path) -> None:
    file = nab_file(tmp_path)

    for arguments in (["changes", str(file), "--method", "x"], ["anomalies", str(file) + "x"]):
        assert CliRunner().invoke(app, ["learn", *arguments]).exit_code == 2


def test_people_are_shown_tables_and_what_could_not_be_used(tmp_path: Path) -> None:
    file = nab_file(tmp_path)
    with file.open("a", encoding="utf-8") as lines:
        lines.write("\nnever,3\n")

    changed = CliRunner().invoke(app, ["learn", "changes", str(file)])
    unusual = CliRunner().invoke(app, ["learn", "anomalies", str(file)])

    assert "2014-05-15" in changed.output
    assert "value" in unusual.output
    assert "cannot be read" in changed.output


def test_what_steward_recorded_is_looked_at_by_node_or_by_entity(tmp_path: Path) -> None:
    values = np.random.default_rng(6).normal(100.0, 1.0, 400)
    values[200:] += 30.0
    times = 1_800_000_000.0 + 10.0 * np.arange(400)
    gpu = pl.DataFrame({"t_s": times, "entity": "n1/gpu0", "gpu.power_watts": values})
    other = pl.DataFrame(
        {"t_s": times + 0.4, "entity": "n1", "metric": "queue", "value": values[::-1]}
    )
    with closing(Recording(tmp_path)) as kept:
        kept.keep(Observation(frame=gpu, other=other))

    together = answer("changes", str(tmp_path))
    each = answer("changes", str(tmp_path), "--each", "--only", "gpu.*")

    (node,) = together["series"]  # type: ignore[misc]
    assert node["entity"] == "n1"  # type: ignore[has-type]
    assert node["metrics"] == ["gpu.power_watts of gpu0", "queue"]  # type: ignore[has-type]
    assert node["moments"] == 400  # type: ignore[has-type]
    assert [one["entity"] for one in each["series"]] == ["n1/gpu0"]  # type: ignore[attr-defined]
    assert each["times"] == [times[200]]
