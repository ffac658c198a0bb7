"""Looks at jobs: those that Slurm's controller knows, and those that only accounting has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.program import fresh_separator
from steward.clients.slurm.syntax import gres, hosts
from steward.clients.slurm_jobs.listed_job import (
    ACCOUNTED,
    COLUMN_COUNT,
    ListedJob,
    listed_columns,
    listed_from_sacct,
    listed_from_squeue,
)
from steward.errors import PermanentError, StewardError

__all__ = ["JobQueue"]

PAST_DAYS = 30  # how far back `list --all` looks
_DEVICES = re.compile(r"^\s*Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S+)", re.MULTILINE)


class JobQueue:
    """The jobs of one Slurm, as the account that runs this process may see them."""

    def __init__(self, slurm: SlurmControl) -> None:
        self._slurm = slurm

    def listed(self, *, ended: bool) -> list[ListedJob]:
        """Return jobs, newest first; with `ended` also those that are over."""
        which = ("--states=all",) if ended else ()
        found = self._squeue(which, wide=False)
        if ended:
            known = {job.raw for job in found}
            past = self._sacct(("--allusers", f"--starttime=now-{PAST_DAYS}days"))
            found += [job for job in past if job.raw not in known and job.ended]
        return sorted(found, key=lambda job: (job.submit_s, int(job.raw)), reverse=True)

    def of(self, id_: str) -> list[ListedJob]:
        """Return a job, a task, or all tasks of an array, oldest first; raise if there is none."""
        found = self._squeue(("--states=all", f"--jobs={id_}"), wide=True)
        if not found or any("_" in job.id for job in found):  # tasks are forgotten one by one
            # By number, too: accounting may lag, and call the last task as its array.
            known = {name for job in found for name in (job.id, job.raw)}
            past = self._newest(self._sacct((f"--jobs={id_}",)))
            open_parts = any(job.task == "" for job in found)
            past = [job for job in past if known.isdisjoint((job.id, job.raw))]
            found += [job for job in past if job.ended or not open_parts]
        found = _of_newest([job for job in found if id_ in (job.id, job.number)])
        if not found:
            hint = "`steward jobs list --all` shows those that Slurm still knows"
            raise StewardError("Slurm has no such job", where=f"job {id_}", hint=hint)
        return sorted(found, key=lambda job: int(job.task or job.raw))

    def runs(self, job: ListedJob) -> list[ListedJob]:
        """Return what accounting has of a job's number, its earlier runs first."""
        found = self._sacct((f"--jobs={job.id}", "--duplicates"))
        return sorted((each for each in found if each.id == job.id), key=lambda run: run.submit_s)

    def details(self, job: ListedJob) -> tuple[str, str, list[str]]:
        """Return where the output of a job goes, what was submitted, and its GPUs."""
        if job.accounted:
            return "", "", []
        try:
            text = self._slurm.change(("scontrol", "--details", "show", "job", job.id))
        except PermanentError:  # forgotten since the last look
            return "", "", []
        values = {name: _line(text, name) for name in ("StdOut", "Command")}
        gpus = [
            f"{node}/gpu{index}"
            for nodes, resources in _DEVICES.findall(text)
            for node in hosts(nodes)
            for each in gres(resources)
            if each.name == "gpu"
            for index in each.indices
        ]
        return values["StdOut"], values["Command"], gpus if job.runs else []

    # -- running -------------------------------------------------------------------------------

    def _squeue(self, which: Iterable[str], *, wide: bool) -> list[ListedJob]:
        form = listed_columns(wide=wide)
        rows = self._slurm.rows(("--noheader", *which), form, COLUMN_COUNT)
        return [job for row in rows if (job := listed_from_squeue(row)) is not None]

    def _sacct(self, which: Iterable[str]) -> list[ListedJob]:
        """Return rows of accounting; none where a site has no accounting."""
        separator = fresh_separator()
        form = (f"--delimiter={separator}", f"--format={','.join(ACCOUNTED)}")
        how = ("--allocations", "--noheader", "--parsable2", *form)
        try:
            text = self._slurm.change(("sacct", *how, *which))
        except PermanentError:
            return []
        found = [listed_from_sacct(line, separator) for line in text.split("\n")]
        return [job for job in found if job is not None]

    @staticmethod
    def _newest(found: list[ListedJob]) -> list[ListedJob]:
        """Return of each id the job that was submitted last: Slurm gives numbers again."""
        ordered = sorted(found, key=lambda job: job.submit_s)
        return list({job.id: job for job in ordered}.values())


def _of_newest(found: list[ListedJob]) -> list[ListedJob]:
    """Return what belongs to the job or array that was submitted last, of those of one number."""
    kinds = {job.id: ("_" in job.id, job.user, job.name) for job in found}
    newest = max(found, key=lambda job: job.submit_s, default=None)
    return [job for job in found if newest is not None and kinds[job.id] == kinds[newest.id]]


def _line(text: str, name: str) -> str:
    found = re.search(rf"^\s*{name}=(.*)$", text, re.MULTILINE)
    return found[1].strip() if found and found[1].strip() != "(null)" else ""
