"""Runs attempts of jobs on this machine, each behind a shim of its own.

Exactly once: `launch` makes the attempt durable before a process is started, and whoever creates
`claim.json` decides whether it ever runs. After a crash the claim says which it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from steward.clients.local_jobs import shim
from steward.clients.local_jobs.accounts import account_environment, groups_of
from steward.clients.local_jobs.confinement import Confinement, SystemdScopes
from steward.clients.local_jobs.exchange import (
    has_all_files,
    number_of,
    read_own,
    read_reply,
    text_of,
    write_for_job,
)
from steward.clients.local_jobs.living import LivingProcesses
from steward.clients.local_jobs.notes import Notes, dropped, fallbacks
from steward.errors import PermanentError, TemporaryError
from steward.model.identity import GpuId, JobId
from steward.model.job import Checkpointing
from steward.model.managed_job import JOB_ID, Attempt, AttemptLook, ManagedJob
from steward.training.protocol import (
    ANSWER,
    CAN_SAVE,
    DONE,
    FOLDER_VARIABLE,
    PROGRESS,
    REQUEST,
    SaveAnswer,
    SaveRequest,
)

__all__ = ["LocalEngine", "filled", "is_alive"]

TRAVERSABLE = 0o711
DRAFT = ".work."
JOB_VARIABLE = "STEWARD_JOB_ID"
MARK_VARIABLE = "STEWARD_ATTEMPT"  # finds processes whose shim is gone


@dataclass
class LocalEngine:
    """Attempts below `folder`. `uuids` has the device of each GPU; slots have none."""

    folder: Path
    grace_s: float = 30.0
    log_max_bytes: int = 1 << 30
    confinement: Confinement = field(default_factory=Confinement)
    uuids: Mapping[GpuId, str] = field(default_factory=dict)
    _shims: dict[int, Path] = field(default_factory=dict)  # our living children, their attempts
    _living: LivingProcesses = field(default_factory=LivingProcesses)  # shims, by their attempts

    # -- starting --------------------------------------------------------------------------------

    def launch(self, job: ManagedJob, attempt: Attempt) -> None:
        """Start an attempt that the store knows. Repeating it starts nothing more."""
        folder = self._write(job, attempt)
        group = self._group_name(job.id, attempt)
        command = self._shim_command(folder)
        command = self.confinement.started_by(group, job.spec.shape, command)
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        clean = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        try:
            pid = os.posix_spawn(command[0], command, clean, file_actions=null, setsid=True)
        except OSError as fault:
            problem = f"no process can be started: {(fault.strerror or str(fault)).lower()}"
            raise TemporaryError(problem, where=f"job {job.id}") from fault
        self._shims[pid] = folder

    def _write(self, job: ManagedJob, attempt: Attempt) -> Path:
        """Make an attempt durable before anything is started, and return its folder."""
        folder = self._attempt(job.id, attempt.number)
        try:
            _make_folder(folder)
            work = self._make_work(job)
            with suppress(FileNotFoundError, IsADirectoryError):
                (work / REQUEST).unlink()  # it was for the attempt before: this one must not stop
            record = self._launch_record(job, attempt, work)
            shim.write_record(str(folder / "launch.json"), record)
        except OSError as fault:
            problem = f"the attempt cannot be written: {(fault.strerror or str(fault)).lower()}"
            raise TemporaryError(problem, where=str(fault.filename or folder)) from fault
        return folder

    def _group_name(self, job: JobId, attempt: Attempt) -> str:
        """Return a name that no other attempt on this machine has.

        Several stewards may run here, each with a job 1: what ends one ends all in its group.
        """
        cause = f"{self.folder}:{attempt.decision}".encode()
        return f"job-{job}-{attempt.number}-{hashlib.blake2b(cause, digest_size=6).hexdigest()}"

    def _remove_group(self, folder: Path) -> None:
        group = (_record(folder / "launch.json") or {}).get("cgroup")
        if group:
            self.confinement.remove(Path(str(group)).name)

    def _shim_command(self, folder: Path) -> list[str]:
        return [sys.executable, "-I", "-S", shim.__file__, str(folder)]

    def _make_work(self, job: ManagedJob) -> Path:
        """Make the folder that the job's user owns, in one that the user cannot change."""
        work, spec = self.work_folder(job.id), job.spec
        for each in (self.folder, self._folder_of(job.id)):
            each.chmod(TRAVERSABLE)
        if not work.exists():
            for left in work.parent.glob(f"{DRAFT}*"):  # by a steward that was killed here
                shutil.rmtree(left)
            # A new one each time: one that was left may be the user's already, with links in it.
            draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=work.parent))
            if spec.script:
                (draft / "script").write_text(spec.script, encoding="utf-8")
                (draft / "script").chmod(0o700)
            if os.geteuid() == 0:
                for each in (*draft.iterdir(), draft):
                    os.chown(each, spec.uid, spec.gid)
            draft.replace(work)
            shim.sync_folder(str(work.parent))
        return work

    def _launch_record(self, job: ManagedJob, attempt: Attempt, work: Path) -> dict[str, Any]:
        spec = job.spec
        group = self.confinement.make(self._group_name(job.id, attempt), spec.shape)
        return {
            "token": f"{job.id}.{attempt.number}.{attempt.decision}",
            "argv": self.command(job),
            "folder": spec.folder,
            "environment": self.environment(job, attempt, work),
            "uid": spec.uid,
            "gid": spec.gid,
            "groups": groups_of(spec.uid, spec.gid),
            "umask": 0o022,
            "output": filled(spec.output, job) or str(work / "output.log"),
            "error": filled(spec.error, job),
            "log_max_bytes": self.log_max_bytes,
            "time_limit_s": spec.time_limit_s,
            "grace_s": self.grace_s,
            "warn_signal": spec.warn_signal,
            "warn_before_s": spec.warn_before_s,
            "cgroup": str(group) if group else "",
            "in_cgroup": isinstance(self.confinement, SystemdScopes),  # and so is its shim
        }

    def command(self, job: ManagedJob) -> list[str]:
        """Return what is executed."""
        script = [str(self.work_folder(job.id) / "script")] if job.spec.script else []
        return [*script, *job.spec.argv]

    def environment(self, job: ManagedJob, attempt: Attempt, work: Path) -> dict[str, str]:
        """Return the environment of an attempt: the submitted one, the user's, and ours."""
        spec = job.spec
        devices = [self.uuids[gpu] for gpu in attempt.gpus if gpu in self.uuids]
        slots = [gpu.rpartition("/")[2] for gpu in attempt.gpus if gpu not in self.uuids]
        ours = {
            JOB_VARIABLE: job.id,
            MARK_VARIABLE: f"{self.folder}:{job.id}.{attempt.number}",
            FOLDER_VARIABLE: str(work),
            "STEWARD_RESTART_COUNT": str(attempt.number - 1),
            "STEWARD_SLOTS": ",".join(slots),
            "CUDA_VISIBLE_DEVICES": ",".join(devices),
            "NVIDIA_VISIBLE_DEVICES": ",".join(devices) or "void",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
        if spec.index is not None:
            ours |= {"STEWARD_ARRAY_TASK_ID": str(spec.index), "STEWARD_ARRAY_JOB_ID": spec.array}
        return {**account_environment(spec.uid), **dict(spec.environment), **ours}

    # -- looking ---------------------------------------------------------------------------------

    def look(self, job: JobId, number: int) -> AttemptLook:
        """Return how an attempt stands, by its files and the kernel's word on its shim."""
        folder = self._attempt(job, number)
        if self._living.has(folder):
            return AttemptLook(phase="running", notes=self._fallbacks(job, number))
        self._reap()
        ended = _record(folder / "exit.json")
        if ended is None:
            claim = _record(folder / "claim.json")
            if claim is None:
                coming = folder in self._shims.values()  # of those that were there at `_reap`
                return AttemptLook(phase="unclaimed" if coming else "abandoned")
            if claim.get("result") == "revoked":
                return AttemptLook(phase="revoked")
            if is_alive(claim):
                self._living.add(folder, int(claim["pid"]), lambda: is_alive(claim))
                return AttemptLook(phase="running")
            ended = _record(folder / "exit.json")  # it may have ended since the first look
        if ended is None:
            return self._lost(job, number, _record(folder / "claim.json") or {})
        self._remove_group(folder)
        return AttemptLook(
            phase="ended",
            why="out of memory" if ended.get("out_of_memory") else str(ended.get("why") or ""),
            detail=text_of(ended.get("detail") or ""),  # a name that was not found may be long
            exit_code=ended.get("exit_code"),
            signal=ended.get("signal"),
            ended_s=ended.get("ended_s"),
            ran_s=ended.get("seconds"),
            cpu_s=ended.get("cpu_s"),
            peak_memory_bytes=ended.get("peak_memory_bytes"),
            notes=(*self._fallbacks(job, number), *dropped(ended)),
        )

    def _fallbacks(self, job: JobId, number: int) -> Notes:
        return fallbacks(self.work_folder(job)) if number > 1 else ()  # the first resumes nothing

    def _lost(self, job: JobId, number: int, claim: Mapping[str, Any]) -> AttemptLook:
        """End what a killed shim left behind, before anything else may use its GPUs."""
        rebooted = claim.get("boot") != shim.identity(os.getpid())["boot"]
        left = [] if rebooted else self._marked(job, number)
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if left:
            return AttemptLook(phase="running", why="its left-over processes are being ended")
        self._remove_group(self._attempt(job, number))
        why = "the machine was restarted" if rebooted else "its shim was killed"
        return AttemptLook(phase="lost", why=why)

    def _marked(self, job: JobId, number: int) -> list[int]:
        """Return the processes with an attempt's mark; others' processes may carry it in vain."""
        mark = f"{MARK_VARIABLE}={self.folder}:{job}.{number}".encode()
        uid = (_record(self._attempt(job, number) / "launch.json") or {}).get("uid")
        found = []
        for each in shim.all_pids():
            with suppress(OSError):
                place = Path(f"/proc/{each}")
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    found += [each] if place.stat().st_uid in (0, uid) else []
        return found

    def owns(self, pid: int) -> bool:
        """Return whether a process belongs to an attempt that runs here.

        It says which by its mark; that it is below that attempt's shim, the kernel says.
        """
        mark = f"{MARK_VARIABLE}={self.folder}:".encode()
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        for word in words:
            found = re.fullmatch(
                rf"({JOB_ID})\.([0-9]{{1,9}})", word.removeprefix(mark).decode("utf-8", "replace")
            )
            if word.startswith(mark) and found is not None:
                claim = _record(self._attempt(JobId(found[1]), int(found[3])) / "claim.json") or {}
                return is_alive(claim) and pid in shim.below(int(claim["pid"]))
        return False

    def revoke(self, job: JobId, number: int) -> bool:
        """Make sure that an unclaimed attempt never runs; False if it has been claimed."""
        folder = self._attempt(job, number)
        try:
            _make_folder(folder)
            if shim.claim(str(folder), {"result": "revoked"}):
                return True
        except OSError as fault:  # a full disk
            problem = f"the attempt cannot be revoked: {(fault.strerror or str(fault)).lower()}"
            raise TemporaryError(problem, where=str(fault.filename or folder)) from fault
        claim = _record(folder / "claim.json") or {}
        return claim.get("result") == "revoked"

    def _reap(self) -> None:
        for pid in tuple(self._shims):
            try:
                gone = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                gone = True
            if gone:
                del self._shims[pid]

    # -- stopping and saving ---------------------------------------------------------------------

    def stop(self, job: JobId, number: int, *, force: bool = False) -> None:
        """Send TERM, or with `force` KILL, to all processes of an attempt but its shim."""
        claim = _record(self._attempt(job, number) / "claim.json") or {}
        if claim.get("result") != "claimed" or not is_alive(claim):
            return
        for pid in shim.below(int(claim["pid"])) | {*self._marked(job, number)}:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
        with suppress(OSError):  # one that was stopped would never write down how the job ended
            os.kill(int(claim["pid"]), signal.SIGCONT)

    def ask_to_save(self, job: JobId, request: SaveRequest) -> None:
        """Publish a request to save in the job's folder."""
        try:
            write_for_job(self.work_folder(job) / REQUEST, asdict(request))
        except OSError as fault:
            problem = f"the request to save cannot be written: {(fault.strerror or '').lower()}"
            raise TemporaryError(problem, where=f"job {job}") from fault

    def answer(self, job: JobId) -> SaveAnswer | None:
        """Return the newest answer of a job to a request."""
        record = read_reply(self.work_folder(job) / ANSWER)
        result = record.get("result")
        if result not in ("saved", "failed", "cannot"):
            return None
        return SaveAnswer(
            id=text_of(record.get("id", "")),
            result=result,
            step=int(number_of(record.get("step"))),
            checkpoint=text_of(record.get("checkpoint", "")),
            bytes=int(number_of(record.get("bytes"))),
            seconds=float(number_of(record.get("seconds"))),
            why=text_of(record.get("why", "")),
        )

    def checkpointing(self, job: JobId) -> Checkpointing:
        """Return what a job reports about its saves."""
        record = read_reply(self.work_folder(job) / CAN_SAVE)
        save_s = float(number_of(record.get("seconds")))
        return Checkpointing(able=record.get("can") is True, save_s=save_s)

    def is_done(self, job: JobId) -> bool:
        """Return whether the job reports that its work is complete."""
        return bool(read_reply(self.work_folder(job) / DONE))

    def is_whole(self, job: JobId, checkpoint: str) -> bool:
        """Return whether a checkpoint in the job's folder has all files of its manifest."""
        return has_all_files(self.work_folder(job), checkpoint)

    def step_s(self, job: JobId) -> float:
        """Return how long a step takes, as the job reports; 0 if it does not."""
        rate = float(number_of(read_reply(self.work_folder(job) / PROGRESS).get("steps_per_s")))
        return 1.0 / rate if rate > 0 else 0.0

    # -- where things are ------------------------------------------------------------------------

    def work_folder(self, job: JobId) -> Path:
        """Return the folder that belongs to the job's user."""
        return self._folder_of(job) / "work"

    def log_of(self, job: ManagedJob) -> Path:
        """Return where the output of a job goes."""
        if not job.spec.output:
            return self.work_folder(job.id) / "output.log"
        return Path(job.spec.folder) / filled(job.spec.output, job)

    def read_log(self, job: JobId, offset: int, most_bytes: int) -> bytes:
        """Return a part of the log in the job's folder; nothing that its user put there instead."""
        path = self.work_folder(job) / "output.log"
        return read_own(path, offset=offset, most_bytes=most_bytes)

    def records(self, job: JobId, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the claim of an attempt, empty if its shim is gone, and its launch record."""
        folder = self._attempt(job, number)
        claim = _record(folder / "claim.json") or {}
        return claim if is_alive(claim) else {}, _record(folder / "launch.json") or {}

    def _attempt(self, job: JobId, number: int) -> Path:
        return self._folder_of(job) / f"attempt-{number}"

    def _folder_of(self, job: JobId) -> Path:
        """Return the folder of a job; its id must not lead anywhere else."""
        if re.fullmatch(JOB_ID, job) is None:
            hint = "an id is a number, or NUMBER_INDEX"
            raise PermanentError(f"{job!r} is no id of a job", where="jobs", hint=hint)
        return self.folder / job


def filled(path: str, job: ManagedJob) -> str:
    """Return the path of a log with what stands for the job in it, as sbatch writes it."""
    spec = job.spec
    index = "" if spec.index is None else str(spec.index)
    words = {
        "%": "%",
        "j": job.id,
        "A": spec.array or job.id,
        "a": index,
        "x": spec.name.replace("/", "_"),
        "u": spec.user,
    }
    return re.sub("%([%jAaxu])", lambda found: words[found[1]], path)


def is_alive(claim: Mapping[str, Any]) -> bool:
    """Return whether the process that claimed an attempt is still the same one."""
    try:
        now = shim.identity(int(claim["pid"]))
    except (OSError, ValueError, KeyError, IndexError):
        return False
    if any(now[key] != claim.get(key) for key in ("boot", "ticks")):
        return False
    with suppress(OSError):
        line = Path(f"/proc/{claim['pid']}/stat").read_bytes()
        return line.rpartition(b") ")[2][:1] not in (b"Z", b"X")
    return False


def _make_folder(folder: Path) -> None:
    for each in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)
        shim.sync_folder(str(each.parent))


def _record(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as fault:
        raise TemporaryError(f"cannot be read: {fault}", where=str(path)) from fault
    return record if isinstance(record, dict) else {}
