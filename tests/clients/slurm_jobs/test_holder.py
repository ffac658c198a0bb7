"""The program in a loan's own step: what it does where there is no driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patience import LONG_S, until
from steward.clients.slurm_jobs import holder
from steward.clients.slurm_jobs.holder import ALIVE, REFUSAL, RESUMED, SUSPENDED, WOKE

SAVES = """\
import json, pathlib, sys, time
top = pathlib.Path(sys.argv[1])
while not (top / "request.json").exists():
    time.sleep(0.05)
asked = json.loads((top / "request.json").read_text())
(top / "answer.json").write_text(json.dumps({"id": asked["id"]}))
time.sleep(600)
"""


def command(do: str, folder: Path, *more: str) -> list[str]:
    rest = [str(folder), "12", str(folder), "30", "libcuda-that-is-not-there.so"]
    return [sys.executable, "-I", "-S", str(holder.__file__), do, *rest, *more]


def run(do: str, folder: Path, *more: str) -> int:
    return subprocess.run(command(do, folder, *more), check=False, timeout=LONG_S).returncode


def test_without_a_process_that_uses_the_driver_nothing_is_suspended(tmp_path: Path) -> None:
    code = run("suspend", tmp_path)

    why = json.loads((tmp_path / REFUSAL).read_text())["why"]
    assert (code, why) == (126, "0 of its processes use the driver; one is suspended")
    assert not (tmp_path / SUSPENDED).exists()


def test_a_holder_that_was_not_suspended_or_has_ended_needs_no_resume(tmp_path: Path) -> None:
    assert run("resume", tmp_path) == 0
    assert not (tmp_path / RESUMED).exists()

    (tmp_path / SUSPENDED).write_text(json.dumps({"pid": 2**30}))
    assert run("resume", tmp_path) == 0
    assert (tmp_path / RESUMED).exists()


def test_a_holder_that_cannot_be_resumed_is_said_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / SUSPENDED).write_text(json.dumps({"pid": os.getpid()}))

    assert run("resume", tmp_path) == 1
    assert json.loads((tmp_path / REFUSAL).read_text())["why"]
    assert not (tmp_path / RESUMED).exists()


@pytest.mark.parametrize("code", [0, 7])
def test_a_borrower_that_ends_by_itself_gives_its_exit_status(tmp_path: Path, code: int) -> None:
    assert run("attend", tmp_path, "--", "sh", "-c", f"exit {code}") == code


@pytest.mark.parametrize("alive", [True, False])
def test_a_borrower_is_ended_with_its_step_and_the_holder_resumed_where_nobody_else_does(
    tmp_path: Path, *, alive: bool
) -> None:
    (tmp_path / SUSPENDED).write_text(json.dumps({"pid": 2**30}))
    if alive:
        (tmp_path / ALIVE).touch()
    began = f"touch {tmp_path}/began; exec sleep 600"
    attends = subprocess.Popen(command("attend", tmp_path, "--", "sh", "-c", began))
    until((tmp_path / "began").exists, why="a borrower that runs")
    attends.send_signal(signal.SIGTERM)

    assert attends.wait(LONG_S) == 143
    assert (tmp_path / RESUMED).exists() is not alive


def test_a_borrower_saves_and_is_ended_when_its_holder_stirs(tmp_path: Path) -> None:
    stirs = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        (tmp_path / SUSPENDED).write_text(json.dumps({"pid": stirs.pid, "cpu_s": 0.0}))
        (tmp_path / "can_save.json").write_text(json.dumps({"can": True}))
        borrower = (sys.executable, "-c", SAVES, str(tmp_path))
        attends = subprocess.Popen(command("attend", tmp_path, "--", *borrower))
        until((tmp_path / WOKE).exists, why="a holder that is seen to stir")
        code = attends.wait(LONG_S)
    finally:
        stirs.kill()
        stirs.wait()

    assert code == 143
    assert (tmp_path / "answer.json").exists()
