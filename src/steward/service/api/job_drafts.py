"""`/api/v1/jobs/draft`: what a filled-in form would submit, checked as a submission is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steward.clients.job_directives import exported, options_body, read_directives
from steward.config.local_jobs import LocalJobRunner
from steward.errors import StewardError
from steward.model.identity import TenantId
from steward.model.job import JobRequest
from steward.model.managed_job import JobSpec
from steward.service.api.job_bodies import JobBody, spec_of
from steward.service.api.job_rights import Asker
from steward.service.api.replies import failures
from steward.service.failures import RefusedError
from steward.service.job_outlook import JobOutlook

__all__ = ["DRAFTS", "draft_routes"]

DRAFTS = "/jobs/draft"
MOST_SCRIPT = 4 << 20
# A field of the form, and the option of a script that it stands for.
OPTIONS = {
    "name": "job-name",
    "gpus": "gpus",
    "slots": "slots",
    "cpus": "cpus-per-task",
    "memory": "mem",
    "time": "time",
    "array": "array",
    "dependency": "dependency",
    "priority": "priority",
    "folder": "chdir",
}
# Where faults of a submission are, as fields of the form.
FIELDS = {
    "argv": "command",
    "indices": "array",
    "memory_bytes": "memory",
    "time_limit_s": "time",
    "dependencies": "dependency",
    "deadline_s": "script",
}
SHELL = frozenset("|&;<>()")


class DraftBody(BaseModel):
    """A form as it was filled in: text as people write it, checked here and nowhere else."""

    model_config = ConfigDict(extra="forbid", strict=True)
    command: str = Field("", max_length=1 << 20, description="program and arguments")
    script: str = Field("", max_length=MOST_SCRIPT, description="a script, instead of a command")
    name: str = Field("", max_length=200)
    gpus: str = Field("", max_length=20)
    slots: str = Field("", max_length=20)
    cpus: str = Field("", max_length=20)
    memory: str = Field("", max_length=20, description="as 16G; a plain number is in MiB")
    time: str = Field("", max_length=40, description="as 2:00:00, 90 (minutes) or 90s")
    array: str = Field("", max_length=2000, description="as 0-9")
    dependency: str = Field("", max_length=2000, description="as afterok:12")
    priority: str = Field("", max_length=20)
    folder: str = Field("", max_length=4096)
    hold: bool = False
    requeue: bool = False


def draft_routes(runner: Callable[[], LocalJobRunner], outlook: JobOutlook) -> APIRouter:
    """Return the route that checks a form."""
    routes = APIRouter(tags=["jobs"])

    @routes.post(DRAFTS, responses=failures(403, 409))
    def draft(request: Request, body: DraftBody) -> dict[str, Any]:
        """Return what a form would submit, and what would run; submits nothing.

        `body` of the reply is the body of a submission, `expected` how long jobs like it ran.
        Errors name the field in `where`.
        """
        return _draft(runner(), Asker.of(request, runner()), body, outlook)

    return routes


def _draft(
    runner: LocalJobRunner, asker: Asker, form: DraftBody, outlook: JobOutlook
) -> dict[str, Any]:
    account = asker.account_for(runner)
    told, ignored = _read_script(form)
    given = {option: getattr(form, field).strip() for field, option in OPTIONS.items()}
    flags = {name: "" for name in ("hold", "requeue") if getattr(form, name)}
    options = {**told, **{key: text for key, text in given.items() if text}, **flags}
    body = {
        "argv": [] if form.script else _words(form.command),
        "script": form.script,
        "folder": options.get("chdir") or account.pw_dir,
        "environment": exported(options.get("export", ""), {}),
        **_options(options, given),
    }
    _check_folder(str(body["folder"]))
    wanted = _checked(body)
    try:
        priority = asker.priority_of(wanted.priority, wanted.deadline_s)
        spec = replace(spec_of(runner, account, wanted), priority=priority)
    except RefusedError as fault:
        where = FIELDS.get(fault.where, fault.where)
        raise RefusedError(fault.status, fault.problem, where=where, hint=fault.hint) from fault
    return {
        "body": wanted.model_dump(),
        "account": spec.user,
        "tenant": spec.tenant,
        "name": spec.name,
        "asks_for": spec.shape.gpus,
        "on_slots": not runner.devices.uuids or not wanted.gpus,
        "tasks": len(dict.fromkeys(wanted.indices)) or 1,
        "would_run": shlex.join(spec.argv) if spec.argv else "the script",
        "ignored": list(ignored),
        "expected": [asdict(each) for each in outlook.run_times(_request(spec))],
    }


def _request(spec: JobSpec) -> JobRequest:
    return JobRequest(
        shape=spec.shape,
        tenant=TenantId(spec.tenant),
        user=spec.user,
        name=spec.name,
        time_limit_s=spec.time_limit_s,
    )


def _read_script(form: DraftBody) -> tuple[dict[str, str], tuple[str, ...]]:
    if not form.script:
        return {}, ()
    if not form.script.startswith("#!"):
        raise RefusedError(
            422,
            "the script does not name its interpreter",
            where="script",
            hint="begin it with a line such as #!/bin/bash",
        )
    try:
        return read_directives(form.script, "script")
    except StewardError as fault:
        raise RefusedError(422, str(fault), where="script", hint=fault.hint) from fault


def _words(command: str) -> list[str]:
    """Return program and arguments; refuse what only a shell understands."""
    try:
        parts = list(shlex.shlex(command, posix=True, punctuation_chars=True))
        argv = shlex.split(command)
    except ValueError as fault:
        problem = f"the command cannot be read: {str(fault).lower()}"
        raise RefusedError(422, problem, where="command", hint="close quotes") from fault
    operators = [each for each in parts if each and set(each) <= SHELL]
    if operators:
        raise RefusedError(
            422,
            f"'{operators[0]}' is for a shell, and a command runs without one",
            where="command",
            hint="write a script instead, or put it in quotes",
        )
    if not argv:
        hint = "write a command such as: python3 train.py"
        raise RefusedError(422, "there is nothing to run", where="command", hint=hint)
    return argv


def _options(options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return options_body(options)
    except StewardError as fault:
        option = fault.where.removeprefix("--")
        fields = {name: field for field, name in OPTIONS.items() if given.get(name)}
        where = fields.get(option, "script")  # what is not from a field is from a script's line
        raise RefusedError(422, fault.problem, where=where, hint=fault.hint) from fault


def _check_folder(folder: str) -> None:
    if not folder.startswith("/"):
        raise RefusedError(
            422,
            f"'{folder}' is no absolute path",
            where="folder",
            hint="begin it with /, or leave it out: then it is the home folder",
        )


def _checked(body: Mapping[str, Any]) -> JobBody:
    try:
        return JobBody.model_validate(body)
    except ValidationError as fault:
        first = fault.errors()[0]
        name = str(first["loc"][0])
        raise RefusedError(
            422, f"{first['msg'].lower()}", where=FIELDS.get(name, name), hint="change this field"
        ) from fault
