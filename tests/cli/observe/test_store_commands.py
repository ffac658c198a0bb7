"""`steward observe import`, `query`, `tail` and `quality`: what a person types, and gets."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from told import steward

T0 = 1_700_000_000.0
BUSY = "gpu.busy_share"


@pytest.fixture
def data(tmp_path: Path) -> str:
    file = tmp_path / "n1.csv"
    rows = [f"{T0 + second},{second % 2},{50 + second % 7}" for second in range(120)]
    file.write_text("\n".join(["t,gpu,gpu_util", *rows]) + "\n")
    answer = steward("observe", "import", str(file), "--out", str(tmp_path / "data"))
    assert answer.code == 0
    return str(tmp_path / "data")


def test_an_import_says_what_it_made_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "n1.csv"
    file.write_text(f"t,gpu_util,strange\n{T0},50,1\nsoon,50,1\n")

    answer = steward("observe", "import", str(file), "--out", str(tmp_path / "a"), "--json")
    shown = steward("observe", "import", str(file), "--out", str(tmp_path / "b"))

    assert answer.json["files"] == [{"file": str(file), "format": "csv"}]
    assert answer.json["columns"] == {"gpu_util": BUSY}
    assert answer.json["unknown"] == ["strange"]
    assert answer.json["bad"] == {"the time in 't' cannot be read": 1}
    assert answer.json["from_s"] == answer.json["to_s"] == T0
    assert "read as csv" in shown.out
    assert "what could be read is in" in shown.out
    assert "line 3" in shown.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.csv",), "there is no such file"),
        (("n1.csv", "--format", "excel"), "known: csv, h200"),
        (("n1.csv", "--map", "x"), "says nothing about a column"),
        (("n1.csv", "--map", "x=gpu.busy_shar"), "did you mean 'gpu.busy_share'?"),
    ],
)
def test_a_wrong_import_is_answered_with_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "n1.csv").write_text(f"t,x\n{T0},1\n")
    name, *rest = arguments

    answer = steward("observe", "import", str(tmp_path / name), *rest, "--out", str(tmp_path / "d"))

    assert answer.code == 2
    assert said in answer.err
    assert not (tmp_path / "d").exists()


def test_sql_is_answered_as_table_json_and_csv(data: str) -> None:
    sql = f'SELECT entity, count("{BUSY}") AS n FROM telemetry GROUP BY 1 ORDER BY 1'

    table = steward("observe", "query", sql, "--data", data)
    as_json = steward("observe", "query", sql, "--data", data, "--json")
    as_csv = steward("observe", "query", sql, "--data", data, "--csv")

    assert [line.split() for line in table.out.splitlines()] == [
        ["entity", "n"],
        ["n1/gpu0", "60"],
        ["n1/gpu1", "60"],
    ]
    assert as_json.json == [{"entity": "n1/gpu0", "n": 60}, {"entity": "n1/gpu1", "n": 60}]
    assert as_csv.out == "entity,n\nn1/gpu0,60\nn1/gpu1,60\n"


def test_two_columns_of_one_name_are_both_in_json(data: str) -> None:
    answer = steward("observe", "query", "SELECT 1 AS a, 2 AS a", "--data", data, "--json")

    assert answer.json == [{"a": 1, "a_1": 2}]


def test_since_means_those_seconds_and_not_the_hour_they_are_in(data: str) -> None:
    sql = "SELECT count(*) AS n FROM telemetry"

    answer = steward("observe", "query", sql, "--data", data, "--since", "9s", "--json")
    wrong = steward("observe", "query", sql, "--data", data, "--since", "soon")

    assert answer.json == [{"n": 10}]
    small = steward(
        "observe", "query", f"count({BUSY})", "--data", data, "--since", "109s", "--json"
    )
    assert small.json == [{f"count({BUSY})": 110}]
    assert wrong.code == 2
    assert "--since: 'soon' is no time" in wrong.err


def test_a_time_without_the_metric_is_no_mistake_in_its_name(data: str) -> None:
    before = f"from {T0 - 7200} to {T0 - 3600}"

    raw = steward("observe", "query", f"mean({BUSY}) by entity {before}", "--data", data)
    tier = steward("observe", "query", f"mean({BUSY}) every 5m {before}", "--data", data)
    wrong = steward("observe", "query", f"mean({BUSY}x) {before}", "--data", data)

    assert (raw.code, tier.code, wrong.code) == (0, 0, 2)
    assert "no rows" in raw.err
    assert f"did you mean '{BUSY}'" in wrong.err


def test_the_small_form_is_answered_too(data: str) -> None:
    answer = steward(
        "observe", "query", f"count({BUSY}) by entity since 9s", "--data", data, "--json"
    )

    assert answer.json == [
        {"entity": "n1/gpu0", f"count({BUSY})": 5},
        {"entity": "n1/gpu1", f"count({BUSY})": 5},
    ]


def test_an_answer_can_become_a_file(tmp_path: Path, data: str) -> None:
    out = tmp_path / "answer.parquet"

    answer = steward("observe", "query", "FROM telemetry", "--data", data, "--out", str(out))
    wrong = steward("observe", "query", "FROM telemetry", "--data", data, "--out", "x.xls")
    nowhere = str(tmp_path / "none" / "x.csv")
    lost = steward("observe", "query", "FROM telemetry", "--data", data, "--out", nowhere)

    assert answer.code == 0
    assert pl.read_parquet(out).height == 120
    assert (wrong.code, lost.code) == (2, 2)
    assert ".parquet or .csv" in wrong.err
    assert "the answer cannot be written: No such file" in lost.err


def test_a_long_answer_is_cut_and_says_so(data: str) -> None:
    answer = steward("observe", "query", "FROM telemetry", "--data", data, "--limit", "3")

    assert len(answer.out.splitlines()) == 4
    assert "only the first 3 rows" in answer.err


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("SELECT nothing FROM telemetry", "line 1, column 8"),
        ("DELETE FROM telemetry", "only one statement that reads"),
        ("selec * from telemetry", "line 1, column 1"),
        ("SELECT * FROM '/etc/passwd'", "SHOW TABLES lists"),
        ("SELECT * FROM read_text('/etc/passwd')", "only the folder's own tables"),
        ("mean(gpu.busy_share) evry 1m", "query, column 22"),
        (f"mean({BUSY}x)", f"did you mean '{BUSY}'"),
        ("mean(host.load_1m) every 5m", "'host.load_1m' was never recorded here"),
        (f"mean({BUSY}) where host.load_1m > 1", "'host.load_1m' was never recorded here"),
        (f"SELECT {BUSY} FROM telemetry", "names with dots need quotes"),
        ("SELEC 1", "it begins with SELECT, WITH or FROM"),
    ],
)
def test_a_wrong_question_is_answered_with_its_place(data: str, question: str, said: str) -> None:
    answer = steward("observe", "query", question, "--data", data)

    assert answer.code == 2
    assert said in answer.err


def test_a_folder_without_telemetry_is_named(tmp_path: Path) -> None:
    for command in (("query", "SELECT 1", "--data"), ("quality",)):
        answer = steward("observe", *command, str(tmp_path))

        assert answer.code == 2
        assert "no telemetry here" in answer.err

    (tmp_path / "file").touch()
    assert "this is a file" in steward("observe", "quality", str(tmp_path / "file")).err


def test_the_tail_prints_json_lines(data: str) -> None:
    answer = steward(
        "observe",
        "tail",
        "gpu.*",
        "--data",
        data,
        "--all",
        "--for",
        "0",
        "--json",
        "--entity",
        "*0",
    )

    lines = [json.loads(line) for line in answer.out.splitlines()]
    assert len(lines) == 60
    assert lines[0] == {"table": "telemetry", "t_s": T0, "entity": "n1/gpu0", BUSY: 0.5}


def test_quality_exits_1_when_something_bad_is_found(tmp_path: Path, data: str) -> None:
    file = tmp_path / "bad.csv"
    rows = [f"{T0 + second},{second % 90 + 10}" for second in range(200)]
    file.write_text("\n".join(["t,gpu.busy_share", *rows]) + "\n")
    steward("observe", "import", str(file), "--out", str(tmp_path / "bad"))

    bad = steward("observe", "quality", str(tmp_path / "bad"), "--json")
    fine = steward("observe", "quality", data)

    assert bad.code == 1
    assert [flaw["kind"] for flaw in bad.json["flaws"]] == ["out-of-range"]
    assert bad.json["flaws"][0]["severity"] == "error"
    assert fine.code == 0


def test_quality_says_once_what_many_metrics_have_in_common(tmp_path: Path) -> None:
    names = [f"host.{word}_per_s" for word in ("interrupts", "context_switches")]
    names += ["host.page_faults_per_s", "host.page_faults.major_per_s", "host.tcp.resets_per_s"]
    file = tmp_path / "n1.csv"
    rows = [f"{T0 + second}{',0' * len(names)}" for second in range(60)]
    file.write_text("\n".join([",".join(["t_s", *names]), *rows]) + "\n")
    steward("observe", "import", str(file), "--out", str(tmp_path / "d"))

    short = steward("observe", "quality", str(tmp_path / "d"))
    long = steward("observe", "quality", str(tmp_path / "d"), "--all")

    assert short.code == long.code == 0
    assert short.out.count("always-zero  n1") == 1
    assert "and 2 more" in short.out
    assert short.out.count("it may truly be unused") == 1
    assert "5 findings" in short.err
    assert all(name in long.out for name in names)


HOSTILE = "SELECT chr(27) || '[2J' AS a, '=HYPERLINK(1)' AS b, '-1' AS c, -1 AS d"


def test_csv_holds_no_formula_and_no_control_character(data: str, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"

    printed = steward("observe", "query", HOSTILE, "--data", data, "--csv").out
    steward("observe", "query", HOSTILE, "--data", data, "--out", str(file))

    for text in (printed, file.read_text()):
        (row,) = csv.DictReader(text.splitlines())
        assert row == {
            "a": "\N{REPLACEMENT CHARACTER}[2J",
            "b": "'=HYPERLINK(1)",
            "c": "'-1",
            "d": "-1",
        }


def test_times_are_shown_as_times_and_stay_numbers_in_json(data: str) -> None:
    sql = "SELECT t_s FROM telemetry ORDER BY t_s LIMIT 1"

    shown = steward("observe", "query", sql, "--data", data).out
    as_json = steward("observe", "query", sql, "--data", data, "--json").json
    followed = steward("observe", "tail", "--all", "--for", "0", "--data", data).out

    at = datetime.fromtimestamp(T0, tz=UTC).astimezone().isoformat(timespec="milliseconds")
    assert at in shown
    assert as_json == [{"t_s": T0}]
    assert followed.startswith(at)
