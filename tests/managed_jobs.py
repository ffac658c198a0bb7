"""The smallest jobs that steward can run, for tests."""

from __future__ import annotations

import os
import pwd
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from steward.model.identity import DecisionId, GpuId, JobId, TenantId
from steward.model.job import JobShape
from steward.model.managed_job import Attempt, JobSpec, LifeEvent, LifeState, ManagedJob

SLOT = "cpu-slot"


def spec(*argv: str, **given: Any) -> JobSpec:
    made = JobSpec(
        argv=argv or ("true",),
        folder="/tmp",
        shape=JobShape(gpus=1, gpu_models=(SLOT,)),
        tenant=TenantId("lab"),
        user=pwd.getpwuid(os.getuid()).pw_name,
        uid=os.getuid(),
        gid=os.getgid(),
        environment=(("PATH", os.environ["PATH"]),),
    )
    return replace(made, **given)


def python(code: str, **given: Any) -> JobSpec:
    return spec(sys.executable, "-c", code, **given)


def managed(made: JobSpec, id_: str = "1") -> ManagedJob:
    event = LifeEvent(t_s=1.0, state=LifeState.SUBMITTED, why="test")
    return ManagedJob(id=JobId(id_), spec=made, events=(event,))


def attempt(number: int = 1, gpus: tuple[str, ...] = ("n1/cpu0",)) -> Attempt:
    ids = tuple(GpuId(each) for each in gpus)
    return Attempt(number=number, decision=DecisionId(f"d-{number}"), gpus=ids, began_s=1.0)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
