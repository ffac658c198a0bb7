"""`steward serve`, as a person and a program use it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from told import steward

ROWS = "".join(f"{each * 0.05:.3f},{50 + each % 90},{1 + each % 40}\n" for each in range(200))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "chat.csv"
    file.write_text(f"t_s,input_tokens,output_tokens\n{ROWS}")
    return file


def test_a_simulation_answers_in_json(trace: Path) -> None:
    answer = steward("serve", "simulate", trace, "--policy", "edf", "--instances", "2", "--json")

    assert answer.code == 0
    found = answer.json
    assert found["attainment"] == {"interactive": 1.0}
    assert found["gpu_seconds"] == pytest.approx(2 * found["end_s"])
    assert found["requests_per_cpu_s"] > 0
    assert found["finished"] == found["requests"] == 200
    assert set(found["ttft_s"]) == {"p50", "p90", "p95", "p99"}


def test_the_same_seed_gives_the_same_answer(trace: Path) -> None:
    drawn = ("--batch-share", "0.5", "--mtbf-s", "1", "--seed", "4", "--burst-cv", "2")
    options = (*drawn, "--rate", "100", "--instances", "4", "--json")
    first, again = (steward("serve", "simulate", trace, *options).json for _ in range(2))

    for each in (first, again):
        del each["cpu_s"], each["requests_per_cpu_s"]
    assert first == again
    assert first["returns"] > 0
    assert set(first["attainment"]) == {"interactive", "batch"}


def test_a_policy_gets_the_estimates_that_were_asked_for(trace: Path) -> None:
    asked = ("serve", "simulate", trace, "--policy", "qlm", "--rate", "400", "--json")
    found = steward(*asked, "--estimator", "learned-waits")
    unknown = steward(*asked, "--estimator", "learned-wait")

    assert found.json["estimator"] == "learned-waits"
    assert found.json["finished"] == 200
    assert steward(*asked).json["estimator"] == "none"
    assert unknown.code != 0
    assert "learned-waits" in unknown.json["error"]["problem"]


def test_people_get_a_table_by_class(trace: Path, tmp_path: Path) -> None:
    batch = tmp_path / "summaries.csv"
    batch.write_text("input_tokens,output_tokens\n" + "100,5\n" * 20)

    answer = steward("serve", "simulate", trace, batch, "--instances", "2")

    assert answer.code == 0
    assert "220 requests on 2 instances under fcfs" in answer.out
    lines = [line.split()[:3] for line in answer.out.splitlines()]
    assert ["interactive", "200", "100.0%"] in lines
    assert ["batch", "20", "100.0%"] in lines


def test_step_times_come_from_a_profile(trace: Path, tmp_path: Path) -> None:
    profile = tmp_path / "slow.csv"
    rows = "".join(f"big,decode,{n},,100,1,0.5\nbig,prefill,{n},100,,,0.5\n" for n in (1, 2, 4))
    profile.write_text(f"model,kind,batch,tokens,context,kv_bytes,s\n{rows}")

    found = steward("serve", "simulate", trace, "--profile", profile, "--json").json

    assert found["itl_s"]["p50"] == pytest.approx(0.5, rel=0.05)
    assert found["attainment"]["interactive"] < 0.5


def test_rows_that_were_left_out_are_told(trace: Path) -> None:
    trace.write_text(trace.read_text() + "x,1,1\n")

    answer = steward("serve", "simulate", trace, "--json")

    assert answer.json["left_out"] == [{"reason": "the time is not a number", "rows": 1}]
    assert "line 202: x,1,1" in answer.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--policy", "fcsf"), "did you mean 'fcfs'?"),
        (("--class", "urgent"), "batch, interactive"),
        (("--kv-tokens", "20", "--max-batched-tokens", "100"), "max_batched_tokens is 100"),
        (("--profile", "/nowhere.csv"), "--help"),
        (("--instances", "0"), "--help"),
    ],
)
def test_wrong_use_is_said_with_what_is_possible(
    options: tuple[str, ...], words: str, trace: Path
) -> None:
    answer = steward("serve", "simulate", trace, *options)

    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err


def test_a_missing_trace_is_wrong_use() -> None:
    answer = steward("serve", "simulate", "/nowhere/at-all.csv")

    assert answer.code == 2
    assert "there is no such request trace" in answer.err


def test_the_policies_are_listed() -> None:
    assert "edf" in steward("serve", "policies").out
    assert {each["name"] for each in steward("serve", "policies", "--json").json} >= {
        *("fcfs", "edf", "priority", "round-robin", "least-loaded")
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--fault", "melt=0.1"), "there is no fault called 'melt'; known: cut, error, garbage"),
        (("--fault", "reset=often"), "the share of reset is 'often', not a number from 0 to 1"),
        (("--fault", "reset=0.9", "--fault", "cut=0.2"), "shares of faults are"),
        (("--metrics", "vlm"), "there is no dialect of metrics called 'vlm'"),
        (("--max-sequences", "64", "--max-batched-tokens", "8"), "no prompt would be computed"),
    ],
)
def test_a_stand_in_that_cannot_be_says_why(options: tuple[str, ...], said: str) -> None:
    answer = steward("serve", "stand-in", "--port", "0", *options)

    assert answer.code == 2
    assert said in answer.err
    assert "hint:" in answer.err


def test_a_stand_in_names_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        answer = steward("serve", "stand-in", "--port", str(port))

    assert answer.code == 2
    assert f"127.0.0.1:{port}" in answer.err


@pytest.mark.real
def test_the_demo_shows_a_batch_that_fills_the_gaps_of_chat() -> None:
    answer = steward("serve", "demo", "--seconds", "5", "--items", "40", "--json")

    assert answer.code == 0
    found = answer.json
    assert found["batch_answered"] == found["batch_items"] == 40
    assert found["chat_failed"] == 0
    assert found["chat_requests"] > 0
    assert "/steward/v1/status" in answer.err
