"""Which comparisons there are: one that runs, the newest few that ran, and their files."""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from steward.errors import StewardError
from steward.service.failures import RefusedError
from steward.service.lab.comparison_request import ComparisonRequest
from steward.service.lab.messages import Finished, Message, Progress, Refused, Task

__all__ = ["CarryOut", "LabRun", "LabRuns", "LabState"]

log = logging.getLogger(__name__)

MOST_KEPT = 8
CLOSES_WITHIN_S = 5.0
SURE_ENOUGH = 0.02  # of the replays: what is left cannot be problems before

CarryOut = Callable[[Task, Callable[[Message], None], threading.Event], None]


class LabState(StrEnum):
    """Where a comparison is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRun:
    """One comparison as it is now."""

    id: str
    trace: str  # as its owner called it
    wanted: ComparisonRequest
    by: str
    t_s: float  # when it was requested
    state: LabState = LabState.RUNNING
    doing: str = "starting"
    share: float = 0.0
    left_s: float | None = None
    took_s: float = 0.0
    fault: StewardError | None = None
    record: dict[str, Any] | None = None


@dataclass(slots=True, kw_only=True)
class _Kept:
    """A comparison with its private state."""

    run: LabRun
    folder: Path
    began_s: float
    replays_since_s: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


def _in_process(task: Task, send: Callable[[Message], None], stop: threading.Event) -> None:
    from steward.service.lab.process import in_process  # noqa: PLC0415 - imports the engines

    in_process(task, send, stop)


class LabRuns:
    """Starts, follows, ends and remembers comparisons. Safe to use from any thread.

    `carry_out` does the work, in a thread that is started for it.
    """

    def __init__(
        self,
        *,
        carry_out: CarryOut = _in_process,
        most: int = MOST_KEPT,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._carry_out = carry_out
        self._most = most
        self._now_s = now_s
        self._kept: dict[str, _Kept] = {}  # oldest first
        self._entering = False
        self._lock = threading.RLock()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    # -- asking --------------------------------------------------------------------------------

    @contextmanager
    def entering(self) -> Iterator[Path]:
        """Hold the one place while a trace comes in, and give the folder that it goes to."""
        with self._lock:
            self._check_free()
            self._entering = True
            folder = self._new_folder()
        try:
            yield folder
        finally:
            with self._lock:
                self._entering = False
                if folder.name not in self._kept:
                    shutil.rmtree(folder, ignore_errors=True)

    def begin(
        self, wanted: ComparisonRequest, *, folder: Path, trace: str, file: Path | None, by: str
    ) -> LabRun:
        """Start a comparison in the folder that `entering` gave."""
        task = Task(wanted=wanted, folder=folder, name=trace, file=file)
        run = LabRun(id=folder.name, trace=trace, wanted=wanted, by=by, t_s=time.time())
        kept = _Kept(run=run, folder=folder, began_s=self._now_s())
        kept.thread = threading.Thread(
            target=self._follow, args=(kept, task), name="lab", daemon=True
        )
        with self._lock:
            self._kept[run.id] = kept
            for old in list(self._kept)[: -self._most]:
                self._forget(old)
        kept.thread.start()
        return run

    # -- looking -------------------------------------------------------------------------------

    def list(self) -> tuple[LabRun, ...]:
        """Return all comparisons that are remembered, newest first."""
        with self._lock:
            return tuple(self._now(kept) for kept in reversed(self._kept.values()))

    def look(self, id_: str) -> LabRun:
        """Return a comparison as it is now; 404 where there is none of that id."""
        return self._now(self._find(id_))

    def read(self, id_: str, name: str) -> bytes:
        """Return a file of a comparison that is done; 409 where it is not."""
        with self._lock:  # it is not forgotten meanwhile
            kept = self._find(id_)
            if kept.run.state is LabState.DONE:
                return (kept.folder / name).read_bytes()
        raise RefusedError(
            409,
            f"this comparison is {kept.run.state.value}",
            where=f"comparison {id_}",
            hint="only one that is done has a report",
        )

    # -- ending --------------------------------------------------------------------------------

    def cancel(self, id_: str) -> LabRun:
        """End a comparison that runs; forget one that does not."""
        with self._lock:
            kept = self._find(id_)
            if kept.run.state is LabState.RUNNING:
                self._change(kept, state=LabState.CANCELLED, doing="cancelled", left_s=None)
                kept.stop.set()
            else:
                self._forget(id_)
            return kept.run

    def close(self) -> None:
        """End everything, and remove all files."""
        with self._lock:
            threads = [kept.thread for kept in self._kept.values() if kept.thread is not None]
            for kept in self._kept.values():
                kept.stop.set()
            self._kept.clear()
        for thread in threads:
            thread.join(CLOSES_WITHIN_S)
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    # -- inside --------------------------------------------------------------------------------

    def _check_free(self) -> None:
        running = [each.run.id for each in self._kept.values() if each.run.state == "running"]
        if running or self._entering:
            what = f"comparison {running[0]} runs" if running else "a trace is being uploaded"
            raise RefusedError(
                409,
                f"{what} already, and one at a time is enough for this machine",
                where="lab",
                hint="wait until it is done, or cancel it",
            )

    def _new_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(
                prefix="steward-lab-", ignore_cleanup_errors=True
            )
        folder = Path(self._scratch.name) / f"lab-{secrets.token_hex(6)}"
        folder.mkdir()
        return folder

    def _find(self, id_: str) -> _Kept:
        with self._lock:
            kept = self._kept.get(id_)
        if kept is None:
            raise RefusedError(
                404,
                f"there is no comparison '{id_}'",
                where="lab",
                hint=f"the newest {self._most} are kept until the service ends",
            )
        return kept

    def _forget(self, id_: str) -> None:
        kept = self._kept.pop(id_)
        kept.stop.set()
        shutil.rmtree(kept.folder, ignore_errors=True)

    def _follow(self, kept: _Kept, task: Task) -> None:
        send = partial(self._receive, kept)
        try:
            self._carry_out(task, send, kept.stop)
        except Exception as fault:
            log.exception("the lab could not carry out %s", kept.run.id)
            problem = f"{type(fault).__name__} in the lab"
            send(Refused(problem=problem, where="lab", hint="the log has the details"))
        send(Refused(problem="ended without a result", where="lab", hint="try it again"))
        if task.file is not None:
            task.file.unlink(missing_ok=True)

    def _receive(self, kept: _Kept, message: Message) -> None:
        with self._lock:
            if kept.run.state is not LabState.RUNNING:
                return
            match message:
                case Progress():
                    left_s, share = self._left_s(kept, message.share), message.share or 0.0
                    self._change(kept, doing=message.doing, share=share, left_s=left_s)
                case Finished():
                    done = {"share": 1.0, "left_s": None, "record": message.record}
                    self._change(kept, state=LabState.DONE, doing="done", **done)
                case Refused():
                    fault = StewardError(message.problem, where=message.where, hint=message.hint)
                    failed = {"left_s": None, "fault": fault}
                    self._change(kept, state=LabState.FAILED, doing="failed", **failed)

    def _now(self, kept: _Kept) -> LabRun:
        if kept.run.state is not LabState.RUNNING:
            return kept.run
        return replace(kept.run, took_s=self._now_s() - kept.began_s)

    def _change(self, kept: _Kept, **changes: Any) -> None:  # noqa: ANN401 - fields of LabRun
        kept.run = replace(kept.run, took_s=self._now_s() - kept.began_s, **changes)

    def _left_s(self, kept: _Kept, share: float | None) -> float | None:
        """Estimate the time left of the replays from the time taken so far."""
        if share is None:
            return None
        now_s = self._now_s()
        since_s = kept.replays_since_s = kept.replays_since_s or now_s
        return (now_s - since_s) * (1 - share) / share if share >= SURE_ENOUGH else None
