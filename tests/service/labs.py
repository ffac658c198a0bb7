"""Labs that answer quickly: the real worker with a scheduler of twenty lines, or none at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from steward.service.lab import ComparisonRequest, LabRun, LabRuns
from steward.service.lab.messages import Finished, Message, Task
from steward.service.lab.worker import carry_out
from tiny_replays import tiny_run

Send = Callable[[Message], None]
WITHIN_S = 120.0  # compiling what judges a replay takes a while on a machine that never did

ROWS = "\n".join(f"j{i},{40 * i},{50 + 7 * i},{1 + i % 4},team{i % 2}" for i in range(20))
TRACE = f"job_id,submit_s,duration_s,gpus,tenant\n{ROWS}\n"
RECORD = {
    "trace": {"name": "jobs", "synthetic": False, "left_out": []},
    "cluster": {"gpus": 8, "nodes": 1},
    "policies": {},
}


def with_tiny_run(task: Task, send: Send, stop: threading.Event) -> None:
    """Do all the real work here, but for the engines: `fifo` runs, others say that they cannot."""
    carry_out(task, send, run=tiny_run)


def at_once(task: Task, send: Send, stop: threading.Event) -> None:
    """Be done with any task, without looking at it."""
    (task.folder / "report.html").write_text("<!doctype html><title>report</title>")
    (task.folder / "results.json").write_text("{}")
    send(Finished(record=dict(RECORD)))


def until_stopped(task: Task, send: Send, stop: threading.Event) -> None:
    """Never be done."""
    stop.wait(WITHIN_S)


def begun(runs: LabRuns, text: str | None = TRACE, *policies: str, **wanted: object) -> LabRun:
    """Ask for a comparison on a trace of this text; None is the example."""
    asked = ComparisonRequest.model_validate({"policies": policies or ("fifo",), **wanted})
    with runs.entering() as folder:
        file = folder / "trace" if text is not None else None
        if file is not None:
            file.write_text(text or "")
        return runs.begin(asked, folder=folder, trace="jobs.csv", file=file, by="ada")


def ended(runs: LabRuns, id_: str) -> LabRun:
    """Wait until a comparison is over."""
    thread = runs._kept[id_].thread
    assert thread is not None
    thread.join(WITHIN_S)
    return runs.look(id_)


def compared(runs: LabRuns) -> str:
    """Return the id of a comparison that is over; whatever ran before is over too."""
    for run in runs.list():
        ended(runs, run.id)
    return ended(runs, begun(runs).id).id


def scratch_of(runs: LabRuns) -> Path:
    assert runs._scratch is not None
    return Path(runs._scratch.name)
