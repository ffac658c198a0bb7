"""Accounting as slurmrestd gives it: ended jobs, accounts and QOS, in every shape since 22.05.

22.05 is recorded from a real one; later versions are read by their documentation, where numbers are
`{set, infinite, number}` and states lists. In 22.05, a job that exited with 3 has failed with the
status 0: its state is right, its exit status is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steward.clients.slurm.accounting import Accounting, SlurmAccount
from steward.clients.slurm.jobs import SlurmJob, exit_of
from steward.clients.slurm.syntax import gpu_count, hosts, mebibytes, number, upper_names

__all__ = ["account_from_json", "accounting_of", "past_job_from_json", "qos_from_json"]

UNLIMITED = 2.0**31  # minutes: what old versions write where there is no limit
MIB = 2**20


def past_job_from_json(raw: Mapping[str, Any]) -> SlurmJob | None:
    """Read one run of a job; None when it is none."""
    id_, states = number(raw.get("job_id")), upper_names(_of(raw, "state").get("current"))
    if id_ is None or not states:
        return None
    wanted, held = (_tres(_of(raw, "tres").get(name)) for name in ("requested", "allocated"))
    code, signal = exit_of(raw.get("exit_code"))
    times = _of(raw, "time")
    minutes = number(times.get("limit"))
    resources = held or wanted
    return SlurmJob(
        id=str(int(id_)),
        name=_text(raw.get("name")),
        user=_text(raw.get("user")),
        account=_text(raw.get("account")),
        partition=_text(raw.get("partition")),
        states=(states[0].partition(" ")[0], *states[1:]),
        reason="",
        submit_s=number(times.get("submission")) or 0.0,
        start_s=number(times.get("start")) or None,
        end_s=number(times.get("end")) or None,
        limit_s=None if not minutes or minutes >= UNLIMITED else minutes * 60.0,
        priority=int(number(raw.get("priority")) or 0),
        nodes=_nodes(_text(raw.get("nodes"))),
        exclusive=False,
        cpus=int(float(resources.get("cpu", "0"))),
        memory_bytes=int(mebibytes(f"{resources.get('mem', 0)}M") * MIB),
        gpus=gpu_count(held) or gpu_count(wanted),
        gpu_types=tuple(
            sorted(name.partition(":")[2] for name in wanted if name.startswith("gres/gpu:"))
        ),
        gres=(),
        exit_code=code,
        signal=signal,
        restarts=None,
        array=_array(_of(raw, "array")),
        cluster="",
    )


def account_from_json(raw: Mapping[str, Any]) -> SlurmAccount | None:
    """Read one association; None for those of users and partitions, and for what is none."""
    name = _text(raw.get("account"))
    if not name or raw.get("user") or raw.get("partition"):
        return None
    shares = number(raw.get("shares_raw"))
    names = [_text(_of(raw, "default").get("qos")), *map(_text, raw.get("qos") or ())]
    return SlurmAccount(
        name=name,
        cluster=_text(raw.get("cluster")),
        parent=_text(raw.get("parent_account")),
        shares=1 if shares is None or not 0 < shares < UNLIMITED else int(shares),
        gpu_limit=_gpu_limit(_of(_of(raw, "max"), "tres").get("total")),
        qos=tuple(dict.fromkeys(each for each in names if each)),
    )


def qos_from_json(raw: Mapping[str, Any]) -> tuple[str, int | None] | None:
    """Read one QOS with the GPUs that its jobs together may hold; None when it is none."""
    name = _text(raw.get("name"))
    limits = _of(_of(_of(raw, "limits"), "max"), "tres")
    return (name, _gpu_limit(limits.get("total"))) if name else None


def accounting_of(accounts: list[SlurmAccount], limits: list[tuple[str, int | None]]) -> Accounting:
    """Return the accounts, and the QOS that limit GPUs."""
    return Accounting(
        accounts=tuple(accounts),
        qos_gpu_limits=tuple((name, each) for name, each in limits if each is not None),
    )


def _gpu_limit(listed: object) -> int | None:
    found = _tres(listed)
    counted = any(name.partition(":")[0] == "gres/gpu" for name in found)
    return gpu_count(found) if counted else None


def _tres(listed: object) -> dict[str, str]:
    """Return resources as sacct writes them, `gres/gpu:a100` for a GPU of a type."""
    found = {}
    for each in listed if isinstance(listed, list) else ():
        count = number(each.get("count"))
        parts = [_text(each.get("type")), _text(each.get("name"))]
        if count is not None:
            found["/".join(part for part in parts if part)] = str(int(count))
    return found


def _array(raw: Mapping[str, Any]) -> str:
    master, task = number(raw.get("job_id")), number(raw.get("task_id"))
    if not master:
        return ""
    last = f"[{raw['task']}]" if raw.get("task") else "" if task is None else str(int(task))
    return f"{int(master)}_{last}"


def _nodes(text: str) -> tuple[str, ...]:
    return () if " " in text else hosts(text)  # `None assigned`


def _of(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
