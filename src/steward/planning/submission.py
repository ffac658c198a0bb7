"""How `steward jobs submit` submits a choice of a plan, and reading that from a plan's JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from steward.errors import StewardError
from steward.model.planning.catalog import Catalog, Engine
from steward.model.planning.plan import Choice, PlanRequest
from steward.planning.scripts.job import job_limit_s, safe_name, time_text

__all__ = ["Submission", "read_plan", "read_submission", "submission_of", "submission_record"]

_MIB = 2**20
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Engine, `[sites.NAME]` of the configuration (empty: the main one), and options by name."""

    engine: str
    site: str
    options: Mapping[str, str]
    place: str = ""  # SITE/QUEUE
    planned_s: float = 0.0


def submission_of(choice: Choice, request: PlanRequest, catalog: Catalog) -> Submission:
    """Return how one command submits a choice, or raise why none does."""
    site = catalog.site(choice.site)
    queue = site.queue(choice.queue)
    place = f"{choice.site}/{choice.queue}"
    why = _why_not(choice, request, site.engine)
    if why:
        raise StewardError(f"it {why}", where=place, hint="`--scripts DIR` writes what does it")
    options = {
        "job-name": safe_name(request.name),
        "gpus": str(choice.way.gpus) if choice.way.gpus else "",
        "mem": f"{ceil(request.memory_bytes / _MIB)}M" if request.memory_bytes else "",
        "cpus-per-task": str(request.cores) if request.cores > 1 else "",
        "time": time_text(job_limit_s(choice, queue)),
    }
    if site.engine is not Engine.LOCAL:
        options["saves"] = str(max(1, ceil(request.save_s))) if request.saves else ""
        options["nodes"] = str(choice.nodes) if choice.nodes > 1 else ""
    if site.engine is Engine.SLURM:
        options["partition"] = queue.submit_as or queue.name
        options["ntasks"] = options["nodes"]
    return Submission(
        engine=site.engine.value,
        site=site.steward_site,
        options={name: value for name, value in options.items() if value},
        place=place,
        planned_s=request.now_s,
    )


def submission_record(choice: Choice, request: PlanRequest, catalog: Catalog) -> dict[str, Any]:
    """Return it as JSON keeps it; `why_not` where one command does not do."""
    try:
        found = submission_of(choice, request, catalog)
    except StewardError as fault:
        return {"why_not": fault.problem}
    return {"engine": found.engine, "site": found.site, "options": dict(found.options)}


def read_submission(file: Path, number: int) -> Submission:
    """Return a choice, counted from 1, of what `steward estimate plan --json` printed."""
    plan = read_plan(file)
    front = plan.get("front")
    if not isinstance(front, list) or "request" not in plan:
        raise StewardError("this is no plan", where=str(file), hint=_HINT)
    if not 1 <= number <= len(front):
        problem = f"there is no choice {number}"
        hint = f"it has 1 to {len(front)}" if front else "nothing in it is feasible"
        raise StewardError(problem, where=str(file), hint=hint)
    choice = front[number - 1]
    try:
        told = choice["submit"]
        place = f"{choice['site']}/{choice['queue']}"
        if "why_not" in told:
            hint = "choose another by --choice, or write scripts by `estimate plan --scripts DIR`"
            raise StewardError(
                f"choice {number}, {place}: {told['why_not']}", where=str(file), hint=hint
            )
        return Submission(
            engine=_text(told["engine"]),
            site=_text(told["site"]),
            options={_text(name): _text(value) for name, value in told["options"].items()},
            place=place,
            planned_s=float(plan["request"]["now_s"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        problem = f"choice {number} does not say how it is submitted"
        raise StewardError(problem, where=str(file), hint=_HINT) from fault


_HINT = "make one by `steward estimate plan … --json > FILE`"


def read_plan(file: Path) -> dict[str, Any]:
    """Return what `steward estimate plan --json` printed, as far as it is an object."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise StewardError("it is larger than 64 MiB", where=str(file), hint=_HINT)
        found = json.loads(file.read_bytes())
    except OSError as fault:
        problem = f"the plan cannot be read: {(fault.strerror or str(fault)).lower()}"
        raise StewardError(problem, where=str(file), hint=_HINT) from fault
    except (ValueError, RecursionError) as fault:
        raise StewardError("it is no JSON", where=str(file), hint=_HINT) from fault
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _why_not(choice: Choice, request: PlanRequest, engine: Engine) -> str:
    if engine is Engine.CLOUD:
        return "is rented, and nothing here rents instances"
    if choice.links > 1:
        return f"is a chain of {choice.links} jobs"
    if choice.start_s > request.now_s:
        return "starts later than now"
    if engine is Engine.LOCAL and choice.nodes > 1:
        return f"takes {choice.nodes} nodes, and this machine is one"
    return ""
