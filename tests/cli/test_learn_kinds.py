from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from steward.cli.app import app
from workload_runs import files, telemetry, three_of_each


def learn(*words: str) -> Result:
    return CliRunner().invoke(app, ["learn", "kinds", *words])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("kinds")
    seen, new = three_of_each("a"), {**three_of_each("b"), "u-1": "copying", "u-2": "copying"}
    return {
        "train": files(folder, "train", seen),
        "score": files(folder, "score", new, telemetry(new, seed=1)),
    }


def test_a_classifier_is_learnt_scored_saved_and_used_again(
    data: dict[str, str], tmp_path: Path
) -> None:
    model = str(tmp_path / "kinds.learned")

    first = learn("--train", data["train"], "--score", data["score"], "--save", model,
                  "--shots", "2", "--json")  # fmt: skip
    again = learn("--model", model, "--score", data["score"].split(",", maxsplit=1)[0], "--json")

    answer = json.loads(first.stdout)
    assert first.exit_code == 0
    assert answer["macro_f1_by_run"] == 1.0
    assert answer["unknown_auroc"] == 1.0
    assert {"macro_f1_by_window", "coarse_f1_by_run", "shots_macro_f1_by_run"} <= set(answer)
    unlabelled = json.loads(again.stdout)
    assert "macro_f1_by_run" not in unlabelled
    assert [each["recognised"] for each in unlabelled["runs"]] == [
        each["recognised"] for each in answer["runs"]
    ]
    assert [each["recognised"] for each in answer["runs"][-2:]] == ["unknown", "unknown"]


def test_for_people_there_is_a_table_and_what_was_left_out_is_told(
    data: dict[str, str], tmp_path: Path
) -> None:
    runs = {"x": "straggler"}
    table = telemetry(runs).drop("tensor_active")
    pair = files(tmp_path, "odd", runs, table)
    with Path(pair.split(",")[1]).open("a", encoding="utf-8") as events:
        events.write("not JSON\n[]\n")

    found = learn("--train", data["train"], "--score", pair)

    assert found.exit_code == 0
    assert "macro_f1_by_run: " in found.stdout
    assert "columns that are missing: tensor_active" in found.stderr
    assert "2 lines of events that are not JSON objects with a run" in found.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "give one of --train and --model; give --score, --save or both"),
        (["--train", "a,b"], "give --score, --save or both"),
        (["--train", "a", "--save", "x"], "--train names 1 files"),
        (["--model", "m", "--score", "a,b", "--shots", "2"], "--shots draws from --train"),
        (
            ["--train", "/nowhere.csv,/nowhere.jsonl", "--save", "x"],
            "/nowhere.csv: there is no such file",
        ),
    ],
)
def test_wrong_use_names_what_is_wrong(words: list[str], problem: str) -> None:
    found = learn(*words)

    assert found.exit_code == 2
    assert problem in found.stderr
    assert "Traceback" not in found.output


@pytest.mark.parametrize("content", ["", "t,run\n", "run,x\na,1\n", "t,run,sm_active\n1,a,2\n"])
def test_tables_without_runs_are_an_error_and_no_traceback(tmp_path: Path, content: str) -> None:
    table, events = tmp_path / "t.csv", tmp_path / "e.jsonl"
    table.write_text(content, encoding="utf-8")
    events.write_text("", encoding="utf-8")

    found = learn("--train", f"{table},{events}", "--save", str(tmp_path / "m"))

    assert found.exit_code == 2
    assert str(table) in found.stderr


def test_parquet_is_read_as_well_and_training_without_kinds_is_an_error(tmp_path: Path) -> None:
    table, events = tmp_path / "t.parquet", tmp_path / "e.jsonl"
    telemetry({"a": "straggler"}).write_parquet(table)
    events.write_text("", encoding="utf-8")

    found = learn("--train", f"{table},{events}", "--save", str(tmp_path / "m"))

    assert found.exit_code == 2
    assert "no labelled run" in found.stderr
    assert pl.read_parquet(table).height > 0


def test_without_marks_a_run_is_what_lies_between_loading_and_leaving_the_gpu(
    data: dict[str, str], tmp_path: Path
) -> None:
    work = telemetry({"x": "language-prefill"}, seed=7)
    before = telemetry({"x": "idle-allocated"}, seconds=5.0, seed=8).with_columns(
        fb_used_mib=pl.lit(615.0), t=work["t"][0] - 5.0 + 0.1 * pl.int_range(pl.len())
    )
    table = tmp_path / "t.csv"
    pl.concat([before, work]).write_csv(table)

    found = learn("--train", data["train"], "--score", str(table), "--json")

    assert [each["recognised"] for each in json.loads(found.stdout)["runs"]] == ["language-prefill"]
