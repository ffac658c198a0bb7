"""Joins what is known of a process to its job: by control group, or by the tree it grew in.

An entity that is known only by a pid (`n01/gpu0@pid:123`) gets a span with its job, so its
samples are joined afterwards; `named` writes the job in at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from steward.clients.cgroups import CgroupReader, job_of
from steward.clients.processes import Process, ProcessTable
from steward.model.frame import ENTITY, T_S, Frame
from steward.model.identity import JobId

__all__ = ["ProcessOwners", "local_job", "named", "root_of"]

_BY_PID = r"@pid:(\d+)$"

# What people start jobs from. Such a process is not part of a job, whatever runs below it.
_STARTERS = re.compile(
    r"^(systemd|init|sh|bash|dash|zsh|fish|tcsh|ksh|login|su|sudo|sshd.*|tmux.*|screen|cron|atd|"
    r"make|nohup|setsid|watch|time|timeout|xargs|containerd.*|dockerd|runc|conmon|podman|"
    r"jupyter.*|code.*|node|slurmstepd.*|srun|kubelet|supervisord|tini|dumb-init|s6-.*|python-?launcher)$"
)


class ProcessOwners:
    """Maps processes to jobs. Local jobs are found in the newest table of processes."""

    def __init__(
        self, *, cgroups: CgroupReader | None = None, table: ProcessTable | None = None
    ) -> None:
        self._cgroups = cgroups or CgroupReader()
        self._table = table or ProcessTable()

    def scheduled(self, pid: int) -> JobId | None:
        """Return the job that a scheduler or a container engine runs this process for."""
        path = self._cgroups.of_pid(pid)
        return job_of(path) if path else None

    def of(self, pid: int) -> JobId | None:
        """Return the job of a process: its scheduler's, else the tree that it belongs to."""
        scheduled = self.scheduled(pid)
        if scheduled is not None:
            return scheduled
        ancestors = self._table.ancestors(pid)
        return local_job(root_of(ancestors)) if ancestors else None


def root_of(ancestors: list[Process]) -> Process:
    """Return where a job begins: the topmost ancestor that is no shell, daemon or launcher.

    `ancestors` begins with the process itself. torchrun and all its ranks have the same root.
    """
    root = ancestors[0]
    for parent in ancestors[1:]:
        if parent.pid <= 1 or _STARTERS.match(parent.name):
            break
        root = parent
    return root


def local_job(root: Process) -> JobId:
    """Return a job id from its first process; the start time makes it unique."""
    return JobId(f"proc:{root.pid}-{int(root.start_s)}")


def named(frame: Frame, owner: Callable[[int], JobId | None]) -> Frame:
    """Write jobs in for pids (`n01/gpu0@pid:7` becomes `n01/gpu0@812`); ranks add up."""
    pids = frame[ENTITY].str.extract(_BY_PID, 1).drop_nulls().unique().to_list()
    jobs = {f"@pid:{pid}": owner(int(pid)) for pid in pids}
    known = {by_pid: f"@{job}" for by_pid, job in jobs.items() if job is not None}
    if not known:
        return frame
    entities = [_renamed(entity, known) for entity in frame[ENTITY].to_list()]
    renamed = frame.with_columns(pl.Series(ENTITY, entities, pl.String))
    return renamed.group_by(T_S, ENTITY, maintain_order=True).agg(
        pl.when(pl.all().is_not_null().any()).then(pl.all().sum())
    )


def _renamed(entity: str, known: dict[str, str]) -> str:
    whole, at, rest = entity.partition("@")
    return f"{whole}{known.get(at + rest, at + rest)}"
