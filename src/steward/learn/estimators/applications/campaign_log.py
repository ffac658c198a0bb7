"""The record of a campaign: every run is written before it is submitted, and as it ends.

One folder per campaign with one file of JSON lines, synced after each. What a kill cuts off is the
last line, which counts as not written. One process at a time has the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

from steward.errors import StewardError
from steward.model.campaign import Campaign, Configuration, MeasuredRun
from steward.store.atomic import make_folder, sync_folder

__all__ = ["CampaignLog", "CampaignRun"]

_FILE = "runs.jsonl"
_LOCK = "lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRun:
    """One run of a campaign: planned, then submitted as a job, then measured."""

    number: int
    token: str  # of its submission: the same token is the same job
    configuration: Configuration
    full: bool
    expected_cost: float
    because: str
    job: str = ""
    measured: MeasuredRun | None = None

    @property
    def open(self) -> bool:
        return self.measured is None


class CampaignLog:
    """The runs of one campaign, read back from disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / _FILE
        self.runs: dict[int, CampaignRun] = {}
        self.id = ""
        self._digest = ""
        self.definition: Mapping[str, Any] = {}
        self._read()

    @property
    def begun(self) -> bool:
        return bool(self.id)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running the same campaign."""
        with self._faults():
            make_folder(self.folder)
            handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(handle)
            hint = "wait for it, or end it; its runs are not lost"
            problem = "another process runs this campaign"
            raise StewardError(problem, where=str(self.folder), hint=hint) from fault
        try:
            self._cut_torn_line()
            self._read()
            yield
        finally:
            os.close(handle)

    def begin(self, campaign: Campaign) -> None:
        """Note what the campaign is; refuse to mix runs of another definition with its own."""
        digest = _digest(campaign)
        if not self.begun:
            self._append(
                event="campaign",
                id=secrets.token_hex(4),
                digest=digest,
                definition={
                    "name": campaign.name,
                    "command": list(campaign.command),
                    "parameters": {
                        x.name: {"full": list(x.full), "small": list(x.small)}
                        for x in campaign.parameters
                    },
                    "work": list(campaign.work),
                    "resources": dict(campaign.options),
                },
            )
        elif digest != self._digest:
            problem = "its command or its parameters were changed since it began"
            hint = "undo that, or give the campaign another name: runs of both cannot be compared"
            raise StewardError(problem, where=str(self.folder), hint=hint)

    def plan(
        self, configuration: Configuration, *, full: bool, cost: float, why: str
    ) -> CampaignRun:
        """Note a run that is about to be submitted, durably."""
        number = max(self.runs, default=0) + 1
        self._append(
            event="planned",
            run=number,
            token=f"{self.definition['name']}-{self.id}-{number:05d}",
            configuration=dict(configuration),
            full=full,
            cost=cost,
            because=why,
        )
        return self.runs[number]

    def submitted(self, number: int, job: str) -> None:
        """Note the job of a run."""
        self._append(event="submitted", run=number, job=job)

    def ended(self, number: int, measured: MeasuredRun) -> None:
        """Note what was measured of a run."""
        self._append(
            event="ended",
            run=number,
            seconds=measured.seconds,
            finished=measured.finished,
            memory_bytes=measured.memory_bytes,
            gpu_memory_bytes=measured.gpu_memory_bytes,
            why=measured.why,
        )

    def measured(self) -> list[MeasuredRun]:
        """Return the runs that are over, in their order."""
        return [each.measured for each in self.runs.values() if each.measured is not None]

    # -- file ----------------------------------------------------------------------------------

    def _append(self, **event: Any) -> None:  # noqa: ANN401 - JSON
        line = json.dumps(event, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._faults():
            new = not self._file.exists()
            handle = os.open(
                self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                end = os.fstat(handle).st_size
                if os.write(handle, line) != len(line):
                    os.ftruncate(handle, end)
                    raise OSError(ENOSPC, os.strerror(ENOSPC))
                os.fsync(handle)
            finally:
                os.close(handle)
            if new:
                sync_folder(self.folder)
        self._fold(event)

    def _read(self) -> None:
        self.runs, self.id = {}, ""
        try:
            lines = self._file.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as fault:
            problem = f"it cannot be read: {fault.strerror or fault}"
            raise StewardError(
                problem, where=str(self._file), hint="give it back to you"
            ) from fault
        for number, line in enumerate(lines[:-1], 1):  # after the last line end there is a torn one
            try:
                self._fold(json.loads(line))
            except (ValueError, KeyError, TypeError) as fault:
                where = f"{self._file}:{number}"
                hint = "restore the file from a backup, or move the folder away to begin anew"
                problem = f"the record of the campaign is damaged: {type(fault).__name__}"
                raise StewardError(problem, where=where, hint=hint) from fault

    def _cut_torn_line(self) -> None:
        with self._faults():
            if not self._file.exists():
                return
            content = self._file.read_bytes()
            end = content.rfind(b"\n") + 1
            if end < len(content):
                os.truncate(self._file, end)

    def _fold(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "campaign":
            self.id, self._digest = str(event["id"]), str(event["digest"])
            self.definition = event["definition"]
            return
        number = int(event["run"])
        match event["event"]:
            case "planned":
                self.runs[number] = CampaignRun(
                    number=number,
                    token=str(event["token"]),
                    configuration=dict(event["configuration"]),
                    full=bool(event["full"]),
                    expected_cost=float(event["cost"]),
                    because=str(event["because"]),
                )
            case "submitted":
                self.runs[number] = replace(self.runs[number], job=str(event["job"]))
            case "ended":
                run = self.runs[number]
                measured = MeasuredRun(
                    configuration=run.configuration,
                    full=run.full,
                    seconds=float(event["seconds"]),
                    finished=bool(event["finished"]),
                    memory_bytes=event["memory_bytes"],
                    gpu_memory_bytes=event["gpu_memory_bytes"],
                    why=str(event["why"]),
                )
                self.runs[number] = replace(run, measured=measured)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as fault:
            problem = f"the campaign cannot be recorded: {fault.strerror or fault}"
            hint = "make room on this disk, and give the user that runs steward write access"
            raise StewardError(problem, where=str(self.folder), hint=hint) from fault


def _digest(campaign: Campaign) -> str:
    """Return what tells two campaigns apart: values may be added to one only under a new name."""
    parts = [
        list(campaign.command),
        [[x.name, list(x.full), list(x.small)] for x in campaign.parameters],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
