"""The batch script that Slurm gets for a script or a command: the user's own, with a shell around.

Slurm sends a warning to the batch shell alone, where it ends a script that has no trap; programs
below srun, torchrun or a container never see it. The shell around turns USR2 into the request file
of `docs/jobs/checkpoints.md`, which all of them see, and hands every other signal on.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib import resources

from steward.clients.slurm.job_mark import DEFAULT_SAVE_S
from steward.errors import StewardError

__all__ = [
    "FOLDER",
    "check_script",
    "has_own_trap",
    "header_of",
    "without_wait",
    "wrapped_command",
    "wrapped_script",
]

FOLDER = ".steward-{user}"  # where a job runs; several users may share that, and one has it first
_OWN_TRAP = re.compile(r"^[^#\n]*\btrap\b[^\n]*\bUSR2\b", re.MULTILINE)
_WAIT = re.compile(r"(?<=\s)(--wait|-W)(?=\s|$)")


def header_of(script: str) -> list[str]:
    """Return the comment lines before the first command, where sbatch looks for options."""
    found = []
    for line in script.splitlines()[1:]:
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if line.startswith("#"):
            found.append(line)
    return found


def has_own_trap(script: str) -> bool:
    """Return whether a script handles USR2 itself, as docs/slurm.md shows.

    >>> has_own_trap("trap 'kill -USR2 $pid' USR2"), has_own_trap("# trap USR2")
    (True, False)
    """
    return _OWN_TRAP.search(script) is not None


def check_script(script: str, where: str) -> None:
    """Refuse what the submission could not keep: a job of several parts, each with its options."""
    if any(re.match(r"#SBATCH\s+(hetjob|packjob)\b", line) for line in header_of(script)):
        problem = "a heterogeneous job cannot be submitted here"
        raise StewardError(problem, where=where, hint="submit it with sbatch")


def without_wait(script: str) -> str:
    """Return a script without `--wait`: sbatch would wait for a job that it submits held."""
    head = {line: _WAIT.sub("", line) for line in header_of(script) if line.startswith("#SBATCH")}
    return "\n".join(head.get(line, line) for line in script.split("\n"))


def wrapped_script(script: str, *, token: str, save_s: float = DEFAULT_SAVE_S) -> str:
    """Return a batch script that runs a user's script, with the options in its head."""
    first = script.splitlines()[0]
    program, _, argument = first.removeprefix("#!").strip().partition(" ")
    start = [program, *([argument.strip()] if argument.strip() else [])]
    head = header_of(without_wait(script))
    end = f"STEWARD_{token}"
    run = [
        f"keep_script <<'{end}'",
        script.removesuffix("\n"),
        end,
        f'run {shlex.join(start)} "$steward_script" "$@"',
    ]
    return _around(head, run, token=token, save_s=save_s)


def wrapped_command(argv: Sequence[str], *, token: str, save_s: float = DEFAULT_SAVE_S) -> str:
    """Return a batch script that runs a command."""
    return _around([], [f"run {shlex.join(argv)}"], token=token, save_s=save_s)


def _around(head: Sequence[str], run: Sequence[str], *, token: str, save_s: float) -> str:
    """Return the whole: our defaults, which lines of the script and the command line override."""
    text = resources.files(__package__).joinpath("batch_shell.sh").read_text()
    defaults = ["--requeue", "--open-mode=append", f"--signal=B:USR2@{max(1, round(save_s))}"]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {each}" for each in defaults),
        *head,
        f"steward_token={token} steward_save_s={max(1, round(save_s))}",
        text.rstrip("\n"),
        *run,
    ]
    return "\n".join(lines) + "\n"
