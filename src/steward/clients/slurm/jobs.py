"""A job of Slurm, from `squeue --json` or from a line of sacct."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.sacct_row import ROW_FIELDS, row_from_line
from steward.clients.slurm.syntax import (
    Gres,
    gpu_count,
    gres,
    holder,
    hosts,
    mebibytes,
    number,
    tres,
    upper_names,
    wait_status,
    whole_number,
)

__all__ = [
    "ENDED",
    "SACCT_FIELDS",
    "WAITING",
    "SlurmJob",
    "exit_of",
    "job_from_json",
    "job_from_sacct",
]

MIB = 2**20
SACCT_FIELDS = (*ROW_FIELDS[:11], "TimelimitRaw", *ROW_FIELDS[11:])  # as in recorded lines

_DEPENDS = frozenset(
    {
        "Dependency",
        "DependencyNeverSatisfied",
        "JobArrayTaskLimit",
        "ReqNodeNotAvail",  # its nodes are reserved, drained or down
        "Reservation",
    }
)
_ROOM = frozenset({"", "Resources", "Priority"})  # reasons of those that room would help


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
    comment: str = ""  # accounting seldom has it
    reservation: str = ""  # that it was submitted for
    folder: str = ""  # that it works in; accounting is not asked for it

    @property
    def mark(self) -> JobMark:
        """What it and steward have noted in its comment."""
        return JobMark.read(self.comment)

    @property
    def is_kept_waiting(self) -> bool:
        """Whether it waits for a person, a job or nodes: for nothing that a decision changes.

        One that was submitted for a reservation is started by Slurm there, and nowhere else.
        """
        return bool(self.reservation) or self.reason in _DEPENDS or self.is_held_by_hand

    @property
    def could_start(self) -> bool:
        """Whether it waits for room alone, or for steward: Slurm would start it if it had some."""
        waits = not WAITING.isdisjoint(self.states)
        return (
            waits
            and not self.is_kept_waiting
            and (self.reason in _ROOM or bool(holder(self.reason)))
        )

    @property
    def is_held_by_hand(self) -> bool:
        """Whether a person keeps it waiting; one that is held for steward is not."""
        mark = self.mark
        held = mark.did is not None and mark.did.held
        for_steward = mark.hold or held or mark.lent is not None
        held_by = holder(self.reason)
        return held_by == "admin" or (bool(held_by) and not for_steward)


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
    code, signal = exit_of(raw.get("exit_code"))
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
        comment=_text(raw, "comment"),
        reservation=_text(raw, "resv_name"),
        folder=_text(raw, "current_working_directory"),
    )


def job_from_sacct(line: str, separator: str) -> SlurmJob | None:
    """Read one line of sacct's columns, in the order of `SACCT_FIELDS`."""
    row = row_from_line(line, SACCT_FIELDS, separator)
    if row is None:
        return None
    code, signal = row.exit
    cell = row.cell
    return SlurmJob(
        id=cell["JobIDRaw"],
        name=cell["JobName"],
        user=cell["User"],
        account=cell["Account"],
        partition=cell["Partition"],
        states=(row.state,),
        reason="",
        submit_s=row.submit_s,
        start_s=row.start_s,
        end_s=row.end_s,
        limit_s=_minutes(float(whole_number(cell["TimelimitRaw"])) or None),
        priority=row.priority,
        nodes=row.nodes,
        exclusive=False,
        cpus=row.cpus,
        memory_bytes=int(mebibytes(row.resources.get("mem", "")) * MIB),
        gpus=row.gpus,
        gpu_types=_typed(row.wanted),
        gres=(),
        exit_code=code,
        signal=signal,
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


def exit_of(value: object) -> tuple[int, int]:
    """Return exit code and signal; older versions give the status that wait(2) gave."""
    if isinstance(value, Mapping) and "return_code" in value:
        signal = value.get("signal")
        id_ = signal.get("id", signal.get("signal_id")) if isinstance(signal, Mapping) else None
        return int(number(value.get("return_code")) or 0), int(number(id_) or 0)
    return wait_status(int(number(value) or 0))


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
