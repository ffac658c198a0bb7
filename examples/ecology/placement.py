"""Where a training should run: time, money, energy and carbon at each place, and why not there.

`place` is the one function that the rest calls. A plan of `steward estimate plan --json` can stand
in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ecology.facts import Place

__all__ = ["Option", "Plan", "Work", "place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a training needs, in seconds of a core of this machine."""

    seconds: float
    memory_bytes: float
    deadline_s: float
    edge_joules_left: float  # of a day's energy, after frames and radio


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A place with what the training would take there; `fault` says why it is not possible."""

    place: Place
    run_s: float
    finish_s: float  # median, with the wait
    late_finish_s: float  # 90 %
    usd: float
    joules: float
    grams_co2: float
    fault: str = ""
    verdict: str = ""  # why it was taken, or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All options; `chosen` is None if nothing is possible."""

    options: tuple[Option, ...]
    chosen: Option | None


def place(work: Work, places: Sequence[Place]) -> Plan:
    """Return the cheapest option that keeps the deadline with 90 %; ties go to less carbon."""
    options = [_option(work, each) for each in places]
    possible = [each for each in options if not each.fault]
    best = min(possible, key=lambda each: (each.usd, each.grams_co2, each.finish_s), default=None)
    judged = tuple(_with_verdict(each, best) for each in options)
    chosen = next((each for each in judged if best and each.place == best.place), None)
    return Plan(options=judged, chosen=chosen)


def _option(work: Work, at: Place) -> Option:
    run_s = work.seconds * at.slowness
    paid_s = max(run_s + at.start_s, at.minimum_s)
    joules = at.watts * run_s * at.energy_overhead
    late_s = at.wait_s[1] + at.start_s + run_s
    fault = ""
    if work.memory_bytes > at.memory_bytes:
        fault = f"needs {work.memory_bytes / 1e9:.1f} GB of {at.memory_bytes / 1e9:.1f}"
    elif at.joules_per_day is not None and joules > work.edge_joules_left:
        fault = f"needs {joules:.0f} J; the day leaves {max(work.edge_joules_left, 0):.0f}"
    elif late_s > work.deadline_s:
        fault = f"one in ten takes over {late_s / 3600:.1f} h; due in {work.deadline_s / 3600:.0f}"
    return Option(
        place=at,
        run_s=run_s,
        finish_s=at.wait_s[0] + at.start_s + run_s,
        late_finish_s=late_s,
        usd=at.usd_per_core_hour * paid_s / 3600,
        joules=joules,
        grams_co2=joules / 3.6e6 * at.grams_co2_per_kwh,
        fault=fault,
    )


def _with_verdict(option: Option, best: Option | None) -> Option:
    if option.fault:
        text = f"not possible: {option.fault}"
    elif best is not None and option.place == best.place:
        text = "taken: the cheapest in time"
    else:
        dearer = option.usd / best.usd if best and best.usd else 0.0
        text = f"{dearer:.1f} times the price" if dearer else "not free"
    return Option(**{name: getattr(option, name) for name in _COPIED}, verdict=text)


_COPIED = tuple(name for name in Option.__dataclass_fields__ if name != "verdict")
