"""What schedulers know of jobs and nodes, as far as reliability needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isnan, nan

__all__ = ["AnswerSpan", "Blackout", "JobEnd", "JobSpan", "NodeSpell", "NodeUse"]


class JobEnd(Enum):
    """How a job ended."""

    DONE = "done"
    FAILED = "failed"  # by itself, or for a fault
    NODE = "node-fail"
    MEMORY = "out-of-memory"
    LIMIT = "time-limit"
    STOPPED = "stopped"  # cancelled or preempted
    OPEN = "open"  # it runs, or nobody wrote down its end

    @property
    def is_failure(self) -> bool:
        """Return whether a fault of a GPU may be the reason."""
        return self in (JobEnd.FAILED, JobEnd.NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpan:
    """One run of a job. `indices` are its GPUs by node, where the scheduler says which."""

    id: str
    nodes: tuple[str, ...]
    gpus: int
    start_s: float
    end_s: float = nan  # unknown: it runs still, or its end was never written down
    end: JobEnd = JobEnd.OPEN
    user: str = ""
    indices: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def until_s(self, now_s: float) -> float:
        """Return when it ended, or `now_s` where that is not known."""
        return now_s if isnan(self.end_s) else min(self.end_s, now_s)


class NodeUse(Enum):
    """Whether jobs may start on a node."""

    DOWN = "down"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpell:
    """A node was out of service from one time to another (not a number: it still is)."""

    node: str
    from_s: float
    to_s: float = nan
    use: NodeUse = NodeUse.DOWN
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSpan:
    """A node answered without a gap, from one time to another."""

    node: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """Nodes that fell silent together: one incident, however many they are.

    `steady` of them had answered without a gap since the record began, or for `STEADY_S`.
    """

    t_s: float
    until_s: float  # when the first of them answered again; nan: not in the record
    nodes: tuple[str, ...]
    steady: int
    answering: int  # nodes that answered before
    back: int  # nodes that answered again
