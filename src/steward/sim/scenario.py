"""Which world to simulate: its hardware, its groups of people, and how hard they push."""

from __future__ import annotations

from dataclasses import dataclass, replace

from steward.errors import StewardError
from steward.model.cluster import GIB, GpuModel
from steward.model.identity import TenantId
from steward.model.job import Tenant

__all__ = ["H200", "Group", "Scenario", "demo", "sized"]

HOUR_S = 3600.0

H200 = GpuModel(
    name="NVIDIA H200",
    generation="hopper",
    memory_bytes=141 * GIB,
    idle_watts=121.0,  # with a process that holds memory; measured, see shapes
    max_watts=700.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A tenant with its people: `demand` is its part of all submissions, in any unit."""

    tenant: Tenant
    demand: float = 1.0
    users: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that a simulated world is made from, besides its seed.

    Arrivals bring `offered_load` times what the cluster can do. People who see a long queue stay
    away, so that it settles where `usual_queue` jobs wait. `initial_jobs` are there when the world
    begins, which is `warm_up_s` before anybody looks.
    """

    name: str
    groups: tuple[Group, ...]
    nodes: int
    gpus_per_node: int = 8
    nodes_per_leaf: int = 4
    gpu_model: GpuModel = H200
    sample_every_s: float = 10.0
    warm_up_s: float = 4 * HOUR_S
    offered_load: float = 1.3
    usual_queue: int = 60
    initial_jobs: int = 0
    longest_job_s: float = 24 * HOUR_S
    failures_per_gpu_hour: float = 1e-4
    repair_s: float = 2 * HOUR_S  # mean
    first_failure_s: float | None = None  # a GPU fails then for certain, counted from the start
    starts_jobs: bool = True  # False: after the warm-up, somebody else decides who runs

    def __post_init__(self) -> None:
        faults = [*self._faulty_numbers(), *self._faulty_groups()]
        if faults:
            raise StewardError(
                "; ".join(faults),
                where=f"scenario {self.name}",
                hint="start from steward.sim.scenario.demo() and change what you need",
            )

    @property
    def gpus(self) -> int:
        """Return the number of GPUs in the cluster."""
        return self.nodes * self.gpus_per_node

    def _faulty_numbers(self) -> list[str]:
        above_zero = (
            "nodes",
            "gpus_per_node",
            "nodes_per_leaf",
            "sample_every_s",
            "offered_load",
            "usual_queue",
            "longest_job_s",
            "repair_s",
        )
        not_negative = ("warm_up_s", "initial_jobs", "failures_per_gpu_hour")
        faults = [
            f"{name} is {getattr(self, name)}, not above 0"
            for name in above_zero
            if not getattr(self, name) > 0
        ]
        faults += [
            f"{name} is {getattr(self, name)}, not 0 or more"
            for name in not_negative
            if not getattr(self, name) >= 0
        ]
        if self.first_failure_s is not None and not self.first_failure_s >= 0:
            faults.append(f"first_failure_s is {self.first_failure_s}, not 0 or more")
        return faults

    def _faulty_groups(self) -> list[str]:
        faults = [] if self.groups else ["there are no groups"]
        names = [group.tenant.id for group in self.groups]
        faults += [
            f"tenant {name} is there twice" for name in sorted({*names}) if names.count(name) > 1
        ]
        for group in self.groups:
            if not group.demand > 0 or group.users < 1:
                faults.append(
                    f"group {group.tenant.id} has demand {group.demand} and {group.users} users"
                )
        guaranteed = sum(group.tenant.guaranteed_gpus for group in self.groups)
        if guaranteed > self.gpus:
            faults.append(f"{guaranteed} GPUs are guaranteed, but there are {self.gpus}")
        return faults


def _group(name: str, *, weight: float, guaranteed_gpus: int, demand: float, users: int) -> Group:
    tenant = Tenant(id=TenantId(name), weight=weight, guaranteed_gpus=guaranteed_gpus)
    return Group(tenant=tenant, demand=demand, users=users)


_GROUPS = (
    _group("bio", weight=2.0, guaranteed_gpus=16, demand=2.0, users=9),
    _group("chem", weight=1.0, guaranteed_gpus=8, demand=1.0, users=5),
    _group("nlp", weight=2.0, guaranteed_gpus=16, demand=3.0, users=12),
    _group("teaching", weight=0.5, guaranteed_gpus=4, demand=1.5, users=30),
    _group("vision", weight=1.5, guaranteed_gpus=12, demand=2.0, users=8),
)


def demo() -> Scenario:
    """Return the cluster that `steward up --demo` shows: 8 nodes of 8 H200, five tenants.

    Far more is wanted than there is, as on most shared clusters: a queue persists also when idle
    GPUs are lent. Failures are a hundred times as frequent as the one per 100,000 GPU-hours that
    large sites report, and one GPU fails in the first hour for certain: its node is drained, and
    comes back when the GPU is repaired.
    """
    return Scenario(
        name="demo",
        groups=_GROUPS,
        nodes=8,
        warm_up_s=6 * HOUR_S,
        offered_load=4.0,
        usual_queue=100,
        initial_jobs=180,
        longest_job_s=12 * HOUR_S,
        failures_per_gpu_hour=1e-3,
        first_failure_s=HOUR_S / 2,
    )


def sized(gpus: int, jobs: int) -> Scenario:
    """Return a world of about that many GPUs with about that many jobs in view, for benchmarks."""
    small = demo()
    nodes = max(1, round(gpus / small.gpus_per_node))
    waiting = max(10, jobs - round(0.55 * gpus))  # a running job holds two GPUs or a bit less
    return replace(
        small,
        name=f"sized-{gpus}-{jobs}",
        groups=tuple(_without_guarantee(group) for group in _GROUPS),
        nodes=nodes,
        warm_up_s=HOUR_S / 4,
        initial_jobs=round(1.1 * jobs),
        usual_queue=waiting,
        first_failure_s=None,
    )


def _without_guarantee(group: Group) -> Group:
    return replace(group, tenant=replace(group.tenant, guaranteed_gpus=0))
