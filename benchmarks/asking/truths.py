"""What must be in an answer, by the generator's own counting and not by the tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asking.site import DAY_S, NOW_S, TENANTS, World, figure

__all__ = ["TRUTHS", "Slots"]

Slots = Mapping[str, str]
Values = dict[str, float | str]


def _status(world: World, slots: Slots) -> Values:
    job = world.truth.running[slots["running_job"]]
    return {
        "user": job.user,
        "GPUs of the job": len(job.gpus),
        "time it has run": NOW_S - (job.start_s or 0),
    }


def _why(_world: World, slots: Slots) -> Values:
    return {"job": slots["waiting_job"]}


def _finish(world: World, slots: Slots) -> Values:
    return {"likely time left": world.truth.left_s[slots["running_job"]]}


def _nodes(world: World, slots: Slots) -> Values:
    job = world.truth.running[slots["running_job"]]
    return {
        "nodes of the job": len({gpu.partition("/")[0] for gpu in job.gpus}),
        "GPUs held or borrowed": len(job.gpus),
    }


def _user(world: World, slots: Slots) -> Values:
    mine = [j for j in world.truth.running.values() if j.user == slots["user"]]
    wait = [j for j in world.truth.waiting.values() if j.user == slots["user"]]
    return {
        "jobs that run": len(mine),
        "jobs that wait": len(wait),
        "GPUs in use": sum(len(j.gpus) for j in mine),
    }


def _queue(world: World, _slots: Slots) -> Values:
    waiting = world.truth.waiting.values()
    return {
        "jobs that wait": len(waiting),
        "GPUs they ask for": sum(j.shape.gpus for j in waiting),
        "longest wait": NOW_S - min(j.submit_s for j in waiting),
    }


def _longest(world: World, _slots: Slots) -> Values:
    first = min(world.truth.waiting.values(), key=lambda each: each.submit_s)
    return {"job that waits longest": first.id, "longest wait": NOW_S - first.submit_s}


def _use(world: World, _slots: Slots) -> Values:
    truth = world.truth
    return {
        "GPUs in all": 1000,
        "GPUs that are free": 1000 - len(truth.owner) - len(truth.failed),
        "GPUs that are failed": len(truth.failed),
    }


def _free(world: World, _slots: Slots) -> Values:
    truth = world.truth
    known = {f"n{i:03d}/gpu{g}" for i in range(1, 126) for g in range(8)}
    free = known - {*truth.owner} - {*truth.failed}
    return {"free GPUs": sum(gpu.partition("/")[0] not in truth.drained for gpu in free)}


def _gpu(world: World, slots: Slots) -> Values:
    return {"job": world.truth.owner[slots["gpu"]], "GPU": slots["gpu"]}


def _node(world: World, slots: Slots) -> Values:
    gpus = [f"{slots['node']}/gpu{g}" for g in range(8)]
    jobs = {world.truth.owner[gpu] for gpu in gpus if gpu in world.truth.owner}
    lent = {loan.borrower for loan in world.truth.loans for gpu in loan.gpus if gpu in gpus}
    return {"GPUs": 8, "jobs on it": len(jobs | lent)}


def _tenant(world: World, slots: Slots) -> Values:
    name = slots["tenant"]
    held = sum(len(j.gpus) for j in world.truth.running.values() if j.tenant == name)
    return {"GPUs held": held, "GPUs guaranteed": 100 + 20 * TENANTS.index(name)}


def _top(world: World, _slots: Slots) -> Values:
    held = {
        t: sum(len(j.gpus) for j in world.truth.running.values() if j.tenant == t) for t in TENANTS
    }
    most = min(TENANTS, key=lambda each: (-held[each], each))
    return {"tenant": most, "GPUs held": held[most]}


def _waiting(world: World, _slots: Slots) -> Values:
    return {"decisions that wait for approval": len(world.truth.pending)}


def _finding(world: World, slots: Slots) -> Values:
    found = next(each for each in world.truth.findings if each.id == slots["finding"])
    return {"about": found.subject, "rule": found.rule, "matches of its rule": 3}


def _decision(world: World, slots: Slots) -> Values:
    made = next(each for each in world.truth.decisions if each.id == slots["decision"])
    return {"policy": made.policy, "decided": made.t_s}


def _loans(world: World, _slots: Slots) -> Values:
    return {
        "loans": len(world.truth.loans),
        "GPUs that are lent": sum(len(x.gpus) for x in world.truth.loans),
    }


def _rule(_world: World, slots: Slots) -> Values:
    from asking.site import RULES  # noqa: PLC0415 - beside its use

    return {"matches": 100 - 7 * RULES.index(slots["rule"])}


def _saved(world: World, calls: list[dict[str, Any]]) -> Values:
    given = calls[0]["arguments"]
    from_s, to_s = given.get("from_s", 0.0), given.get("to_s", NOW_S)
    seconds = sum(value for t_s, value, _ in world.truth.saved if from_s <= t_s <= to_s)
    return {"saved": seconds / 3600}


def _noticed(world: World, calls: list[dict[str, Any]]) -> Values:
    given = calls[0]["arguments"]
    from_s, to_s = given.get("from_s", NOW_S - DAY_S), given.get("to_s", NOW_S)
    return {"findings": sum(from_s <= each.t_s <= to_s for each in world.truth.findings)}


def _decided(world: World, calls: list[dict[str, Any]]) -> Values:
    given = calls[0]["arguments"]
    if given.get("state") or given.get("action"):
        return {}
    from_s, to_s = given.get("from_s", NOW_S - DAY_S), given.get("to_s", NOW_S)
    return {"decisions": sum(from_s <= each.t_s <= to_s for each in world.truth.decisions)}


def _figure(_world: World, calls: list[dict[str, Any]]) -> Values:
    """Return what a figure is made of: the level of its hours, within the noise."""
    given = calls[0]["arguments"]
    if not given.get("entity") or given.get("stat") != "mean":
        return {}
    from_s, to_s = given.get("from_s", NOW_S - 3600), given.get("to_s", NOW_S)
    minutes = range(int(from_s // 300), int(to_s // 300))
    use = sum(figure(given["entity"], each // 12) for each in minutes) / max(1, len(minutes))
    scaled = {"use": use, "power": 55 + 345 * use, "temperature": 30 + 50 * use}
    word = {"use": "use", "power": "power", "temperature": "temperature"}[given["measure"]]
    return {f"~average {word}": scaled[given["measure"]]}


TRUTHS: Mapping[str, Callable[[World, Any], Values]] = {
    "job.status": _status,
    "job.why": _why,
    "job.finish": _finish,
    "job.nodes": _nodes,
    "user.jobs": _user,
    "queue.length": _queue,
    "queue.longest": _longest,
    "cluster.use": _use,
    "cluster.free": _free,
    "gpu.user": _gpu,
    "node.state": _node,
    "tenant.use": _tenant,
    "tenant.top": _top,
    "decisions.waiting": _waiting,
    "finding.explain": _finding,
    "decision.explain": _decision,
    "loans.list": _loans,
    "rule.explain": _rule,
}
BY_CALLS: Mapping[str, Callable[[World, list[dict[str, Any]]], Values]] = {
    "savings.total": _saved,
    "savings.split": _saved,
    "findings.list": _noticed,
    "decisions.list": _decided,
    "metric.value": _figure,
}
