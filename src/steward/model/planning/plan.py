"""What is asked of a plan, the ways to run a job, and why each of them is chosen or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite

from steward.errors import StewardError

__all__ = ["Choice", "Plan", "PlanRequest", "Range", "Rejected", "Way", "Weights"]


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

    def after(self, start: float) -> Range:
        """Return it counted from a start."""
        return Range(low=start + self.low, mid=start + self.mid, high=start + self.high)


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
    most_nodes: int | None = None  # over which its GPUs may be spread; None: any number
    basis: str = ""  # what run_s and watts are from

    def __post_init__(self) -> None:
        problem = ""
        if self.gpus < 0 or (self.gpus > 0) != bool(self.gpu_model):
            problem = f"it has {self.gpus} GPUs of model '{self.gpu_model}'"
        elif not 0 < self.run_s.low <= self.run_s.high < inf:
            problem = f"it runs {self.run_s.low} to {self.run_s.high} s"
        elif self.most_nodes is not None and self.most_nodes < 1:
            problem = f"it may be spread over {self.most_nodes} nodes"
        elif not 0 <= self.watts.low <= self.watts.high < inf:
            problem = f"a GPU draws {self.watts.low} to {self.watts.high} W"
        if problem:
            hint = "name the model of its GPUs, if it has any; times are above 0, watts 0 or more"
            raise StewardError(problem, where="a way to run a job", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What time and carbon are worth in money, to choose one among the good plans."""

    usd_per_h: float = 1.0  # of ending later; does not count where there is a deadline
    usd_per_kg: float = 0.1  # of CO2
    usd_if_late: float = 20.0  # of ending after the deadline, by the chance of that

    def __post_init__(self) -> None:
        if not all(0 <= each < inf for each in (self.usd_per_h, self.usd_per_kg, self.usd_if_late)):
            raise StewardError(
                f"an hour counts as {self.usd_per_h} USD, a kg of CO2 as {self.usd_per_kg} USD, "
                f"and a missed deadline as {self.usd_if_late} USD",
                where="weights",
                hint="each is 0 or more",
            )


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
    save_every_s: float = 900.0  # between saves: an interruption loses half of it on average
    sites: tuple[str, ...] = ()  # any when empty
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise StewardError(
                "; ".join(problem for problem, _ in faults),
                where=f"the plan of '{self.name}'",
                hint="; ".join(hint for _, hint in faults),
            )

    def _faults(self) -> Iterator[tuple[str, str]]:
        if not self.ways:
            yield "there is no way to run it", "give a run time for at least one kind of GPU"
        if not isfinite(self.now_s):
            yield f"now_s is {self.now_s}", "give the time in seconds since 1970"
        if self.deadline_s is not None and not isfinite(self.deadline_s):
            yield f"deadline_s is {self.deadline_s}", "leave it out where there is none"
        if not 0 < self.deadline_chance < 1:
            yield f"deadline_chance is {self.deadline_chance}", "it is between 0 and 1, as 0.9"
        if self.budget_usd is not None and not 0 <= self.budget_usd < inf:
            yield f"budget_usd is {self.budget_usd}", "a budget is 0 or more"
        if self.cores < 1 or self.memory_bytes < 0:
            text = f"it asks for {self.cores} cores and {self.memory_bytes} bytes of memory"
            yield text, "a job has at least one core, and 0 bytes where memory does not matter"
        if not (0 <= self.save_s < inf and 0 < self.save_every_s < inf):
            text = f"a save takes {self.save_s} s, every {self.save_every_s} s"
            yield text, "a save takes 0 s or more, and there is time between two"


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
    kwh: Range  # of the job's share of the machines, with cooling
    co2_kg: Range | None  # None: nobody knows the grid there
    deadline_chance: float | None  # None: no deadline
    notes: tuple[str, ...] = ()  # what to know: old prices, waits nobody measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A way that is not on the front, and why, in one sentence; `beaten_by` is on the front."""

    site: str
    queue: str
    gpu_model: str
    gpus: int
    why: str
    choice: Choice | None = None  # None: it cannot run there at all
    beaten_by: Choice | None = None  # None: it cannot run there, or breaks a limit of the request


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
