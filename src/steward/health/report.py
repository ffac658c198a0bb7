"""All that logs, accounting and inventories say of a fleet, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steward.decide.health.checkpoint_intervals import CheckpointAdvice, SaveCosts, best_interval
from steward.decide.health.spares import SparePlan, spares_for, spares_from_counts
from steward.errors import StewardError
from steward.health.exposure import Exposure, exposure_of, is_empty, window_of
from steward.health.scan import Scan
from steward.learn.reliability import (
    Edge,
    JobFailures,
    NodeAvailability,
    Rate,
    availability,
    down_counts,
    job_failures,
    propagation,
    rate_of,
    rate_ratio,
)
from steward.learn.reliability.propagation import ends, label
from steward.model.faults import Incident
from steward.model.outcome import Interval
from steward.observe.accounting import Accounts

__all__ = ["FleetReport", "NamedRate", "fleet_report", "spare_plans"]

Floats = NDArray[np.float64]
DAY_S = 86_400.0
_SIZES = (8, 64, 512, 1024, 4096, 16_384)  # of jobs, in GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRate:
    """The rate of one code, part or generation; `against_rest` compares with all others."""

    name: str
    rate: Rate
    worst: tuple[tuple[str, int], ...]
    against_rest: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """What `steward health report` shows. Empty parts are what no source was given for."""

    scan: Scan
    exposure: Exposure
    codes: list[NamedRate]
    fatal: NamedRate | None
    parts: list[NamedRate]
    batches: list[NamedRate]
    edges: list[Edge]
    ends: dict[str, Interval]
    jobs: list[JobFailures]
    job_count: int
    available: NodeAvailability | None
    spares: dict[str, SparePlan]
    checkpoints: dict[int, CheckpointAdvice]
    notes: list[str] = field(default_factory=list)


def fleet_report(
    found: Scan,
    accounts: Accounts,
    *,
    now_s: float,
    gpus: int | None = None,
    target: float = 0.999,
    costs: SaveCosts | None = None,
) -> FleetReport:
    """Join what was read into rates, effects and what follows from them."""
    episodes = found.episodes
    window_s = window_of(episodes, accounts)
    exposure = exposure_of(episodes, found.inventory, accounts, window_s=window_s, gpus=gpus)
    gpu_faults = [each for each in found.incidents if each.episode.node or each.episode.device]
    notes = [f"exposure: {exposure.basis}"]
    # A node that is only known from jobs may have been up all the time.
    nodes = accounts.nodes()
    watched = bool(accounts.spells) and not is_empty(window_s)
    available = availability(accounts.spells, nodes, window_s) if watched else None
    fatal = _rate("fatal", [each for each in gpu_faults if each.fatal], exposure)
    return FleetReport(
        scan=found,
        exposure=exposure,
        codes=_grouped(gpu_faults, exposure, lambda each: label(each.episode)),
        fatal=fatal,
        parts=_by_unit(gpu_faults, exposure, found, "part"),
        batches=_by_unit(gpu_faults, exposure, found, "batch"),
        edges=propagation(episodes),
        ends=ends(episodes),
        jobs=job_failures(episodes, accounts.jobs, now_s=now_s, inventory=found.inventory),
        job_count=len(accounts.jobs),
        available=available,
        spares=spare_plans(accounts, available, window_s, needed=len(nodes), target=target)
        if available
        else {},
        checkpoints=_checkpoints(fatal, costs or SaveCosts(save_s=30.0, restart_s=300.0)),
        notes=notes,
    )


def spare_plans(
    accounts: Accounts,
    available: NodeAvailability,
    window_s: tuple[float, float],
    *,
    needed: int,
    target: float,
) -> dict[str, SparePlan]:
    """Return the spares if nodes fail each by itself, and as outages really came together."""
    plans: dict[str, SparePlan] = {}
    with suppress(StewardError):  # nodes are down so much that no number is enough
        plans["independent"] = spares_for(needed, available.available, target=target)
    times, counts = down_counts(accounts.spells, window_s)
    days = _days(times, counts)
    plans["as outages came"] = spares_from_counts(needed, available.nodes, days, target=target)
    return plans


def _days(times: Floats, counts: NDArray[np.int64]) -> list[tuple[Floats, Floats]]:
    """Split a step function at days."""
    edges = np.arange(times[0], times[-1] + DAY_S, DAY_S)
    whole = np.unique(np.concatenate([times, edges[edges < times[-1]]]))
    values = counts[np.searchsorted(times, whole[:-1], "right") - 1]
    day = ((whole[:-1] - times[0]) // DAY_S).astype(np.int64)
    lasting = np.diff(whole)
    return [
        (lasting[day == each], values[day == each].astype(np.float64)) for each in np.unique(day)
    ]


def _grouped(
    incidents: Sequence[Incident], exposure: Exposure, name: Callable[[Incident], str]
) -> list[NamedRate]:
    groups: dict[str, list[Incident]] = {}
    for each in incidents:
        groups.setdefault(name(each), []).append(each)
    found = [_rate(key, group, exposure) for key, group in groups.items()]
    return sorted((each for each in found if each), key=lambda each: (-each.rate.count, each.name))


def _rate(name: str, incidents: Iterable[Incident], exposure: Exposure) -> NamedRate | None:
    episodes = [each.episode for each in incidents]
    counts = exposure.counts(episodes)
    rest = len(episodes) - int(counts.sum())  # of what is no GPU, or in no inventory
    hours = exposure.hours
    if rest:
        counts, hours = np.append(counts, rest), np.append(hours, 0.0)
    if not len(counts):
        return None
    rate = rate_of(counts, hours)
    names = (*exposure.gpus, "not in the inventory")
    return NamedRate(
        name=name, rate=rate, worst=tuple((names[i], int(counts[i])) for i in rate.worst[:10])
    )


def _by_unit(
    incidents: Sequence[Incident], exposure: Exposure, found: Scan, what: str
) -> list[NamedRate]:
    """Return the rate of fatal faults by a property of GPUs, each against all others."""
    units = found.inventory.units
    kinds = {gpu: str(getattr(units[gpu], what)) for gpu in exposure.gpus if gpu in units}
    names = sorted({each for each in kinds.values() if each})
    fatal = [each.episode for each in incidents if each.fatal]
    result = []
    for name in names if len(names) > 1 else []:
        inside = np.array([kinds.get(gpu) == name for gpu in exposure.gpus])
        counts = exposure.counts(fatal)
        rate = rate_of(counts[inside], exposure.hours[inside])
        others = (int(counts[~inside].sum()), float(exposure.hours[~inside].sum()))
        own_gpus = [gpu for gpu, own in zip(exposure.gpus, inside, strict=True) if own]
        result.append(
            NamedRate(
                name=name,
                rate=rate,
                worst=tuple((own_gpus[i], int(counts[inside][i])) for i in rate.worst[:10]),
                against_rest=rate_ratio((rate.count, rate.exposure_h), others),
            )
        )
    return result


def _checkpoints(fatal: NamedRate | None, costs: SaveCosts) -> dict[int, CheckpointAdvice]:
    """Return the best interval for jobs of several sizes, by the rate of fatal faults."""
    if fatal is None or not fatal.rate.exposure_h > 0:
        return {}
    return {
        size: best_interval(
            costs, failures=fatal.rate.count, gpu_hours=fatal.rate.exposure_h, gpus=size
        )
        for size in _SIZES
    }
