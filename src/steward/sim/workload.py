"""Who submits what, and when: a stream of orders calibrated to published traces.

GPU counts, run times and the profile of the day are those of Microsoft's Philly (Jeon et al.,
"Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019; 82,247
jobs, CC-BY-4.0), kept as summary tables. The shares of ends are Philly's as tabulated by Acme
(Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024).

SYNTHETIC, because no public trace has it: kinds of work, tenants, users, names, priorities, memory,
checkpointing and time limits. No conclusion about a real site should rest on these.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steward.model.cluster import GIB
from steward.model.identity import JobId
from steward.model.job import Checkpointing, Job, JobShape, JobState
from steward.sim.program import JobProgram, Kind, Order, program_of
from steward.sim.scenario import Scenario
from steward.sim.shapes import measured_shapes

__all__ = [
    "DURATION_LEVELS",
    "DURATION_QUANTILES_S",
    "GPU_SHARES",
    "HOUR_PROFILE",
    "Script",
    "Workload",
    "durations_s",
    "mean_gpu_seconds",
]

Floats = NDArray[np.float64]

# Philly: share of jobs by number of GPUs; 16 stands for all above 8.
GPU_SHARES: dict[int, float] = {1: 0.9317, 2: 0.0221, 4: 0.0227, 8: 0.0200, 16: 0.0035}

# Philly: run time of jobs, by class of GPU count, at these levels of the distribution.
DURATION_LEVELS = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
DURATION_QUANTILES_S: dict[int, tuple[float, ...]] = {
    1: (1, 52, 62, 122, 1117, 2716, 8512, 19137, 135404, 3256045),
    2: (2, 9, 11, 16, 21, 76, 73625, 197392, 526030, 2582803),
    4: (3, 75, 138, 772, 17431, 89422, 184519, 274339, 908661, 2750674),
    8: (1, 125, 216, 1871, 23683, 173288, 352409, 525631, 1066894, 4628226),
    16: (1, 35, 72, 566, 21137, 104218, 247971, 443240, 922628, 1710643),
}

# Philly: submissions in each hour of the day, in parts of the mean.
HOUR_PROFILE: tuple[float, ...] = (
    *(1.27, 0.98, 1.12, 1.10, 0.70, 1.15, 1.67, 2.09, 1.11, 1.01, 1.02, 0.87),
    *(0.75, 0.70, 0.64, 0.65, 0.88, 0.67, 0.80, 0.73, 1.02, 0.92, 1.13, 1.01),
)

# Philly by Acme's table: completed, failed, cancelled.
_END_SHARES = (0.604, 0.305, 0.091)
_ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)

HOUR_S = 3600.0
_BATCH = 256
_LONG_S = 1800.0  # nobody opens a notebook, or notices a hang, below this
# SYNTHETIC shares of kinds, in the order above: short jobs, long ones on few GPUs, long gangs.
_SHORT_KINDS = (0.80, 0.07, 0.05, 0.08, 0.00, 0.00)
_LONG_KINDS = (0.42, 0.07, 0.05, 0.09, 0.32, 0.05)
_GANG_KINDS = (0.72, 0.06, 0.00, 0.06, 0.06, 0.10)
_NAMES: dict[Kind, tuple[str, ...]] = {
    Kind.TRAINING: ("finetune-7b", "pretrain-small", "resnet-sweep", "ablation", "diffusion"),
    Kind.INPUT_BOUND: ("train-raw-video", "augment-heavy", "train-from-nfs"),
    Kind.SIMULATION: ("rl-walker", "rl-fold"),
    Kind.INFERENCE: ("serve-llm", "embed-corpus", "score-batch"),
    Kind.NOTEBOOK: ("notebook",),
    Kind.HUNG: ("finetune-7b", "pretrain-small", "resnet-sweep"),  # a name does not tell
}
# SYNTHETIC share of jobs that can save themselves: three of four in all.
_ABLE_SHARES: dict[Kind, float] = {
    Kind.TRAINING: 0.88,
    Kind.INPUT_BOUND: 0.88,
    Kind.SIMULATION: 0.80,
    Kind.INFERENCE: 0.90,
    Kind.NOTEBOOK: 0.00,
    Kind.HUNG: 0.88,
}
_LARGE_SHARE = 0.12  # of jobs that leave no room for another one on their GPU
_URGENT_SHARE = 0.05
_SIZE_PRIORITY = {4: 1, 8: 2}  # larger jobs go first, lest small ones never leave them a node


class _Die(IntEnum):
    """Which of an order's uniform numbers decides what."""

    GPUS = 0
    DURATION = 1
    KIND = 2
    TENANT = 3
    USER = 4
    NAME = 5
    PRIORITY = 6
    LARGE = 7
    MEMORY = 8
    FILL = 9
    ABLE = 10
    SAVE = 11
    RESTORE = 12
    EVERY = 13
    LIMIT = 14
    ENDS = 15
    PATIENCE = 16


