"""Submits, shows and changes jobs of Slurm for the account that runs this process.

Slurm knows who types a command, and decides what they may. So no steward has to run for this: it is
Slurm's own commands, with what people forget added, and its answers in the words of every engine.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

from steward.clients.retrying import retried
from steward.clients.slurm import changes
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.submission import Submission, submit_once
from steward.clients.slurm_jobs import records
from steward.clients.slurm_jobs.change_plans import ChangePlan, plan_change
from steward.clients.slurm_jobs.exchange import files_of
from steward.clients.slurm_jobs.job_life import NEVER, exit_status
from steward.clients.slurm_jobs.job_log import SlurmLog
from steward.clients.slurm_jobs.listed_job import ListedJob
from steward.clients.slurm_jobs.loan_run import keep_run
from steward.clients.slurm_jobs.queue import JobQueue
from steward.clients.slurm_jobs.sbatch_options import Draft
from steward.clients.slurm_jobs.steps import StepDraft, Steps, is_step
from steward.errors import PermanentError, StewardError, TemporaryError

__all__ = ["SlurmJobs"]

SUBMIT_WITHIN_S = 120.0
REQUEUED_WITHIN_S = 120.0
POLL_S = 0.3
LOOKED_AT_WITHIN_S = 15.0  # after its release, by Slurm's scheduler
_IMPOSSIBLE = "node configuration is not available"
_TOO_MUCH = "ask for less, or another --partition: `sinfo -o '%P %D %c %m %G'` has what there is"
_DENIED = re.compile(r"denied|invalid user id", re.IGNORECASE)


class SlurmJobs:
    """One Slurm. `save_within_s`: how long a job that was asked to save may take to answer."""

    def __init__(self, slurm: SlurmControl, *, save_within_s: float = 300.0) -> None:
        self._slurm = slurm
        self._queue = JobQueue(slurm)
        self.steps = Steps(slurm, self._queue)
        self._save_within_s = save_within_s

    # -- looking -------------------------------------------------------------------------------

    def listed(self, *, ended: bool, limit: int) -> list[dict[str, Any]]:
        """Return the newest jobs."""
        inside = [step.job for step in self.steps.running()]
        found = [*inside, *self._queue.listed(ended=ended)]
        return [records.short_record(job) for job in found[:limit]]

    def show(self, id_: str) -> dict[str, Any]:
        """Return one job with its whole life, or an array with its tasks."""
        if is_step(id_):
            step = self.steps.of(id_)
            return records.long_record(step.job, (), gpus=(), log=str(step.log), command="")
        found = self._queue.of(id_)
        if len(found) > 1 or found[0].id != id_:
            return records.array_record(id_, found)
        job = found[0]
        log, command, gpus = self._queue.details(job)
        files = files_of(job)
        log = log or (files.logs[-1] if files is not None and files.logs else "")
        runs = self._queue.runs(job)
        return records.long_record(job, runs, gpus=gpus, log=log, command=command)

    def why(self, id_: str) -> dict[str, Any]:
        """Return why a job does not run."""
        job = self.steps.of(id_).job if is_step(id_) else self._one(id_, "a reason of its own")
        return records.why_record(job, time.time())

    def status(self, id_: str) -> int | None:
        """Return the exit status of a job, of an array the greatest; None until all is over."""
        jobs = [self.steps.of(id_).job] if is_step(id_) else self._queue.of(id_)
        codes = [exit_status(job) for job in jobs]
        return None if None in codes else max(code or 0 for code in codes)

    def log(self, id_: str) -> SlurmLog:
        """Return the log of a job; its files are read here."""
        return SlurmLog(lambda: self._log_files(id_))

    def _log_files(self, id_: str) -> tuple[ListedJob, list[str]]:
        """Return a job and where its output goes: as its shell noted at each run, and as now."""
        if is_step(id_):
            step = self.steps.of(id_)
            return step.job, [str(step.log)]
        job = self._one(id_, "a log")
        files = files_of(job)
        noted = files.logs if files is not None else []
        now = self._queue.details(job)[0]
        paths = list(dict.fromkeys([*noted, *([now] if now else [])]))
        if not paths:
            hint = "Slurm has forgotten the job; steward finds logs of jobs that it has submitted"
            raise StewardError("nobody knows where its output is", where=f"job {id_}", hint=hint)
        return job, paths

    # -- submitting ----------------------------------------------------------------------------

    def submit(self, draft: Draft) -> dict[str, Any]:
        """Submit exactly one job, though Slurm's controller hangs or is restarted meanwhile."""
        if draft.mark.inside_bytes is not None:
            keep_run(
                draft.folder,
                user=self._slurm.user,
                token=draft.token,
                text=draft.text,
                arguments=draft.arguments,
            )
        with tempfile.TemporaryDirectory(prefix="steward-submit-") as folder:
            (Path(folder) / draft.file).write_text(draft.text)
            what = draft.submission(Path(folder))
            doubt = self._doubt(what)
            try:
                id_ = retried(lambda: submit_once(self._slurm, what), SUBMIT_WITHIN_S)
            except TemporaryError as fault:
                hint = f"the job may exist: submit it again with --token {draft.token}"
                raise StewardError(fault.problem, where=fault.where, hint=hint) from fault
        if doubt and not draft.keep_held:
            self._refuse_impossible(id_, doubt)
        return {"id": id_, "token": draft.token, "state": "held" if draft.keep_held else "waiting"}

    def _doubt(self, what: Submission) -> str:
        """Return why no node could run it now, in Slurm's words; sbatch refuses nothing held."""
        try:
            self._slurm.change(what.trial)
        except PermanentError as fault:
            return fault.problem if _IMPOSSIBLE in fault.problem else ""
        except TemporaryError:
            pass  # the submission itself waits for the controller
        return ""

    def _refuse_impossible(self, id_: str, why: str) -> None:
        """Cancel a job that can never run. Where nodes are only drained or down, it waits."""
        end_s = time.monotonic() + LOOKED_AT_WITHIN_S
        while time.monotonic() < end_s:
            first = self._queue.of(id_)[0]
            if first.reason == NEVER:
                self._slurm.change(changes.cancel(id_))
                raise StewardError(why.removeprefix("allocation failure: "), hint=_TOO_MUCH)
            if not first.waits or first.reason not in ("", "None"):
                return
            time.sleep(POLL_S)

    def submit_inside(self, draft: StepDraft) -> dict[str, Any]:
        """Run a command inside an allocation of this account."""
        return {"id": self.steps.submit(draft), "token": draft.token, "state": "running"}

    # -- changing ------------------------------------------------------------------------------

    def commands(self, what: str, id_: str, body: dict[str, Any]) -> list[changes.Command]:
        """Return what a change would run, as a person would type it."""
        if is_step(id_):
            return [self._step_change(what, id_)]
        return [
            command for job in self._targets(what, id_) for command in self._plan(what, job, body)
        ]

    def change(self, what: str, id_: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Change a job, or each task of an array that can be, and return what became of them."""
        if is_step(id_):
            return [self._cancel_step(what, id_)]
        targets = self._targets(what, id_)
        plans = [(job, plan_change(what, job, body, time.time())) for job in targets]
        return [self._carry_out(job, plan) for job, plan in plans]

    def _step_change(self, what: str, id_: str) -> changes.Command:
        if what != "cancel":
            number = id_.partition(".")[0]
            problem = f"it runs inside job {number}: it can be cancelled, and nothing else"
            raise StewardError(problem, where=f"job {id_}", hint=f"change job {number} instead")
        return self.steps.cancel(self.steps.of(id_))

    def _cancel_step(self, what: str, id_: str) -> dict[str, Any]:
        command = self._step_change(what, id_)
        self._slurm.change(command)
        (self.steps.of(id_).folder / "cancelled").touch()
        return {"id": id_, "state": "cancelled", "why": "ended by Slurm: TERM, then KILL"}

    def _plan(self, what: str, job: ListedJob, body: dict[str, Any]) -> list[changes.Command]:
        plan = plan_change(what, job, body, time.time())
        ask = [changes.signal_batch(job.address, "USR2")] if plan.save else []
        return [*ask, *plan.commands]

    def _targets(self, what: str, id_: str) -> list[ListedJob]:
        """Return what is to be changed: of an array the tasks that are not over."""
        found = self._queue.of(id_)
        if what == "resume":
            retried(lambda: self._settled(id_), REQUEUED_WITHIN_S)
            found = self._queue.of(id_)
        still = [job for job in found if not job.ended]
        return still if len(found) > 1 and still else found[:1]

    def _settled(self, id_: str) -> None:
        """Raise while a job is on its way back into the queue."""
        if any(job.state == "COMPLETING" for job in self._queue.of(id_)):
            raise TemporaryError("its last run is ending", where=f"job {id_}")

    def _carry_out(self, job: ListedJob, plan: ChangePlan) -> dict[str, Any]:
        try:
            saved = self._save(job) if plan.save else ""
            for command in plan.commands:
                self._slurm.change(command)
        except PermanentError as fault:
            mine = job.user == self._slurm.user
            if not _DENIED.search(fault.problem) or (mine and not plan.needs):
                raise
            hint = plan.needs if mine else f"only {job.user} and operators of Slurm may change it"
            raise StewardError(fault.problem, where=f"job {job.id}", hint=hint) from fault
        why = "; ".join(each for each in (saved, plan.why) if each)
        return {"id": job.id, "state": plan.state, "why": why}

    def _save(self, job: ListedJob) -> str:
        """Ask a job to save, wait for its answer, and return that in words; raise if it failed.

        One whose files are not ours to read has the time that it said it needs.
        """
        files = files_of(job)
        before = files.answer.get("id") if files is not None else None
        self._slurm.change(changes.signal_batch(job.address, "USR2"))
        if files is None or files.able is None:
            time.sleep(job.mark.save_s or 0.0)
            return f"it had {job.mark.save_s or 0:.0f} s to save"
        end_s = time.monotonic() + self._save_within_s
        while (answer := files.answer).get("id") == before:
            if time.monotonic() > end_s:
                hint = f"look at its log: `steward jobs logs {job.id}`"
                problem = f"it did not save within {self._save_within_s:.0f} s, and goes on"
                raise StewardError(problem, where=f"job {job.id}", hint=hint)
            time.sleep(POLL_S)
        if answer.get("result") != "saved":
            problem = f"it could not save: {answer.get('why') or answer.get('result')}; it goes on"
            raise StewardError(problem, where=f"job {job.id}")
        return f"saved at step {answer.get('step')}"

    def _one(self, id_: str, what: str) -> ListedJob:
        found = self._queue.of(id_)
        if len(found) > 1 or found[0].id != id_:
            problem = f"it is an array, and each of its tasks has {what}"
            hint = f"name one of its tasks, as {found[0].id}"
            raise StewardError(problem, where=f"job {id_}", hint=hint)
        return found[0]
