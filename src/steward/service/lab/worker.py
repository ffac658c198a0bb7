"""One task of the lab's worker: read the trace, compare, write the report, send progress."""

from __future__ import annotations

import gzip
import json
import shlex
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from steward.errors import StewardError
from steward.model.machines import Machines, machines_of
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.service.lab.comparison_request import MOST_GPUS
from steward.service.lab.example import example_trace
from steward.service.lab.messages import Finished, Message, Progress, Refused, Task
from steward.sim.lab.compare import Comparison, ComparisonPlan, compare
from steward.sim.lab.report import write_report
from steward.sim.lab.run import replay
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials import Run, StudyInput, natural_gpus
from steward.sim.traces import read_trace
from steward.sim.traces.locate import short_name
from steward.store.atomic import write_atomic

__all__ = ["MOST_ROWS", "MOST_UNPACKED_BYTES", "carry_out"]

MOST_ROWS = 2_000_000
MOST_UNPACKED_BYTES = 1 << 30
CHUNK_BYTES = 1 << 20
GZIP = b"\x1f\x8b"
USE_COMMAND = "for larger ones, use `steward lab compare` on the command line"

Send = Callable[[Message], None]


def carry_out(task: Task, send: Send, *, run: Run | None = None) -> None:
    """Compare the policies of a task; what is wrong with it is sent as a message.

    `run` stands in for the lab's engines.
    """
    try:
        _carry_out(task, send, run)
    except StewardError as fault:
        send(_refusal(fault, task))


def _carry_out(task: Task, send: Send, run: Run | None) -> None:
    steps = _Steps(send, of=len(task.wanted.policies))
    send(Progress(doing="reading the trace"))
    trace = _trace(task)
    base = StudyInput(trace=trace, machines=_machines(task, trace), run=run or steps.watched)
    steps.step("replaying")
    wanted = task.wanted
    settings = LabSettings(placement=wanted.placement, seed=wanted.seed)
    plan = ComparisonPlan(seeds=(wanted.seed,))
    found = compare(base, wanted.policies, settings, plan, done=lambda *_: steps.next())
    if not found.judged:
        problems = "; ".join(f"{each.policy}: {each.problem}" for each in found.failed)
        raise StewardError(f"no policy could be run ({problems})", hint=found.failed[0].hint)
    steps.step("writing the report")
    _write(found, task)
    send(Finished(record=_known(found.as_record())))


@dataclass(slots=True)
class _Steps:
    """Counts policies, and sends how far all of them together are."""

    send: Send
    of: int
    done: int = 0

    def step(self, doing: str, part: float = 0.0) -> None:
        share = (self.done + min(part, 0.99)) / self.of
        self.send(Progress(doing=doing, share=min(share, 1.0)))

    def next(self) -> None:
        self.done += 1
        self.step("replaying" if self.done < self.of else "drawing intervals")

    def watched(
        self, trace: Trace, machines: Machines, policy: str, settings: LabSettings
    ) -> Replay:
        """Replay by the lab's own engines, and send progress."""
        place = f"replaying {policy}, {self.done + 1} of {self.of}"
        self.step(place)
        return replay(trace, machines, policy, settings, progress=partial(self.step, place))


# -- the trace and its machines ----------------------------------------------------------------


def _trace(task: Task) -> Trace:
    if task.file is None:
        return example_trace(task.wanted.seed)
    _check_unpacked(task.file)
    trace = read_trace(task.file, limit=MOST_ROWS + 1)
    rows = len(trace) + sum(each.rows for each in trace.faults if not each.kept)
    if rows > MOST_ROWS:
        problem = f"has more than {MOST_ROWS:,} rows"
        raise StewardError(problem, where=task.name, hint=USE_COMMAND)
    task.file.unlink(missing_ok=True)  # not needed any more
    origin = trace.origin.replace(str(task.file), task.name)
    return replace(trace, name=short_name(Path(task.name)), origin=f"uploaded: {origin}")


def _check_unpacked(file: Path) -> None:
    """Refuse a small file that unpacks to a huge one, before anybody reads it as a table."""
    with file.open("rb") as stream:
        if stream.read(2) != GZIP:
            return
    unpacked = 0
    try:
        with gzip.open(file) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                unpacked += len(chunk)
                if unpacked > MOST_UNPACKED_BYTES:
                    problem = f"unpacks to more than {MOST_UNPACKED_BYTES >> 30} GiB"
                    raise StewardError(problem, where=str(file), hint=USE_COMMAND)
    except (OSError, EOFError, zlib.error) as fault:
        raise StewardError(
            f"cannot be unpacked: {fault}", where=str(file), hint="is it whole?"
        ) from None


def _machines(task: Task, trace: Trace) -> Machines:
    wanted = task.wanted
    gpus = wanted.gpus or natural_gpus(trace, gpus_per_node=wanted.gpus_per_node)
    if gpus > MOST_GPUS:
        problem = f"would fill {gpus:,} GPUs to 80 %; the lab takes up to {MOST_GPUS:,} here"
        raise StewardError(problem, where=task.name, hint="give the number of GPUs")
    return machines_of(gpus, gpus_per_node=wanted.gpus_per_node)


# -- what is kept ------------------------------------------------------------------------------


def _write(found: Comparison, task: Task) -> None:
    said = _command(found, task)
    record = _known({**found.as_record(series=True), "command": said})
    text = json.dumps(record, indent=1, allow_nan=False)
    try:
        write_atomic(task.folder / "results.json", text.encode())
    except OSError as fault:
        problem = f"the results cannot be kept: {(fault.strerror or str(fault)).lower()}"
        raise StewardError(problem, where="lab", hint="is there room on the disk?") from fault
    write_report(found, task.folder / "report.html", command=said)


def _command(found: Comparison, task: Task) -> str:
    """Return what gives the same result on the command line; the example is only here."""
    if task.file is None:
        return ""
    wanted = task.wanted
    options = {
        "--policies": ",".join(wanted.policies),
        "--gpus": str(found.base.machines.total_gpus),
        "--gpus-per-node": str(wanted.gpus_per_node),
        "--placement": wanted.placement,
        "--seed": str(wanted.seed),
    }
    words = [word for option in options.items() for word in option]
    return shlex.join(["steward", "lab", "compare", task.name, *words])


def _known(value: Any) -> Any:  # noqa: ANN401 - whatever a record holds
    """Return a record as JSON knows it: what is not finite is null, numbers are Python's own."""
    if isinstance(value, Mapping):
        return {str(key): _known(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    if isinstance(value, np.generic):
        return _known(value.item())
    if isinstance(value, float) and not isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _refusal(fault: StewardError, task: Task) -> Refused:
    """Return the error with the client's file name: paths of the server are not disclosed."""

    def clean(text: str) -> str:
        ours = {str(task.file): task.name, f"{task.folder}/": "beside the trace: "}
        for path, instead in ours.items():
            text = text.replace(path, instead)
        return text

    return Refused(problem=clean(fault.problem), where=clean(fault.where), hint=clean(fault.hint))