def durations_s(gpus: int, levels: Floats, *, longest_s: float) -> Floats:
    """Return run times at given levels of the published distribution, log-linear in between."""
    quantiles = np.log(DURATION_QUANTILES_S[_class_of(gpus)])
    return np.minimum(np.exp(np.interp(levels, DURATION_LEVELS, quantiles)), longest_s)


def mean_gpu_seconds(*, gpus_per_node: int, longest_s: float) -> float:
    """Return the GPU-seconds that a mean job asks for, by which arrivals are set."""
    levels = (np.arange(10_000) + 0.5) / 10_000
    total = sum(GPU_SHARES.values())
    return sum(
        share
        / total
        * min(gpus, gpus_per_node)
        * float(durations_s(gpus, levels, longest_s=longest_s).mean())
        for gpus, share in GPU_SHARES.items()
    )


def _class_of(gpus: int) -> int:
    return next((each for each in GPU_SHARES if gpus <= each), max(GPU_SHARES))


class Script(Protocol):
    """Who comes when, and what they do: generated, or told."""

    def initial(self) -> Sequence[Order]:
        """Return the orders that are there when the world begins."""
        ...

    def following(self) -> Order | None:
        """Return the next order, or None when nobody comes any more."""
        ...

    def submits(self, order: Order, *, waiting: int) -> bool:
        """Say whether an order is still given when so many of its size wait."""
        ...

    def program(self, order: Order) -> JobProgram:
        """Return what the job of an order does, at full speed."""
        ...


class Workload:
    """The stream of orders of one scenario. What an order says depends on seed and number alone."""

    def __init__(self, scenario: Scenario, *, seed: int, begin_s: float) -> None:
        self._scenario = scenario
        self._seed = seed
        self._times = np.random.default_rng([seed, 1])
        self._dice = np.random.default_rng([seed, 2])
        self._thrown = np.empty((0, len(_Die)))
        self._made = 0
        self._t_s = begin_s
        mean_s = mean_gpu_seconds(
            gpus_per_node=scenario.gpus_per_node, longest_s=scenario.longest_job_s
        )
        self._per_s = scenario.offered_load * scenario.gpus / mean_s
        self._shares: dict[int, float] = defaultdict(float)
        for gpus, share in GPU_SHARES.items():
            self._shares[min(gpus, scenario.gpus_per_node)] += share / sum(GPU_SHARES.values())

    def initial(self) -> tuple[Order, ...]:
        """Return the orders that are there when the world begins."""
        return tuple(self._order(self._t_s) for _ in range(self._scenario.initial_jobs))

    def following(self) -> Order:
        """Return the next order; time moves on to its submission."""
        self._t_s = self._next_s()
        return self._order(self._t_s)

    def submits(self, order: Order, *, waiting: int) -> bool:
        """Say whether a person still submits when so many jobs of the same size wait already.

        At the usual number of them, as many stay away as are too many for the cluster.
        """
        usual = self._scenario.usual_queue * self._shares[order.job.shape.gpus]
        excess = max(0.0, self._scenario.offered_load - 1.0) * waiting / usual
        return order.patience * (1.0 + excess) < 1.0

    def program(self, order: Order) -> JobProgram:
        """Write the life of a job, with dice of its own."""
        dice = np.random.default_rng([self._seed, 5, order.number])
        return program_of(order, measured_shapes(), dice)

    def _next_s(self) -> float:
        """Return the next arrival of a Poisson process whose rate changes with the hour."""
        t_s, left = self._t_s, float(self._times.exponential())
        while True:
            hour = math.floor(t_s / HOUR_S)
            rate = self._per_s * HOUR_PROFILE[hour % 24]
            room_s = (hour + 1) * HOUR_S - t_s
            if left <= rate * room_s:
                return t_s + left / rate
            left -= rate * room_s
            t_s = (hour + 1) * HOUR_S

    def _order(self, t_s: float) -> Order:
        row = self._made % _BATCH
        if row == 0:
            self._thrown = self._dice.random((_BATCH, len(_Die)))
        self._made += 1
        return _order(self._scenario, self._thrown[row], number=self._made, t_s=t_s)


