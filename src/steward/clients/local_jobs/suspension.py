"""Moves what an unmodified process has on its GPU to host memory, and back: the driver does it.

One GPU, one process on it, enough host memory, and a driver of 2025 or newer; all else is refused
with the reason before anything is touched. What only the driver can see (managed memory, memory
shared with other processes) it refuses itself; the process then goes on as it was.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steward.clients.local_jobs import cuda_driver
from steward.clients.local_jobs.engine import LocalEngine
from steward.clients.local_jobs.usage import AttemptUsage, waits_in
from steward.errors import PermanentError
from steward.model.identity import GpuId, JobId
from steward.model.managed_job import Attempt, ManagedJob

__all__ = ["SuspendAnswer", "Suspension"]

LIBRARY = "libcuda.so.1"
LOCK_WITHIN_S = 20.0
ANSWER_S = 10.0
RESERVE_BYTES = 2 << 30  # of host memory that stays free
SPARE = 1.1  # host memory for each byte on the GPU
Do = Literal["suspend", "resume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendAnswer:
    """What came of it. `state` is the driver's word on the process afterwards."""

    ok: bool
    seconds: float = 0.0
    state: str = ""
    why: str = ""


def available_bytes() -> int:
    """Return how much host memory can still be had."""
    with Path("/proc/meminfo").open(encoding="ascii") as file:
        found = dict(line.split(":", 1) for line in file)
    return int(found["MemAvailable"].split()[0]) * 1024


@dataclass
class Suspension:
    """Suspends processes of attempts of one engine.

    `memory` returns the processes on a GPU with what each has there in bytes; an empty mapping
    where the driver does not list processes.
    """

    engine: LocalEngine
    memory: Callable[[GpuId], Mapping[int, int]]
    library: str = LIBRARY
    host_bytes: Callable[[], int] = available_bytes
    usage: AttemptUsage = field(init=False)
    _probe: SuspendAnswer | None = None
    _going: dict[JobId, tuple[Do, subprocess.Popen[bytes]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.usage = AttemptUsage(self.engine)

    # -- before ----------------------------------------------------------------------------------

    def refusal(self, job: ManagedJob) -> str:
        """Return why a job cannot be suspended, or an empty text."""
        attempt = job.attempt
        if attempt is None or not job.state.runs:
            return f"it is {job.state.value}, not running"
        if reason := self._spec_refusal(job, attempt) or self.probe().why:
            return reason
        found = self.processes(job.id, attempt)
        if len(found) != 1:
            return f"{len(found)} of its processes are on its GPU; one can be suspended"
        return self._memory_refusal(job.id, attempt, next(iter(found.values())))

    def _spec_refusal(self, job: ManagedJob, attempt: Attempt) -> str:
        if job.spec.time_limit_s is not None:
            return "its time limit would run on while it stands still"
        if any(gpu not in self.engine.uuids for gpu in attempt.gpus):
            return "it has CPU slots, nothing that a driver could move"
        if len(attempt.gpus) != 1:
            return f"it has {len(attempt.gpus)} GPUs; the driver suspends processes with one"
        return ""

    def _memory_refusal(self, job: JobId, attempt: Attempt, size: int) -> str:
        need, free = int(size * SPARE), self.host_bytes() - RESERVE_BYTES
        if need > free:
            return f"{_gib(need)} of host memory are needed and {_gib(max(free, 0))} can be had"
        room = self.usage.memory_room(job, attempt.number)
        if room is not None and need > room:
            return f"{_gib(need)} of host memory are needed; its memory limit leaves {_gib(room)}"
        return ""

    def probe(self) -> SuspendAnswer:
        """Return whether this machine's driver can suspend anything; asked once."""
        if self._probe is None:
            self._probe = _answer(_finished(self._command("probe", 0)))
        return self._probe

    def processes(self, job: JobId, attempt: Attempt) -> dict[int, int]:
        """Return the processes of an attempt on its GPU, with their bytes there."""
        ours = self.usage.pids(job, attempt.number)
        listed = {pid: size for pid, size in self.memory(attempt.gpus[0]).items() if pid in ours}
        return listed or {pid: 0 for pid in ours if _has_cuda(pid)}

    # -- doing -----------------------------------------------------------------------------------

    def begin(self, do: Do, job: JobId, number: int, pid: int) -> None:
        """Begin to suspend or resume a process of an attempt; `poll` has what came of it.

        While something else goes on with the job, nothing is begun.
        """
        if job in self._going and self._going[job][1].poll() is None:
            return
        if pid not in self.usage.pids(job, number):
            raise PermanentError(f"process {pid} is not one of its own", where=f"job {job}")
        process = subprocess.Popen(  # noqa: S603 - our own file
            self._command(do, pid),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._drop(job)
        self._going[job] = (do, process)

    def poll(self, do: Do, job: JobId) -> SuspendAnswer | None:
        """Return what came of what was begun; None while it, or something else, goes on."""
        if self.going(job) != do:
            return None
        _, process = self._going[job]
        if process.poll() is None:
            return None
        output = process.stdout.read() if process.stdout is not None else b""
        self._drop(job)
        return _answer(output, process.returncode)

    def going(self, job: JobId) -> str:
        """Return what was begun and not answered for yet; empty if nothing was."""
        return self._going[job][0] if job in self._going else ""

    def close(self, *, within_s: float = 0.0) -> None:
        """Let go of what goes on; it ends by itself, and the next steward finds what came of it."""
        for job, (_, process) in tuple(self._going.items()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(within_s)
            self._drop(job)

    def _drop(self, job: JobId) -> None:
        _, process = self._going.pop(job, ("", None))
        if process is not None and process.stdout is not None:
            process.stdout.close()

    def state(self, pid: int) -> str:
        """Return the driver's word on a process now."""
        return _answer(_finished(self._command("state", pid))).state

    def activity(self, job: JobId, number: int, pid: int) -> tuple[float, str]:
        """Return the processor time of an attempt, and what its process on the GPU waits in."""
        return self.usage.cpu_seconds([(job, number)]).get(job, 0.0), waits_in(pid)

    def _command(self, do: str, pid: int) -> list[str]:
        here = cuda_driver.__file__
        return [sys.executable, "-I", "-S", here, do, str(pid), self.library, str(LOCK_WITHIN_S)]


def _has_cuda(pid: int) -> bool:
    with suppress(OSError):
        return b"libcuda.so" in Path(f"/proc/{pid}/maps").read_bytes()
    return False


def _finished(command: list[str]) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - our own file
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""  # which is no answer: a driver that hangs must not hold everything else up
    return done.stdout


def _answer(output: bytes, status: int = 0) -> SuspendAnswer:
    try:
        record: dict[str, Any] = json.loads(output)
    except ValueError:
        how = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
        return SuspendAnswer(ok=False, why=f"the call into the driver did not return ({how})")
    return SuspendAnswer(
        ok=bool(record["ok"]),
        seconds=float(record["seconds"]),
        state=str(record.get("state", "")),
        why=str(record.get("why", "")),
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
