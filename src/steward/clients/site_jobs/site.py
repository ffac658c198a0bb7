"""One site where followed jobs run: an engine, and the files of its jobs that can be read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from steward.clients.site_jobs.job_folder import (
    FolderLook,
    Saved,
    keep_checkpoint,
    look_into,
    newest_checkpoint,
)
from steward.errors import StewardError, TemporaryError
from steward.model.managed_job import LifeState
from steward.model.planning.followed import FollowedJob, RunState, SiteLook, SiteReport, SiteRun

__all__ = ["EngineJobs", "Order", "Site", "UnknownJobError"]

_QUEUED = (LifeState.SUBMITTED, LifeState.WAITING, LifeState.PREEMPTED, LifeState.LOST)
_STATES = {
    LifeState.FINISHED: RunState.COMPLETED,
    LifeState.FAILED: RunState.FAILED,
    LifeState.CANCELLED: RunState.STOPPED,
    LifeState.HELD: RunState.HELD,
    **dict.fromkeys(_QUEUED, RunState.WAITING),
}


class UnknownJobError(StewardError):
    """The engine answers, and has no such job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One submission. The engine has one job with this token, however often it is asked.

    `launcher` runs it with the environment that it was submitted with; an engine that does not see
    this file system takes `argv` and `environment`.
    """

    token: str
    name: str
    launcher: Path
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    options: Mapping[str, str]
    hold: bool
    image: str = ""
    volumes: tuple[str, ...] = ()


class EngineJobs(Protocol):
    """The jobs of one engine, as the account that runs this process.

    Every call may raise `TemporaryError` where the engine does not answer. `saved_files`: whether
    the folders of its jobs can be read and written from here.
    """

    saved_files: bool

    def submit(self, order: Order) -> str:
        """Submit, and return the id."""
        ...

    def show(self, job: str) -> Mapping[str, Any]:
        """Return the record of a job, or raise `UnknownJobError`."""
        ...

    def change(self, job: str, what: str) -> None:
        """Begin to `save`, `release` or `cancel` a job."""
        ...

    def ping(self) -> None:
        """Raise if the engine does not answer."""
        ...


class Site:
    """One endpoint. Its name is that of `[sites.NAME]`, empty for the main one."""

    def __init__(self, name: str, engine: EngineJobs) -> None:
        self.name = name
        self.engine = engine

    def report(self, jobs: Sequence[FollowedJob], t_s: float) -> SiteReport:
        """Return what the site shows of its runs; of one that is silent, what their files do."""
        asked = [
            (job, number, run)
            for job in jobs
            for number, run in enumerate(job.runs)
            if run.endpoint == self.name and run.job and _matters(run)
        ]
        if all(job.end is not None for job in jobs) and not asked:
            return SiteReport(endpoint=self.name, t_s=t_s)  # nobody needs to know
        try:
            self.engine.ping()
            looks = tuple(self.look(*each) for each in asked)
        except StewardError as fault:
            found = tuple(_by_files(*each) for each in asked)
            told = tuple(each for each in found if each.progress_s is not None or each.complete)
            return SiteReport(endpoint=self.name, t_s=t_s, looks=told, problem=str(fault))
        return SiteReport(endpoint=self.name, t_s=t_s, looks=looks)

    def look(self, job: FollowedJob, number: int, run: SiteRun) -> SiteLook:
        """Return what the site shows of one run."""
        try:
            record = self.engine.show(run.job)
        except UnknownJobError as fault:
            return replace(_by_files(job, number, run), state=None, why=fault.problem)
        folder = str(record.get("job_folder") or "") or run.folder
        attempts = [each for each in record.get("attempts") or () if each.get("began_s")]
        files = look_into(folder) if self.engine.saved_files else FolderLook()
        return SiteLook(
            job=job.id,
            run=number,
            state=_state(str(record.get("state"))),
            began_s=attempts[0]["began_s"] if attempts else None,
            ended_s=attempts[-1].get("ended_s") if attempts else None,
            folder=folder,
            can_save=bool(record.get("can_save")),
            step=files.step,
            steps=files.steps,
            progress_s=files.written_s,
            complete=files.complete,
            why=str(record.get("why") or ""),
        )

    def checkpoint(self, run: SiteRun) -> Saved | None:
        """Return the newest checkpoint of a run, if it can be read here."""
        readable = self.engine.saved_files and bool(run.folder)
        return newest_checkpoint(run.folder) if readable else None

    def keep(self, saved: Saved, folder: Path) -> Path:
        """Keep a verified copy of a checkpoint."""
        return keep_checkpoint(saved, folder)

    def over(self, run: SiteRun) -> RunState | None:
        """End a run, and return how it ended; None until it has."""
        try:
            state = _state(str(self.engine.show(run.job).get("state")))
            if state in (RunState.WAITING, RunState.RUNNING, RunState.HELD):
                self._cancel(run)
                state = _state(str(self.engine.show(run.job).get("state")))
        except UnknownJobError:
            return RunState.COMPLETED if look_into(run.folder).complete else RunState.STOPPED
        return state if state.ended else None

    def _cancel(self, run: SiteRun) -> None:
        """Cancel a run; one that has ended since it was shown cannot be, and need not be."""
        try:
            self.engine.change(run.job, "cancel")
        except StewardError:
            if not _state(str(self.engine.show(run.job).get("state"))).ended:
                raise


def _matters(run: SiteRun) -> bool:
    return not run.state.ended or run.state is RunState.LOST


def _by_files(job: FollowedJob, number: int, run: SiteRun) -> SiteLook:
    """Return what the files of a run say, without its engine."""
    files = look_into(run.folder)
    return SiteLook(
        job=job.id,
        run=number,
        state=RunState.RUNNING,
        began_s=run.began_s,
        folder=run.folder,
        can_save=run.can_save,
        step=files.step,
        steps=files.steps,
        progress_s=files.written_s,
        complete=files.complete,
    )


def _state(text: str) -> RunState:
    try:
        life = LifeState(text)
    except ValueError:
        raise TemporaryError(f"a job is '{text}', and nobody here knows what that is") from None
    return _STATES.get(life, RunState.RUNNING)
