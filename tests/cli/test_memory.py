from __future__ import annotations

from pathlib import Path

import pytest

from told import steward

SMALL = ("--accesses", "5000", "--pages", "200", "--epoch", "256")


@pytest.mark.parametrize("policy", ["indigo", "none", "oracle", "tpp"])
def test_a_run_is_told_as_json(policy: str) -> None:
    answer = steward("memory", "simulate", "zipf", "--policy", policy, *SMALL, "--json")
    found = answer.json

    assert answer.code == 0
    assert found["policy"] == policy
    assert found["stall_s"] > 0.0
    assert found["moved_bytes"] == 4096 * (found["promoted"] + found["demoted"])
    assert found["accesses_per_s"] > 0.0


def test_a_run_is_told_in_words() -> None:
    answer = steward("memory", "simulate", "phases", "--load", "0.5", *SMALL)

    assert answer.code == 0
    assert "against leaving pages where they are" in answer.out


@pytest.mark.parametrize("count", ["0", "1"])
def test_nothing_and_one_access_are_run(count: str) -> None:
    answer = steward("memory", "simulate", "zipf", "--accesses", count, "--json")

    assert answer.code == 0
    assert answer.json["accesses"] == int(count)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "zip"), "no such access trace"),
        (("simulate", "zipf", "--policy", "indgo", *SMALL), "did you mean 'indigo'?"),
        (("simulate", "zipf", "--load", "1", *SMALL), "mean load of 1.0"),
        (("simulate", "zipf", "--link-gbps", "0", *SMALL), "link_bytes_per_s is 0.0"),
        (("simulate", "zipf", "--near-share", "2"), "near-share"),
        (("explain", "zipf", "--at", "999", "--accesses", "3000"), "there is no epoch 999"),
        (("explain", "zipf", "--accesses", "1"), "it has no whole epoch"),
        (("watch", "99999999"), "there is no process 99999999"),
        (("watch", "1", "--policy", "x"), "page-policy"),
        (("watch", "0"), "pid"),
    ],
)
def test_wrong_use_is_said_in_words(
    tmp_path: Path,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    more = ("--data", str(tmp_path)) if arguments[0] == "watch" else ()
    answer = steward("memory", *arguments, *more)

    assert answer.code == 2
    assert words.lower() in answer.err.lower()


def test_an_epoch_is_explained_by_its_arms() -> None:
    answer = steward(
        "memory", "explain", "phases", "--accesses", "20000", "--epoch", "512", "--json"
    )
    found = answer.json
    words = steward("memory", "explain", "phases", "--accesses", "20000", "--epoch", "512")
    other = steward("memory", "explain", "zipf", "--policy", "lru", "--accesses", "5000")

    assert answer.code == 0
    assert len(found["arms"]) == 13
    assert sum(each["chosen"] for each in found["arms"]) == 1
    assert "link: 0% taken by others" in words.out
    assert "it acts at accesses" in other.out


def test_policies_are_listed() -> None:
    answer = steward("memory", "policies", "--json")
    words = steward("memory", "policies")

    assert {"indigo", "oracle", "tpp"} <= {each["name"] for each in answer.json}
    assert "second hint fault" in words.out


@pytest.mark.real
def test_a_process_of_this_machine_is_watched_until_it_ends(tmp_path: Path) -> None:
    import subprocess
    import sys

    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2)"]) as sleeper:
        answer = steward(
            "memory", "watch", str(sleeper.pid), "--seconds", "30", "--data", str(tmp_path)
        )

    assert answer.code == 0
    assert "the process has ended" in answer.out
    assert (tmp_path / "memory" / "status" / f"{sleeper.pid}.json").exists()
