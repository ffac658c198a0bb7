"""A batch script for Slurm, and what submits it as a chain or for a later start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from math import ceil

from steward.errors import StewardError
from steward.planning.scripts.job import (
    PlannedJob,
    Script,
    comment_lines,
    file_name,
    safe_name,
    time_text,
)

__all__ = ["slurm_scripts"]

_MIB = 2**20
_LEAST_WARNING_S = 60


def slurm_scripts(job: PlannedJob, place: int) -> tuple[Script, ...]:
    """Return the batch script; a chain, or a later start, has a second one that submits it."""
    batch = f"{file_name(job, place)}.sbatch"
    text = "\n".join([*_head(job), *_body(job)]) + "\n"
    if job.choice.links == 1 and not job.starts_later:
        return (Script(name=batch, text=text, start=f"sbatch {shlex.quote(batch)}"),)
    name = f"{file_name(job, place)}.submit.sh"
    submit = "\n".join(_submit(job, batch)) + "\n"
    return (
        Script(name=batch, text=text),
        Script(name=name, text=submit, start=f"bash {shlex.quote(name)}"),
    )


def _head(job: PlannedJob) -> Iterator[str]:
    choice, request, program = job.choice, job.request, job.program
    yield "#!/bin/bash"
    yield from comment_lines(job)
    options = {
        "job-name": safe_name(request.name),
        "partition": job.queue.submit_as or job.queue.name,
        "account": program.account,
        "nodes": str(choice.nodes),
        "ntasks-per-node": "1",
        "cpus-per-task": str(request.cores),
        "mem": f"{ceil(request.memory_bytes / _MIB)}M" if request.memory_bytes else "",
        "gpus-per-node": str(job.gpus_per_node) if choice.way.gpus else "",
        "time": time_text(job.limit_s),
        "chdir": program.folder,
        "signal": f"TERM@{_warning_s(job)}" if request.saves else "",
        "open-mode": "append" if request.saves else "",
    }
    for name, value in options.items():
        if value:
            yield f"#SBATCH --{name}={_word(value, name)}"
    if choice.interruptible:
        yield "#SBATCH --requeue"


def _body(job: PlannedJob) -> Iterator[str]:
    yield "set -euo pipefail"
    if job.choice.links == 1:
        yield f"srun {job.program.shell}"
        return
    done = f".{safe_name(job.request.name)}"
    yield "# One link of a chain: each goes on from the newest checkpoint; the last leaves a mark."
    yield f'done_file={shlex.quote(done)}."${{STEWARD_CHAIN:-$SLURM_JOB_ID}}".done'
    yield 'if [ -e "$done_file" ]; then exit 0; fi'
    yield f"srun {job.program.shell}"
    yield 'touch "$done_file"'


def _submit(job: PlannedJob, batch: str) -> Iterator[str]:
    yield "#!/bin/bash"
    yield "set -euo pipefail"
    yield 'cd "$(dirname "$0")"'
    begin = ""
    if job.starts_later:
        yield f"begin=$(date -d @{job.choice.start_s:.0f} +%Y-%m-%dT%H:%M:%S)  # as planned"
        begin = ' --begin="$begin"'
    if job.choice.links > 1:
        yield 'export STEWARD_CHAIN="$(date +%s)-$$"'
    yield f"id=$(sbatch --parsable{begin} {shlex.quote(batch)})"
    yield 'echo "submitted ${id%%;*}"'
    if job.choice.links > 1:
        yield f"for _ in $(seq 2 {job.choice.links}); do"
        after = '--dependency=afterany:"${id%%;*}"'
        yield f"  id=$(sbatch --parsable {after} {shlex.quote(batch)})"
        yield '  echo "submitted ${id%%;*}, which goes on where the one before ends"'
        yield "done"


def _warning_s(job: PlannedJob) -> int:
    """Return how long before its end a job is warned: enough to save twice."""
    return max(_LEAST_WARNING_S, ceil(2 * job.request.save_s))


def _word(value: str, name: str) -> str:
    """Return a value as sbatch reads it in a comment line: quoted where it has spaces."""
    if '"' in value or any(ord(each) < 32 for each in value):
        problem = f"{value!r} cannot be written in a batch script"
        hint = "leave out quotes and control characters"
        raise StewardError(problem, where=f"--{name}", hint=hint)
    return f'"{value}"' if any(each.isspace() for each in value) else value
