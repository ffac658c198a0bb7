"""What sites offer: queues with their limits and charging rules, accelerators, power and carbon.

Every fact says where it is from and as of when, since limits and prices change without notice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from steward.errors import StewardError, did_you_mean

__all__ = [
    "Accelerator",
    "Basis",
    "Catalog",
    "CatalogSite",
    "Charging",
    "Engine",
    "Queue",
    "Source",
]

_NO_SITE = "no site is known: name its file in planning.catalog (docs/catalog.md)"


_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a fact is from, and the day on which it was true."""

    text: str
    as_of: str  # YYYY-MM-DD; empty: unknown

    def __post_init__(self) -> None:
        if self.as_of:
            _day_number(self.as_of)

    def age_s(self, now_s: float) -> float | None:
        """Return how long ago it was true; None where the day is unknown.

        >>> Source(text="", as_of="1970-01-11").age_s(864_000.0)
        0.0
        """
        return max(0.0, now_s - _day_number(self.as_of) * _DAY_S) if self.as_of else None


class Engine(Enum):
    """Who runs jobs at a site."""

    LOCAL = "local"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    CLOUD = "cloud"  # instances are rented; a script starts on them


class Basis(Enum):
    """What a charging rule counts."""

    NODE_S = "node-hour"  # whole nodes, used or not
    GPU_S = "gpu-hour"
    CORE_S = "core-hour"  # cores, or the cores that the memory asked for stands for
    FREE = "free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charging:
    """What an hour costs: `rate` units for each of what `basis` counts, and what a unit costs.

    Where cores and GPUs are both charged, `basis` is CORE_S and `gpu_rate` comes on top.
    """

    basis: Basis = Basis.FREE
    rate: float = 0.0
    gpu_rate: float = 0.0  # for each GPU and hour, beside `rate`
    unit: str = "USD"  # or the site's own service unit
    usd_per_unit: float | None = 1.0  # None: the site's units have no price in money
    memory_per_core_bytes: int = 0  # memory asked for counts as so many cores; 0: it does not
    memory_per_gpu_bytes: int = 0  # and as so many GPUs
    cores_per_gpu: int = 0  # cores asked for count as so many GPUs; 0: they do not
    whole_nodes_if_several: bool = False  # jobs of two or more nodes are charged whole ones
    minimum_s: float = 0.0  # a shorter job is charged as long as this
    minimum_units: float = 0.0  # and no job less than this

    def __post_init__(self) -> None:
        numbers = {
            "rate": self.rate,
            "gpu_rate": self.gpu_rate,
            "usd_per_unit": self.usd_per_unit or 0.0,
            "memory_per_core_bytes": self.memory_per_core_bytes,
            "memory_per_gpu_bytes": self.memory_per_gpu_bytes,
            "cores_per_gpu": self.cores_per_gpu,
            "minimum_s": self.minimum_s,
            "minimum_units": self.minimum_units,
        }
        _refuse_negative(numbers, where="a charging rule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, partition or instance type: what one node of it has, and what may be asked."""

    name: str
    submit_as: str = ""  # partition or instance type, where it is not the name
    cores_per_node: int  # 0: unknown
    memory_bytes_per_node: int  # 0: unknown
    gpus_per_node: int = 0
    gpu_model: str = ""  # as `Accelerator.name`
    nodes: int | None = None  # that exist; None: unknown, or as many as one pays for
    min_nodes: int = 1
    max_nodes: int | None = None  # of one job
    max_s: float | None = None  # run time after which a job is ended
    shared_nodes: bool = True  # jobs may take a part of a node
    interruptible: bool = False  # jobs may be stopped by others: spot, preemptible partitions
    start_s: float = 0.0  # until a node can compute: images, boot
    charging: Charging = field(default_factory=Charging)
    source: Source = field(default_factory=lambda: Source(text="", as_of=""))

    def __post_init__(self) -> None:
        where = f"queue '{self.name}'"
        numbers = {
            "cores_per_node": self.cores_per_node,
            "memory_bytes_per_node": self.memory_bytes_per_node,
            "gpus_per_node": self.gpus_per_node,
            "start_s": self.start_s,
        }
        _refuse_negative(numbers, where=where)
        if self.min_nodes < 1:
            problem = f"min_nodes is {self.min_nodes}"
            raise StewardError(problem, where=where, hint="a job has at least one node")
        for name, most in (("max_nodes", self.max_nodes), ("nodes", self.nodes)):
            if most is not None and most < self.min_nodes:
                problem = f"min_nodes is {self.min_nodes}, and {name} is {most}"
                raise StewardError(problem, where=where, hint="no job could run there")
        if self.max_s is not None and not 0 < self.max_s < inf:
            problem = f"max_s is {self.max_s:g}"
            raise StewardError(problem, where=where, hint="leave it out where there is no limit")
        if self.gpu_model and not self.gpus_per_node:
            problem = f"its GPUs are {self.gpu_model}, and a node has none"
            raise StewardError(problem, where=where, hint="say how many GPUs a node has")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSite:
    """A place where jobs can run."""

    name: str
    engine: Engine
    queues: tuple[Queue, ...]
    region: str = ""  # key of carbon and prices by the hour; empty: unknown
    grams_per_kwh: float | None = None  # mean of the year
    power_usage_effectiveness: float = 1.4
    steward_site: str = ""  # `[sites.NAME]` of the configuration that can submit there
    source: Source = field(default_factory=lambda: Source(text="", as_of=""))

    def __post_init__(self) -> None:
        where = f"site '{self.name}'"
        _refuse_negative({"grams_per_kwh": self.grams_per_kwh or 0.0}, where=where)
        if not 1.0 <= self.power_usage_effectiveness < inf:
            problem = f"power_usage_effectiveness is {self.power_usage_effectiveness:g}"
            hint = "1 or more: what the building draws for each watt of its computers"
            raise StewardError(problem, where=where, hint=hint)
        _refuse_twice("queue", (queue.name for queue in self.queues), where=where)

    def queue(self, name: str) -> Queue:
        """Return the queue of that name."""
        known = {queue.name: queue for queue in self.queues}
        if name not in known:
            hint = did_you_mean(name, list(known)) or f"known: {', '.join(sorted(known))}"
            raise StewardError(f"there is no queue '{name}'", where=self.name, hint=hint)
        return known[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """Peak rates are dense, per second; None is not offered, or unknown."""

    name: str
    memory_bytes: int
    memory_bytes_per_s: float
    watts: float
    flops: Mapping[str, float]  # by number format: fp64, fp32, tf32, bf16, fp16, fp8
    aliases: tuple[str, ...] = ()  # as clouds and drivers write it
    source: Source = field(default_factory=lambda: Source(text="", as_of=""))

    def __post_init__(self) -> None:
        numbers = {
            "memory_bytes": self.memory_bytes,
            "memory_bytes_per_s": self.memory_bytes_per_s,
            "watts": self.watts,
            **{f"flops of {name}": each for name, each in self.flops.items()},
        }
        _refuse_negative(numbers, where=f"accelerator '{self.name}'")

    def is_called(self, name: str) -> bool:
        """Return True for its name and its aliases, whatever the case."""
        asked = name.casefold()
        return any(asked == each.casefold() for each in (self.name, *self.aliases))


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All sites and accelerators that are known. Names are unique."""

    sites: tuple[CatalogSite, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()

    def __post_init__(self) -> None:
        where = "the catalogue"
        _refuse_twice("site", (site.name for site in self.sites), where=where)
        _refuse_twice("accelerator", (each.name for each in self.accelerators), where=where)

    def site(self, name: str) -> CatalogSite:
        """Return the site of that name."""
        known = {site.name: site for site in self.sites}
        if name not in known:
            listed = f"known: {', '.join(sorted(known))}" if known else _NO_SITE
            hint = did_you_mean(name, list(known)) or listed
            raise StewardError(f"there is no site '{name}'", where="the catalogue", hint=hint)
        return known[name]

    def accelerator(self, name: str) -> Accelerator | None:
        """Return the accelerator of that name or alias, whatever the case; None: unknown."""
        return next((each for each in self.accelerators if each.is_called(name)), None)


def _day_number(text: str) -> int:
    """Return the day, counted from 1970-01-01."""
    found = _DAY.fullmatch(text)
    year, month, day = (int(part) for part in found.groups()) if found else (0, 0, 0)
    if not (year and 1 <= month <= 12 and 1 <= day <= _days_of(year, month)):
        raise StewardError(f"'{text[:40]}' is not a day", hint="write it as 2026-08-12")
    years = year - 1 if month <= 2 else year  # years begin in March: leap days come last
    months = (month + 9) % 12
    days = 365 * years + years // 4 - years // 100 + years // 400 + (153 * months + 2) // 5 + day
    return days - 719_469


def _days_of(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 28 if month == 2 and not leap else _MONTH_DAYS[month - 1]


def _refuse_negative(numbers: Mapping[str, float], *, where: str) -> None:
    wrong = [f"{name} is {number:g}" for name, number in numbers.items() if not 0 <= number < inf]
    if wrong:
        raise StewardError(", ".join(wrong), where=where, hint="each is a number of 0 or more")


def _refuse_twice(kind: str, names: Iterable[str], *, where: str) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        problem = f"there are two of {kind} {', '.join(twice)}"
        raise StewardError(problem, where=where, hint="rename one of them")
