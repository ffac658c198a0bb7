"""Submits exactly once, over a controller that hangs or is restarted in between.

An sbatch that timed out may have succeeded. So each submission carries a token in its comment, and
in the job's name unless that has to stay as it is; the job is submitted held, and released once it
is the only one with that token: of two that came about by a lost answer, the later is cancelled
before it could start.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steward.clients.slurm import changes
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.job_mark import JobMark, LastDecision
from steward.clients.slurm.queue_entry import QueueEntry
from steward.errors import PermanentError, StewardError, TemporaryError

__all__ = ["TOKEN", "Submission", "submit_once"]

TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{3,63}")
_NAME = re.compile(r"[^\s,]{1,128}")
_OURS = ("--job-name", "-J", "--comment", "--hold", "-H", "--wrap", "--parsable", "--test-only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A script for sbatch. The token is the same at each try, and another for another job.

    `hold`: leave it to a decision of steward's to release it. `save_s`: it saves within so long of
    USR2. `inside_bytes`: it may run in another job of its owner, with so much memory on each GPU.
    `retry_within_s`: how long after the first try accounting is searched for it. `rename`:
    the name gets the token, by which Slurm finds a job faster than by its comment. `keep_held`: its
    owner releases it.
    """

    token: str
    script: str
    name: str = "job"
    options: Sequence[str] = ()
    arguments: Sequence[str] = ()
    comment: str = ""
    save_s: float | None = None
    hold: bool = False
    retry_within_s: float = 86_400.0
    rename: bool = True
    inside_bytes: int | None = None
    keep_held: bool = False

    def __post_init__(self) -> None:
        if not TOKEN.fullmatch(self.token):
            problem = f"the token is {self.token!r}, not 4 to 64 letters, digits and . _ -"
            raise StewardError(problem, hint="a decision's id will do")
        if not _NAME.fullmatch(self.name):
            problem = f"the name is {self.name!r}, not 1 to 128 characters without space and comma"
            raise StewardError(problem, hint="it becomes part of the name in Slurm")
        ours = [each for each in self.options if each.split("=")[0] in _OURS]
        ours = [each for each in ours if self.rename or each.split("=")[0] != "--job-name"]
        if ours:
            problem = f"{', '.join(ours)} is set by the submission itself"
            raise StewardError(problem, hint="use its fields name, comment and hold")

    @property
    def job_name(self) -> str:
        """The name in Slurm, by which it is found again."""
        return f"{self.name}.{self.token}"

    @property
    def command(self) -> changes.Command:
        """The command that submits it."""
        return changes.submit(*self._arguments)

    @property
    def trial(self) -> changes.Command:
        """The command that asks whether it could run."""
        return changes.try_submit(*self._arguments)

    @property
    def _arguments(self) -> tuple[tuple[str, ...], str, Sequence[str]]:
        mark = JobMark(
            rest=self.comment,
            token=self.token,
            save_s=self.save_s,
            hold=self.hold,
            inside_bytes=self.inside_bytes,
        )
        named = (f"--job-name={self.job_name}",) if self.rename else ()
        ours = (*named, f"--comment={mark.comment}")
        return (*self.options, *ours), self.script, self.arguments


def submit_once(slurm: SlurmControl, what: Submission) -> str:
    """Return the id of the one job with this token; submit it unless it is there.

    Raises `TemporaryError` where that is not known yet: call it again with the same token.
    """
    found = _with_token(slurm, what)
    if not found:
        past = _accounted(slurm, what)
        if past:
            return past[0]
        slurm.change(what.command)
        found = _with_token(slurm, what)
    if not found:
        problem = f"Slurm accepted {what.name} ({what.token}) and does not list it yet"
        raise TemporaryError(problem, hint="submit it again with the same token")
    first, *later = _apart(found)
    for each in later:
        if each.waits:
            slurm.change(changes.cancel(_number(each)))
    held = first.held_by == "user" and first.mark.did is None
    if held and not (what.hold or what.keep_held):
        _release(slurm, first)
    return _number(first)


def _number(job: QueueEntry) -> str:
    """Return the number of a job, or that of the array that it belongs to."""
    return job.address.partition("_")[0] if "_" in job.address else job.id


def _apart(found: list[QueueEntry]) -> list[QueueEntry]:
    """Return one entry of each job or array, oldest first: tasks that run are listed apart."""
    entries = sorted(found, key=lambda each: int(_number(each)))
    return list({_number(each): each for each in reversed(entries)}.values())[::-1]


def _release(slurm: SlurmControl, job: QueueEntry) -> None:
    """Release a job, and note that: one that is held later is held by a person."""
    did = LastDecision(id=job.mark.token, run=job.submit_s, t_s=int(time.time()))
    number = _number(job)
    slurm.change(changes.release(number))
    slurm.change(changes.update_job(number, comment=replace(job.mark, did=did).comment))


def _with_token(slurm: SlurmControl, what: Submission) -> list[QueueEntry]:
    """Return the jobs of this account with the token, oldest first."""
    if not what.rename:
        return slurm.with_token(what.token)
    named = slurm.named(what.job_name)
    return [each for each in named if each.user == slurm.user and each.mark.token == what.token]


def _accounted(slurm: SlurmControl, what: Submission) -> list[str]:
    """Return the jobs with the token in accounting; without accounting, squeue is all there is."""
    try:
        if not what.rename:
            return slurm.accounted_token(what.token, past_s=what.retry_within_s)
        return slurm.accounted(what.job_name, past_s=what.retry_within_s)
    except PermanentError:
        return []
