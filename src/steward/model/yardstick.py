"""What outcomes are measured in: one table for loans, rules, the breaker and the report alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

__all__ = [
    "DEADLINES",
    "EFFECT",
    "ENERGY",
    "GPU_TIME",
    "PLANS",
    "PUT_TO_WORK",
    "RETURN_TIME",
    "RUN",
    "SERVICE",
    "SPEED",
    "STALL",
    "STOP_COST",
    "WAITING",
    "YARDSTICKS",
    "ComparedWith",
    "Yardstick",
]


class ComparedWith(Enum):
    """What the measured figure was compared with."""

    BEFORE_AFTER = "before and after"
    COUNTERFACTUAL = "what would have happened without it"
    DIRECT = "measured directly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """A quantity that outcomes of some actions are measured in; more is better."""

    name: str
    unit: str
    text: str
    comparison: ComparedWith
    saves: bool = False  # whether its GPU-seconds count as savings


PUT_TO_WORK = "put-to-work"
RUN = "run"
STOP_COST = "stop-cost"
SERVICE = "service"
RETURN_TIME = "return-time"
WAITING = "waiting"
ENERGY = "energy"
EFFECT = "effect"
DEADLINES = "deadlines"
GPU_TIME = "gpu-time"
PLANS = "plans"
SPEED = "speed"
STALL = "stall"

_ALL = (
    Yardstick(
        name=PUT_TO_WORK,
        unit="GPU-seconds",
        text="work done on GPUs that would have been idle",
        comparison=ComparedWith.COUNTERFACTUAL,
        saves=True,
    ),
    Yardstick(
        name=RUN,
        unit="GPU-seconds",
        text="time that a started job held its GPUs by the check",
        comparison=ComparedWith.DIRECT,
    ),
    Yardstick(
        name=STOP_COST,
        unit="GPU-seconds",
        text="minus what saving, repeating lost work and restoring cost",
        comparison=ComparedWith.DIRECT,
    ),
    Yardstick(
        name=SERVICE,
        unit="GPU-seconds",
        text="GPU time brought back into service by the check; negative where it was taken out",
        comparison=ComparedWith.BEFORE_AFTER,
    ),
    Yardstick(
        name=RETURN_TIME,
        unit="seconds",
        text="minus the time from the request until the owner had its GPUs alone",
        comparison=ComparedWith.DIRECT,
    ),
    Yardstick(
        name=WAITING,
        unit="seconds",
        text="waiting saved",
        comparison=ComparedWith.COUNTERFACTUAL,
    ),
    Yardstick(
        name=ENERGY,
        unit="joules",
        text="energy saved for the same work",
        comparison=ComparedWith.BEFORE_AFTER,
    ),
    Yardstick(
        name=EFFECT,
        unit="the unit of the rule's expression",
        text="how the expression that a rule names changed",
        comparison=ComparedWith.BEFORE_AFTER,
    ),
    Yardstick(
        name=DEADLINES,
        unit="requests",
        text="requests that kept their deadline, beyond the share that did before",
        comparison=ComparedWith.BEFORE_AFTER,
    ),
    Yardstick(
        name=GPU_TIME,
        unit="GPU-seconds",
        text="time for which an instance held no GPUs, until the next one of its type was started",
        comparison=ComparedWith.COUNTERFACTUAL,
    ),
    Yardstick(
        name=PLANS,
        unit="USD",
        text="money and lateness that a job was spared, against what was forecast where it was",
        comparison=ComparedWith.COUNTERFACTUAL,
    ),
    Yardstick(
        name=SPEED,
        unit="GPU-seconds",
        text="useful GPU time that jobs on a congested fabric gained, what a cap cost taken off",
        comparison=ComparedWith.BEFORE_AFTER,
    ),
    Yardstick(
        name=STALL,
        unit="seconds",
        text="time that a process waited less for its memory, moves counted against it",
        comparison=ComparedWith.BEFORE_AFTER,
    ),
)
YARDSTICKS: Mapping[str, Yardstick] = MappingProxyType({each.name: each for each in _ALL})
