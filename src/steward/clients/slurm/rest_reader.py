"""Reads jobs, nodes and reservations through slurmrestd, as `SlurmCommands` does by commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from steward.clients.slurm.accounting import Accounting
from steward.clients.slurm.commands import SlurmCommands
from steward.clients.slurm.jobs import SlurmJob, job_from_json
from steward.clients.slurm.json_answer import problem_in, read_list
from steward.clients.slurm.nodes import SlurmNode, node_from_json
from steward.clients.slurm.program import SlurmError
from steward.clients.slurm.reservations import SlurmReservation, reservation_from_json
from steward.clients.slurm.rest import RestServer, RestSettings
from steward.clients.slurm.rest_accounting import (
    account_from_json,
    accounting_of,
    past_job_from_json,
    qos_from_json,
)

__all__ = ["SlurmReader", "SlurmRest", "slurm_reader"]

T = TypeVar("T")
PAST = "slurmdb/jobs"
_ACCOUNTING_HINT = "slurmdbd.conf needs AuthAltTypes=auth/jwt, as slurm.conf does"
_HINT = "is slurmctld up (`scontrol ping` there), and does it accept the token?"


class SlurmRest:
    """One cluster behind a slurmrestd.

    Accounting is read by `sacct`, where this machine has it: slurmrestd of 22.05 has no exit
    statuses. Else slurmrestd reads it from slurmdbd.
    `refused` counts entries that were no jobs or nodes.
    """

    def __init__(self, server: RestServer, commands: SlurmCommands) -> None:
        self.refused = 0
        self._server = server
        self._commands = commands

    def found(self) -> bool:
        """Return whether there is something to ask: an address is."""
        return True

    def version(self) -> str:
        """Return Slurm's version and that of the API, e.g. `slurm 22.05.8 (v0.0.38)`."""
        api = self._server.api()
        meta = self._server.ask("GET", "slurm/ping").get("meta") or {}
        slurm = meta.get("slurm") or meta.get("Slurm") or {}
        served = self._commands.has_accounting() or api.has(PAST)
        accounting = "" if served else ", without accounting: it serves no slurmdbd"
        release = slurm.get("release", "of unknown version")
        return f"slurm {release} by slurmrestd {api.version} at {self._server.where}{accounting}"

    def answers(self) -> bool:
        """Return whether the controller answers."""
        try:
            return not problem_in(self._server.ask("GET", "slurm/ping"))
        except SlurmError:
            return False

    def jobs(self) -> list[SlurmJob]:
        """Return all jobs of the controller: waiting, running, and ended minutes ago."""
        return self._listed("jobs", job_from_json)

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        return self._listed("nodes", node_from_json)

    def lent_steps(self) -> frozenset[tuple[str, str]]:
        """Return none: GPUs of running jobs are lent by commands alone."""
        return frozenset()

    def reservations(self) -> list[SlurmReservation]:
        """Return all reservations of whole nodes, also those to come."""
        return self._read("reservations", reservation_from_json)[0]

    def ended(
        self, *, past_s: float, up_to_s: float = 0.0, every_run: bool = False
    ) -> list[SlurmJob]:
        """Return what accounting has, by `sacct` where this machine has it."""
        if self._commands.has_accounting():
            return self._commands.ended(past_s=past_s, up_to_s=up_to_s, every_run=every_run)
        past = {"start_time": max(1, int(past_s + 1.0)), "end_time": int(up_to_s)}
        query = {name: f"now-{each}seconds" for name, each in past.items() if each}
        api = self._server.api()
        skip = api.has(PAST, parameter="skip_steps")
        query |= {"skip_steps": "true"} if skip else {}
        query |= {"flags": "DUPLICATES"} if every_run and api.has(PAST, parameter="flags") else {}
        found, refused = self._accounted(PAST, "jobs", past_job_from_json, query=query)
        self.refused += refused
        if every_run:
            return found
        return list({job.id: job for job in sorted(found, key=lambda job: job.submit_s)}.values())

    def accounting(self) -> Accounting:
        """Return the accounts with their shares and limits, by `sacctmgr` where it is here."""
        if self._commands.has_accounting():
            return self._commands.accounting()
        accounts = self._accounted("slurmdb/associations", "associations", account_from_json)[0]
        key = "QOS" if self._server.api().version == "v0.0.38" else "qos"
        return accounting_of(accounts, self._accounted("slurmdb/qos", key, qos_from_json)[0])

    def _accounted(
        self,
        name: str,
        key: str,
        make: Callable[[dict[str, Any]], T | None],
        *,
        query: Mapping[str, str] | None = None,
    ) -> tuple[list[T], int]:
        """Return a list of slurmdbd's; none where it says that it has found nothing."""
        chunks = self._server.chunks(name, query=query)
        try:
            return read_list(chunks, key, make, where=self._server.where, hint=_ACCOUNTING_HINT)
        except SlurmError as fault:
            if "nothing found" in fault.problem.lower():
                return [], 0
            raise

    def _listed(self, key: str, make: Callable[[dict[str, Any]], T | None]) -> list[T]:
        made, refused = self._read(key, make)
        self.refused += refused
        return made

    def _read(self, key: str, make: Callable[[dict[str, Any]], T | None]) -> tuple[list[T], int]:
        chunks = self._server.chunks(f"slurm/{key}")
        return read_list(chunks, key, make, where=self._server.where, hint=_HINT)


SlurmReader = SlurmCommands | SlurmRest


def slurm_reader(rest: RestSettings, *, folder: str, conf: str, timeout_s: float) -> SlurmReader:
    """Return what reads a cluster: by slurmrestd if one is named, else by Slurm's commands."""
    commands = SlurmCommands(folder=folder, conf=conf, timeout_s=timeout_s)
    if not rest.address:
        return commands
    return SlurmRest(RestServer(rest, timeout_s=timeout_s), commands)