def _pick(shares: Sequence[float], level: float) -> int:
    """Return which of several shares a uniform number falls into."""
    edges = list(accumulate(shares))
    return min(bisect_right(edges, level * edges[-1]), len(edges) - 1)


def _between(low: float, high: float, level: float) -> float:
    return low + (high - low) * level


def _kind_of(gpus: int, duration_s: float, level: float) -> Kind:
    long = _LONG_KINDS if gpus <= 2 else _GANG_KINDS
    shares = _SHORT_KINDS if duration_s < _LONG_S else long
    return tuple(Kind)[_pick(shares, level)]


def _order(scenario: Scenario, dice: Floats, *, number: int, t_s: float) -> Order:
    level: list[float] = dice.tolist()
    asked = tuple(GPU_SHARES)[_pick(tuple(GPU_SHARES.values()), level[_Die.GPUS])]
    duration_s = float(durations_s(asked, dice[_Die.DURATION], longest_s=scenario.longest_job_s))
    gpus = min(asked, scenario.gpus_per_node)
    kind = _kind_of(gpus, duration_s, level[_Die.KIND])
    return Order(
        job=_job(scenario, level, kind=kind, gpus=gpus, number=number, t_s=t_s),
        number=number,
        kind=kind,
        duration_s=duration_s,
        limit_s=duration_s if kind is Kind.HUNG else duration_s * _between(2, 4, level[_Die.LIMIT]),
        fill_share=_between(0.8, 0.98, level[_Die.FILL]),
        ends=_ENDS[_pick(_END_SHARES, level[_Die.ENDS])],
        patience=level[_Die.PATIENCE],
    )


def _job(
    scenario: Scenario, level: list[float], *, kind: Kind, gpus: int, number: int, t_s: float
) -> Job:
    group = scenario.groups[_pick([each.demand for each in scenario.groups], level[_Die.TENANT])]
    names = _NAMES[kind]
    return Job(
        id=JobId(str(number)),
        tenant=group.tenant.id,
        shape=JobShape(
            gpus=gpus,
            gpu_memory_bytes=_memory_bytes(scenario.gpu_model.memory_bytes, level),
            cpus=8 * gpus,
            memory_bytes=64 * GIB * gpus,
        ),
        submit_s=t_s,
        user=f"{group.tenant.id}{1 + int(level[_Die.USER] * group.users):02d}",
        name=names[int(level[_Die.NAME] * len(names))],
        priority=_SIZE_PRIORITY.get(gpus, 0) + int(level[_Die.PRIORITY] < _URGENT_SHARE),
        checkpointing=_checkpointing(kind, level),
    )


def _memory_bytes(limit_bytes: int, level: list[float]) -> int:
    """Most ask for 10 to 60 GiB of an H200; two of those fit beside each other."""
    if level[_Die.LARGE] < _LARGE_SHARE:
        share = _between(0.6, 0.95, level[_Die.MEMORY])
    else:
        share = _between(10 / 141, 60 / 141, level[_Die.MEMORY])
    return round(share * limit_bytes / GIB) * GIB


def _checkpointing(kind: Kind, level: list[float]) -> Checkpointing:
    if not level[_Die.ABLE] < _ABLE_SHARES[kind]:
        return Checkpointing()
    return Checkpointing(
        able=True,
        save_s=round(_between(10, 30, level[_Die.SAVE]), 1),
        restore_s=round(_between(20, 60, level[_Die.RESTORE]), 1),
        every_s=round(_between(600, 1800, level[_Die.EVERY])),
    )
