"""Runs Slurm's commands, each with a deadline, and reads what they print."""

from __future__ import annotations

import codecs
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeVar

from steward.clients.slurm.accounting import (
    ASSOCIATION_FIELDS,
    QOS_FIELDS,
    Accounting,
    read_accounting,
)
from steward.clients.slurm.jobs import SACCT_FIELDS, SlurmJob, job_from_json, job_from_sacct
from steward.clients.slurm.json_answer import read_list
from steward.clients.slurm.nodes import SlurmNode, node_from_json
from steward.clients.slurm.program import SlurmError, SlurmPrograms, fresh_separator
from steward.clients.slurm.reservations import SlurmReservation, reservation_from_line

__all__ = ["SlurmCommands"]

T = TypeVar("T")
_CHUNK = 2**20
_LENT_STEP = re.compile(r"steward-lent-(\d{1,18})")
_HINT = "look at `scontrol ping` and at slurmctld's log on the controller"


class SlurmCommands:
    """One cluster's commands. `folder` is where they are, `conf` its slurm.conf; empty: as usual.

    `refused` counts entries that were no jobs or nodes.
    """

    def __init__(self, *, folder: str = "", conf: str = "", timeout_s: float = 20.0) -> None:
        self.refused = 0
        self._programs = SlurmPrograms(folder=folder, conf=conf)
        self._timeout_s = timeout_s
        self._scontrol_has_json = True

    def found(self) -> bool:
        """Return whether the commands are installed."""
        return self._programs.find("squeue") is not None

    def has_accounting(self) -> bool:
        """Return whether the commands that read accounting are installed."""
        return all(self._programs.find(name) is not None for name in ("sacct", "sacctmgr"))

    def version(self) -> str:
        """Return Slurm's version, e.g. `slurm 22.05.8`, without a call to the controller."""
        return self._text_of(["squeue", "--version"]).strip()

    def answers(self) -> bool:
        """Return whether the controller answers."""
        try:
            return " is UP" in self._text_of(["scontrol", "ping"])
        except SlurmError:
            return False

    def jobs(self) -> list[SlurmJob]:
        """Return all jobs of the controller: waiting, running, and ended minutes ago."""
        return self._listed(["squeue", "--json", "--states=all"], "jobs", job_from_json)

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        if self._scontrol_has_json:
            try:
                return self._listed(
                    ["scontrol", "--json", "show", "nodes"], "nodes", node_from_json
                )
            except SlurmError as fault:
                if "option" not in fault.problem:
                    raise
                self._scontrol_has_json = False  # before 23.02
        return self._listed(["sinfo", "--json"], "nodes", node_from_json)

    def lent_steps(self) -> frozenset[tuple[str, str]]:
        """Return borrower and owner of each loan whose step runs (`loan_run.py` names steps)."""
        separator = fresh_separator()  # a name may hold any character
        how = ["squeue", "--noheader", "--steps", f"--format=%i{separator}%j{separator}"]
        cells = self._text_of(how).split(separator)
        pairs = zip(cells[::2], cells[1::2], strict=False)
        named = ((id_.strip().partition("."), _LENT_STEP.fullmatch(name)) for id_, name in pairs)
        return frozenset((name[1], job) for (job, _, step), name in named if name and step)

    def reservations(self) -> list[SlurmReservation]:
        """Return all reservations of whole nodes, also those to come."""
        lines = self._lines(["scontrol", "--oneliner", "show", "reservation"])
        found = [reservation_from_line(line) for line in lines]
        return [each for each in found if each is not None]

    def ended(
        self, *, past_s: float, up_to_s: float = 0.0, every_run: bool = False
    ) -> list[SlurmJob]:
        """Return what accounting has of jobs that ran between `past_s` and `up_to_s` seconds ago.

        `every_run`: also the runs before the last of jobs that were requeued.
        """
        since, until = (f"now-{max(1, int(each))}seconds" for each in (past_s + 1.0, up_to_s))
        separator = fresh_separator()
        how = ["-a", "-X", "-n", "-P", f"--delimiter={separator}", "-S", since]
        how += ["-E", until] if up_to_s >= 1.0 else []
        how += ["-D"] if every_run else []
        how += ["-o", ",".join(SACCT_FIELDS)]
        jobs = [_tried_line(line, separator) for line in self._lines(["sacct", *how])]
        self.refused += sum(job is None for job in jobs)
        return [job for job in jobs if job is not None]

    def accounting(self) -> Accounting:
        """Return the accounts with their shares and limits."""
        return read_accounting(
            self._managed("assoc", ASSOCIATION_FIELDS), self._managed("qos", QOS_FIELDS)
        )

    def _managed(self, what: str, columns: Sequence[str]) -> list[str]:
        shown = f"format={','.join(columns)}"
        return self._lines(["sacctmgr", "-n", "-P", "show", what, shown])

    # -- running -------------------------------------------------------------------------------

    def _listed(
        self, command: list[str], key: str, make: Callable[[dict[str, Any]], T | None]
    ) -> list[T]:
        output = self._output(command)
        made, refused = read_list(output, key, make, where=command[0], hint=_HINT)
        self.refused += refused
        return made

    def _text_of(self, command: list[str]) -> str:
        return "".join(self._output(command))

    def _lines(self, command: list[str]) -> list[str]:
        return [line for line in self._text_of(command).split("\n") if line]

    def _output(self, command: Sequence[str]) -> Iterator[str]:
        """Yield what a command prints, and raise if it fails or takes too long."""
        path = self._programs.path(command[0])
        deadline_s = time.monotonic() + self._timeout_s
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        with tempfile.TemporaryFile() as errors:
            program = subprocess.Popen(  # noqa: S603 - a fixed program, no shell
                [path, *command[1:]], stdout=subprocess.PIPE, stderr=errors, env=self._programs.env
            )
            try:
                assert program.stdout is not None  # noqa: S101 - it is a pipe
                for chunk in self._chunks(program.stdout.fileno(), command, deadline_s):
                    yield decode(chunk)
                code = program.wait(timeout=max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired as fault:
                raise self._late(command) from fault
            finally:
                _end(program)
            if code:
                raise SlurmError(_first_line(errors, code), where=command[0], hint=_HINT)

    def _chunks(self, pipe: int, command: Sequence[str], deadline_s: float) -> Iterator[bytes]:
        watched = select.poll()
        watched.register(pipe, select.POLLIN | select.POLLHUP)
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not watched.poll(left_s * 1000):
                raise self._late(command)
            chunk = os.read(pipe, _CHUNK)
            if not chunk:
                return
            yield chunk

    def _late(self, command: Sequence[str]) -> SlurmError:
        problem = f"no answer within {self._timeout_s:g} s"
        return SlurmError(problem, where=command[0], hint=f"{_HINT}, or raise timeout_s")


def _tried_line(line: str, separator: str) -> SlurmJob | None:
    """Make a job of a line of sacct; None of one that is nonsense."""
    try:
        return job_from_sacct(line, separator)
    except (ValueError, OverflowError):
        return None


def _first_line(errors: IO[bytes], code: int) -> str:
    errors.seek(0)
    lines = errors.read(2**16).decode("utf-8", "replace").strip().splitlines()
    message = re.sub(r"^\w+: (error|fatal): ", "", lines[0]) if lines else ""
    return message or f"it failed with {code}"


def _end(program: subprocess.Popen[bytes]) -> None:
    if program.poll() is None:
        program.kill()
        program.wait()
    if program.stdout is not None:
        program.stdout.close()
