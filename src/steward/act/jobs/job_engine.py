"""What runs attempts of jobs: processes of this machine now, other engines later."""

from __future__ import annotations

from typing import Protocol

from steward.model.identity import JobId
from steward.model.job import Checkpointing
from steward.model.managed_job import Attempt, AttemptLook, ManagedJob
from steward.training.protocol import SaveAnswer, SaveRequest

__all__ = ["JobEngine"]


class JobEngine(Protocol):
    """What runs attempts. Repeating a call changes nothing more."""

    grace_s: float

    def launch(self, job: ManagedJob, attempt: Attempt) -> None: ...

    def look(self, job: JobId, number: int) -> AttemptLook: ...

    def revoke(self, job: JobId, number: int) -> bool: ...

    def stop(self, job: JobId, number: int, *, force: bool = False) -> None: ...

    def ask_to_save(self, job: JobId, request: SaveRequest) -> None: ...

    def answer(self, job: JobId) -> SaveAnswer | None: ...

    def checkpointing(self, job: JobId) -> Checkpointing: ...

    def is_done(self, job: JobId) -> bool: ...

    def is_whole(self, job: JobId, checkpoint: str) -> bool: ...

    def step_s(self, job: JobId) -> float: ...
