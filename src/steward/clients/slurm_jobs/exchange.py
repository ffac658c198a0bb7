"""The files in which a job on Slurm says whether it can save, and how a save went.

They lie in a folder of the job's owner, and an operator or root may read them: nothing is read that
is not the owner's, whatever links and names say.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Any

from steward.clients.local_jobs.exchange import read_own, read_reply, text_of
from steward.clients.slurm_jobs.batch_script import FOLDER
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.errors import StewardError
from steward.training.protocol import ANSWER, CAN_SAVE, CHECKPOINTS, MANIFEST, REQUEST

__all__ = ["MOST_LOG_BYTES", "JobFiles", "belongs_to", "files_of", "read_log"]

MOST_LOG_BYTES = 1 << 20
OUTPUT = "output"  # the paths of its logs, as its own shell saw them: one line where it changed


class JobFiles:
    """The folder of one job. What is not there, or not ours to read, is empty.

    So is all of it where `top`, which has the folders of a user's jobs, is somebody else's.
    """

    def __init__(self, folder: Path, top: Path, user: str) -> None:
        self.folder = folder
        self._top, self._user = top, user

    @property
    def able(self) -> bool | None:
        """Whether it can save; None if it has not said so, or not to us."""
        found = self._read(CAN_SAVE)
        return bool(found.get("can")) if found else None

    @property
    def why_not(self) -> str:
        """Why it cannot save, in its own words."""
        return text_of(self._read(CAN_SAVE).get("why", ""))

    @property
    def answer(self) -> dict[str, Any]:
        """What became of the last request."""
        return self._read(ANSWER)

    @property
    def saving(self) -> bool:
        """Whether a request has no answer yet."""
        asked = self._read(REQUEST).get("id")
        return bool(asked) and asked != self.answer.get("id")

    @property
    def logs(self) -> list[str]:
        """Where its output went, run by run; empty before it has started."""
        paths = read_own(self.folder / OUTPUT) if self._is_theirs() else b""
        return [line for line in paths.decode("utf-8", "replace").split("\n") if line]

    def checkpoints(self) -> list[dict[str, Any]]:
        """Return the checkpoints that are complete, oldest first."""
        try:
            paths = sorted((self.folder / CHECKPOINTS).glob(f"step-*/{MANIFEST}"))
        except OSError:
            return []
        found = []
        for path in paths:
            if path.parent.name.endswith(".corrupt"):
                continue
            manifest = self._read(path.relative_to(self.folder))
            step, created_s = manifest.get("step"), manifest.get("created_s")
            if isinstance(step, int):
                found.append({"t_s": created_s, "step": step, "path": str(path.parent)})
        return found

    def _read(self, name: str | Path) -> dict[str, Any]:
        return read_reply(self.folder / name) if self._is_theirs() else {}

    def _is_theirs(self) -> bool:
        return belongs_to(self._top, self._user)


def belongs_to(folder: Path, user: str) -> bool:
    """Return True if a folder is there, is no link, and is the user's."""
    try:
        found = folder.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == _uid_of(user)


def files_of(job: ListedJob) -> JobFiles | None:
    """Return the files of a job that steward submitted; None for others."""
    if not job.mark.token or not job.folder:
        return None
    top = Path(job.folder) / FOLDER.format(user=job.user)
    folder = top / job.mark.token
    return JobFiles(folder / job.task if job.task else folder, top, job.user)


def read_log(path: Path, user: str, *, offset: int) -> bytes:
    """Return what a job of a user has printed from `offset` on.

    Its owner chooses the path. So only they themselves may read a file there that is not theirs:
    others might look at a secret of their own, or at nothing for ever.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        owner, theirs = os.fstat(handle).st_uid, _uid_of(user)
        if owner != theirs != os.geteuid():
            hint = f"a job may name any file for its output; only {user} can have it read here"
            raise StewardError(f"it does not belong to {user}", where=str(path), hint=hint)
        os.lseek(handle, offset, os.SEEK_SET)
        return os.read(handle, MOST_LOG_BYTES)
    finally:
        os.close(handle)


def _uid_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None
