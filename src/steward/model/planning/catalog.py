"""What sites offer: queues with their limits and charging rules, accelerators, power and carbon.

Every fact says where it is from and as of when, since limits and prices change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a fact is from, and the day on which it was true."""

    text: str
    as_of: str  # YYYY-MM-DD; empty: unknown


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
    minimum_s: float = 0.0  # a shorter job is charged as long as this

    def __post_init__(self) -> None:
        if min(self.rate, self.gpu_rate, self.minimum_s, self.memory_per_core_bytes) < 0:
            raise StewardError(
                f"rate is {self.rate}, gpu_rate is {self.gpu_rate}, minimum_s is {self.minimum_s}",
                where="a charging rule",
                hint="each is 0 or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, partition or instance type: what one node of it has, and what may be asked."""

    name: str
    cores_per_node: int
    memory_bytes_per_node: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All sites and accelerators that are known. Names are unique."""

    sites: tuple[CatalogSite, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()

    def site(self, name: str) -> CatalogSite:
        """Return the site of that name."""
        known = {site.name: site for site in self.sites}
        if name not in known:
            hint = did_you_mean(name, list(known)) or f"known: {', '.join(sorted(known)) or 'none'}"
            raise StewardError(f"there is no site '{name}'", where="the catalogue", hint=hint)
        return known[name]

    def accelerator(self, name: str) -> Accelerator | None:
        """Return the accelerator of that name or alias, whatever the case; None: unknown."""
        asked = name.casefold()
        for each in self.accelerators:
            if asked in (each.name.casefold(), *(alias.casefold() for alias in each.aliases)):
                return each
        return None
