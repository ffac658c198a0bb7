"""What is submitted over HTTP, checked, and the job that it describes."""

from __future__ import annotations

import pwd
import re
import signal
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from steward.clients.local_jobs.devices import SLOT_MODEL
from steward.config.local_jobs import LocalJobRunner
from steward.model.identity import JobId, TenantId
from steward.model.job import JobShape
from steward.model.managed_job import JOB_ID, Dependency, JobSpec
from steward.service.failures import RefusedError

__all__ = ["ID", "JobBody", "spec_of"]

ID = f"^{JOB_ID}$"
MOST_TASKS = 10_000
MOST_STORED_BYTES = 256 << 20  # of scripts and environments of all tasks of an array
WHENS = "^(after|afterany|afterok|afternotok)$"
SIGNALS = f"^({'|'.join(sorted(each.name for each in signal.Signals))})?$"
MOST_NAME = 200
MOST_SECONDS = 10**9  # thirty years; arithmetic with it stays exact
MOST_MEMORY_BYTES = 2**60
LAST_TIME_S = 10**11
# What a terminal would act on, what breaks a line, and what turns the direction of text around.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _passable(text: str) -> str:
    """Refuse what no process can be given, and no answer can carry."""
    if "\0" in text:
        raise ValueError("it has a NUL character in it, which no process can be given")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has half a character in it (a surrogate), not text") from None
    return text


def _variable(name: str) -> str:
    if not name or "=" in name:
        raise ValueError(f"{name!r} cannot be the name of a variable: it needs one, without `=`")
    return _passable(name)


def _one_line(name: str) -> str:
    """Refuse a name that would change how a list of jobs looks: everybody is shown it."""
    if CONTROL.search(name):
        raise ValueError("it has control characters in it; use letters, digits and signs")
    return name


Index = Annotated[int, Field(ge=0, le=10**9)]
Text = Annotated[str, AfterValidator(_passable)]
Variable = Annotated[str, AfterValidator(_variable)]
Name = Annotated[str, AfterValidator(_one_line)]
Seconds = Annotated[float, Field(le=MOST_SECONDS, allow_inf_nan=False)]


class DependencyBody(BaseModel):
    """Another job that this one waits for."""

    model_config = ConfigDict(extra="forbid", strict=True)
    job: str = Field(max_length=40, pattern=ID)
    when: str = Field("afterok", pattern=WHENS)


class JobBody(BaseModel):
    """What is to be run."""

    model_config = ConfigDict(extra="forbid", strict=True)
    argv: list[Text] = Field(default_factory=list, max_length=10_000)
    script: Text = Field("", description="the text of a script; `argv` then has its arguments")
    folder: Text = Field(max_length=4096, pattern="^/", description="where it runs")
    environment: dict[Variable, Text] = Field(default_factory=dict)
    name: Name = Field("", max_length=MOST_NAME)
    gpus: int = Field(0, ge=0, le=4096)
    min_gpus: int = Field(0, ge=0, le=4096, description="GPUs or slots it can go on with; 0: same")
    max_gpus: int = Field(0, ge=0, le=4096, description="as `min_gpus`, the most")
    slots: int = Field(0, ge=0, le=4096, description="CPU slots, for a job without GPUs")
    cpus: int = Field(0, ge=0, le=100_000)
    memory_bytes: int = Field(0, ge=0, le=MOST_MEMORY_BYTES)
    gpu_memory_bytes: int = Field(
        0,
        ge=0,
        le=MOST_MEMORY_BYTES,
        description="on each GPU; who says it may run beside an idle job",
    )
    priority: int = Field(0, ge=-1_000_000, le=1_000_000)
    deadline_s: float | None = Field(None, gt=0, le=LAST_TIME_S)
    time_limit_s: Seconds | None = Field(None, gt=0)
    requeue: bool = False
    hold: bool = False
    indices: list[Index] = Field(default_factory=list, max_length=MOST_TASKS)
    dependencies: list[DependencyBody] = Field(default_factory=list, max_length=1000)
    output: Text = Field("", max_length=4096)
    error: Text = Field("", max_length=4096)
    warn_signal: str = Field("", pattern=SIGNALS)
    warn_before_s: Seconds = Field(60.0, ge=0)
    max_slowdown_share: float = Field(
        0.0, ge=0, le=0.5, description="slowdown that the owner allows for saving energy"
    )
    token: Text = Field("", max_length=200, description="the same token is the same job")


