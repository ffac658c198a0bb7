"""Suspends and resumes one CUDA process: `python -I -S cuda_driver.py DO PID LIBRARY TIMEOUT_S`.

Standard library only, run as a program of its own: libcuda stays out of steward's process, a fault
in it costs one answer, and what was begun is finished although steward is killed. Prints one JSON
object. `DO` is `probe`, `state`, `suspend` or `resume`; each goes on from the state of the process,
so repeating one changes nothing more.

The calls are those of the driver's checkpoint API (CUDA 12.8, driver 570 and newer).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OLDEST = 12080  # of cuDriverGetVersion
RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)
STATES = ("running", "locked", "suspended", "failed")
MEANING = {
    1: "the driver does not take this process",
    3: "the driver is not initialised",
    100: "there is no GPU",
    304: "the operating system refused a call of the driver",
    401: "the process is not in the state for it",
    600: "it was not over in time",
    800: "this user may not do it",
    801: "not supported: it uses managed memory (UVM), or shares memory with processes (IPC)",
}


class LockArguments(ctypes.Structure):
    """CUcheckpointLockArgs: 64 bytes."""

    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved0", ctypes.c_uint),
        ("reserved1", ctypes.c_uint64 * 7),
    )


class DriverRefusalError(Exception):
    """The driver cannot do it."""

    def __init__(self, why: str, code: int = 0) -> None:
        super().__init__(why)
        self.code = code


class CheckpointDriver:
    """The checkpoint calls of one libcuda."""

    def __init__(self, library: str) -> None:
        try:
            self._cuda = ctypes.CDLL(library)
        except OSError as fault:
            raise DriverRefusalError(f"there is no CUDA driver library: {fault}") from fault
        version = ctypes.c_int(0)
        self._cuda.cuDriverGetVersion(ctypes.byref(version))
        self.version = version.value
        if self.version < OLDEST or not hasattr(self._cuda, "cuCheckpointProcessLock"):
            raise DriverRefusalError(
                f"the driver is too old: it is for CUDA {self.version // 1000}."
                f"{self.version % 1000 // 10}, suspending needs 12.8 (driver 570)"
            )
        self._call("cuInit", 0)

    def state(self, pid: int) -> int:
        found = ctypes.c_int(RUNNING)
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(found))
        return found.value

    def suspend(self, pid: int, timeout_s: float) -> None:
        """Lock and checkpoint; a process that cannot be checkpointed is unlocked again."""
        if self.state(pid) == RUNNING:
            arguments = LockArguments(timeout_ms=max(int(timeout_s * 1000), 1))
            self._call("cuCheckpointProcessLock", pid, ctypes.byref(arguments))
        if self.state(pid) == LOCKED:
            try:
                self._call("cuCheckpointProcessCheckpoint", pid, None)
            except DriverRefusalError:
                if self.state(pid) == LOCKED:
                    self._call("cuCheckpointProcessUnlock", pid, None)
                raise
        self._expect(pid, CHECKPOINTED)

    def resume(self, pid: int) -> None:
        if self.state(pid) == CHECKPOINTED:
            self._call("cuCheckpointProcessRestore", pid, None)
        if self.state(pid) == LOCKED:
            self._call("cuCheckpointProcessUnlock", pid, None)
        self._expect(pid, RUNNING)

    def _expect(self, pid: int, wanted: int) -> None:
        found = self.state(pid)
        if found != wanted:
            raise DriverRefusalError(f"process {pid} is {STATES[found]}, not {STATES[wanted]}")

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            meaning = MEANING.get(code, "see CUresult in cuda.h")
            raise DriverRefusalError(f"{name} returned {code}: {meaning}", code)


@contextmanager
def alone_with(pid: int) -> Iterator[None]:
    """Wait until no other such program is at a process: one that a killed steward began goes on."""
    try:
        folder = os.open(f"/proc/{pid}", os.O_RDONLY)
    except OSError as fault:
        raise DriverRefusalError(f"process {pid} is gone") from fault
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def main(do: str, pid: int, library: str, timeout_s: float) -> dict[str, Any]:
    """Do one thing and return what came of it."""
    began = time.monotonic()
    answer: dict[str, Any] = {"do": do, "pid": pid, "ok": False}
    try:
        driver = CheckpointDriver(library)
        answer["version"] = driver.version
        if do == "suspend":
            with alone_with(pid):
                driver.suspend(pid, timeout_s)
        elif do == "resume":
            with alone_with(pid):
                driver.resume(pid)
        if do != "probe":
            answer["state"] = STATES[driver.state(pid)]
        answer["ok"] = True
    except DriverRefusalError as fault:
        answer |= {"why": str(fault), "code": fault.code}
    answer["seconds"] = time.monotonic() - began
    return answer


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))))  # noqa: T201
