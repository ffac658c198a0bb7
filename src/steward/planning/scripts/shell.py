"""A shell script for this machine, or for an instance that somebody rents."""

from __future__ import annotations

import shlex

from steward.model.planning.catalog import Engine
from steward.planning.scripts.job import PlannedJob, Script, comment_lines, file_name

__all__ = ["shell_script", "wait_lines"]


def shell_script(job: PlannedJob, place: int) -> tuple[Script, ...]:
    """Return the script; each node of several has to run it."""
    name = f"{file_name(job, place)}.sh"
    lines = ["#!/bin/bash", *comment_lines(job), *_where(job), "set -euo pipefail"]
    lines += wait_lines(job)
    if job.program.folder:
        lines.append(f"cd {shlex.quote(job.program.folder)}")
    lines.append(f"exec {job.program.shell}")
    return (Script(name=name, text="\n".join(lines) + "\n", start=f"bash {shlex.quote(name)}"),)


def wait_lines(job: PlannedJob) -> list[str]:
    """Return lines that wait for the start that was planned, if it is later than now."""
    if not job.starts_later:
        return []
    return [
        f"start={job.choice.start_s:.0f}  # seconds since 1970, as planned",
        "left=$((start - $(date +%s)))",
        'if [ "$left" -gt 0 ]; then sleep "$left"; fi',
    ]


def _where(job: PlannedJob) -> list[str]:
    if job.site.engine is not Engine.CLOUD:
        return []
    kind = "an interruptible instance" if job.queue.interruptible else "an instance"
    region = f" in {job.site.region}" if job.site.region else ""
    count = f"{job.choice.nodes} x " if job.choice.nodes > 1 else ""
    name = job.queue.submit_as or job.queue.name
    said = f"Runs on {count}{kind} of type {name}{region}; rent it before."
    return [f"# {' '.join(said.split())}"]
