"""Two lines in a training script are heard, and cost nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patience import until
from steward import marks
from steward.clients.marks import MarksSocket

SRC = Path(marks.__file__).parents[1]


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MarksSocket]:
    listening = MarksSocket(tmp_path / "marks.sock")
    listening.open()
    monkeypatch.setenv("STEWARD_MARKS", str(listening.place))
    marks._begin()
    yield listening
    listening.close()
    marks._begin()


def after(heard: MarksSocket, steps: int) -> dict[str, Any]:
    """Return what was said when so many steps were done."""
    said: list[dict[str, Any]] = []

    def last() -> list[dict[str, Any]]:
        said.extend(bodies(heard))
        return [each for each in said if each.get("steps") == steps]

    return until(last, why=f"word of {steps} steps")[0]


def bodies(heard: MarksSocket, *, least: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        found.extend(json.loads(each.body) for each in heard.take())
        return len(found) >= least

    until(enough)
    return found


def test_the_loop_sees_the_same_batches(heard: MarksSocket) -> None:
    assert list(marks.steps([3, 1, 2])) == [3, 1, 2]
    assert len(marks.steps([3, 1, 2])) == 3  # type: ignore[arg-type]


def test_waiting_and_working_are_told_apart(heard: MarksSocket) -> None:
    def slow_batches() -> Iterator[int]:
        for batch in range(5):
            time.sleep(0.02)
            yield batch

    began_s = time.monotonic()
    for _ in marks.steps(slow_batches()):
        time.sleep(0.01)
    took_s = time.monotonic() - began_s

    last = after(heard, 5)
    assert last["wait_s"] >= 0.1
    assert last["work_s"] >= 0.05
    assert last["wait_s"] + last["work_s"] <= took_s
    assert last["pid"] == os.getpid()


def test_a_loop_without_an_iterable_marks_its_steps_itself(heard: MarksSocket) -> None:
    for step in range(4):
        marks.mark_step(loss=1.0 / (step + 1), label="x", tensor=object())  # type: ignore[arg-type]
    marks._counts.send()

    assert after(heard, 4)["values"] == {"loss": 0.25}


def test_inside_steps_a_mark_only_brings_numbers(heard: MarksSocket) -> None:
    for _ in marks.steps(range(3)):
        marks.mark_step(loss=0.5)

    assert after(heard, 3)["values"] == {"loss": 0.5}


def test_a_phase_is_told_when_it_begins_and_ends_and_is_no_part_of_a_step(
    heard: MarksSocket,
) -> None:
    began_s = time.monotonic()
    for _ in marks.steps(range(1)):
        with marks.phase("checkpoint"):
            time.sleep(0.05)
    took_s = time.monotonic() - began_s

    found = bodies(heard, least=4)
    begins, ends = (each for each in found if "phase" in each)
    assert (begins["phase"], "to_s" in begins) == ("checkpoint", False)
    assert ends["to_s"] - ends["from_s"] >= 0.05
    assert found[-1]["work_s"] <= took_s - 0.05


def test_a_phase_that_fails_ends_and_the_failure_goes_on(heard: MarksSocket) -> None:
    with pytest.raises(ZeroDivisionError), marks.phase("eval"):
        _ = 1 / 0

    assert "to_s" in bodies(heard, least=2)[-1]


def test_nobody_listening_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEWARD_MARKS", str(tmp_path / "nobody.sock"))
    marks._begin()

    with marks.phase("x"):
        done = list(marks.steps(range(1000)))

    assert len(done) == 1000


def test_phases_from_before_somebody_listened_are_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "late.sock"
    monkeypatch.setenv("STEWARD_MARKS", str(place))
    monkeypatch.setattr(marks, "AGAIN_S", 0.0)
    marks._begin()
    with marks.phase("compile"):
        pass
    listening = MarksSocket(place)
    listening.open()

    marks._counts.send()

    assert [each.get("phase") for each in bodies(listening, least=3)] == ["compile"] * 2 + [None]
    listening.close()


def test_a_forked_worker_counts_for_itself(heard: MarksSocket) -> None:
    list(marks.steps(range(3)))
    after(heard, 3)
    child = os.fork()
    if not child:
        list(marks.steps(range(2)))
        os._exit(0)
    os.waitpid(child, 0)

    assert after(heard, 2)["pid"] == child


def test_job_and_rank_come_from_the_environment(
    heard: MarksSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SLURM_JOB_ID": "812", "SLURM_PROCID": "3", "RANK": "5"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LOCAL_RANK", "1")
    marks._begin()

    list(marks.steps(range(1)))

    said = after(heard, 1)
    assert (said["job"], said["rank"], said["local_rank"]) == ("812", "5", "1")


def test_importing_it_brings_nothing_else_in() -> None:
    """What it costs to import is what it imports: it may only need what Python has anyway."""
    asked = "import sys; had = {*sys.modules}; import steward.marks; print(*{*sys.modules} - had)"
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    said = subprocess.run(
        [sys.executable, "-c", asked], env=env, capture_output=True, text=True, check=True
    )

    assert set(said.stdout.split()) <= {"__future__", "steward", "steward.marks"}
