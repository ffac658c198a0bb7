"""The examples for other languages follow the protocol that engines rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patience import LONG_S, until
from steward.training.protocol import (
    ANSWER,
    CAN_SAVE,
    DONE,
    FOLDER_VARIABLE,
    PROGRESS,
    SaveRequest,
    read_json,
)

EXAMPLES = Path(__file__).parents[2] / "docs/jobs/examples"
Start = Callable[[int], subprocess.Popen[str]]


@pytest.fixture(
    params=["sh", pytest.param("c", marks=pytest.mark.real)],  # a C compiler is installed there
)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    command = ["sh", str(EXAMPLES / "save.sh")]
    pause = "0.01"
    if request.param == "c":
        program, pause = tmp_path / "save", "10"
        warnings = ["-Wall", "-Wextra", "-Werror", "-std=c11"]
        source = str(EXAMPLES / "save.c")
        subprocess.run(["cc", *warnings, "-O2", "-o", str(program), source], check=True)
        command = [str(program)]
    env = {**os.environ, FOLDER_VARIABLE: str(tmp_path / "job")}
    (tmp_path / "job").mkdir()

    def run(last: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, str(last), pause], env=env, stdout=subprocess.PIPE, text=True
        )

    return run


def at_step(folder: Path, step: int) -> None:
    path = folder / PROGRESS
    until(lambda: path.exists() and read_json(path)["step"] >= step)


def test_a_job_stops_on_request_and_continues_where_it_was(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    process = start(10**6)
    at_step(folder, 3)
    SaveRequest(id="d-1", do="save-and-stop", deadline_s=time.time() + LONG_S).write(folder)
    out, _ = process.communicate(timeout=LONG_S)

    answer = read_json(folder / ANSWER)
    assert (process.returncode, out) == (0, "")
    assert (answer["id"], answer["result"]) == ("d-1", "saved")
    assert answer["step"] >= 3
    assert read_json(folder / CAN_SAVE)["can"]
    assert not (folder / DONE).exists()

    (folder / PROGRESS).unlink()
    process = start(answer["step"] + 2)  # with the answered request still there
    out, _ = process.communicate(timeout=LONG_S)

    assert (process.returncode, out) == (0, f"counted to {answer['step'] + 2}\n")
    assert read_json(folder / DONE)["step"] == answer["step"] + 2


def test_a_job_refuses_what_is_late_or_makes_no_sense_and_goes_on(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    process = start(10**6)
    answers = []
    at_step(folder, 1)
    SaveRequest(id="d-1", do="save-and-stop", deadline_s=1.0).write(folder)
    answers.append(_answer(folder, "d-1"))
    (folder / "other.json").write_text('{"id": "d-2", "do": "dance"}')
    (folder / "other.json").rename(folder / "request.json")
    answers.append(_answer(folder, "d-2"))
    running = process.poll() is None
    process.kill()
    process.communicate()

    assert answers == ["failed", "cannot"]
    assert running


def _answer(folder: Path, request_id: str) -> str:
    path = folder / ANSWER
    until(lambda: path.exists() and read_json(path)["id"] == request_id)
    return str(read_json(path)["result"])


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGTERM])
def test_a_job_saves_on_a_signal_and_goes_on(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "job"
    process = start(10**6)
    at_step(folder, 1)
    process.send_signal(number)
    until((folder / "checkpoints/state").exists)
    step = read_json(folder / PROGRESS)["step"]
    at_step(folder, step + 1)
    process.kill()
    process.communicate()

    assert int((folder / "checkpoints/state").read_text()) >= 1
