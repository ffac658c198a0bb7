"""Two lines in a training script say how long its steps take and what they wait for.

    from steward.marks import steps

    for batch in steps(loader):
        ...

Plain Python, nothing else imported: it works with PyTorch, JAX or anything that has a loop. It
never raises and never waits. Twice a second it sends what was counted to a local socket
(`$STEWARD_MARKS`, or where `steward observe` listens by default); if nobody listens, nothing
happens. `phase("checkpoint")` names a stretch of time, `mark_step(loss=0.3)` counts a step of a
loop that has no iterable to wrap. Numbers only: reading a tensor would wait for the GPU.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # `typing` has one too, and takes longer to import than all of this
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Any, TypeVar

    T = TypeVar("T")
    Fields = dict[str, object]

__all__ = ["mark_step", "phase", "steps"]

EVERY_S = 0.5
AGAIN_S = 10.0  # when nobody listened, how long until the next try
MOST_VALUES = 16
MOST_WAITING = 64  # messages about phases that could not be sent yet
_PLACES = ("/run/steward/marks.sock", "{XDG_RUNTIME_DIR}/steward/marks.sock")
_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX")
_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_JOB = ("STEWARD_JOB", "SLURM_JOB_ID")


class _Counts:
    """What this process has done so far. Sums only grow, so a lost message loses nothing."""

    def __init__(self) -> None:
        self.steps = 0
        self.wait_s = 0.0
        self.work_s = 0.0
        self.phase_s = 0.0
        self.longest_s = 0.0  # step since the last message
        self.values: dict[str, float] = {}
        self.marked_s = 0.0  # when mark_step was called last
        self.looping = 0  # inside how many steps()
        self.due_s = 0.0

    def step(self, wait_s: float, work_s: float, now_s: float) -> None:
        self.steps += 1
        self.wait_s += wait_s
        self.work_s += work_s
        self.longest_s = max(self.longest_s, wait_s + work_s)
        if now_s >= self.due_s:
            self.due_s = now_s + EVERY_S
            self.send()

    def send(self) -> None:
        said: Fields = {
            "steps": self.steps,
            "wait_s": round(self.wait_s, 6),
            "work_s": round(self.work_s, 6),
            "longest_s": round(self.longest_s, 6),
        }
        if self.values:
            said["values"] = dict(self.values)
        if _post.send(said):
            self.longest_s = 0.0


class _Post:
    """The way to whoever listens. Everything that can go wrong here stays here."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._who: Fields | None = None
        self._closed_until_s = 0.0
        self._waiting: list[bytes] = []
        self._lost = 0

    def send(self, said: Fields, *, keep: bool = False) -> bool:
        """Send a message, or keep it for later if it must not be lost; say if all is sent."""
        try:
            import json  # noqa: PLC0415 - 10 ms, when the first message is sent

            now_s = time.perf_counter()
            if now_s < self._closed_until_s and not keep:
                return False
            message = json.dumps({**self._me(), **said, "t_s": time.time()}).encode()
            if keep:
                self._waiting = [*self._waiting, message][-MOST_WAITING:]
            return now_s >= self._closed_until_s and self._sent(None if keep else message, now_s)
        except Exception:  # noqa: BLE001 - nothing of ours may ever stop a training
            return False

    def _sent(self, message: bytes | None, now_s: float) -> bool:
        try:
            if self._socket is None:
                self._socket = _connected()
            while self._waiting:
                self._socket.send(self._waiting[0])
                del self._waiting[0]
            if message is not None:
                self._socket.send(message)
        except BlockingIOError:
            self._lost += 1  # the listener is busy; the sums come again with the next message
            return False
        except OSError:
            self.close()
            self._closed_until_s = now_s + AGAIN_S
            return False
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _me(self) -> Fields:
        if self._who is None:
            self._who = {
                "pid": os.getpid(),
                "job": _first(_JOB),
                "rank": _first(_RANK),
                "local_rank": _first(_LOCAL_RANK),
            }
        return {**self._who, "lost": self._lost} if self._lost else self._who


class _Steps:
    """An iterable that counts: how long each `next` took, and how long until the one after."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]  # has one or raises as theirs does

    def __iter__(self) -> Iterator[Any]:
        now, counts = time.perf_counter, _counts
        batches = iter(self._batches)
        counts.looping += 1
        try:
            began_s = now()
            for batch in batches:
                got_s, phase_s = now(), counts.phase_s
                yield batch
                done_s = now()
                work_s = done_s - got_s - (counts.phase_s - phase_s)
                counts.step(got_s - began_s, work_s, done_s)
                began_s = now()
        finally:
            counts.looping -= 1
            counts.send()


class _Phase:
    """A stretch of time with a name."""

    def __init__(self, name: str) -> None:
        self._name = str(name)[:64]
        self._from_s = 0.0
        self._began_s = 0.0

    def __enter__(self) -> None:
        self._from_s, self._began_s = time.time(), time.perf_counter()
        _post.send({"phase": self._name, "from_s": self._from_s}, keep=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        took_s = time.perf_counter() - self._began_s
        _counts.phase_s += took_s
        said: Fields = {"phase": self._name, "from_s": self._from_s}
        _post.send({**said, "to_s": self._from_s + took_s}, keep=True)


def steps(batches: Iterable[T]) -> Iterable[T]:
    """Return the same batches; each one is a step."""
    return _Steps(batches)


def phase(name: str) -> _Phase:
    """Name what goes on inside a `with`: compile, checkpoint, eval, data, ..."""
    return _Phase(name)


def mark_step(**values: float) -> None:
    """Say that a step is done, with numbers about it. Inside `steps` it only takes the numbers."""
    counts = _counts
    for name, value in values.items():
        if type(value) in (int, float) and len(counts.values) < MOST_VALUES:
            counts.values[name[:64]] = value
    if not counts.looping:
        now_s = time.perf_counter()
        work_s = now_s - counts.marked_s - counts.phase_s if counts.marked_s else 0.0
        counts.marked_s, counts.phase_s = now_s, 0.0
        counts.step(0.0, max(0.0, work_s), now_s)


def _first(names: Iterable[str]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _connected() -> socket.socket:
    """Return a socket to the first place where somebody listens."""
    import socket  # noqa: PLC0415 - see json

    given = os.environ.get("STEWARD_MARKS")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [given] if given else [each.format(XDG_RUNTIME_DIR=runtime) for each in _PLACES]
    fault: OSError = FileNotFoundError("nobody listens")
    for place in places:
        post = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        post.settimeout(0)
        try:
            post.connect(place)
        except OSError as refused:
            post.close()
            fault = refused
        else:
            return post
    raise fault


def _begin() -> None:
    """Start from nothing, in a child that was forked."""
    global _counts, _post
    _post.close()
    _counts, _post = _Counts(), _Post()


_counts, _post = _Counts(), _Post()
os.register_at_fork(after_in_child=_begin)
