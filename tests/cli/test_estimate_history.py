"""`steward estimate job` with a file of past jobs, waits, and numbers of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from told import steward

SACCT = "JobID|JobName|User|Account|Submit|Start|ElapsedRaw|Timelimit|State|AllocTRES"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Return an accounting dump: one job at three sizes, of which some ran out of time."""
    lines = [SACCT]
    for number in range(60):
        gpus, run_s = ((1, 8000), (2, 4200), (4, 2300))[number % 3]
        at = f"2026-01-{1 + number // 6:02d}T{4 * (number % 6):02d}:00:00"
        state = "TIMEOUT" if number % 20 == 19 else "COMPLETED"
        tres = f"cpu=8,gres/gpu={gpus}"
        lines.append(f"{number}|bert-{number}|ada|nlp|{at}|{at}|{run_s}|08:00:00|{state}|{tres}")
    file = tmp_path / "sacct.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_dump_answers_without_a_running_steward(dump: Path) -> None:
    like = ("--gpus", 2, "--user", "ada", "--tenant", "nlp", "--name", "bert-99")

    answer = steward("estimate", "job", *like, "--time", "8h", "--history", dump, "--json")

    found = {each["quantity"]: each for each in answer.json}
    assert answer.code == 0
    assert 2000 < found["run.limits_s"]["mid"] < 9000
    assert found["run.likely_s"]["mid"] == pytest.approx(4200, rel=0.5)
    assert "job-history" in found["run.left_s"]["basis"]


def test_the_number_of_gpus_that_are_worth_it_is_recommended(dump: Path) -> None:
    like = ("--gpus", 1, "--user", "ada", "--name", "bert-1", "--history", dump)

    told = steward("estimate", "job", *like, "--recommend")
    record = steward("estimate", *like, "--recommend", "--json").json

    assert "recommended: 8 GPUs" in told.err
    assert "more than 4 was never tried" in told.err
    assert record["gpus"]["gpus"] == 8
    assert record["starts"] is None
    assert record["forecasts"][0]["quantity"] == "run.left_s"


def test_work_that_was_never_seen_gets_no_number(dump: Path) -> None:
    like = ("--gpus", 1, "--user", "bob", "--name", "other", "--history", dump)

    assert (
        "no run of this user and name has ended"
        in steward("estimate", "job", *like, "--recommend").err
    )


def test_what_needs_experience_names_how_to_get_it(tmp_path: Path) -> None:
    answer = steward("estimate", "job", "--gpus", 1, "--recommend", "--data", tmp_path)

    assert answer.code == 2
    assert "job-history has learned nothing here" in answer.err
    assert "learn.estimators" in answer.err


def test_without_a_running_steward_there_is_no_queue(dump: Path, tmp_path: Path) -> None:
    like = ("--gpus", 1, "--history", dump, "--data", tmp_path)

    answer = steward("estimate", "job", *like, "--wait")

    assert answer.code == 2
    assert "no queue to look at" in answer.err


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (("--history", "nowhere.csv"), "nowhere.csv"),
        (("--time", "soon"), "not a length of time"),
        (("--script", "nowhere.sh"), "cannot be read: no such file"),
        (("--recommend", "--worth", "7"), "no share"),
    ],
)
def test_wrong_input_is_named(dump: Path, wrong: tuple[str, ...], problem: str) -> None:
    given = () if "--history" in wrong else ("--history", dump)

    answer = steward("estimate", "job", "--gpus", 1, *given, *wrong)

    assert answer.code == 2
    assert problem in answer.err
