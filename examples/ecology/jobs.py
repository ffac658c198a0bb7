"""Trainings as jobs of steward, by its command line: submit, watch, pre-empt once, collect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steward.errors import StewardError

__all__ = ["JobRun", "Steward", "steward_up"]

EXAMPLES = Path(__file__).parents[1]
LONGEST_S = 600.0
STEPS_WITHIN_S = 180.0
POLL_S = 0.5
CONFIG = "[jobs]\nslots = 1\n"
_ENDS = ("finished", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A job that has ended: what it printed, and what steward measured of it."""

    id: str
    report: dict[str, Any]
    wall_s: float  # of its attempts, without waiting
    cpu_s: float
    peak_bytes: int
    attempts: int
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Steward:
    """The command line of a steward that runs here."""

    config: Path
    data: Path

    def submit(self, name: str, command: Sequence[str]) -> str:
        """Submit a command and return the job's id."""
        found = self.ask("submit", "--job-name", name, "--slots", "1", "--json", "--", *command)
        return str(found["id"])

    def show(self, job: str) -> dict[str, Any]:
        """Return all that is known of a job."""
        return self.ask("show", job, "--json")

    def ask(self, what: str, *arguments: str) -> dict[str, Any]:
        """Run one `steward jobs` command; what it prints is JSON."""
        known = ["--config", str(self.config), "--data", str(self.data)]
        command = [sys.executable, "-m", "steward", "jobs", what, *known, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_paths())  # noqa: S603
        if done.returncode:
            problem = f"`steward jobs {what}` failed: {done.stdout.strip()} {done.stderr.strip()}"
            raise StewardError(problem, where=str(self.data), hint="see up.log beside it")
        return dict(json.loads(done.stdout))

    def run(
        self,
        name: str,
        command: Sequence[str],
        *,
        preempt_at: int | None = None,
        watch: Callable[[str], None] = lambda _: None,
    ) -> JobRun:
        """Run a command as a job; once it is past `preempt_at` steps, ask for its place back."""
        job = self.submit(name, command)
        end_s = time.monotonic() + LONGEST_S
        progress = self.data / "jobs" / job / "work" / "progress.json"
        seen = ""
        while (found := self.show(job))["state"] not in _ENDS:
            if time.monotonic() > end_s:
                problem = f"job {job} ({name}) is {found['state']} after {LONGEST_S:.0f} s"
                raise StewardError(problem, where=str(self.data), hint=f"steward jobs why {job}")
            if found["state"] != seen:
                watch(f"job {job} {name}: {(seen := found['state'])}")
            if preempt_at is not None and found["can_save"]:
                step = wait_for_step(progress, preempt_at)
                self.ask("preempt", job, "--json")
                watch(f"job {job} {name}: pre-empted after step {step}")
                preempt_at = None
            time.sleep(POLL_S)
        return _ended(found)


def wait_for_step(progress: Path, step: int) -> int:
    """Return the step of a training once it is at least at `step`, or stands still."""
    reached, end_s = -1, time.monotonic() + STEPS_WITHIN_S
    while reached < step and time.monotonic() < end_s:
        time.sleep(0.05)
        if progress.is_file():
            reached = int(json.loads(progress.read_text(encoding="utf-8"))["step"])
    return reached


def _ended(found: dict[str, Any]) -> JobRun:
    log = Path(found["log"]).read_text(encoding="utf-8") if Path(found["log"]).exists() else ""
    if found["state"] != "finished":
        problem = f"job {found['id']} {found['state']}: {found['why']}"
        raise StewardError(problem, where=found["log"], hint=log.strip()[-400:])
    attempts = found["attempts"]
    return JobRun(
        id=found["id"],
        report=json.loads(log.strip().splitlines()[-1]) if log.strip() else {},
        wall_s=sum(each["ended_s"] - each["began_s"] for each in attempts),
        cpu_s=sum(each["cpu_s"] or 0.0 for each in attempts),
        peak_bytes=max(each["peak_memory_bytes"] or 0 for each in attempts),
        attempts=len(attempts),
        states=tuple(each["state"] for each in found["events"]),
    )


@contextmanager
def steward_up(folder: Path) -> Iterator[Steward]:
    """Run `steward up` on a folder of its own, with one slot for jobs, until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "steward.toml"
    config.write_text(CONFIG, encoding="utf-8")
    data = folder / "data"
    command = [sys.executable, "-m", "steward", "up", "--config", str(config), "--data", str(data)]
    with (folder / "up.log").open("wb") as log, subprocess.Popen(  # noqa: S603
        [*command, "--port", "0", "--no-browser", "--until-eof", "--json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=_paths(),
    ) as program:  # fmt: skip
        try:
            if program.stdout is None or not program.stdout.readline():
                problem = "`steward up` did not start"
                raise StewardError(problem, where=str(folder / "up.log"), hint="read that file")
            yield Steward(config, data)
        finally:
            program.terminate()


def _paths() -> dict[str, str]:
    """Return the environment in which programs find the example, with one thread each."""
    paths = os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
