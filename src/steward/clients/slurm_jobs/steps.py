"""Commands inside a running allocation of the same user: overlapping steps, `12.1` of job 12.

Slurm lets nobody else into an allocation, not even root. The srun that started a step stays behind
in the background where it was submitted, and a step seldom outlives it. Each has a folder beside
those of jobs, with its log and, when it is over, its exit status.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steward.clients.slurm import changes
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.submission import TOKEN
from steward.clients.slurm.syntax import whole_number
from steward.clients.slurm_jobs.batch_script import FOLDER
from steward.clients.slurm_jobs.exchange import belongs_to
from steward.clients.slurm_jobs.job_life import life_of
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.clients.slurm_jobs.queue import JobQueue
from steward.clients.slurm_jobs.sbatch_options import time_limit
from steward.errors import PermanentError, StewardError
from steward.model.managed_job import JOB_ID

__all__ = ["STEP_ID", "Step", "StepDraft", "Steps", "is_step", "step_draft"]

STEP_ID = r"[0-9]{1,18}\.[0-9]{1,9}"
LEAST_LEFT_S = 60.0  # of the allocation's time: less is not worth a start
BEGIN_WITHIN_S = 60.0
POLL_S = 0.1
NAME = "steward-"  # before the token: so the steps of steward are found among others
_OPTIONS = {"gpus", "time", "chdir", "job-name", "cpus-per-task", "token"}

# In the background: the exit status of srun is that of the step, 128 + N after signal N.
_LAUNCH = """folder=$1; shift
( "$@" >"$folder/srun.log" 2>&1 </dev/null
echo $? >"$folder/status.part" && mv "$folder/status.part" "$folder/status" ) >/dev/null 2>&1 &"""
# On the node: the number of a step is known to itself first.
_BEGIN = """id=$SLURM_JOB_ID.$SLURM_STEP_ID
ln -sfn "${1##*/}" "${1%/*}/step-$id" && echo "$id" >"$1/step.part" &&
mv "$1/step.part" "$1/step" || exit 125
shift; exec "$@" """


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDraft:
    """What is to be run inside an allocation."""

    allocation: str
    command: tuple[str, ...]
    token: str
    options: tuple[str, ...]
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, as a job that looks like its allocation, and where its files are."""

    job: ListedJob
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "output.log"


def is_step(id_: str) -> bool:
    """Return whether an id is that of a step."""
    return re.fullmatch(STEP_ID, id_) is not None


def step_draft(allocation: str, command: Sequence[str], given: Mapping[str, str]) -> StepDraft:
    """Return what to run, from the options of `steward jobs submit --inside`."""
    strange = sorted(f"--{name}" for name in given if name not in _OPTIONS)
    if strange:
        hint = f"inside there are {', '.join(f'--{name}' for name in sorted(_OPTIONS))}"
        problem = f"{', '.join(strange)}: the allocation has settled that"
        raise StewardError(problem, where="--inside", hint=hint)
    if not re.fullmatch(JOB_ID, allocation) or not TOKEN.fullmatch(given["token"]):
        hint = "a job's number; a token has 4 to 64 letters, digits and . _ -"
        raise StewardError("there is no such job or token", where="--inside", hint=hint)
    gpus = whole_number(given.get("gpus", "0").rpartition(":")[2])
    if "gpus" in given and not gpus:
        raise StewardError(f"'{given['gpus']}' is no number of GPUs", where="--gpus")
    options = [f"--gres=gpu:{given['gpus']}"] if gpus else []
    options += [f"--time={time_limit(given['time'])}"] if "time" in given else []
    options += [f"--cpus-per-task={given['cpus-per-task']}"] if "cpus-per-task" in given else []
    options += (
        [f"--chdir={Path(given['chdir']).expanduser().absolute()}"] if "chdir" in given else []
    )
    return StepDraft(
        allocation=allocation,
        command=tuple(command),
        token=given["token"],
        options=tuple(options),
        gpus=gpus,
    )


