"""A Slurm that keeps jobs in memory: what is submitted, listed and cancelled through its client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from steward.clients.slurm.changes import Command
from steward.clients.slurm.control import SlurmControl
from steward.clients.slurm.job_mark import JobMark
from steward.clients.slurm.queue_entry import QueueEntry
from steward.errors import PermanentError, StewardError, TemporaryError

USER = "ann"


class SlurmDouble(SlurmControl):
    """`lose_next`: the next submission happens, and its answer is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, QueueEntry] = {}
        self.submitted: list[Command] = []
        self.cancelled: list[str] = []
        self.lose_next = False
        self.broken = ""

    @property
    def user(self) -> str:
        return USER

    def version(self) -> str:
        if self.broken:
            raise StewardError(self.broken, hint="install it")
        return "22.05.8"

    def jobs(self, ids: Iterable[str]) -> dict[str, QueueEntry]:
        return {id_: self.entries[id_] for id_ in ids if id_ in self.entries}

    def named(self, name: str) -> list[QueueEntry]:
        return [each for each in self.entries.values() if each.name == name]

    def accounted(self, name: str, *, past_s: float) -> list[str]:
        raise PermanentError("accounting storage is disabled")

    def change(self, command: Command) -> str:
        if command[0] == "sbatch":
            self._submit(command)
        elif command[0] == "scancel":
            self.cancelled.append(command[-1])
        elif command[:2] == ("scontrol", "release"):
            self._put(command[2], reason="Resources", priority=1)
        return ""

    def run(self, id_: str) -> None:
        self._put(id_, state="RUNNING", reason="None", nodes=("n1",))

    def end(self, id_: str, state: str) -> None:
        """End a job; without a state, forget it."""
        if state:
            self._put(id_, state=state)
        else:
            del self.entries[id_]

    def _submit(self, command: Command) -> None:
        self.submitted.append(command)
        given = dict(
            each.split("=", 1) for each in command if each.startswith("--") and "=" in each
        )
        id_ = str(100 + len(self.entries))
        self.entries[id_] = QueueEntry(
            id=id_,
            address=id_,
            state="PENDING",
            reason="JobHeldUser",
            user=USER,
            partition="p",
            submit_s=1000,
            restarts=0,
            batch=True,
            requeue=True,
            nice=0,
            priority=0,
            nodes=(),
            name=given["--job-name"],
            mark=JobMark.read(given["--comment"]),
        )
        if self.lose_next:
            self.lose_next = False
            raise TemporaryError("the answer of sbatch was lost")

    def _put(self, id_: str, **values: Any) -> None:
        self.entries[id_] = replace(self.entries[id_], **values)