def spec_of(runner: LocalJobRunner, account: pwd.struct_passwd, body: JobBody) -> JobSpec:
    """Return the job that an account submits."""
    if not body.argv and not body.script:
        raise RefusedError(422, "there is nothing to run", where="argv", hint="name a command")
    _check_size(body)
    name = account.pw_name
    return JobSpec(
        argv=tuple(body.argv),
        script=body.script,
        folder=body.folder,
        shape=_shape(runner, body),
        tenant=TenantId(runner.settings.jobs.tenants.get(name, name)),
        user=name,
        uid=account.pw_uid,
        gid=account.pw_gid,
        environment=tuple(sorted(body.environment.items())),
        name=body.name or _name_of(body.argv),
        priority=body.priority,
        deadline_s=body.deadline_s,
        time_limit_s=body.time_limit_s,
        requeue=body.requeue,
        dependencies=tuple(
            Dependency(job=JobId(each.job), when=each.when)  # type: ignore[arg-type]
            for each in body.dependencies
        ),
        hold=body.hold,
        output=body.output,
        error=body.error,
        warn_signal=body.warn_signal,
        warn_before_s=body.warn_before_s,
        max_slowdown_share=body.max_slowdown_share,
        token=body.token,
    )


def _name_of(argv: list[str]) -> str:
    """Return a name for a job that was given none; what it runs may be of any length."""
    program = argv[0].rpartition("/")[2] if argv else "script"
    return CONTROL.sub("?", program)[:MOST_NAME]


def _shape(runner: LocalJobRunner, body: JobBody) -> JobShape:
    """Return what a job asks for; refuse what this machine can never give."""
    devices = runner.devices
    on_slots = body.gpus == 0 or not devices.uuids
    need = max(body.gpus, body.slots, 1) if on_slots else body.gpus
    there = len(devices.slots) if on_slots else len(devices.uuids)
    if need > there:
        what = "CPU slots" if on_slots else "GPUs"
        hint = "set `jobs.slots`" if on_slots else "ask for fewer"
        raise RefusedError(
            422, f"it asks for {need} {what}, this machine has {there}", where="gpus", hint=hint
        )
    models = (SLOT_MODEL.name,) if on_slots else tuple(sorted({*devices.models.values()}))
    return JobShape(
        gpus=need,
        cpus=body.cpus,
        memory_bytes=body.memory_bytes,
        gpu_memory_bytes=0 if on_slots else body.gpu_memory_bytes,
        gpu_models=models,
        **_elastic(body, need, there),
    )


def _elastic(body: JobBody, need: int, there: int) -> dict[str, int]:
    """Return the range of GPUs that a job can take; refuse one that its own number is not in."""
    least, most = body.min_gpus or need, body.max_gpus or need
    if not least <= need <= most <= there:
        raise RefusedError(
            422,
            f"it asks for {need}, at least {least}, at most {most}; this machine has {there}",
            where="min_gpus" if least > need else "max_gpus",
            hint="--min-gpus <= --gpus (or --slots) <= --max-gpus <= what is there",
        )
    return {"min_gpus": body.min_gpus, "max_gpus": body.max_gpus}


def _check_size(body: JobBody) -> None:
    """Refuse an array whose tasks together would fill the store."""
    words = (body.script, *body.argv, *body.environment, *body.environment.values())
    size = sum(map(len, words)) * max(len(body.indices), 1)
    if size > MOST_STORED_BYTES:
        raise RefusedError(
            422,
            f"the tasks of the array have {size >> 20} MiB of script, arguments and environment",
            where="indices",
            hint=f"at most {MOST_STORED_BYTES >> 20} MiB: let the script read a file, or "
            "submit with --export=NONE",
        )
