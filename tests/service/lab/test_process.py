"""The worker's process: what it tells is handed on, and it ends when it should."""

from __future__ import annotations

import threading
from multiprocessing import active_children
from pathlib import Path

import pytest

from service.labs import TRACE
from steward.service.lab import ComparisonRequest, process
from steward.service.lab.messages import Message, Progress, Refused, Task
from steward.service.lab.process import in_process


def task(folder: Path, text: str = TRACE) -> Task:
    file = folder / "trace"
    file.write_text(text)
    return Task(
        wanted=ComparisonRequest(policies=("fifo",)), folder=folder, name="may.csv", file=file
    )


def test_what_is_wrong_with_a_file_is_told_across(tmp_path: Path) -> None:
    heard: list[Message] = []

    in_process(task(tmp_path, "a,b\n1,2\n"), heard.append, threading.Event())

    assert heard[0] == Progress(doing="reading the trace")
    assert isinstance(heard[-1], Refused)
    assert heard[-1].where == "may.csv"


def test_a_process_that_is_killed_is_reported(tmp_path: Path) -> None:
    heard: list[Message] = []

    def kill(message: Message) -> None:
        heard.append(message)
        for child in active_children():
            child.kill()

    in_process(task(tmp_path), kill, threading.Event())

    assert isinstance(heard[-1], Refused)
    assert heard[-1].problem == "the lab's worker was ended by signal 9"
    assert "memory" in heard[-1].hint


@pytest.mark.parametrize("how", ["stopped", "too long"])
def test_it_is_ended_when_nobody_wants_it_or_it_takes_too_long(tmp_path: Path, how: str) -> None:
    heard: list[Message] = []
    stop = threading.Event()
    if how == "stopped":
        stop.set()

    in_process(task(tmp_path), heard.append, stop, longest_s=0.0)

    assert active_children() == []
    ended = [Refused(problem="took too long and was ended", hint="take fewer jobs or policies")]
    assert heard == ([] if how == "stopped" else ended)


def test_a_status_is_put_into_words() -> None:
    assert "with status 1" in process._died(1).problem
    assert "log" in process._died(None).hint
