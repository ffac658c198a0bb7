"""`steward serve plan`, as a person and a program use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from told import steward

ROWS = "".join(f"{each * 0.02:.3f},{50 + each % 90},{1 + each % 40}\n" for each in range(300))
QUICK = ("--days", "2", "--most", "8")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "chat.csv"
    file.write_text(f"t_s,input_tokens,output_tokens\n{ROWS}")
    return file


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Two models: one is quick, the other takes half a second for each step."""
    rows = "".join(
        f"{name},decode,{n},,100,1,{s}\n{name},prefill,{n},100,,,{s}\n"
        for name, s in (("quick", 0.01), ("slow", 0.5))
        for n in (1, 2, 4)
    )
    file = tmp_path / "profile.csv"
    file.write_text(f"model,kind,batch,tokens,context,kv_bytes,s\n{rows}")
    return file


def test_a_plan_answers_in_json(trace: Path) -> None:
    answer = steward("serve", "plan", trace, *QUICK, "--gpu-price", "2", "--json")

    assert answer.code == 0
    (found,) = answer.json["types"]
    assert found["type"] == "h200-llama-8b"
    assert found["instances"] == found["gpus"] == 1
    assert found["instances_low"] <= found["instances"] <= found["instances_high"]
    assert found["attainment"]["interactive"]["low"] >= 0.99
    assert found["cost"]["usd_per_hour"] == 2.0
    assert answer.json["cheapest"] == "h200-llama-8b"


def test_the_same_seed_gives_the_same_bytes(trace: Path) -> None:
    first, again = (steward("serve", "plan", trace, *QUICK, "--json").out for _ in range(2))

    assert first == again


def test_types_are_compared_and_what_cannot_be_is_said(trace: Path, profile: Path) -> None:
    answer = steward("serve", "plan", trace, *QUICK, "--profile", profile)

    assert answer.code == 0
    assert "slow: interactive cannot pass" in answer.out
    lines = [line.split() for line in answer.out.splitlines()]
    assert ["slow", "none", "suffices"] in [line[:3] for line in lines]
    assert "quick needs the fewest GPUs" in answer.out


def test_a_price_is_given_for_one_type(trace: Path, profile: Path) -> None:
    options = ("--profile", profile, "--gpu-price", "quick=3", "--json")

    found = steward("serve", "plan", trace, *QUICK, *options).json["types"]

    prices = {each["type"]: each["price"] and each["price"]["mid"] for each in found}
    assert prices == {"quick": 3.0, "slow": None}


def test_it_fails_where_no_type_suffices(trace: Path) -> None:
    answer = steward("serve", "plan", trace, *QUICK, "--itl-s", "0.0001")

    assert answer.code == 1
    assert "none suffices" in answer.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gpu-price", "fast=3"), "there is no instance type called 'fast'"),
        (("--target", "1.5"), "the target is 1.5"),
        (("--policy", "edff"), "did you mean 'edf'?"),
        (("--class", "urgent"), "batch, interactive"),
    ],
)
def test_wrong_use_is_said_with_what_is_possible(
    options: tuple[str, ...], words: str, trace: Path
) -> None:
    answer = steward("serve", "plan", trace, *options)

    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
