"""Followed jobs on disk: what runs, where it is, which checkpoints are kept, how plans did.

One folder per job. `job.json` is written by one process at a time, which holds the lock; whoever
submits adds a folder, which appears whole. A checkpoint that is kept here is verified, and is in
the folder by a rename.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from steward.errors import StewardError
from steward.model.planning.calibration import Calibration, RunError
from steward.model.planning.catalog import Catalog
from steward.model.planning.followed import FollowedJob, RunState
from steward.store.atomic import make_folder, sync_folder, write_atomic
from steward.store.catalog import catalog_text, parse_catalog

__all__ = ["FollowedJobs", "Program"]

T = TypeVar("T")
_JOB, _PROGRAM, _CATALOG, _SCRIPT = "job.json", "program.json", "sites.yaml", "script"
_LAUNCH, _CHECKPOINTS, _PLANS, _LOCK = "launch", "checkpoints", "plans.json", "lock"
_SUBMITTED = "submitted"
_DRAFT = ".new-"
KEPT_ERRORS = 500
_OF_A_SITE = (
    "STEWARD_", "SLURM_", "SBATCH_", "CUDA_VISIBLE", "NVIDIA_VISIBLE", "KUBERNETES_", "XDG_RUNTIME",
    "TMPDIR", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "SSH_",
)  # fmt: skip

# The checkpoint that a run begins with is copied before anything else runs: half a copy has another
# name, and a run that cannot copy it does not begin from nothing.
_SEED = """\
if [ -n "$1" ] && [ -n "$STEWARD_JOB_FOLDER" ]; then
  to=$STEWARD_JOB_FOLDER/checkpoints name=${1##*/}
  if [ ! -e "$to/$name" ] && ! ls -d "$to"/step-* >/dev/null 2>&1; then
    mkdir -p "$to" && rm -rf "$to/.$name.tmp" && cp -R "$1" "$to/.$name.tmp" &&
      mv "$to/.$name.tmp" "$to/$name" || { echo "steward: $1 cannot be copied" >&2; exit 75; }
  fi
fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a job runs, wherever it does: as it was submitted."""

    argv: tuple[str, ...]
    script: str = ""  # the text of a script; `argv` then has its arguments
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)  # that a person gave
    image: str = ""
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plans:
    """How plans did, and what was learned of that."""

    errors: tuple[RunError, ...] = ()
    calibrations: tuple[Calibration, ...] = ()
    campaigns: Mapping[str, float] = field(default_factory=dict)  # application: last begun


_JOBS = TypeAdapter(FollowedJob)
_PROGRAMS = TypeAdapter(Program)
_PLAN_RECORDS = TypeAdapter(_Plans)


class FollowedJobs:
    """All followed jobs below a folder. Records are read once and kept; safe for threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._jobs: dict[str, FollowedJob] = {}
        self._catalogs: dict[str, Catalog] = {}
        self._plans: _Plans | None = None
        self._guard = threading.RLock()
        self.damaged: dict[str, str] = {}

    # -- who may write ---------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one process that follows these jobs; raise where another does."""
        make_folder(self.folder)
        handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as fault:
                raise StewardError(
                    "another process follows these jobs",
                    where=str(self.folder),
                    hint="`steward up` does so by itself; `steward jobs plans` shows what it sees",
                ) from fault
            yield
        finally:
            os.close(handle)

    def is_followed(self) -> bool:
        """Return whether a process follows these jobs now."""
        try:
            with self.locked():
                return False
        except StewardError:
            return True

    # -- jobs ------------------------------------------------------------------------------------

    def add(self, job: FollowedJob, program: Program, catalog: Catalog) -> None:
        """Write down a new job, before it is submitted anywhere."""
        make_folder(self.folder)
        draft = self.folder / f"{_DRAFT}{job.id}-{secrets.token_hex(4)}"
        draft.mkdir(mode=0o700)
        write_atomic(draft / _JOB, _JOBS.dump_json(job))
        write_atomic(draft / _PROGRAM, _PROGRAMS.dump_json(program))
        write_atomic(draft / _CATALOG, catalog_text(catalog).encode())
        if program.script:
            write_atomic(draft / _SCRIPT, program.script.encode())
            (draft / _SCRIPT).chmod(0o700)
        draft.rename(self.folder / job.id)
        sync_folder(self.folder)
        with self._guard:
            self._jobs[job.id] = job

    def jobs(self) -> tuple[FollowedJob, ...]:
        """Return all jobs, oldest first; those that others have added since are read."""
        with self._guard:
            for file in sorted(self.folder.glob(f"*/{_JOB}")):
                id_ = file.parent.name
                if id_ in self._jobs or id_.startswith(_DRAFT):
                    continue
                made = self._read(file, _JOBS)
                if made is not None:
                    self._jobs[id_] = made
            self._jobs = {id_: self._with_id(each) for id_, each in self._jobs.items()}
            return tuple(self._jobs[each] for each in sorted(self._jobs))

    def job(self, id_: str) -> FollowedJob:
        """Return one job."""
        found = {each.id: each for each in self.jobs()}
        if id_ not in found:
            hint = "`steward jobs plans --all` lists them"
            raise StewardError(f"no followed job is called {id_!r}", where="ID", hint=hint)
        return found[id_]

    def note_submitted(self, id_: str, engine_job: str) -> None:
        """Note the id of the first run: by whoever submitted it, beside the one who follows it."""
        write_atomic(self.folder / id_ / _SUBMITTED, engine_job.encode())
        with self._guard:
            self._jobs[id_] = self._with_id(self._jobs[id_])

    def drop(self, id_: str) -> None:
        """Forget a job that no site has taken."""
        with self._guard:
            gone = self.folder / f"{_DRAFT}{id_}-gone"
            (self.folder / id_).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            self._jobs.pop(id_, None)

    def _with_id(self, job: FollowedJob) -> FollowedJob:
        first = job.runs[0]
        if first.state is not RunState.ASKED or first.job:
            return job
        try:
            id_ = (self.folder / job.id / _SUBMITTED).read_text(encoding="utf-8")
        except OSError:
            return job
        return job.with_run(0, replace(first, job=id_, state=RunState.WAITING))

    def save(self, job: FollowedJob) -> None:
        """Write a job down: durably, unless all that is new is how far it is."""
        with self._guard:
            before = self._jobs.get(job.id)
            if before == job:
                return
            file = self.folder / job.id / _JOB
            durable = before is None or _without_progress(before) != _without_progress(job)
            write_atomic(file, _JOBS.dump_json(job), durable=durable)
            self._jobs[job.id] = job

    def program(self, id_: str) -> Program:
        """Return what a job runs."""
        return _PROGRAMS.validate_json((self.folder / id_ / _PROGRAM).read_bytes())

    def catalog(self, id_: str) -> Catalog:
        """Return the sites that a job was planned over."""
        if id_ not in self._catalogs:
            file = self.folder / id_ / _CATALOG
            self._catalogs[id_] = parse_catalog(file.read_text(encoding="utf-8"), file=str(file))
        return self._catalogs[id_]

    def checkpoints(self, id_: str) -> Path:
        """Return the folder of the verified checkpoints of a job."""
        return self.folder / id_ / _CHECKPOINTS

    def launcher(self, id_: str, number: int, *, checkpoint: str) -> Path:
        """Write and return a program that runs a job with its own environment, from a checkpoint.

        It is the same on every engine that sees this folder.
        """
        program = self.program(id_)
        script = [str(self.folder / id_ / _SCRIPT)] if program.script else []
        file = self.folder / id_ / f"{_LAUNCH}-{number}"
        text = launch_text(program, (*script, *program.argv), checkpoint)
        write_atomic(file, text.encode())
        file.chmod(0o700)
        return file

    # -- how plans did -----------------------------------------------------------------------------

    @property
    def plans(self) -> _Plans:
        with self._guard:
            if self._plans is None:
                file = self.folder / _PLANS
                found = self._read(file, _PLAN_RECORDS) if file.exists() else None
                self._plans = found or _Plans()
            return self._plans

    def add_error(self, error: RunError) -> None:
        """Keep how far off the plan of a job was that has completed, once."""
        plans = self.plans
        if error.job not in {each.job for each in plans.errors}:
            errors = (*plans.errors, error)[-KEPT_ERRORS:]
            self._keep(errors=errors)

    def calibrate(self, made: Calibration) -> None:
        """Put a correction in force, instead of the one before."""
        key = (made.name, made.gpu_model)
        others = [each for each in self.plans.calibrations if (each.name, each.gpu_model) != key]
        self._keep(calibrations=(*others, made))

    def note_campaign(self, application: str, t_s: float) -> None:
        """Note that a campaign of an application was begun."""
        self._keep(campaigns={**self.plans.campaigns, application: t_s})

    def _keep(self, **changes: Any) -> None:  # noqa: ANN401 - fields of `_Plans`
        with self._guard:
            before = self.plans
            made = _Plans(
                errors=changes.get("errors", before.errors),
                calibrations=changes.get("calibrations", before.calibrations),
                campaigns=changes.get("campaigns", before.campaigns),
            )
            make_folder(self.folder)
            write_atomic(self.folder / _PLANS, _PLAN_RECORDS.dump_json(made))
            self._plans = made

    def _read(self, file: Path, shape: TypeAdapter[T]) -> T | None:
        """Return what a file holds; what cannot be read is named in `damaged`, and left alone."""
        try:
            return shape.validate_json(file.read_bytes())
        except (OSError, ValidationError, StewardError) as fault:
            self.damaged[str(file)] = f"it cannot be read: {type(fault).__name__}"
            return None


def _without_progress(job: FollowedJob) -> FollowedJob:
    runs = tuple(replace(each, marks=(), seen_s=None, folder="") for each in job.runs)
    return replace(job, runs=runs)


def launch_text(program: Program, argv: tuple[str, ...], checkpoint: str) -> str:
    """Return the shell script that runs a job from a checkpoint."""
    exports = [
        f"export {name}={shlex.quote(value)}"
        for name, value in sorted(program.environment.items())
        if not name.startswith(_OF_A_SITE) and name.isidentifier()
    ]
    seed = [f"set -- {shlex.quote(checkpoint)}", _SEED.rstrip("\n"), "shift"] if checkpoint else []
    folder = [f"cd {shlex.quote(program.folder)} || exit 75"] if program.folder else []
    return "\n".join(["#!/bin/sh", *exports, *seed, *folder, f"exec {shlex.join(argv)}", ""])
