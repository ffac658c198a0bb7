"""Jobs as text: a table that fits 80 columns, and one job with its whole life."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from steward.cli.words import gpu_hours, moment, span

__all__ = ["JOB_COLUMNS", "cost_rows", "job_lines", "job_rows", "why_lines"]

JOB_COLUMNS = ("id", "name", "user", "state", "since", "GPUs", "why")
KINDS = ("paid", "productive", "lost", "unsaved", "lent", "borrowed")
MOST_AHEAD = 10

WIDTH = 80
BETWEEN = 2
WIDTHS = (12, 8, 9, 8, 8)  # name, user, state, since, GPUs; an id is never cut, `why` has the rest
LEAST_WHY = 8


def job_rows(jobs: Sequence[dict[str, Any]], now_s: float) -> list[tuple[str, ...]]:
    """Return id, name, user, state, since, GPUs (what it asks for in brackets) and why."""
    id_width = max((len(each["id"]) for each in jobs), default=0)
    rest = WIDTH - id_width - sum(WIDTHS) - BETWEEN * (len(WIDTHS) + 1)
    widths = (id_width, *WIDTHS, max(rest, LEAST_WHY))
    return [tuple(map(_cut, _cells(each, now_s), widths)) for each in jobs]


def _cells(job: dict[str, Any], now_s: float) -> tuple[str, ...]:
    nodes = job.get("nodes") or ()  # Slurm's list names nodes, not GPUs
    gpus = _short_gpus(job["gpus"]) or (
        f"{job['asks_for']}@{_short_gpus(nodes)}" if nodes else f"({job['asks_for']})"
    )
    since = span(max(now_s - job["since_s"], 0.0))
    return (job["id"], job["name"], job["user"], job["state"], since, gpus, job["why"])


def _short_gpus(gpus: Sequence[str]) -> str:
    """Return GPUs without their node.

    >>> _short_gpus(["n1/gpu0", "n1/gpu1"]), _short_gpus(["n1/gpu0"]), _short_gpus([])
    ('gpu0+1', 'gpu0', '')
    """
    more = f"+{len(gpus) - 1}" if len(gpus) > 1 else ""
    return gpus[0].rpartition("/")[2] + more if gpus else ""


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def job_lines(found: dict[str, Any]) -> list[str]:
    """Return all that is known of a job, or of an array and its tasks."""
    if "tasks" in found:
        tasks = [f"  {each['id']}: {each['state']} ({each['why']})" for each in found["tasks"]]
        return [f"array {found['id']}: {found['state']}", *tasks]
    code, spec = found["exit_code"], found["spec"]
    return [
        f"job {found['id']} ({found['name']}) of {found['user']}: {found['state']}",
        *([f"  command: {shlex.join(found['command'])}"] if spec else []),
        *([f"  folder: {spec['folder']}"] if spec else []),
        f"  GPUs: {', '.join(found['gpus']) or 'none now'}, asks for {found['asks_for']}",
        *([f"  log: {found['log']}"] if spec else []),
        *_power_lines(found["power"]),
        *([f"  exit status: {code}"] if code is not None else []),
        *([f"  fault: {found['fault']['problem']}"] if found["fault"] else []),
        *(f"  {moment(each['t_s'])} {each['state']}: {each['why']}" for each in found["events"]),
        *(f"  note on attempt {x['attempt']}: {x['why']}" for x in found.get("notes", ())),
        *(f"  checkpoint at step {x['step']}: {x['path']}" for x in found["checkpoints"]),
        *([f"  on loan: {found['giving_back']['text']}"] if found.get("giving_back") else []),
        *(line for each in found.get("loans", ()) for line in _loan_lines(each)),
    ]


def _loan_lines(loan: dict[str, Any]) -> list[str]:
    """Return who had whose GPUs, how, and what became of the promise."""
    gpus, other = ", ".join(loan["gpus"]), loan["other"]
    side = f"lent {gpus} to job" if loan["role"] == "owner" else f"borrowed {gpus} of job"
    took = "" if loan["took_s"] is None else f", given back after {loan['took_s']:.1f} s"
    end = f" until {moment(loan['until_s'])}" if loan["until_s"] is not None else ""
    when, how = f"{moment(loan['since_s'])}{end}", f"{loan['way']}, {loan['phase']}"
    return [
        f"  {when} {side} {other} ({how}), promised {loan['promised_s']:.1f} s{took}",
        *(f"    {moment(each['t_s'])} {each['text']}" for each in loan["notes"]),
    ]


def _power_lines(power: dict[str, Any] | None) -> list[str]:
    """Return what is known of the power of a job whose owner allows a slowdown."""
    if power is None:
        return []
    allowed = f"  power: {100 * power['max_slowdown_share']:.3g} % slower is allowed"
    caps = {f"{x['watts']:.0f} W ({x['before_watts']:.0f} before)" for x in power["caps"]}
    return [
        f"{allowed}, {'capped at ' + ', '.join(sorted(caps)) if caps else 'no cap now'}",
        *([f"    refused: {power['refused']}"] if power["refused"] else []),
        *(
            f"    {x['limit_watts']:.0f} W: {x['steps_per_s']:.4g} steps/s, {x['gpu_watts']:.0f} W "
            f"drawn, {x['joules_per_step']:.4g} J/step, {x['slowdown_share']:.1%} slower"
            for x in reversed(power["curve"])
        ),
        *([f"    saved: {power['saved_joules'] / 3.6e6:.4g} kWh"] if power["saved_joules"] else []),
    ]


def why_lines(found: dict[str, Any]) -> list[str]:
    """Return why a job does not run, the short answer first."""
    ahead = [f"    {_who(each)}" for each in found["ahead"][:MOST_AHEAD]]
    more = len(found["ahead"]) - MOST_AHEAD
    return [
        f"job {found['id']}: {found['summary']}",
        *(f"  {each}" for each in found["limits"]),
        *(["  held by:"] if found["holders"] else []),
        *(f"    {_who(each)}" for each in found["holders"]),
        *(["  starts before it:"] if ahead else []),
        *ahead,
        *([f"    and {more} more"] if more > 0 else []),
        *_eta_lines(found["eta"], found["now_s"]),
        *(["  would start it now, each by itself:"] if found["changes"] else []),
        *(f"    {each['text']}" for each in found["changes"]),
    ]


def _who(job: dict[str, Any]) -> str:
    limit = "" if job["time_limit_s"] is None else f", at most {span(job['time_limit_s'])}"
    return f"{job['id']} ({job['name']}) of {job['user']}, {job['gpus']} GPUs{limit}"


def _eta_lines(eta: dict[str, Any] | None, now_s: float) -> list[str]:
    if eta is None:
        return []
    low_s, mid_s, high_s = (eta[each] for each in ("low_s", "mid_s", "high_s"))
    if eta["beyond"]:
        return [f"  starts: not before {moment(mid_s)}, so much is ahead of it"]
    if mid_s is None:
        unknown = ", ".join(eta["unknown"][:MOST_AHEAD])
        why = f"nobody knows when {unknown} end" if unknown else "never, as things are"
        return [f"  starts: {why}"]
    latest = "no latest time is known" if high_s is None else f"latest {moment(high_s)}"
    likely = span(max(mid_s - now_s, 0.0))
    return [f"  starts: likely in {likely}, earliest {moment(low_s)}, {latest}"]


def cost_rows(found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return what jobs cost in GPU-hours, and the sum if there are several."""
    rows = [(each["id"], each["name"], each["user"], *_hours(each)) for each in found["jobs"]]
    total = ("all", "", "", *_hours(found["total"]))
    return [*rows, total] if len(rows) > 1 else rows


def _hours(cost: dict[str, float]) -> tuple[str, ...]:
    return tuple(gpu_hours(cost[f"{kind}_gpu_s"]) for kind in KINDS)
