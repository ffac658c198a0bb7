"""Reads the files into which Slurm writes a job's output, though the job is requeued meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from steward.clients.job_logs import LogPart, whole_characters
from steward.clients.slurm_jobs.exchange import MOST_LOG_BYTES, read_log
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.errors import StewardError

__all__ = ["SlurmLog"]

KNOWN_BYTES = 1024  # of what was read last: other bytes there are another run's


class SlurmLog:
    """The files of one job, in the order of its runs. `look` asks Slurm for the job and its files.

    A requeued job goes on in the file of its last run, in another one (a name with `%N`), or, with
    `--open-mode=truncate`, in the same one from the beginning.
    """

    def __init__(self, look: Callable[[], tuple[ListedJob, Sequence[str]]]) -> None:
        self._look = look
        self._files: dict[str, _File] = {}

    def read(self) -> LogPart:
        """Return the next part. Slurm is asked only where the files have no more."""
        part = self._next(over=False)
        if part.text:
            return part
        job, paths = self._look()
        for path in paths:
            self._files.setdefault(path, _File(path, job.user))
        later = self._next(over=job.ended)
        notes = "; ".join(note for note in (part.note, later.note) if note)
        part = replace(later, note=notes)
        if job.ended and all(file.missing for file in self._files.values()):
            hint = "it may be on the node where the job ran"
            raise StewardError("there is no such file here", where=paths[-1], hint=hint)
        return part

    def _next(self, *, over: bool) -> LogPart:
        notes: list[str] = []
        for file in self._files.values():
            data, note = file.read(over=over)
            notes += [note] if note else []
            if data:
                text = data.decode("utf-8", "replace")
                return LogPart(text=text, over=False, note="; ".join(notes))
        return LogPart(text="", over=over, note="; ".join(notes))


class _File:
    """One file, and how far it was read."""

    def __init__(self, path: str, user: str) -> None:
        self.path = path
        self._user = user
        self.missing = True
        self._offset = 0
        self._last = b""

    def read(self, *, over: bool) -> tuple[bytes, str]:
        """Return what follows, and a note if the file was emptied since the last read."""
        note = ""
        try:
            data = self._from(self._offset - len(self._last))
            if not data.startswith(self._last):
                note = f"{self.path} was emptied: the next run of the job begins here"
                self._offset, self._last = 0, b""
                data = self._from(0)
        except FileNotFoundError:
            return b"", ""
        except OSError as fault:
            hint = "its owner can read it"
            problem = f"it cannot be read: {(fault.strerror or str(fault)).lower()}"
            raise StewardError(problem, where=self.path, hint=hint) from fault
        self.missing = False
        more = len(data) == MOST_LOG_BYTES
        data = data[len(self._last) :]
        if more or not over:
            data = whole_characters(data)
        self._offset += len(data)
        self._last = (self._last + data)[-KNOWN_BYTES:]
        return data, note

    def _from(self, offset: int) -> bytes:
        return read_log(Path(self.path), self._user, offset=offset)
