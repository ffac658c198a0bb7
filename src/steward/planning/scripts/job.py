"""What a script starts, and the names and times that all kinds of scripts share."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

from steward.errors import StewardError
from steward.model.planning.catalog import CatalogSite, Queue
from steward.model.planning.plan import Choice, PlanRequest

__all__ = [
    "PlannedJob",
    "Program",
    "Script",
    "comment_lines",
    "file_name",
    "job_limit_s",
    "safe_name",
    "time_text",
]

_LIMIT_SHARE = 1.1  # of the longest run in 19 of 20 cases
_SHORTEST_S = 600.0
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a user wants to run, and where."""

    argv: tuple[str, ...]
    folder: str = ""  # empty: where it is submitted
    image: str = ""  # of a container; Kubernetes needs one
    account: str = ""  # who pays, at Slurm

    def __post_init__(self) -> None:
        if not self.argv:
            hint = "give it as --command 'python train.py'"
            raise StewardError("there is no command to run", where="scripts", hint=hint)
        wrong = [each for each in (*self.argv, self.folder, self.image) if "\0" in each]
        if wrong:
            problem = f"{wrong[0]!r} has a null character"
            raise StewardError(problem, where="the command", hint="no shell takes that")

    @property
    def shell(self) -> str:
        """Return the command, quoted."""
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A choice with all that a script has to know of it."""

    choice: Choice
    request: PlanRequest
    site: CatalogSite
    queue: Queue
    program: Program
    gpu_names: tuple[str, ...] = ()  # all names of its GPUs, where the site has others too

    @property
    def starts_later(self) -> bool:
        return self.choice.start_s > self.request.now_s

    @property
    def gpus_per_node(self) -> int:
        return ceil(self.choice.way.gpus / self.choice.nodes)

    @property
    def limit_s(self) -> float:
        """Return the time limit of one job: that of the queue for the links of a chain."""
        return job_limit_s(self.choice, self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A file, and how it is started; what only another file needs has no command of its own."""

    name: str
    text: str
    start: str = ""


def job_limit_s(choice: Choice, queue: Queue) -> float:
    """Return the time limit to ask for: that of the queue for the links of a chain."""
    most_s = queue.max_s
    if most_s is not None and choice.links > 1:
        return most_s
    wanted_s = max(_SHORTEST_S, _LIMIT_SHARE * choice.run_s.high)
    return wanted_s if most_s is None else min(wanted_s, most_s)


def time_text(limit_s: float) -> str:
    """Write a limit as Slurm does; whole minutes, and not above the limit of the queue.

    >>> time_text(5430.0)
    '1:30:00'
    """
    minutes = max(1, int(limit_s // 60))
    return f"{minutes // 60}:{minutes % 60:02d}:00"


def safe_name(text: str, *, most: int = 60) -> str:
    """Return a name that files and schedulers take.

    >>> safe_name("gpu queue/λ"), safe_name("--")
    ('gpu-queue', 'job')
    """
    return _NAME.sub("-", text)[:most].strip("-._") or "job"


def file_name(job: PlannedJob, place: int) -> str:
    """Return the beginning of the names of a choice's files."""
    return f"{place:02d}-{safe_name(f'{job.choice.site}-{job.choice.queue}')}"


def comment_lines(job: PlannedJob) -> list[str]:
    """Return what the plan says of a choice, as comments."""
    choice = job.choice
    end = datetime.fromtimestamp(choice.end_s.mid, tz=UTC).isoformat(timespec="minutes")
    usd = choice.usd
    money = f", {usd.low:.2f} to {usd.high:.2f} USD" if usd is not None else ""
    said = [f"{choice.site}/{choice.queue}: ends at {end} or so{money}", *choice.notes]
    return [f"# {' '.join(each.split())}" for each in said]
