"""What a metric is: ours by name and unit, with what everybody else calls the same thing.

The tables are in `model/metrics/`, one file per kind of thing that is measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "COUNTER",
    "KIB",
    "MIB",
    "Alias",
    "Metric",
    "MetricKind",
    "alias",
    "counted",
    "dcgm",
    "nvml",
    "of_events",
    "otel",
    "slurm",
]

KIB = float(2**10)
MIB = float(2**20)
_OF_EVENTS = re.compile(r"\.(mean|longest|p\d+)_seconds$")


class MetricKind(Enum):
    """A gauge is a level now; a counter only grows, until its process restarts."""

    GAUGE = "gauge"
    COUNTER = "counter"


COUNTER = MetricKind.COUNTER


@dataclass(frozen=True, slots=True)
class Alias:
    """What one vocabulary calls a metric. `field_id` is DCGM's, which outlives its names."""

    vocabulary: str
    name: str
    scale: float = 1.0
    field_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One thing that can be measured."""

    name: str
    unit: str
    of: str  # the kind of entity, see `model/frame.py`: gpu, share, node, cpu, disk, job, ...
    meaning: str
    kind: MetricKind = MetricKind.GAUGE
    rate: str = ""  # the metric that a counter becomes
    aliases: tuple[Alias, ...] = ()


def counted(
    name: str, rate: str, *, of: str, meaning: str, aliases: tuple[Alias, ...] = ()
) -> tuple[Metric, Metric]:
    """Return a counter and the rate that it becomes; units follow from the names.

    >>> [each.unit for each in counted("a.read_bytes", "a.read_bytes_per_s", of="node", meaning="")]
    ['By', 'By/s']
    """
    units = {"bytes": "By", "seconds": "s", "joules": "J", "share": "1", "watts": "W"}
    base = name.rpartition("_")[2]
    unit = units.get(base, "1")
    per_s = {"s": "1", "J": "W"}.get(unit, f"{unit}/s")
    counter = Metric(
        name=name, unit=unit, of=of, meaning=meaning, kind=COUNTER, rate=rate, aliases=aliases
    )
    return counter, Metric(name=rate, unit=per_s, of=of, meaning=f"{meaning}, per second")


def of_events(name: str) -> bool:
    """Say whether a metric tells how long things took: where nothing happened, it has no value.

    >>> of_events("disk.read.mean_seconds"), of_events("disk.busy_share")
    (True, False)
    """
    return _OF_EVENTS.search(name) is not None


def alias(vocabulary: str, name: str, scale: float = 1.0) -> Alias:
    """Say what another vocabulary calls a metric: `ours = theirs * scale`."""
    return Alias(vocabulary, name, scale)


def dcgm(field_id: int, *names: str, scale: float = 1.0) -> tuple[Alias, ...]:
    """Return DCGM's names of a field: old and new ones mean the same."""
    return tuple(Alias("dcgm", f"DCGM_FI_{name}", scale, field_id) for name in names)


def nvml(name: str, scale: float = 1.0) -> Alias:
    """Return NVML's name, as our client spells it."""
    return Alias("nvml", name, scale)


def otel(name: str, scale: float = 1.0) -> Alias:
    """Return OpenTelemetry's name."""
    return Alias("otel", name, scale)


def slurm(name: str, scale: float = 1.0) -> Alias:
    """Return Slurm's name."""
    return Alias("slurm", name, scale)
