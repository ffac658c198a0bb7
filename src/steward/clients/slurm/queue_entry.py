"""One job as squeue's columns or slurmrestd give it: what is compared before it is changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.slurm.job_mark import MOST_BYTES, JobMark
from steward.clients.slurm.jobs import ENDED, WAITING, SlurmJob, job_from_json
from steward.clients.slurm.program import SEPARATOR, squeue_form
from steward.clients.slurm.syntax import holder, hosts, number

__all__ = [
    "COLUMNS",
    "COLUMN_COUNT",
    "GOES",
    "TASK_LIMIT",
    "QueueEntry",
    "entry_from_json",
    "entry_from_line",
]

_ADDRESS = re.compile(r"\d+(\+\d+|_\d+|_\[[\d,:%-]+\])?")
_AT_ONCE = re.compile(r"%(\d+)(?=\])")  # how many tasks may run: no command takes it
_SEVERAL = re.compile(r"\d+_\[")
TASK_LIMIT = "JobArrayTaskLimit"
_RUNS = ("RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED")
GOES = (*_RUNS, "COMPLETING")  # the states that count against the limit of an array
_WIDTHS = {  # squeue pads a column to its width, and cuts what is longer
    "JobID": 32,
    "JobArrayID": 4096,
    "State": 32,
    "Reason": 256,
    "UserName": 128,
    "Partition": 256,
    "SubmitTime": 32,
    "EndTime": 32,
    "RestartCnt": 16,
    "BatchFlag": 8,
    "Requeue": 8,
    "Nice": 24,
    "PriorityLong": 24,
    "NodeList": 4096,
    "Name": 512,
    "Comment": MOST_BYTES,
}
COLUMNS = squeue_form(_WIDTHS)
COLUMN_COUNT = len(_WIDTHS)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One job or one task of an array. `address` is what Slurm's commands take for it alone."""

    id: str
    address: str
    state: str  # one, in upper case
    reason: str
    user: str
    partition: str
    submit_s: int  # of this run: set anew at each requeue
    restarts: int
    batch: bool
    requeue: bool
    nice: int
    priority: int
    nodes: tuple[str, ...]
    name: str
    mark: JobMark
    end_s: int | None = None  # when it ended, or when its time limit ends it; None: unknown
    at_once: int | None = None  # how many tasks of the array may run, where it is many; None: all

    @property
    def array(self) -> str:
        """The number of the array that it belongs to; empty for a job that is no task."""
        return self.address.partition("_")[0] if "_" in self.address else ""

    @property
    def is_many(self) -> bool:
        """Whether it stands for all tasks of an array that still wait together."""
        return _SEVERAL.match(self.address) is not None

    @property
    def waits(self) -> bool:
        return self.state == "PENDING"

    @property
    def runs(self) -> bool:
        return self.state in _RUNS

    @property
    def goes(self) -> bool:
        """Whether it counts against the limit of its array: it runs, or was let go and waits."""
        return self.state in GOES or (self.waits and not self.held_by)

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_raised(self) -> bool:
        """Whether steward has lowered its nice value, and that still counts."""
        return self.mark.is_raised(self.nice)

    @property
    def held_by(self) -> str:
        """Who keeps it waiting: `user`, `admin`, `requeue` (held at its requeue), or nobody.

        A job that was just submitted with --hold has priority 0, and its reason a moment later.
        """
        just_now = "user" if self.reason == "" and self.priority == 0 else ""
        return (holder(self.reason) or just_now) if self.waits else ""


def entry_from_line(line: str) -> QueueEntry | None:
    """Read one row of squeue in the order of `COLUMNS`; None when it is not one."""
    cells = line.split(SEPARATOR)
    if len(cells) != len(_WIDTHS) + 1:  # one follows the last
        return None
    cell = {name: text.strip() for name, text in zip(_WIDTHS, cells, strict=False)}
    if not _ADDRESS.fullmatch(cell["JobArrayID"]):
        return None
    try:
        return QueueEntry(
            id=cell["JobID"],
            address=_AT_ONCE.sub("", cell["JobArrayID"]),
            state=cell["State"].upper(),
            reason="" if cell["Reason"] == "None" else cell["Reason"],
            user=cell["UserName"],
            partition=cell["Partition"],
            submit_s=int(cell["SubmitTime"]),
            restarts=int(cell["RestartCnt"]),
            batch=cell["BatchFlag"] == "1",
            requeue=cell["Requeue"] == "1",
            nice=int(cell["Nice"]),
            priority=int(cell["PriorityLong"]),
            nodes=hosts(cell["NodeList"]),
            name=cell["Name"],
            mark=JobMark.read("" if cell["Comment"] == "(null)" else cell["Comment"]),
            end_s=int(cell["EndTime"]) if cell["EndTime"].isdecimal() else None,
            at_once=_at_once(cell["JobArrayID"]),
        )
    except ValueError:
        return None


def entry_from_json(raw: Mapping[str, Any]) -> QueueEntry | None:
    """Read one entry of `jobs` of slurmrestd; None when it is not one.

    22.05 leaves out a nice value of 0, and writes one below 0 as a number of 32 bits.
    """
    job = job_from_json(raw)
    if job is None:
        return None
    nice = int(number(raw.get("nice")) or 0)
    return QueueEntry(
        id=job.id,
        address=_AT_ONCE.sub("", job.array).rstrip("_") or job.id,  # 3_: an array that is over
        state=_one_state(job.states),
        reason=str(raw.get("state_description") or "") or job.reason,  # as squeue shows it
        user=job.user,
        partition=job.partition,
        submit_s=int(job.submit_s),
        restarts=job.restarts or 0,
        batch=bool(raw.get("batch_flag")),
        requeue=bool(raw.get("requeue")),
        nice=nice - 2**32 if nice >= 2**31 else nice,
        priority=job.priority,
        nodes=job.nodes,
        name=job.name,
        mark=job.mark,
        end_s=_end_s(job, raw),
        at_once=_at_once(job.array),
    )


def _at_once(array: str) -> int | None:
    found = _AT_ONCE.search(array)
    return int(found[1]) if found else None


def _end_s(job: SlurmJob, raw: Mapping[str, Any]) -> int | None:
    """Return when a job ended or its limit ends it: what waits or has no limit has guesses."""
    if job.end_s is None and (job.limit_s is None or not WAITING.isdisjoint(job.states)):
        return None
    return int(number(raw.get("end_time")) or 0) or None


def _one_state(states: tuple[str, ...]) -> str:
    """Return the state that squeue would show: COMPLETING counts more than what it ended as."""
    flags = [each for each in states if each in ("COMPLETING", "CONFIGURING")]
    return flags[0] if flags else states[0]