class Steps:
    """The steps that steward has started in allocations of one Slurm."""

    def __init__(self, slurm: SlurmControl, queue: JobQueue) -> None:
        self._slurm = slurm
        self._queue = queue

    def command(self, draft: StepDraft, folder: Path) -> changes.Command:
        """Return the srun that runs it."""
        return (
            "srun",
            f"--jobid={draft.allocation}",
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            f"--job-name={NAME}{draft.token}",
            f"--output={folder}/output.log",
            *draft.options,
            "sh",
            "-c",
            _BEGIN,
            "sh",
            str(folder),
            *draft.command,
        )

    def planned(self, draft: StepDraft) -> changes.Command:
        """Return the srun of a draft that may run, without running it."""
        return self.command(draft, self._folder(self._allocation(draft), draft.token))

    def submit(self, draft: StepDraft) -> str:
        """Run it in the background and return its id; the same token is the same step."""
        job = self._allocation(draft)
        folder = self._folder(job, draft.token)
        if not folder.exists():
            self._launch(draft, folder)
        end_s = time.monotonic() + BEGIN_WITHIN_S
        while not (id_ := _text(folder / "step")):
            if _text(folder / "status"):
                raise self._failed(draft, folder)
            if time.monotonic() > end_s:
                problem = f"it did not begin within {BEGIN_WITHIN_S:.0f} s"
                hint = f"submit it again with --token {draft.token}"
                raise StewardError(problem, where=f"job {job.id}", hint=hint)
            time.sleep(POLL_S)
        return id_

    def of(self, id_: str) -> Step:
        """Return a step that steward has started; raise if there is none."""
        job = self._queue.of(id_.partition(".")[0])[0]
        if job.user != self._slurm.user:  # its files say what they like, and links lead anywhere
            hint = f"`scancel {id_}` and `sacct --jobs={id_}` need no files of theirs"
            problem = f"it belongs to {job.user}, who alone can have its files read and written"
            raise StewardError(problem, where=f"job {id_}", hint=hint)
        base = Path(job.folder) / FOLDER.format(user=job.user)
        folder = base / f"step-{id_}"
        if not belongs_to(base, job.user) or not folder.is_dir():
            hint = "`squeue --steps` lists all; steward knows those that it has started"
            raise StewardError("there is no such step", where=f"job {id_}", hint=hint)
        return self._step(id_, job, folder)

    def running(self) -> list[Step]:
        """Return the steps of this account that run now."""
        how = ("--noheader", "--steps", f"--user={self._slurm.user}", "--format=%i %j")
        lines = [line.split() for line in self._slurm.change(("squeue", *how)).split("\n")]
        ids = [cells[0] for cells in lines if len(cells) == 2 and cells[1].startswith(NAME)]
        found = []
        for id_ in ids:
            try:
                found.append(self.of(id_))
            except StewardError:  # its allocation ended just now
                continue
        return found

    def cancel(self, step: Step) -> changes.Command:
        """Return the command that ends a step; its allocation goes on."""
        if step.job.ended:
            problem = f"it is {life_of(step.job)[0].value}: it is over"
            raise StewardError(problem, where=f"job {step.job.id}")
        return changes.cancel(step.job.id)

    # -- before --------------------------------------------------------------------------------

    def _allocation(self, draft: StepDraft) -> ListedJob:
        """Return the job to run inside of; raise with the reason if nothing can run there."""
        found = self._queue.of(draft.allocation)
        job = found[0]
        where = f"job {draft.allocation}"
        if "_" in job.id:
            hint = "name a job that is no array"
            raise StewardError("it is a part of an array", where=where, hint=hint)
        if job.user != self._slurm.user:
            problem = (
                f"it belongs to {job.user}: Slurm lets nobody else run steps there, not even root"
            )
            raise StewardError(problem, where=where, hint="guarantees are lent by the pool instead")
        if job.state != "RUNNING":
            problem = f"it is {life_of(job)[0].value}, not running"
            raise StewardError(problem, where=where, hint="submit a job of its own")
        left_s = (job.end_s or float("inf")) - time.time()
        if left_s < LEAST_LEFT_S:
            problem = f"its time limit ends it in {max(0.0, left_s):.0f} s"
            raise StewardError(problem, where=where, hint="submit a job of its own")
        if draft.gpus > job.gpus:
            problem = f"it holds {job.gpus} GPUs, and {draft.gpus} are wanted"
            raise StewardError(problem, where=where, hint="ask for fewer, or submit a job")
        return job

    def _folder(self, job: ListedJob, token: str) -> Path:
        return Path(job.folder) / FOLDER.format(user=job.user) / f"inside-{token}"

    def _launch(self, draft: StepDraft, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, mode=0o700)
        except OSError as fault:
            problem = f"no folder for it can be made: {(fault.strerror or str(fault)).lower()}"
            hint = "it lies where the allocation was submitted, which nodes have to share"
            raise StewardError(problem, where=str(folder), hint=hint) from fault
        if not belongs_to(folder.parent, self._slurm.user):
            problem = f"it does not belong to {self._slurm.user}"
            hint = "remove it: somebody else could forge what is written there"
            raise StewardError(problem, where=str(folder.parent), hint=hint)
        command = self.command(draft, folder)
        path = self._slurm.programs.path(command[0])
        subprocess.run(  # noqa: S603 - a fixed script; what a person typed comes as arguments
            ["/bin/sh", "-c", _LAUNCH, "sh", str(folder), path, *command[1:]],
            env=self._slurm.programs.own_env,
            start_new_session=True,
            check=True,
        )

    def _failed(self, draft: StepDraft, folder: Path) -> StewardError:
        lines = _text(folder / "srun.log").splitlines()
        problem = re.sub(r"^srun: (error: )?", "", lines[0]) if lines else "srun failed"
        return StewardError(problem, where=f"job {draft.allocation}", hint=f"see {folder}/srun.log")

    # -- afterwards ----------------------------------------------------------------------------

    def _step(self, id_: str, job: ListedJob, folder: Path) -> Step:
        began_s = _changed_s(folder / "step")
        status = self._status(id_, folder)
        made = replace(
            job,
            id=id_,
            name=f"inside {job.id}",
            state=_state(status, folder) if status is not None else "RUNNING",
            reason="",
            submit_s=began_s,
            start_s=began_s,
            end_s=_changed_s(folder / "status") if status is not None else None,
            restarts=0,
            batch=False,
            requeue=False,
            exit_code=status if status is not None and status < 128 else 0,
            signal=status - 128 if status is not None and status > 128 else 0,
            dependency="",
            mark=JobMark(),
        )
        return Step(job=made, folder=folder)

    def _status(self, id_: str, folder: Path) -> int | None:
        """Return the exit status; None while it runs. Without its srun, accounting is asked."""
        status = _text(folder / "status")
        if status or self._is_listed(id_):
            return int(status) if status.isdecimal() else None
        status = _text(folder / "status")  # it may have ended between the two looks
        return int(status) if status.isdecimal() else self._accounted(id_)

    def _is_listed(self, id_: str) -> bool:
        how = ("--noheader", "--steps", f"--jobs={id_.partition('.')[0]}", "--format=%i")
        try:
            return id_ in self._slurm.change(("squeue", *how)).split()
        except PermanentError:  # the allocation is over and forgotten
            return False

    def _accounted(self, id_: str) -> int:
        """Return the exit status that accounting has; 137 where nobody has seen its end."""
        how = ("--noheader", "--parsable2", f"--jobs={id_}", "--format=JobID,ExitCode")
        try:
            lines = self._slurm.change(("sacct", *how)).split("\n")
        except PermanentError:
            lines = []
        cells = dict(line.partition("|")[::2] for line in lines)
        code, _, signal = cells.get(id_, "0:9").partition(":")
        return 128 + int(signal) if int(signal or 0) else int(code)


def _state(status: int, folder: Path) -> str:
    if (folder / "cancelled").exists():
        return "CANCELLED"
    return "COMPLETED" if status == 0 else "FAILED"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
