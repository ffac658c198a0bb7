"""One job as a person sees it, from squeue's columns or from a line of sacct."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.jobs import ENDED
from steward.clients.slurm.program import SEPARATOR, squeue_form
from steward.clients.slurm.sacct_row import ROW_FIELDS, row_from_line
from steward.clients.slurm.syntax import (
    epoch_s,
    gpu_count,
    holder,
    hosts,
    tres,
    wait_status,
    whole_number,
)

__all__ = [
    "ACCOUNTED",
    "COLUMN_COUNT",
    "ListedJob",
    "listed_columns",
    "listed_from_sacct",
    "listed_from_squeue",
]

_LIMIT = re.compile(r"%\d+")
_WIDTHS = {  # of a list; one job alone has four times as much
    "JobID": 32,
    "JobArrayID": 64,
    "State": 32,
    "Reason": 64,
    "UserName": 64,
    "Account": 64,
    "Partition": 64,
    "SubmitTime": 32,
    "StartTime": 32,
    "EndTime": 32,
    "RestartCnt": 16,
    "BatchFlag": 8,
    "Requeue": 8,
    "PriorityLong": 24,
    "exit_code": 16,
    "NodeList": 256,
    "Name": 128,
    "tres-alloc": 256,
    "Dependency": 128,
    "WorkDir": 512,
    "Comment": 512,
}
COLUMN_COUNT = len(_WIDTHS)
ACCOUNTED = (*ROW_FIELDS, "WorkDir", "SubmitLine")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """One job, one task of an array, or the tasks of one that wait. `id` is as Slurm shows it."""

    id: str  # 12, 12_3, or 12_[4-9]
    raw: str
    name: str
    user: str
    account: str
    partition: str
    state: str  # one, in upper case
    reason: str
    submit_s: float  # of this run: set anew at each requeue
    start_s: float | None
    end_s: float | None
    restarts: int
    batch: bool
    requeue: bool
    priority: int
    exit_code: int
    signal: int
    nodes: tuple[str, ...]
    gpus: int
    cpus: int
    dependency: str
    folder: str
    mark: JobMark
    accounted: bool = False  # read from sacct: Slurm's controller has forgotten it

    @property
    def address(self) -> str:
        """What Slurm's commands take for it alone: 12_[4-9] for 12_[4-9%2]."""
        return _LIMIT.sub("", self.id)

    @property
    def number(self) -> str:
        """The number of the job, or of its array."""
        return self.id.partition("_")[0]

    @property
    def task(self) -> str:
        """The index of a task; empty for a job that is none, and for tasks that wait."""
        index = self.id.partition("_")[2]
        return index if index.isdecimal() else ""

    @property
    def waits(self) -> bool:
        return self.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")

    @property
    def runs(self) -> bool:
        return not self.waits and not self.ended

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_lent(self) -> bool:
        """Whether steward holds it since it runs in another job of its user, or begins to."""
        return self.held_by == "user" and self.mark.lent is not None

    @property
    def held_by(self) -> str:
        """Who keeps it waiting: `user`, `admin`, `requeue` (held at its requeue), or nobody."""
        return holder(self.reason) if self.waits else ""


def listed_columns(*, wide: bool) -> str:
    """Return the argument of `squeue --Format`: what is longer than a column is cut."""
    widths = {name: width * (4 if wide else 1) for name, width in _WIDTHS.items()}
    return squeue_form(widths)


def listed_from_squeue(line: str) -> ListedJob | None:
    """Read one row of squeue; None when it is not one."""
    cells = line.split(SEPARATOR)
    if len(cells) != len(_WIDTHS) + 1:  # one follows the last
        return None
    cell = {name: text.strip() for name, text in zip(_WIDTHS, cells, strict=False)}
    resources = tres(cell["tres-alloc"])
    try:
        code, signal = wait_status(int(cell["exit_code"]))
        return ListedJob(
            id=cell["JobArrayID"],
            raw=cell["JobID"],
            name=cell["Name"],
            user=cell["UserName"],
            account=cell["Account"],
            partition=cell["Partition"],
            state=cell["State"].upper(),
            reason=_known(cell["Reason"]),
            submit_s=float(cell["SubmitTime"]),
            start_s=epoch_s(cell["StartTime"]),
            end_s=epoch_s(cell["EndTime"]),
            restarts=int(cell["RestartCnt"]),
            batch=cell["BatchFlag"] == "1",
            requeue=cell["Requeue"] == "1",
            priority=int(cell["PriorityLong"]),
            exit_code=code,
            signal=signal,
            nodes=hosts(cell["NodeList"]),
            gpus=gpu_count(resources),
            cpus=whole_number(resources.get("cpu", "")),
            dependency=_known(cell["Dependency"]),
            folder=cell["WorkDir"],
            mark=JobMark.read(_known(cell["Comment"])),
        )
    except ValueError:
        return None


def listed_from_sacct(line: str, separator: str) -> ListedJob | None:
    """Read one line of sacct in the order of `ACCOUNTED`; None when it is not one."""
    row = row_from_line(line, ACCOUNTED, separator)
    if row is None:
        return None
    code, signal = row.exit
    cell = row.cell
    return ListedJob(
        id=cell["JobID"],
        raw=cell["JobIDRaw"],
        name=cell["JobName"],
        user=cell["User"],
        account=cell["Account"],
        partition=cell["Partition"],
        state=row.state,
        reason="",
        submit_s=row.submit_s,
        start_s=row.start_s,
        end_s=row.end_s,
        restarts=0,
        batch=True,
        requeue=False,
        priority=row.priority,
        exit_code=code,
        signal=signal,
        nodes=row.nodes,
        gpus=row.gpus,
        cpus=row.cpus,
        dependency="",
        folder=cell["WorkDir"],
        mark=JobMark.read(_comment(cell["SubmitLine"])),
        accounted=True,
    )


def _comment(line: str) -> str:
    """Return the words of steward in the line that submitted a job: sacct seldom has its comment.

    >>> _comment("sbatch --hold --comment=night run steward:job=abc -A bio job.sh")
    'steward:job=abc'
    """
    words = line.replace("=steward:", " steward:").split()
    return " ".join(word for word in words if word.startswith("steward:"))


def _known(text: str) -> str:
    return "" if text in ("None", "(null)", "N/A") else text
