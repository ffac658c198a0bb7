"""A job of Slurm, from `squeue --json` or from a line of sacct."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.slurm.syntax import (
    Gres,
    gpu_count,
    gres,
    hosts,
    mebibytes,
    number,
    tres,
    upper_names,
)

__all__ = ["ENDED", "SACCT_FIELDS", "WAITING", "SlurmJob", "job_from_json", "job_from_sacct"]

MIB = 2**20
SACCT_FIELDS = (
    "JobIDRaw",
    "JobID",
    "JobName",
    "User",
    "Account",
    "Partition",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "TimelimitRaw",
    "NodeList",
    "AllocTRES",
    "ReqTRES",
    "Priority",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job, or one task of an array. `id` is the raw one, which cgroups and jobs see too."""

    id: str
    name: str
    user: str
    account: str
    partition: str
    states: tuple[str, ...]  # in upper case: a state and maybe flags, COMPLETED COMPLETING
    reason: str
    submit_s: float
    start_s: float | None  # of a job that waits, only a guess: left out
    end_s: float | None  # of a job that has ended
    limit_s: float | None
    priority: int
    nodes: tuple[str, ...]
    exclusive: bool
    cpus: int
    memory_bytes: int
    gpus: int
    gpu_types: tuple[str, ...]
    gres: tuple[tuple[Gres, ...], ...]  # of each node, while it runs
    exit_code: int
    signal: int
    restarts: int | None  # unknown to accounting
    array: str  # 6_0: a task; 6_[2-9]: tasks that wait
    cluster: str


WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)


def job_from_json(raw: Mapping[str, Any]) -> SlurmJob | None:
    """Read one entry of `jobs`; None when it is not one."""
    id_ = number(raw.get("job_id"))
    states = upper_names(raw.get("job_state"))
    if id_ is None or not states:
        return None
    wanted, held = tres(_text(raw, "tres_req_str")), tres(_text(raw, "tres_alloc_str"))
    waits = not WAITING.isdisjoint(states)
    ended = not ENDED.isdisjoint(states)
    code, signal = _exit(raw.get("exit_code"))
    return SlurmJob(
        id=str(int(id_)),
        name=_text(raw, "name"),
        user=_text(raw, "user_name") or str(raw.get("user_id", "")),
        account=_text(raw, "account"),
        partition=_text(raw, "partition"),
        states=states,
        reason=_reason(raw),
        submit_s=number(raw.get("submit_time")) or 0.0,
        start_s=None if waits else number(raw.get("start_time")) or None,
        end_s=number(raw.get("end_time")) or None if ended else None,
        limit_s=_minutes(number(raw.get("time_limit"))),
        priority=int(number(raw.get("priority")) or 0),
        nodes=hosts(_text(raw, "nodes")),
        exclusive="NONE" in upper_names(raw.get("shared"))
        or "TRUE" in upper_names(raw.get("exclusive")),
        cpus=int(float(held.get("cpu") or wanted.get("cpu") or number(raw.get("cpus")) or 0)),
        memory_bytes=int(mebibytes(held.get("mem") or wanted.get("mem") or "") * MIB),
        gpus=gpu_count(held) or gpu_count(wanted),
        gpu_types=_types(raw, wanted),
        gres=tuple(gres(str(each)) for each in raw.get("gres_detail") or ()),
        exit_code=code,
        signal=signal,
        restarts=int(number(raw.get("restart_cnt")) or 0),
        array=_array(raw),
        cluster=_text(raw, "cluster"),
    )


def job_from_sacct(line: str, separator: str) -> SlurmJob | None:
    """Read one line of sacct's columns, in the order of `SACCT_FIELDS`."""
    cells = line.split(separator)
    if len(cells) != len(SACCT_FIELDS) or not cells[0].isdigit():
        return None
    cell = dict(zip(SACCT_FIELDS, cells, strict=True))
    wanted, held = tres(cell["ReqTRES"]), tres(cell["AllocTRES"])
    code, _, signal = cell["ExitCode"].partition(":")
    resources = held or wanted
    return SlurmJob(
        id=cell["JobIDRaw"],
        name=cell["JobName"],
        user=cell["User"],
        account=cell["Account"],
        partition=cell["Partition"],
        states=(cell["State"].partition(" ")[0].upper(),),  # CANCELLED by 1000
        reason="",
        submit_s=_seconds(cell["Submit"]) or 0.0,
        start_s=_seconds(cell["Start"]),
        end_s=_seconds(cell["End"]),
        limit_s=_minutes(_seconds(cell["TimelimitRaw"])),
        priority=int(_seconds(cell["Priority"]) or 0),
        nodes=hosts(cell["NodeList"]),
        exclusive=False,
        cpus=int(_seconds(resources.get("cpu", "")) or 0),
        memory_bytes=int(mebibytes(resources.get("mem", "")) * MIB),
        gpus=gpu_count(held) or gpu_count(wanted),
        gpu_types=_typed(wanted),
        gres=(),
        exit_code=int(_seconds(code) or 0),
        signal=int(_seconds(signal) or 0),
        restarts=None,
        array=cell["JobID"] if "_" in cell["JobID"] else "",
        cluster="",
    )


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def _reason(raw: Mapping[str, Any]) -> str:
    reason = _text(raw, "state_reason")
    return "" if reason == "None" else reason


def _exit(value: object) -> tuple[int, int]:
    """Return exit code and signal; older versions give the status that wait(2) gave."""
    if isinstance(value, Mapping) and "return_code" in value:
        signal = value.get("signal")
        id_ = signal.get("id", signal.get("signal_id")) if isinstance(signal, Mapping) else None
        return int(number(value.get("return_code")) or 0), int(number(id_) or 0)
    status = int(number(value) or 0)
    if os.WIFSIGNALED(status):
        return 0, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0


def _types(raw: Mapping[str, Any], wanted: Mapping[str, str]) -> tuple[str, ...]:
    fields = (f"tres_per_{part}" for part in ("node", "job", "socket", "task"))
    named = {
        each.type for field in fields for each in gres(_text(raw, field)) if each.name == "gpu"
    }
    return tuple(sorted({*named, *_typed(wanted)} - {""}))


def _typed(wanted: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(n.partition(":")[2] for n in wanted if n.startswith("gres/gpu:")))


def _array(raw: Mapping[str, Any]) -> str:
    master, task = number(raw.get("array_job_id")), number(raw.get("array_task_id"))
    if not master:
        return ""
    waiting = _text(raw, "array_task_string")
    last = f"[{waiting}]" if waiting else "" if task is None else str(int(task))
    return f"{int(master)}_{last}"


def _minutes(value: float | None) -> float | None:
    return None if value is None else value * 60.0


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # Unknown, None, Partition_Limit
