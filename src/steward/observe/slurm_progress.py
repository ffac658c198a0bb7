"""How far the trainings of one account are, by the files of jobs that `steward jobs` submitted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from steward.clients.local_jobs.progress import JobProgress, read_progress
from steward.clients.slurm import SlurmJob
from steward.clients.slurm_jobs.batch_script import FOLDER
from steward.model.frame import ENTITY, T_S, Frame, empty_frame, job_entity
from steward.model.identity import JobId

__all__ = ["SlurmProgress"]

STEPS = "steward.progress.step"  # Slurm knows no steps of trainings: a name of ours
_SCHEMA = {T_S: pl.Float64, ENTITY: pl.String, STEPS: pl.Float64}


class SlurmProgress:
    """Reads the progress of running jobs of `user`: nobody else's files are opened."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._last: dict[str, JobProgress] = {}

    def read(self, jobs: Iterable[SlurmJob], t_s: float) -> Frame:
        """Return what is new, in the order of time."""
        running = {job.id: job for job in jobs if self._reports(job)}
        found = {id_: read_progress(_folder(job), t_s) for id_, job in running.items()}
        now = {id_: each for id_, each in found.items() if each is not None}
        rows = [
            (each.t_s, job_entity(JobId(id_)), each.step)
            for id_, each in now.items()
            if self._last.get(id_) != each
        ]
        self._last = now
        return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort(T_S) if rows else empty_frame()

    def _reports(self, job: SlurmJob) -> bool:
        """Return whether a job runs, is this account's, and has a folder of `steward jobs`.

        One that runs inside another waits, as Slurm sees it.
        """
        runs = job.states[0] == "RUNNING" or job.mark.lent is not None
        own = bool(self._user) and job.user == self._user and runs
        return own and bool(job.folder and job.mark.token) and "_" not in job.array


def _folder(job: SlurmJob) -> Path:
    return Path(job.folder) / FOLDER.format(user=job.user) / job.mark.token
