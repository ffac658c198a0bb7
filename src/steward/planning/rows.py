"""A plan as rows of text, for terminals and pages alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from steward.decide.planning.formatting import amount, dollars, duration, way_name
from steward.decide.planning.reasons import score
from steward.model.planning.plan import Choice, Plan, Range, Rejected

__all__ = [
    "FRONT_COLUMNS",
    "REJECTED_COLUMNS",
    "front_rows",
    "moment",
    "money",
    "note_lines",
    "rejected_rows",
]

FRONT_COLUMNS = (
    *("", "where", "with", "start", "wait", "run", "end", "chance", "cost", "energy", "CO2"),
    "notes",
)
REJECTED_COLUMNS = ("where", "with", "why not")


def front_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Return a row of `FRONT_COLUMNS` per choice, the recommended one first."""
    marks = _marks(plan)
    for place, choice in enumerate(plan.front, 1):
        yield (
            str(place),
            f"{choice.site}/{choice.queue}",
            _with(choice),
            _start(choice, plan.request.now_s),
            _span(choice.wait_s),
            _span(choice.run_s),
            moment(choice.end_s.mid),
            "-" if choice.deadline_chance is None else f"{choice.deadline_chance:.0%}",
            money(choice),
            f"{amount(choice.kwh.mid, 'kWh')}",
            "unknown" if choice.co2_kg is None else amount(choice.co2_kg.mid, "kg"),
            " ".join(f"[{marks[note]}]" for note in choice.notes),
        )


def note_lines(plan: Plan) -> Iterator[str]:
    """Return the notes that the rows refer to."""
    return (f"[{mark}] {note}" for note, mark in _marks(plan).items())


def rejected_rows(plan: Plan, *, most: int) -> Iterator[tuple[str, ...]]:
    """Return a row of `REJECTED_COLUMNS` each, the best of them first."""
    for each in nearest(plan)[:most]:
        way = way_name(each.choice.way) if each.choice else _gpus(each)
        yield f"{each.site}/{each.queue}", way, each.why


def nearest(plan: Plan) -> list[Rejected]:
    """Return what lost: first what could run, the best of it first, then what could not."""
    request = plan.request
    return sorted(
        plan.rejected,
        key=lambda each: (each.choice is None, score(each.choice, request) if each.choice else 0.0),
    )


def money(choice: Choice) -> str:
    """Write what a choice costs, with its limits; in the site's unit where that has no price."""
    if choice.usd is None:
        return ", ".join(amount(value, unit) for unit, value in choice.units.items())
    usd = choice.usd
    if usd.high <= 0:
        return "free"
    if usd.high - usd.low < 0.01 * usd.high:
        return dollars(usd.mid)
    return f"{dollars(usd.mid)} ({dollars(usd.low)} to {dollars(usd.high)})"


def moment(t_s: float) -> str:
    """Write a time, to the minute.

    >>> moment(0.0)
    '1970-01-01 00:00 UTC'
    """
    try:
        return datetime.fromtimestamp(t_s, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "beyond all calendars"


def _marks(plan: Plan) -> dict[str, int]:
    notes = dict.fromkeys(note for choice in plan.front for note in choice.notes)
    return {note: mark for mark, note in enumerate(notes, 1)}


def _with(choice: Choice) -> str:
    parts = [way_name(choice.way)]
    if choice.nodes > 1:
        parts.append(f"{choice.nodes} nodes")
    if choice.links > 1:
        parts.append(f"chain of {choice.links}")
    if choice.interruptible:
        parts.append("interruptible")
    return ", ".join(parts)


def _gpus(each: Rejected) -> str:
    if each.gpus:
        return f"{each.gpus} x {each.gpu_model}"
    return each.gpu_model or "no GPU"


def _start(choice: Choice, now_s: float) -> str:
    later_s = choice.start_s - now_s
    return "now" if later_s <= 0 else f"in {duration(later_s)}"


def _span(value: Range) -> str:
    if value.high <= 0:
        return "none"
    if value.high - value.low < 0.01 * value.high:
        return duration(value.mid)
    return f"{duration(value.mid)} ({duration(value.low)} to {duration(value.high)})"
