"""The worker reads any trace, compares, writes the report, and says in words what is wrong."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import pytest

from service.labs import TRACE
from steward.service.lab import ComparisonRequest, worker
from steward.service.lab.example import example_trace
from steward.service.lab.messages import Finished, Message, Progress, Refused, Task
from steward.service.lab.worker import carry_out
from steward.sim.lab.trials import natural_gpus
from tiny_replays import tiny_run


def told(
    folder: Path, trace: str | bytes | None, *policies: str, name: str = "may.csv", **wanted: object
) -> list[Message]:
    """Let the worker do its work on a file with this content."""
    file = None
    if trace is not None:
        file = folder / "trace"
        file.write_bytes(trace.encode() if isinstance(trace, str) else trace)
    asked = ComparisonRequest.model_validate({"policies": policies or ("fifo",), **wanted})
    heard: list[Message] = []
    task = Task(wanted=asked, folder=folder, name=name, file=file)
    carry_out(task, heard.append, run=tiny_run)
    return heard


def finished(heard: list[Message]) -> Finished:
    assert isinstance(heard[-1], Finished), heard[-1]
    return heard[-1]


def refused(heard: list[Message]) -> Refused:
    assert isinstance(heard[-1], Refused), heard[-1]
    return heard[-1]


def test_a_comparison_has_figures_intervals_and_both_files(tmp_path: Path) -> None:
    record = finished(told(tmp_path, TRACE, gpus=8)).record

    figures = record["policies"]["fifo"]
    low, high = figures["intervals"]["jct_mean_s"]
    assert low <= figures["jct_mean_s"] <= high
    assert (record["trace"]["name"], record["trace"]["jobs"]) == ("may", 20)
    assert record["cluster"]["gpus"] == 8
    results = json.loads((tmp_path / "results.json").read_text(), parse_constant=pytest.fail)
    assert results["policies"]["fifo"]["timeline"]["edges_s"]
    assert "mean JCT" in (tmp_path / "report.html").read_text()


def test_our_own_paths_are_shown_to_nobody(tmp_path: Path) -> None:
    fine = finished(told(tmp_path, TRACE))
    wrong = refused(told(tmp_path, "a,b\n1,2\n"))

    assert str(tmp_path) not in json.dumps(fine.record)
    assert str(tmp_path) not in (tmp_path / "report.html").read_text()
    assert str(tmp_path) not in f"{wrong.problem} {wrong.where} {wrong.hint}"
    assert fine.record["trace"]["origin"] == "uploaded: may.csv, read as plain"
    assert wrong.where == "may.csv"


def test_a_trace_that_needs_files_beside_it_is_refused_without_our_paths(tmp_path: Path) -> None:
    columns = "set,workload,name,submit_s,application,num_replicas,batch_size"
    wrong = refused(told(tmp_path, f"{columns}\n1.0,6,a,107,cifar10,6,2048\n"))

    assert wrong.where == "beside the trace: profile_placements.csv.gz"


def test_the_trace_is_removed_as_soon_as_it_was_read(tmp_path: Path) -> None:
    told(tmp_path, TRACE)

    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "results.json"]


def test_the_report_has_the_command_that_gives_it_again(tmp_path: Path) -> None:
    told(tmp_path, TRACE, name="a b;rm.csv", gpus=8, seed=3)

    words = shlex.split(json.loads((tmp_path / "results.json").read_text())["command"])

    assert words[:4] == ["steward", "lab", "compare", "a b;rm.csv"]
    assert words[words.index("--gpus") + 1] == "8"
    assert words[words.index("--seed") + 1] == "3"


def test_packed_files_are_read(tmp_path: Path) -> None:
    record = finished(told(tmp_path, gzip.compress(TRACE.encode()), name="may.csv.gz")).record

    assert (record["trace"]["name"], record["trace"]["jobs"]) == ("may", 20)


def test_rows_that_cannot_be_used_are_counted_with_their_reasons(tmp_path: Path) -> None:
    bad = "late,soon,10,1,team0\nback,900,-5,1,team0\nhuge,950,10,64,team0\n"

    record = finished(told(tmp_path, TRACE + bad, gpus=8)).record

    reasons = [row["reason"] for row in record["trace"]["left_out"]]
    assert record["trace"]["rows_left_out"] == 3
    assert record["trace"]["jobs"] == 20
    assert any("larger than the cluster" in reason for reason in reasons)
    assert len(reasons) == 3


def test_a_policy_that_cannot_run_does_not_stop_the_others(tmp_path: Path) -> None:
    heard = told(tmp_path, TRACE, "fifo", "srtf")

    record = finished(heard).record
    assert list(record["policies"]) == ["fifo"]
    assert "needs what this trace has not" in record["failed"]["srtf"]["problem"]


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "lacks"),
        ("job_id,submit_s,duration_s,gpus\n", "no"),
        (b"\x00\x01\x02" * 99, "no text"),
        (b"PK\x03\x04rest", "zip"),
        (b"\x1f\x8bnot really", "cannot be unpacked"),
        (b"PAR1 but no more", "cannot be read"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_in_words(
    tmp_path: Path, trace: str | bytes, words: str
) -> None:
    wrong = refused(told(tmp_path, trace))

    assert words in wrong.problem
    assert wrong.hint
    assert not (tmp_path / "report.html").exists()


def test_a_trace_whose_jobs_are_all_too_large_is_refused(tmp_path: Path) -> None:
    rows = "job_id,submit_s,duration_s,gpus\na,0,10,64\nb,1,10,64\n"

    wrong = refused(told(tmp_path, rows, gpus=8))

    assert "larger than the cluster (8 GPUs)" in wrong.problem


def test_a_trace_that_asks_for_absurd_machines_is_refused(tmp_path: Path) -> None:
    wrong = refused(told(tmp_path, "job_id,submit_s,duration_s,gpus\na,0,10,1000000000\n"))

    assert "fill 1,250,000,000 GPUs to 80 %" in wrong.problem
    assert wrong.hint == "give the number of GPUs"


def test_when_no_policy_could_be_run_it_says_why(tmp_path: Path) -> None:
    wrong = refused(told(tmp_path, TRACE, "srtf"))

    assert wrong.problem.startswith("no policy could be run (srtf: ")


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_ROWS", 19)

    wrong = refused(told(tmp_path, TRACE))

    assert wrong.problem == "has more than 19 rows"
    assert "steward lab compare" in wrong.hint


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MOST_UNPACKED_BYTES", 1 << 20)

    wrong = refused(told(tmp_path, gzip.compress(b"0" * (3 << 20))))

    assert "unpacks to more than" in wrong.problem


def test_it_says_how_far_it_is(tmp_path: Path) -> None:
    heard = told(tmp_path, TRACE, "fifo", "srtf")

    steps = [(each.doing, each.share) for each in heard if isinstance(each, Progress)]
    assert steps == [
        ("reading the trace", None),
        ("replaying", 0.0),
        ("replaying", 0.5),
        ("drawing intervals", 1.0),
        ("writing the report", 1.0),
    ]


def test_the_example_is_synthetic_and_fits_a_cluster_of_its_own(tmp_path: Path) -> None:
    record = finished(told(tmp_path, None, name="example")).record

    assert record["trace"]["synthetic"] is True
    assert record["trace"]["tenants"] == 4
    assert record["trace"]["rows_left_out"] == 0
    assert "made up" in (tmp_path / "report.html").read_text()
    assert record["cluster"]["gpus"] == natural_gpus(example_trace(0), gpus_per_node=8)
