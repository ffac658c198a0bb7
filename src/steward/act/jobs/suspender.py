"""What moves the memory of a process off its GPU and back, as lending uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from steward.model.identity import JobId
from steward.model.managed_job import Attempt, ManagedJob

__all__ = ["NoSuspender", "SuspendResult", "Suspender"]

Do = Literal["suspend", "resume"]


class SuspendResult(Protocol):
    """What came of suspending or resuming."""

    @property
    def ok(self) -> bool: ...

    @property
    def seconds(self) -> float: ...

    @property
    def state(self) -> str: ...

    @property
    def why(self) -> str: ...


class Suspender(Protocol):
    """Suspends and resumes one process at a time of a job. Repeating a call changes nothing."""

    def refusal(self, job: ManagedJob) -> str: ...

    def processes(self, job: JobId, attempt: Attempt) -> Mapping[int, int]: ...

    def begin(self, do: Do, job: JobId, number: int, pid: int) -> None: ...

    def poll(self, do: Do, job: JobId) -> SuspendResult | None: ...

    def going(self, job: JobId) -> str: ...

    def state(self, pid: int) -> str: ...

    def activity(self, job: JobId, number: int, pid: int) -> tuple[float, str]: ...


class NoSuspender:
    """Where nothing can be suspended."""

    def refusal(self, _: ManagedJob) -> str:
        return "nothing can suspend processes here"

    def processes(self, _: JobId, __: Attempt) -> Mapping[int, int]:
        return {}

    def begin(self, _: Do, __: JobId, ___: int, ____: int) -> None:
        """Begin nothing."""

    def poll(self, _: Do, __: JobId) -> SuspendResult | None:
        return None

    def going(self, _: JobId) -> str:
        return ""

    def state(self, _: int) -> str:
        return ""

    def activity(self, _: JobId, __: int, ___: int) -> tuple[float, str]:
        return 0.0, ""
