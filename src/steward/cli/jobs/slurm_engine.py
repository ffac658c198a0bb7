"""Jobs of a Slurm, through its own commands as the user who types. No steward has to run."""

from __future__ import annotations

import os
import secrets
import shlex
from pathlib import Path
from typing import Any

from steward.cli.jobs.asking import NUMBERED
from steward.cli.jobs.catalog_hints import limit_note
from steward.cli.jobs.cluster_engine import ClusterEngine
from steward.cli.jobs.engines import SubmitRequest, Submitted, refuse_images
from steward.cli.jobs.submission import read_script
from steward.cli.options import read_settings
from steward.clients.job_directives import sbatch_directives
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm_jobs.engine import SlurmJobs
from steward.clients.slurm_jobs.sbatch_options import draft_of
from steward.clients.slurm_jobs.steps import STEP_ID, step_draft
from steward.errors import StewardError

__all__ = ["SlurmEngine"]

IDLE = "idle"  # for --inside: whichever job of the same user leaves its GPUs idle


class SlurmEngine(ClusterEngine):
    """The Slurm that `[plugs.slurm]` names, or that of this machine."""

    job_id = rf"{NUMBERED[0]}|{STEP_ID}", f"{NUMBERED[1]}, of a step inside a job NUMBER.STEP"

    def __init__(self, config: Path | None, data: Path | None) -> None:
        settings = self._settings = read_settings(config, data)
        options = settings.plugs.get("slurm", {})
        slurm = SlurmControl(
            folder=str(options.get("folder", "")), conf=str(options.get("conf", ""))
        )
        self._jobs = SlurmJobs(slurm, save_within_s=settings.jobs.save_within_s)
        hint = "`sacct --format=JobID,ElapsedRaw,AllocTRES` has the time that was paid for"
        problem = "what jobs cost is not kept for Slurm"
        super().__init__(self._jobs, no_cost=StewardError(problem, where="cost", hint=hint))

    def submit(self, request: SubmitRequest, *, dry_run: bool) -> Submitted:
        refuse_images(request, "slurm")
        given = {"token": secrets.token_hex(8), **request.given}
        idle = request.inside == IDLE
        if request.inside and not idle:
            return self._submit_inside(request, given, dry_run=dry_run)
        script = "" if request.as_command else read_script(Path(request.command[0]))
        draft = draft_of(
            request.command,
            given,
            script=script,
            more=request.sbatch,
            as_is=request.as_is,
            inside=idle,
        )
        directives = sbatch_directives(script, request.command[0]) if script else {}
        note = limit_note({**directives, **request.given}, self._settings)
        if dry_run:
            command = draft.submission(Path()).command
            record = {"command": list(command), "script": draft.text, "wrapped": draft.wrapped}
            lines = [shlex.join(command), *draft.text.splitlines()]
            return Submitted(record=record, lines=lines, wait=draft.wait, note=note)
        return Submitted(record=self._jobs.submit(draft), wait=draft.wait, note=note)

    def _submit_inside(
        self, request: SubmitRequest, given: dict[str, str], *, dry_run: bool
    ) -> Submitted:
        if request.sbatch or request.as_is:
            problem = "--sbatch and --as-is are for jobs of their own"
            raise StewardError(problem, where="--inside", hint="leave them out")
        first, *rest = request.command
        command = request.command if request.as_command else (_program(first), *rest)
        draft = step_draft(request.inside, command, given)
        if dry_run:
            planned = self._jobs.steps.planned(draft)
            return Submitted(record={"command": list(planned)}, lines=[shlex.join(planned)])
        return Submitted(record=self._jobs.submit_inside(draft))

    def planned_change(
        self, job: str, what: str, body: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        commands = self._jobs.commands(what, job, body)
        return {"commands": [list(each) for each in commands]}, [shlex.join(x) for x in commands]


def _program(script: str) -> str:
    """Return a script as a program: it has to be executable, as it says itself what runs it."""
    path = Path(script).expanduser().absolute()
    read_script(path)
    if not os.access(path, os.X_OK):
        raise StewardError("it is not executable", where=script, hint=f"chmod +x {script}")
    return str(path)
