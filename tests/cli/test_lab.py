"""`steward lab`: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from told import steward

FIGURES = (
    *("jct_mean_s", "jct_p50_s", "jct_p99_s", "wait_mean_s", "makespan_s", "utilisation"),
    *("fairness_compliance", "preemptions", "cpu_s", "jobs", "unfinished"),
)
COMPILING = "compiling the lab's kernels: this takes minutes, once for each version"
ROWS = """job_id,submit_s,duration_s,gpus,tenant
long,0,1000,8,bio
wide,10,100,8,nlp
one,20,50,1,nlp
two,30,60,2,bio
bad,40,-5,1,bio
huge,50,10,64,bio
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.csv"
    file.write_text(ROWS, encoding="utf-8")
    return file


def table(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_compiling_is_announced_before_it_begins_also_without_a_terminal(
    trace: Path, tmp_path: Path
) -> None:
    nothing_compiled = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    command = [sys.executable, "-m", "steward", "lab", "replay", str(trace)]
    with subprocess.Popen(
        [*command, "--policy", "fifo", "--gpus", "8", "--json"],
        env=nothing_compiled,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stderr is not None
        first = running.stderr.readline()
        running.kill()

    assert first.strip() == COMPILING


# -- compare -----------------------------------------------------------------------------------


def test_compare_has_every_figure_with_its_interval(trace: Path) -> None:
    answer = steward("lab", "compare", trace, "--policies", "fifo,srtf", "--gpus", 8, "--json")

    found = answer.json
    assert answer.code == 0
    assert answer.err.strip() in ("", COMPILING)
    assert list(found["policies"]) == ["fifo", "srtf"]
    for figures in found["policies"].values():
        assert set(FIGURES) <= set(figures)
        assert all(len(figures["intervals"][name]) == 2 for name in FIGURES if name != "cpu_s")
        assert figures["jobs"] == 4
    assert found["policies"]["fifo"]["jct_mean_s"] == pytest.approx((1000 + 1090 + 1130 + 1130) / 4)
    assert found["policies"]["srtf"]["preemptions"] == 2
    assert found["cluster"]["gpus"] == 8
    assert found["trace"]["rows_left_out"] == 2


def test_the_same_seed_gives_the_same_bytes_but_for_the_time_it_took(trace: Path) -> None:
    def once() -> str:
        answer = steward("lab", "compare", trace, "--policies", "fifo", "--gpus", 8, "--json")
        found = answer.json
        for figures in found["policies"].values():
            del figures["cpu_s"]
        return json.dumps(found)

    assert once() == once()


def test_compare_prints_a_table_and_what_was_left_out(trace: Path) -> None:
    answer = steward("lab", "compare", trace, "--policies", "fifo,srtf", "--gpus", 8)

    lines = answer.out.splitlines()
    assert lines[0].startswith("jobs: 4 jobs, ")
    assert lines[1].startswith("one stop costs ")
    assert lines[2].split()[:3] == ["policy", "JCT", "95"]
    assert [line.split()[0] for line in lines[3:5]] == ["srtf", "fifo"]
    assert "larger than the cluster (8 GPUs)" in answer.out
    assert "job huge asks for 64 GPUs" in answer.out


def test_compare_writes_a_page_and_json(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "results"

    answer = steward(
        *("lab", "compare", trace, "--policies", "fifo,srtf", "--gpus", 8, "--out", folder)
    )

    page = (folder / "report.html").read_text(encoding="utf-8")
    record = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert f"the report is in {folder / 'report.html'}" in answer.out
    assert record["command"].startswith(f"steward lab compare {trace} --gpus 8 --policies fifo")
    assert len(record["policies"]["fifo"]["timeline"]["queue_max"]) > 100
    assert "<svg" in page
    assert sorted(each.name for each in folder.iterdir()) == ["report.html", "results.json"]


def test_without_a_size_the_trace_says_how_many_gpus(trace: Path) -> None:
    answer = steward("lab", "compare", trace, "--policies", "fifo", "--json")

    assert answer.json["cluster"]["gpus"] == 64  # the largest job fits
    assert answer.err == "--gpus is not given: 64 GPUs, which this trace fills to 80 % on average\n"


def test_seeds_and_windows_are_runs(trace: Path) -> None:
    answer = steward(
        *("lab", "compare", trace, "--policies", "fifo", "--gpus", 8),
        *("--seeds", 2, "--windows", 2, "--json"),
    )

    assert answer.json["settings"]["seeds"] == [0, 1]
    assert answer.json["policies"]["fifo"]["jobs"] == 2


def test_quotas_change_who_is_short(trace: Path) -> None:
    def kept(*options: object) -> float:
        command = ("lab", "compare", trace, "--policies", "fifo", "--gpus", 8, "--json")
        found = steward(*command, *options).json["policies"]["fifo"]["fairness_compliance"]
        return float(found)

    mostly_nlp = kept("--tenant-quota", "nlp=8", "--tenant-quota", "bio=0")

    assert mostly_nlp < kept("--tenant-quota", "bio=8")


def test_a_cluster_file_has_nodes_of_several_kinds(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[[nodes]]\ncount = 2\ngpus = 8\ntype = "V100"\n', encoding="utf-8")

    answer = steward(*("lab", "compare", trace, "--policies", "fifo", "--cluster", file, "--json"))

    assert answer.json["cluster"]["gpus_by_type"] == {"V100": 16}


@pytest.mark.parametrize(
    ("options", "says", "hint"),
    [
        (("--policies", "fiffo"), "no policy called 'fiffo'", "did you mean 'fifo'?"),
        (("--policies", " , "), "no policy is named", "`steward lab policies`"),
        (("--placement", "paked"), "no placement called 'paked'", "did you mean 'packed'?"),
        (("--gpus", "0"), "'--gpus' should be greater than or equal to 1", "--help"),
        (("--checkpoint-s", "-1"), "'--checkpoint-s' should be greater", "--help"),
        (("--tenant-quota", "bio"), "'bio' is not NAME=VALUE", "--tenant-quota"),
        (("--tenant-quota", "bio=lots"), "the quota of 'bio' is 'lots'", "a number of GPUs"),
        (("--tenant-quota", "oib=1"), "no tenant called 'oib'", "use one of the known"),
        (("--baseline", "srtf"), "baseline 'srtf' is not among the policies: fifo", "name one"),
        (("--format", "swff"), "no trace format called 'swff'", "did you mean 'swf'?"),
        (("--cluster", "/no/cluster.toml"), "no such file or directory", "check the name"),
        (("--cluster", "x", "--gpus", "8"), "both say what machines there are", "one of them"),
        (("--locality", "1,2"), "'1,2' is not four numbers", "--locality 1,1.05"),
        (("--out", "/proc/x"), "the results cannot be written", "--out"),
    ],
)
def test_wrong_use_of_compare_is_a_sentence_and_a_hint(
    trace: Path, options: tuple[str, ...], says: str, hint: str
) -> None:
    policies = () if "--policies" in options else ("--policies", "fifo")

    answer = steward("lab", "compare", trace, *policies, *options)

    assert (answer.code, answer.out) == (2, "")
    error, help_ = answer.err.splitlines()[-2:]
    assert says in error
    assert hint in help_


def test_a_trace_that_is_not_there_is_said(tmp_path: Path) -> None:
    answer = steward("lab", "compare", tmp_path / "no" / "none.csv", "--policies", "fifo")

    assert answer.code == 2
    assert "none.csv" in answer.err


# -- the others --------------------------------------------------------------------------------


def test_replay_tells_every_figure_and_writes_each_job(trace: Path, tmp_path: Path) -> None:
    answer = steward(
        *("lab", "replay", trace, "--policy", "srtf", "--gpus", 8, "--out", tmp_path / "out")
    )

    rows = table(tmp_path / "out" / "jobs.csv")
    assert "  fairness_compliance " in answer.out
    assert [row["job_id"] for row in rows] == ["long", "wide", "one", "two"]
    assert rows[0]["preemptions"] == "1"
    assert float(rows[2]["wait_s"]) == 0.0


def test_replay_as_json_has_the_figures_of_its_policy(trace: Path) -> None:
    found = steward("lab", "replay", trace, "--policy", "fifo", "--gpus", 8, "--json").json

    assert (found["policy"], found["jobs"], found["cluster"]["nodes"]) == ("fifo", 4, 1)


def test_explain_says_why_a_job_waited(trace: Path) -> None:
    command = ("lab", "explain", trace, "--job", "one", "--policy", "fifo", "--gpus", 8)

    words, record = steward(*command), steward(*command, "--json")

    assert words.out.startswith("job one of nlp under fifo: 1 GPUs for 50 s")
    assert "too few GPUs were free" in words.out
    assert record.json["waits"][0]["full_s"] == pytest.approx(1080)


def test_explain_refuses_a_job_that_is_not_there(trace: Path) -> None:
    answer = steward("lab", "explain", trace, "--job", "onne", "--policy", "fifo", "--gpus", 8)

    assert answer.code == 2
    assert answer.err.splitlines()[-1] == "hint:  did you mean 'one'?"


def test_sweep_has_a_row_per_point_and_policy(trace: Path, tmp_path: Path) -> None:
    answer = steward(
        *("lab", "sweep", trace, "--policies", "fifo", "--gpus", 8, "--workers", 1),
        *("--vary", "load=1,2", "--vary", "checkpoint_s=0,60"),
        *("--cache", tmp_path / "cache", "--out", tmp_path / "out"),
    )

    rows = table(tmp_path / "out" / "results.csv")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == 5 + 2
    assert [(row["load"], row["checkpoint_s"]) for row in rows] == [
        *(("1", "0"), ("1", "60"), ("2", "0"), ("2", "60")),
    ]
    assert len(list((tmp_path / "cache").rglob("*.trial"))) == 4


def test_sweep_as_json_has_the_points(trace: Path) -> None:
    answer = steward(
        *("lab", "sweep", trace, "--policies", "fifo", "--gpus", 8, "--workers", 1),
        *("--vary", "gpus=8,16", "--no-cache", "--json"),
    )

    points = answer.json["points"]
    assert [point["cluster"]["gpus"] for point in points] == [8, 16]
    assert [point["varied"] for point in points] == [{"gpus": 8}, {"gpus": 16}]


@pytest.mark.parametrize(
    ("vary", "says"),
    [("load", "'load' is not NAME=A,B,…"), ("lode=1", "there is no thing to vary called 'lode'")],
)
def test_sweep_refuses_what_cannot_vary(trace: Path, vary: str, says: str) -> None:
    answer = steward("lab", "sweep", trace, "--policies", "fifo", "--vary", vary, "--no-cache")

    assert answer.code == 2
    assert says in answer.err


def test_generate_writes_a_trace_that_can_be_replayed(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "made.csv"

    made = steward("lab", "generate", trace, "--jobs", 50, "--seed", 3, "--out", file, "--json")
    found = steward("lab", "replay", file, "--policy", "fifo", "--json")

    assert made.json["synthetic"] is True
    assert found.json["jobs"] == 50
    assert found.json["trace"]["synthetic"] is True


def test_policies_are_listed_with_what_they_do() -> None:
    answer, found = steward("lab", "policies"), steward("lab", "policies", "--json").json

    names = [each["name"] for each in found]
    assert {"fifo", "srtf", "tiresias", "commons"} <= set(names)
    assert all(len(each["about"]) > 10 for each in found)
    assert answer.out.splitlines()[1].split()[0] == names[0]


def test_help_of_compare_documents_the_columns_of_a_trace() -> None:
    text = " ".join(steward("lab", "compare", "--help").out.split())

    for word in (
        *("job_id", "submit_s", "duration_s", "gpus", "user", "tenant", "gpu_type", "cpus"),
        *("memory_bytes", "model", "batch", "priority", "deadline_s", "checkpoint_s"),
        *("sacct", "Standard Workload Format", "philly"),
    ):
        assert word in text, word


@pytest.mark.data
def test_a_trace_of_the_data_folder_gives_the_figures_of_its_anchor() -> None:
    answer = steward(
        *("lab", "compare", "philly/103959", "--policies", "fifo,srtf", "--gpus", 24, "--json")
    )

    found = answer.json["policies"]
    assert found["fifo"]["jct_mean_s"] == pytest.approx(353_357.5, abs=0.1)
    assert found["srtf"]["jct_mean_s"] == pytest.approx(55_825.8, abs=0.1)


def test_a_policy_says_what_it_does_and_what_its_options_are() -> None:
    plain = steward("lab", "policies", "commons")
    found = steward("lab", "policies", "commons", "--json").json

    assert plain.code == 0
    assert plain.out.startswith("Guarantees first")
    assert "class_weight  2.0" in plain.out
    assert found["options"]["lead"] == 2.0
    assert (found["name"], found["knows"]) == ("commons", "nothing")


def test_a_policy_that_there_is_not_is_named_with_those_that_there_are() -> None:
    answer = steward("lab", "policies", "comons")

    assert answer.code == 2
    assert "did you mean 'commons'" in answer.err
