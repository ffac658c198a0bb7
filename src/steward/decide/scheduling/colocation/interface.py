"""What a policy sees that lets two jobs share GPUs, and what it can answer.

Jobs are rows of the trace. A line is sorted: who comes first in it is served first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = [
    "ColocationChoice",
    "ColocationPolicy",
    "ColocationView",
    "FreeSpace",
    "JobKind",
    "Line",
    "Move",
    "Pair",
    "Profile",
    "Profiling",
    "Share",
    "Solo",
    "StartAlone",
    "TakeTurns",
]

Line = Sequence[tuple[float, int, int]]  # rank, number of arrival, job; smallest first


class JobKind(NamedTuple):
    """Jobs of one kind ask for the same and bear sharing alike.

    Where the first of a kind cannot be served, nobody behind it can.
    """

    gpus: float
    score: int  # how badly it bears sharing, by the policy's own scale
    want: int  # which GPU types, CPUs and memory, as a number
    model: int  # row of the measured pairs; -1: not in it


class Solo(NamedTuple):
    """Jobs that run alone, and would be as fast as one another beside the same partner."""

    gpus: float
    model: int  # row of the measured pairs; -1: not in it
    gpu_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two jobs on the same GPUs."""

    one: int
    other: int
    speed_one: float  # as a share of its speed alone on these GPUs, measured
    speed_other: float
    takes_turns: bool  # one at a time, for a slice each; else both at once


class FreeSpace(NamedTuple):
    """Where free GPUs are, and who could be moved. Empty where nobody should be."""

    free: Sequence[int]  # by node
    group: Sequence[int]  # by node: jobs may be moved inside a group
    movable: Mapping[int, Sequence[tuple[int, int]]]  # by node: (GPUs, job), alone on that node


class ColocationView(NamedTuple):  # a tuple: there is one for every choice
    """One look. SortedQueues by kind are never empty; answers hold until the next choice."""

    t_s: float
    total_gpus: int
    arrivals_per_s: float  # of late
    settled: bool  # the last look at the cluster chose nothing, and nothing happened there since
    unprofiled: Line  # new jobs of which nothing is known; fewest GPUs first
    waiting: Mapping[JobKind, Line]
    alone: Mapping[tuple[float, int], Line]  # running without partner, by GPUs and score
    solos: Mapping[Solo, Line]  # the same jobs, by what decides how fast they are beside others
    free_gpus: int  # wholly free, on all nodes together
    tried: Sequence[Pair]  # their first slice together has just ended
    fits: Callable[[int], bool]  # there are free GPUs for this job, wherever it runs now
    fits_profiling: Callable[[int], bool]
    may_join: Callable[[int, int], bool]  # the first could run where the second one runs
    can_share: Callable[[int, int], bool]  # and at the same time: GPU memory holds both
    # how fast both would be where the second one runs, of their speeds alone; NaN: not measured,
    # 0: GPU memory does not hold both, or the table leaves this pair out
    pair_speeds: Callable[[int, int], tuple[float, float]]
    pairs: Callable[[], Sequence[Pair]]
    floor: Callable[[int], FreeSpace]  # as far as this job may run there


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAlone:
    """Give a waiting job free GPUs."""

    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Run a new job in the profiling partition, for a while."""

    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Run a waiting job on the GPUs of one that runs alone."""

    job: int
    partner: int
    takes_turns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTurns:
    """Stop running both jobs of a pair at once; let each have every other slice."""

    job: int  # the one that was there first


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move a running job to other GPUs: of this node, or wherever it fits."""

    job: int
    node: int = -1


ColocationChoice = StartAlone | Profile | Share | TakeTurns | Move


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiling:
    """Where, how long and up to what size new jobs are looked at before they queue."""

    gpus: int  # set apart for it
    time_s: float
    most_gpus: float


class ColocationPolicy(Protocol):
    """Chooses who starts, who shares whose GPUs, and who moves."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def trial_s(self) -> float:
        """How long a new pair runs at once before it is shown in `tried`; 0: never."""

    @property
    def move_s(self) -> float:
        """Run time that moving a job costs."""

    @property
    def keeps_sizes_together(self) -> bool:
        """Jobs go to nodes that hold others of their size, where nodes are told apart."""

    def profiling(self, total_gpus: int, gpus_per_node: int) -> Profiling | None:
        """Return what is set apart of so many GPUs to look at new jobs; None: nothing."""

    def rank(self, predicted_s: float, gpus: float) -> float:
        """Return a job's place in the line, from what similar jobs took: smallest first."""

    def score(self, shared_speed: float) -> int:
        """Return how badly a job bears sharing, from its mean speed beside others; NaN: unknown."""

    def decide(self, moment: ColocationView) -> tuple[ColocationChoice, ...]:
        """Return what to do next, in this order; nothing: the moment is as it should be."""
