"""What the commands of the lab share while they run: reading, progress, and files of results."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steward.batch import cores
from steward.cli.lab.options import LabOptions
from steward.cli.output import plain, print_note, waiting
from steward.compiled import is_compiled, is_plain
from steward.errors import StewardError
from steward.model.machines import Machines
from steward.model.replay import Replay
from steward.model.trace import Trace
from steward.sim.lab.compare import Comparison
from steward.sim.lab.report import write_report
from steward.sim.lab.run import replay as replay_trace
from steward.sim.lab.settings import LabSettings
from steward.sim.lab.trials import Cache, StudyInput, Trial, default_folder
from steward.store.atomic import whole_file

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "Bar",
    "base_of",
    "cache_of",
    "progress",
    "save",
    "save_jobs",
    "watched",
    "workers_of",
    "write_whole",
]


def base_of(asked: LabOptions, settings: LabSettings) -> StudyInput:
    """Read the workload and the machines, and say what was assumed."""
    with waiting("reading the trace"):
        trace = asked.read_trace()
    machines, said = asked.machines(trace)
    settings.quota_of(trace, machines)  # a tenant that is not there is refused before all runs
    if said:
        print_note(said)
    if trace.synthetic:
        print_note("part of this trace is synthetic")
    if not is_plain() and not is_compiled("engine"):
        print_note("compiling the lab's kernels: this takes minutes, once for each version")
    return StudyInput(trace=trace, machines=machines)


def watched(base: StudyInput, bar: Bar, *, kept: list[Replay] | None = None) -> StudyInput:
    """Return a base whose replays move the bar while they run; `kept` gets each of them."""

    def run(trace: Trace, machines: Machines, policy: str, settings: LabSettings) -> Replay:
        told = partial(bar.part, policy)
        found = replay_trace(trace, machines, policy, settings, progress=told)
        if kept is not None:
            kept.append(found)
        return found

    return replace(base, run=run)


def workers_of(asked: int) -> int:
    """Return how many processes to use; 0 is all cores."""
    return asked or cores()


def cache_of(folder: Path | None, *, use: bool = False) -> Cache | None:
    """Return where results are kept: a folder that was named, or with `use` the user's own."""
    if folder is None and not use:
        return None
    return Cache(folder=folder or default_folder())


class Bar:
    """Says how far a study is; this one says it to nobody."""

    def done(self, _place: int, trial: Trial) -> None:
        """Count a trial."""

    def part(self, policy: str, share: float) -> None:
        """Tell how far the present replay is."""


class _Shown(Bar):
    def __init__(self, bar: Progress, total: int) -> None:
        self._bar, self._done = bar, 0
        self._task = bar.add_task("replaying", total=total)

    def done(self, _place: int, trial: Trial) -> None:
        self._done += 1
        self._bar.update(self._task, completed=self._done, description=f"{trial.policy} is done")

    def part(self, policy: str, share: float) -> None:
        self._bar.update(self._task, completed=self._done + min(share, 0.999), description=policy)


@contextmanager
def progress(total: int) -> Iterator[Bar]:
    """Show how far it is and how long it takes yet, on a terminal."""
    if not sys.stderr.isatty():
        yield Bar()
        return
    from rich import progress as parts
    from rich.console import Console

    columns = (
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        parts.TaskProgressColumn(),
        parts.TextColumn(f"of {total}, left"),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600
    ) as bar:
        yield _Shown(bar, total)


def save(found: Comparison, folder: Path, *, command: str) -> None:
    """Write report.html and results.json, each whole or not at all."""
    record = {**found.as_record(series=True), "command": command}
    write_whole(folder / "results.json", json.dumps(plain(record), indent=1, allow_nan=False))
    write_report(found, folder / "report.html", command=command)


def save_jobs(replay: Replay, folder: Path) -> None:
    """Write how each job fared."""
    trace, segments = replay.trace, replay.segments
    length_s = segments.stop_s - segments.start_s
    run_s = np.bincount(segments.job, length_s, minlength=len(trace))
    rows: list[list[Any]] = [
        [
            trace.job_id[i],
            trace.tenants[trace.tenant[i]] if trace.tenant[i] >= 0 else "",
            f"{trace.gpus[i]:g}",
            *(_seconds(each[i]) for each in (trace.submit_s, replay.start_s, replay.end_s)),
            _seconds(replay.end_s[i] - trace.submit_s[i] - run_s[i]),
            int(replay.preemptions[i]),
        ]
        for i in range(len(trace))
    ]
    columns = ("job_id", "tenant", "gpus", "submit_s", "start_s", "end_s", "wait_s", "preemptions")
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    write_whole(folder / "jobs.csv", text.getvalue())


def write_whole(file: Path, text: str) -> None:
    """Write a file; one that was there stays whole until the new one is."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as out:
            out.write(text.encode())
    except OSError as fault:
        raise StewardError(
            f"the results cannot be written: {(fault.strerror or str(fault)).lower()}",
            where=str(file),
            hint="name a folder that you may write to with --out",
        ) from fault


def _seconds(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}".rstrip("0").rstrip(".")
