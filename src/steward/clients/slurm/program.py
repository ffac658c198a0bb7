"""Where Slurm's programs are, and how one with a short answer is run."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steward.errors import PermanentError, StewardError

__all__ = [
    "SEPARATOR",
    "Answer",
    "SlurmError",
    "SlurmMissingError",
    "SlurmPrograms",
    "fresh_separator",
    "own_account",
    "rows_of",
    "squeue_form",
]


class SlurmError(StewardError):
    """Slurm did not answer, or not in a way that can be relied on."""


class SlurmMissingError(SlurmError, PermanentError):
    """Slurm's commands are not on this machine: no decision can be carried out from here."""


def fresh_separator() -> str:
    """Return what stands between columns of one answer, where arguments have to name it.

    Everybody may read those while a command runs; by then it is too late to write it anywhere.
    """
    return f"|{secrets.token_hex(8)}|"


def own_account() -> str:
    """Return the account that runs this process; empty if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


# After each column of squeue. Names and comments of jobs may hold any character, also new lines and
# 0x1f: who knew it could write whole rows about other people's jobs into their own comment. So it
# is never an argument of a command, which `ps` shows to everybody: squeue gets it by a variable.
SEPARATOR = fresh_separator()
_FORMS = ("SQUEUE_FORMAT", "SQUEUE_FORMAT2", "SINFO_FORMAT", "SACCT_FORMAT")  # a person's own
_NO_CLUSTER = "resolve_ctls_from_dns_srv"  # without a slurm.conf, the DNS is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program answered. `code` is None if it was killed at its deadline."""

    code: int | None
    out: str
    err: str


def squeue_form(widths: Mapping[str, int]) -> str:
    """Return `--Format` for columns of squeue, which pads them, and cuts what is longer."""
    return ",".join(f"{name}:{width}{SEPARATOR}" for name, width in widths.items())


def rows_of(text: str, columns: int) -> list[str]:
    r"""Return the rows of such an answer, each with all its columns.

    A row ends by their number and not with its line: names and comments may have several lines.

    >>> rows = rows_of("7#a\nb#\n8#c#".replace("#", SEPARATOR), 2)
    >>> [row.replace(SEPARATOR, "#") for row in rows]
    ['7#a\nb#', '8#c#']
    """
    cells = text.split(SEPARATOR)
    found = [cells[at : at + columns] for at in range(0, len(cells) - columns, columns)]
    first = [row[0].rpartition("\n")[2] for row in found]
    return [SEPARATOR.join((id_, *row[1:], "")) for id_, row in zip(first, found, strict=True)]


class SlurmPrograms:
    """Slurm's programs for one cluster: `folder` has them, `conf` is its slurm.conf, if given."""

    def __init__(self, *, folder: str = "", conf: str = "") -> None:
        self.folder = folder
        self.own_env = {**os.environ, **({"SLURM_CONF": conf} if conf else {})}
        kept = {name: v for name, v in self.own_env.items() if name not in _FORMS}
        # Seconds since 1970: local times are ambiguous when clocks are set back.
        self.env = {
            **kept,
            "SLURM_TIME_FORMAT": "%s",
            "SLURM_BITSTR_LEN": "0",  # else the indices of an array are cut
        }

    def find(self, program: str) -> str | None:
        """Return the path of a program, or None where it is not installed."""
        return shutil.which(program, path=self.folder or None)

    def path(self, program: str) -> str:
        """Return the path of a program."""
        path = self.find(program)
        if path is None:
            hint = "install Slurm's commands here, or name their folder: plugs.slurm.folder"
            raise SlurmMissingError(f"there is no {program} on this machine", hint=hint)
        return path

    def run(self, command: Sequence[str], *, timeout_s: float, form: str = "") -> Answer:
        """Run a program to its end, at the latest its deadline. `form`: the columns of squeue."""
        path = self.path(command[0])
        try:
            done = subprocess.run(  # noqa: S603 - a program of Slurm's, no shell
                [path, *command[1:]],
                # A job inherits the environment of its sbatch: nothing of ours belongs there.
                env=self.own_env
                if command[0] == "sbatch"
                else {**self.env, **({"SQUEUE_FORMAT2": form} if form else {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(code=None, out="", err=f"no answer within {timeout_s:g} s")
        err = _text(done.stderr)
        if done.returncode and _NO_CLUSTER in err:
            err = "Slurm's commands know of no cluster here: set SLURM_CONF or plugs.slurm.conf"
        return Answer(code=done.returncode, out=_text(done.stdout), err=err)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").strip("\n")  # not what separates columns
