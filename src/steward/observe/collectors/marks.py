"""Reads the marks of training scripts: steps, what they wait for, phases."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from steward.clients.host import hostname
from steward.clients.marks import MarksSocket, Message, default_place
from steward.clients.processes import ProcessTable
from steward.model.event import Availability, Event, Observation
from steward.model.frame import ENTITY, OTHER_SCHEMA, T_S, Frame, empty_frame, empty_other
from steward.model.identity import JobId, NodeId
from steward.model.span import Span
from steward.observe.process_owners import ProcessOwners

__all__ = ["Marks"]

_MOST_RANKS = 4096
_SILENT_S = 3600.0  # a rank without a message for so long is dropped
_METRICS = (
    "job.step_count",
    "job.steps_per_s",
    "job.step.mean_seconds",
    "job.step.longest_seconds",
    "job.step.wait_share",
    "job.rank_count",
)


@dataclass(slots=True)
class _Rank:
    """One sending process, and its sums when it was last counted."""

    job: JobId
    received_s: float
    local_rank: str = ""
    steps: int = 0
    wait_s: float = 0.0
    work_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """What a rank did between two looks."""

    job: JobId
    steps: int
    done: int
    wait_s: float
    work_s: float
    longest_s: float
    over_s: float


class Marks:
    """Steps and phases of training scripts that use `steward.marks`, on this machine.

    `place` is the socket they send to; empty means $STEWARD_MARKS, which they read too, else
    /run/steward/marks.sock or the user's own folder. The sending process is known from the kernel,
    and its job is that of its control group; the job that a script names counts only without one.
    """

    name = "marks"
    vocabulary = "canonical"

    def __init__(
        self, *, node: str = "", place: str = "", owners: ProcessOwners | None = None
    ) -> None:
        self.node = NodeId(node or hostname())
        self._socket = MarksSocket(Path(place) if place else default_place())
        self._owners = owners or ProcessOwners()
        self._processes = ProcessTable()
        self._ranks: dict[int, _Rank] = {}
        self._open: dict[str, tuple[int, Span]] = {}  # phases, and their pid
        self._opened = False
        self._refused = 0  # messages that made no sense
        self._reported_losses = 0

    def available(self) -> Availability:
        place = self._socket.place
        if self._opened:
            return Availability(status="ok", reason=f"listens on {place}")
        if place.is_socket() and self._socket.taken():
            return Availability(
                status="missing",
                reason=f"another steward listens on {place}",
                hint="name another place: plugs.marks.place and $STEWARD_MARKS",
            )
        if self._socket.refused():
            return Availability(
                status="missing",
                reason=f"this user may not listen on {place}",
                hint="run as root, or name another place: plugs.marks.place and $STEWARD_MARKS",
            )
        return Availability(status="ok", reason=f"will listen on {place}")

    def collect(self, t_s: float) -> Observation:
        if not self._opened:
            self._socket.open()
            self._opened = True
        messages = [each for each in map(self._read, self._socket.take()) if each is not None]
        spans = [span for pid, body in messages for span in self._phase(pid, body)]
        frame, other = self._samples(messages, t_s)
        spans += self._left_open(t_s)
        self._forget(t_s)
        return Observation(
            frame=frame, other=other, spans=tuple(spans), events=tuple(self._losses(t_s))
        )

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        self._opened = False

    # -- messages ------------------------------------------------------------------------------

    def _read(self, message: Message) -> tuple[int, Mapping[str, Any]] | None:
        try:
            body = json.loads(message.body)
            pid = message.pid or int(body["pid"])
            sent_s = float(body["t_s"])
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            self._refused += 1
            return None
        if not math.isfinite(sent_s) or not self._known(pid, body, sent_s):
            self._refused += 1
            return None
        return pid, body

    def _known(self, pid: int, body: Mapping[str, Any], sent_s: float) -> bool:
        """Find out whose process this is, once."""
        if pid not in self._ranks:
            if len(self._ranks) >= _MOST_RANKS:
                return False
            named = str(body.get("job") or "")[:64]
            job = self._owners.scheduled(pid) or (JobId(named) if named else self._owners.of(pid))
            job = job or JobId(f"pid:{pid}")  # it has ended already
            self._ranks[pid] = _Rank(job, sent_s, str(body.get("local_rank") or ""))
        return True

    def _phase(self, pid: int, body: Mapping[str, Any]) -> list[Span]:
        rank = self._ranks[pid]
        if "phase" not in body or rank.local_rank not in ("", "0"):
            return []  # all ranks of a node go through the same phases
        from_s, to_s = _number(body, "from_s"), _number(body, "to_s")
        if from_s is None:
            self._refused += 1
            return []
        name = str(body["phase"])[:64]
        span = Span(
            id=f"marks:{rank.job}:{self.node}:{pid}:{name}:{from_s:.6f}",
            entity=f"{self.node}@{rank.job}",
            kind="phase",
            name=name,
            from_s=from_s,
            to_s=None if to_s is None else max(from_s, to_s),
            source=self.name,
            about={"job": rank.job, "pid": str(pid)},
        )
        if to_s is None:
            self._open[span.id] = (pid, span)
        else:
            self._open.pop(span.id, None)
        return [span]

    def _left_open(self, t_s: float) -> list[Span]:
        """End phases whose process has ended in the middle of them."""
        ends = []
        for id_, (pid, span) in list(self._open.items()):
            if self._processes.one(pid) is None:
                del self._open[id_]
                about = {**span.about, "end": "its process ended"}
                ends.append(replace(span, to_s=max(span.from_s, t_s), about=about))
        return ends

    # -- samples -------------------------------------------------------------------------------

    def _samples(
        self, messages: Sequence[tuple[int, Mapping[str, Any]]], t_s: float
    ) -> tuple[Frame, Frame]:
        last: dict[int, Mapping[str, Any]] = {}
        longest: dict[int, float] = {}
        for pid, body in messages:
            if "steps" in body:
                last[pid] = body
                longest[pid] = max(longest.get(pid, 0.0), _number(body, "longest_s") or 0.0)
        by_job: dict[JobId, list[_Stretch]] = {}
        for pid, body in last.items():
            stretch = self._stretch(pid, body, longest[pid])
            if stretch is not None:
                by_job.setdefault(stretch.job, []).append(stretch)
        values = [
            (t_s, f"{self.node}@{self._ranks[pid].job}", f"mark.{name}", value)
            for pid, body in last.items()
            if self._ranks[pid].local_rank in ("", "0")
            for name, value in _values(body)
        ]
        other = pl.DataFrame(values, schema=OTHER_SCHEMA, orient="row") if values else empty_other()
        return self._frame(by_job, t_s), other

    def _stretch(self, pid: int, body: Mapping[str, Any], longest_s: float) -> _Stretch | None:
        rank = self._ranks[pid]
        steps, sent_s = _number(body, "steps"), _number(body, "t_s")
        wait_s, work_s = _number(body, "wait_s"), _number(body, "work_s")
        if steps is None or sent_s is None or wait_s is None or work_s is None:
            self._refused += 1
            return None
        if steps < rank.steps:  # it began anew under the same pid
            rank.steps, rank.wait_s, rank.work_s = 0, 0.0, 0.0
        stretch = _Stretch(
            job=rank.job,
            steps=int(steps) - rank.steps,
            done=int(steps),
            wait_s=max(0.0, wait_s - rank.wait_s),
            work_s=max(0.0, work_s - rank.work_s),
            longest_s=longest_s,
            over_s=sent_s - rank.received_s,
        )
        rank.steps, rank.wait_s, rank.work_s, rank.received_s = int(steps), wait_s, work_s, sent_s
        return stretch

    def _frame(self, by_job: Mapping[JobId, Sequence[_Stretch]], t_s: float) -> Frame:
        if not by_job:
            return empty_frame()
        rows = [
            {T_S: t_s, ENTITY: f"{self.node}@{job}", **_row(ranks)} for job, ranks in by_job.items()
        ]
        schema = {T_S: pl.Float64, ENTITY: pl.String, **dict.fromkeys(_METRICS, pl.Float64)}
        return pl.DataFrame(rows, schema=schema)

    # -- upkeep --------------------------------------------------------------------------------

    def _forget(self, t_s: float) -> None:
        gone = [
            pid
            for pid, rank in self._ranks.items()
            if t_s - rank.received_s > _SILENT_S or self._processes.one(pid) is None
        ]
        for pid in gone:
            del self._ranks[pid]

    def _losses(self, t_s: float) -> list[Event]:
        lost = self._refused + self._socket.dropped
        if lost == self._reported_losses:
            return []
        text = (
            f"{self._refused} messages made no sense and {self._socket.dropped} were too many or"
            " too long, so far"
        )
        self._reported_losses = lost
        return [
            Event(t_s=t_s, kind="marks.dropped", subject=self.node, text=text, source=self.name)
        ]


def _row(ranks: Sequence[_Stretch]) -> dict[str, float | None]:
    """Put the ranks of a job on one node together. They step as one, so rates are means."""
    timed = [each.steps / each.over_s for each in ranks if each.over_s > 0]
    steps = sum(each.steps for each in ranks)
    wait_s, work_s = sum(each.wait_s for each in ranks), sum(each.work_s for each in ranks)
    return {
        "job.step_count": float(max(each.done for each in ranks)),
        "job.steps_per_s": sum(timed) / len(timed) if timed else None,
        "job.step.mean_seconds": (wait_s + work_s) / steps if steps else None,
        "job.step.longest_seconds": max(each.longest_s for each in ranks) if steps else None,
        "job.step.wait_share": wait_s / (wait_s + work_s) if wait_s + work_s > 0 else None,
        "job.rank_count": float(len(ranks)),
    }


def _number(body: Mapping[str, Any], name: str) -> float | None:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e18 else None


def _values(body: Mapping[str, Any]) -> list[tuple[str, float]]:
    values = body.get("values")
    if not isinstance(values, dict):
        return []
    numbers = [(str(name)[:64], _number(values, name)) for name in list(values)[:16]]
    return [(name, value) for name, value in numbers if value is not None]
