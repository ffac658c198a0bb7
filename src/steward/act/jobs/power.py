"""Caps the power of GPUs for jobs, and takes every cap back: none outlives its job.

What was there before is on disk before a limit is set. A limit that somebody else has set meanwhile
is never overwritten, neither by the next cap nor by the way back.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from steward.errors import PermanentError, StewardError
from steward.model.event import Availability, Event
from steward.model.identity import DecisionId, GpuId, JobId
from steward.store.jobs import JobStore
from steward.store.power_caps import PowerCap, PowerCapFile

__all__ = ["LimitControl", "PowerCapper"]

log = logging.getLogger(__name__)
SAME_WATTS = 0.6  # the driver rounds
RETRY_S = 30.0  # after a limit could not be taken back
MOST_EVENTS = 1000


class LimitRange(Protocol):
    """The limits of a GPU."""

    @property
    def watts(self) -> float: ...


class LimitControl(Protocol):
    """What reads and sets the limits of GPUs, by index."""

    def read(self, index: int, /) -> LimitRange: ...

    def set(self, index: int, watts: float, /) -> None: ...


class PowerCapper:
    """The one that sets limits. All calls may come from any thread."""

    def __init__(
        self,
        control: LimitControl | None,
        file: PowerCapFile,
        *,
        jobs: JobStore,
        uuids: Mapping[GpuId, str],
        rights: Callable[[], Availability],
    ) -> None:
        self._control = control
        self._file = file
        self._jobs = jobs
        self._uuids = uuids
        self._rights = rights
        self._lock = threading.RLock()
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._retry_s: dict[GpuId, float] = {}
        self._closed = False  # no cap is set any more
        self.refused: dict[JobId, str] = {}  # why a job's last cap came to nothing

    def available(self) -> Availability:
        """Return whether limits can be set here, and if not, why."""
        if self._control is None:
            return Availability(status="missing", reason="there is no NVIDIA driver here")
        return self._rights()

    def caps_of(self, job: JobId) -> tuple[PowerCap, ...]:
        """Return the caps that are in force for a job."""
        return tuple(each for each in self._file.all() if each.job == job)

    def take_events(self) -> list[Event]:
        """Return what happened to limits since the last call."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._events.popleft())
        return found

    # -- capping -------------------------------------------------------------------------------

    def cap(
        self, job: JobId, gpus: tuple[GpuId, ...], watts: float, *, decision: DecisionId, t_s: float
    ) -> str:
        """Limit the GPUs of a job, or take its cap back; return what was done, in words.

        The same decision again changes nothing more. A refusal of one GPU leaves all as they were.
        """
        with self._lock:
            try:
                text = self._cap(job, gpus, watts, decision=decision, t_s=t_s)
            except StewardError as fault:
                self.refused[job] = str(fault)
                raise
            self.refused.pop(job, None)
            return text

    def _cap(
        self, job: JobId, gpus: tuple[GpuId, ...], watts: float, *, decision: DecisionId, t_s: float
    ) -> str:
        self._check(job, gpus)
        done: list[GpuId] = []
        before = {gpu: self._file.of(gpu) for gpu in gpus}
        try:
            for gpu in gpus:
                self._cap_one(job, gpu, watts, decision=decision, t_s=t_s)
                done.append(gpu)
        except StewardError:
            self._roll_back(done, before, t_s)
            raise
        return f"job {job}: {', '.join(gpus)} limited to {watts:.0f} W"

    def _check(self, job: JobId, gpus: tuple[GpuId, ...]) -> None:
        if self._closed:
            raise PermanentError("no power limit is set any more: steward stops")
        state = self.available()
        if state.status == "missing":
            raise PermanentError(f"no power limit can be set: {state.reason}", hint=state.hint)
        found = self._jobs.job(job)
        if not {*gpus} <= {*found.gpus}:
            raise PermanentError("it does not hold these GPUs any more", where=f"job {job}")
        if found.spec.max_slowdown_share <= 0:
            hint = "submit it with --max-slowdown"
            raise PermanentError("its owner allows no slowdown", where=f"job {job}", hint=hint)

    def _cap_one(
        self, job: JobId, gpu: GpuId, watts: float, *, decision: DecisionId, t_s: float
    ) -> None:
        known, now_watts = self._file.of(gpu), self._now_watts(gpu)
        if known is not None and not _is_one_of(now_watts, known.ours):
            self._file.remove(gpu)
            raise PermanentError(
                f"somebody else has set {now_watts:.0f} W since steward set {known.watts:.0f} W",
                where=gpu,
                hint="it is left as it is; the next cap begins from there",
            )
        if known is not None and watts >= known.before_watts - SAME_WATTS:
            self._restore(known, t_s, "taken back by a decision")
            return
        if _is_one_of(now_watts, (watts,)):
            return  # done before, or it was so already
        first = known.before_watts if known is not None else now_watts
        cap = PowerCap(
            gpu=gpu,
            uuid=self._uuids.get(gpu, ""),
            job=job,
            decision=decision,
            before_watts=first,
            ours=(now_watts, watts) if known is not None else (watts,),
            t_s=t_s,
        )
        self._file.put(cap)
        try:
            self._set(gpu, watts)
        except StewardError:
            self._keep(gpu, known)
            raise
        self._file.put(replace(cap, ours=(watts,)))

    def _keep(self, gpu: GpuId, known: PowerCap | None) -> None:
        """Write down again what holds after a limit was refused."""
        if known is None:
            self._file.remove(gpu)
        else:
            self._file.put(known)

    def _roll_back(
        self, gpus: Iterable[GpuId], before: Mapping[GpuId, PowerCap | None], t_s: float
    ) -> None:
        """Give GPUs the limit that they had before a decision that another GPU refused."""
        for gpu in gpus:
            cap, earlier = self._file.of(gpu), before[gpu]
            if cap is None:
                continue
            if earlier is None:
                self._restore(cap, t_s, "another GPU of the job refused")
                continue
            with suppress(StewardError):
                self._set(gpu, earlier.watts)
                self._file.put(earlier)

    # -- taking back ---------------------------------------------------------------------------

    def advance(self, t_s: float) -> None:
        """Take back the caps of jobs that are over, or not alone on their GPUs any more."""
        with self._lock:
            if not self._file.all():
                return
            holders: dict[GpuId, set[JobId]] = {}
            for job in self._jobs.open():
                for gpu in job.gpus:
                    holders.setdefault(gpu, set()).add(job.id)
            for cap in self._file.all():
                users = holders.get(cap.gpu, set())
                if users != {cap.job} and not self._retry_s.get(cap.gpu, 0.0) > t_s:
                    shared = cap.job in users
                    why = "another job shares it" if shared else f"job {cap.job} has left it"
                    self._restore(cap, t_s, why)

    def close(self, t_s: float) -> None:
        """Take all caps back and set no more: steward stops, and nothing watches over them."""
        with self._lock:
            self._closed = True
            for cap in self._file.all():
                self._restore(cap, t_s, "steward stops")

    def _restore(self, cap: PowerCap, t_s: float, why: str) -> None:
        """Give a GPU the limit that it had before steward, unless somebody else has set another.

        Where that fails it is tried again: the file keeps what has to be done.
        """
        try:
            text = self._give_back(cap)
            self._file.remove(cap.gpu)
        except StewardError as fault:
            if cap.gpu not in self._retry_s:  # once, however often it is tried
                log.warning("the power limit of %s could not be taken back: %s", cap.gpu, fault)
                self._note(t_s, cap, "power.stuck", f"{why}, but {fault}; it is tried again")
            self._retry_s[cap.gpu] = t_s + RETRY_S
            return
        self._retry_s.pop(cap.gpu, None)
        self._note(t_s, cap, "power.restored", f"{why}: {text}")

    def _give_back(self, cap: PowerCap) -> str:
        if self._uuids.get(cap.gpu, "") != cap.uuid:
            return f"another GPU is in its place ({cap.uuid} had the cap); nothing was changed"
        now_watts = self._now_watts(cap.gpu)
        if _is_one_of(now_watts, (cap.before_watts,)):
            return f"it has its {now_watts:.0f} W already"
        if not _is_one_of(now_watts, cap.ours):
            return f"somebody else has set {now_watts:.0f} W; that stays"
        self._set(cap.gpu, cap.before_watts)
        return f"{cap.before_watts:.0f} W again, after {now_watts:.0f} W"

    # -- the driver ----------------------------------------------------------------------------

    def _now_watts(self, gpu: GpuId) -> float:
        if self._control is None:
            raise StewardError("there is no NVIDIA driver here", where=gpu)
        return self._control.read(_index(gpu)).watts

    def _set(self, gpu: GpuId, watts: float) -> None:
        assert self._control is not None  # noqa: S101 - its limit was read just now
        self._control.set(_index(gpu), watts)

    def _note(self, t_s: float, cap: PowerCap, kind: str, text: str) -> None:
        self._events.append(
            Event(t_s=t_s, kind=kind, subject=cap.gpu, text=text, source="power-caps")
        )


def _index(gpu: GpuId) -> int:
    return int(gpu.rpartition("gpu")[2])


def _is_one_of(watts: float, limits: Iterable[float]) -> bool:
    return any(abs(watts - each) < SAME_WATTS for each in limits)
