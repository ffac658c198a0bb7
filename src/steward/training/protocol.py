"""The files with which an engine and a job agree on checkpoints: names, formats, atomic writes.

The one module of this package that the rest of steward imports. `docs/jobs/checkpoints.md` has the
same in prose, for programs in other languages.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = [
    "ANSWER",
    "ANSWER_LINE",
    "CAN_SAVE",
    "CHECKPOINTS",
    "DONE",
    "EVERY_VARIABLE",
    "FOLDER_VARIABLE",
    "MANIFEST",
    "PROGRESS",
    "REQUEST",
    "REQUEST_VARIABLE",
    "SaveAnswer",
    "SaveRequest",
    "TrainingError",
    "read_json",
    "read_request",
    "write_json",
]

log = logging.getLogger(__name__)

FOLDER_VARIABLE = "STEWARD_JOB_FOLDER"
EVERY_VARIABLE = "STEWARD_SAVE_EVERY_S"  # seconds between saves: `steward health checkpoints`
REQUEST_VARIABLE = "STEWARD_REQUEST_FILE"  # a second place for requests, which a job only reads
ANSWER_LINE = "steward-answer: "  # where that is set, an answer is also printed, after this
REQUEST = "request.json"  # engine -> job
ANSWER = "answer.json"  # job -> engine, about the request of that id
PROGRESS = "progress.json"  # job -> engine, at most once a second
CAN_SAVE = "can_save.json"  # job -> engine: whether it can save, and what that costs
DONE = "done.json"  # job -> engine: the training ended by itself; an exit status alone is no proof
CHECKPOINTS = "checkpoints"
MANIFEST = "manifest.json"
ACTIONS = ("save", "save-and-stop")


class TrainingError(Exception):
    """A fault that a person can act on: what is wrong, where, and what to do."""

    def __init__(self, problem: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{text}\nhint: {self.hint}" if self.hint else text


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequest:
    """What an engine asks of a job. A newer request replaces an older one."""

    id: str
    do: Literal["save", "save-and-stop"]
    deadline_s: float | None = None  # Unix time; a request that is met later is not carried out
    reason: str = ""

    @property
    def stop(self) -> bool:
        """Return True if the job has to exit once the checkpoint is complete."""
        return self.do == "save-and-stop"

    def is_late(self) -> bool:
        """Return True if the deadline has passed."""
        return self.deadline_s is not None and time.time() > self.deadline_s

    def write(self, folder: Path) -> None:
        """Publish the request in a job's folder."""
        write_json(folder / REQUEST, asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveAnswer:
    """What became of a request. `id` is empty when a signal or the interval caused the save."""

    id: str
    result: Literal["saved", "failed", "cannot"]
    step: int
    checkpoint: str = ""  # path of the checkpoint, if saved
    bytes: int = 0
    blocked_s: float = 0.0  # how long the training stood still
    seconds: float = 0.0  # from the step boundary until the checkpoint was complete
    why: str = ""

    def write(self, folder: Path) -> None:
        """Publish the answer in a job's folder."""
        write_json(folder / ANSWER, asdict(self))

    def publish(self, folder: Path | None) -> None:
        """Write the answer into the folder, if there is one, and print it if that is wanted.

        A folder that cannot be written to, as on a full disk, does not end the training.
        """
        try:
            if folder is not None:
                self.write(folder)
        except OSError as fault:
            log.warning("%s: %s", folder, fault)
        if os.environ.get(REQUEST_VARIABLE) and self.id:
            text = json.dumps(asdict(self), allow_nan=False)
            os.write(2, f"{ANSWER_LINE}{text}\n".encode())  # in one piece, past any buffer


def read_request(path: Path) -> SaveRequest:
    """Return the request in `path`, or raise one error that names all its faults."""
    record = read_json(path)
    faults = []
    if not (isinstance(record.get("id"), str) and record["id"]):
        faults.append(f"`id` is {record.get('id')!r}, not a text")
    if record.get("do") not in ACTIONS:
        faults.append(f"`do` is {record.get('do')!r}, not one of {', '.join(ACTIONS)}")
    deadline_s = record.get("deadline_s")
    if deadline_s is not None and (
        isinstance(deadline_s, bool) or not isinstance(deadline_s, int | float)
    ):
        faults.append(f"`deadline_s` is {deadline_s!r}, not a Unix time")
    if faults:
        raise TrainingError("; ".join(faults), where=str(path), hint="see docs/jobs/checkpoints.md")
    return SaveRequest(
        id=record["id"],
        do=record["do"],
        deadline_s=deadline_s,
        reason=str(record.get("reason", "")),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in `path`."""
    try:
        record = json.loads(path.read_bytes())
    except OSError as fault:
        raise TrainingError(f"cannot be read: {fault.strerror}", where=str(path)) from fault
    except ValueError as fault:
        hint = "write to another name in the same folder, then rename"
        raise TrainingError(f"is no JSON: {fault}", where=str(path), hint=hint) from fault
    if not isinstance(record, dict):
        raise TrainingError("is no JSON object", where=str(path))
    return record


def write_json(path: Path, record: dict[str, Any], *, durable: bool = False) -> None:
    """Replace `path` by rename, so that a reader sees the old or the new content, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(record, file, allow_nan=False)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
