"""What is asked of a plan, the ways to run a job, and why each of them is chosen or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from steward.errors import StewardError

__all__ = ["Choice", "Plan", "PlanRequest", "Range", "Rejected", "Way"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Range:
    """A value: in nine of ten cases between `low` and `high`, as often above as below `mid`."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.mid <= self.high:
            raise StewardError(
                f"{self.low}, {self.mid}, {self.high} is not ordered low <= mid <= high",
                where="a range",
                hint="sort the three quantiles",
            )

    def times(self, factor: float) -> Range:
        """Return it scaled by a factor of 0 or more."""
        return Range(low=self.low * factor, mid=self.mid * factor, high=self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of doing the work, wherever there are such GPUs: how many, with what batch.

    `run_s` is the run time if nothing interrupts it; `watts` is drawn by one GPU while it runs.
    """

    gpu_model: str  # empty: without GPUs
    gpus: int
    run_s: Range
    watts: Range
    batch: int | None = None
    gpu_memory_bytes: int = 0  # that each GPU must have
    basis: str = ""  # what run_s and watts are from


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a job needs and what its owner wants. Times are absolute seconds (UTC)."""

    name: str
    ways: tuple[Way, ...]
    now_s: float
    cores: int = 1  # for each node's share of the job
    memory_bytes: int = 0
    deadline_s: float | None = None
    deadline_chance: float = 0.9  # with which it must be met
    budget_usd: float | None = None
    may_start_later: bool = True  # for greener or cheaper hours
    saves: bool = False  # has checkpoints: may run as a chain, or where it may be interrupted
    save_s: float = 0.0  # what one save and restore costs
    sites: tuple[str, ...] = ()  # any when empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One feasible (site, queue, way, start): when it ends, what it costs, with what chance."""

    site: str
    queue: str
    way: Way
    nodes: int
    start_s: float  # when it would be submitted: later than now where hours are greener or cheaper
    wait_s: Range  # from there until it runs
    run_s: Range  # with interruptions, restarts and links of the chain
    end_s: Range  # absolute
    links: int  # jobs of the chain: 1 where one job is enough
    interruptible: bool
    usd: Range | None  # None: the site's units have no price in money
    units: Mapping[str, float]  # by the site's own unit, at the middle of run_s
    kwh: Range
    co2_kg: Range | None  # None: nobody knows the grid there
    deadline_chance: float | None  # None: no deadline
    notes: tuple[str, ...] = ()  # what to know: old prices, waits nobody measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A way that is not on the front, and why, in one sentence."""

    site: str
    queue: str
    gpu_model: str
    gpus: int
    why: str
    choice: Choice | None = None  # None: it cannot run there at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Choices that nothing beats in end, money and carbon at once, the recommended one first.

    Empty where nothing is feasible; `relax` then says which limit to change, and by how much.
    """

    request: PlanRequest
    front: tuple[Choice, ...]
    rejected: tuple[Rejected, ...]
    why: str  # why the first is recommended
    relax: tuple[str, ...] = field(default=())
