"""Figures, times and decisions as text, for all pages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from steward.learn.rules import KEPT_SHARE
from steward.model.cluster_snapshot import GpuState
from steward.model.decision import DecisionState
from steward.model.finding import Finding, Severity
from steward.model.outcome import HOUR_S, JOULES_PER_KWH, Interval, Outcome, Story
from steward.model.yardstick import PUT_TO_WORK, RUN, YARDSTICKS

__all__ = [
    "GPU_MARKS",
    "GPU_WORDS",
    "SEVERITY_WORDS",
    "STATE_WORDS",
    "about",
    "amount",
    "clock",
    "duration",
    "evidence_text",
    "gpu_hours",
    "gpus_text",
    "interval",
    "kept_share",
    "measured_text",
    "outcome_text",
    "plural",
    "promises_text",
    "quantity_text",
    "quoted_text",
    "share",
]

GPU_WORDS = {
    GpuState.BUSY: "busy",
    GpuState.IDLE: "held but idle",
    GpuState.LENT: "lent",
    GpuState.FREE: "free",
    GpuState.UNKNOWN: "unknown",
    GpuState.FAILED: "failed",
}
GPU_MARKS = {
    GpuState.BUSY: "",
    GpuState.IDLE: "z",
    GpuState.LENT: "⇄",
    GpuState.FREE: "",
    GpuState.UNKNOWN: "?",
    GpuState.FAILED: "✕",
}
STATE_WORDS = {
    DecisionState.ADVISED: "advice",
    DecisionState.WAITING: "waits for you",
    DecisionState.APPROVED: "approved",
    DecisionState.REJECTED: "rejected",
    DecisionState.HELD: "held back",
    DecisionState.UNDER_WAY: "under way",
    DecisionState.ACTIVE: "in effect",
    DecisionState.DONE: "done",
    DecisionState.FAILED: "failed",
    DecisionState.UNDONE: "undone",
    DecisionState.EXPIRED: "expired",
}
SEVERITY_WORDS = {Severity.NOTE: "note", Severity.WASTE: "waste", Severity.FAULT: "fault"}
QUOTED = 3
LINE = 300  # characters of a line in a list
NARROW = "\N{NARROW NO-BREAK SPACE}"


def share(value: float | None) -> str:
    """Write a share as a percentage.

    >>> share(0.614), share(None)
    ('61\u202f%', 'unknown')
    """
    return "unknown" if value is None else f"{100 * value:.0f}{NARROW}%"


def amount(value: float) -> str:
    """Write a figure with about three digits.

    >>> [amount(x) for x in (0.0, 0.01234, 3.14159, 42.42, 1234.5)]
    ['0', '0.01', '3.14', '42.4', '1,234']
    """
    size = abs(value)
    if size < 0.005:
        return "0"
    digits = 2 if size < 10 else 1 if size < 100 else 0
    return f"{value:,.{digits}f}".replace("-", "\N{MINUS SIGN}")


def interval(figure: Interval) -> str:
    """Write the range of a figure.

    >>> interval(Interval(low=1.0, mid=2.0, high=3.0))
    '1.00 to 3.00'
    """
    return f"{amount(figure.low)} to {amount(figure.high)}"


def gpu_hours(gpu_seconds: float) -> str:
    """Write GPU-seconds as GPU-hours.

    >>> gpu_hours(5400)
    '1.50 GPU-h'
    """
    return f"{amount(gpu_seconds / HOUR_S)} GPU-h"


def duration(seconds: float | None) -> str:
    """Write how long, in the two units that matter.

    >>> [duration(s) for s in (None, 4, 75, 3720, 200000)]
    ['unknown', '4 s', '1 min 15 s', '1 h 02 min', '2 d 7 h']
    """
    if seconds is None:
        return "unknown"
    whole = int(max(0.0, seconds))
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {left:02d} s" if minutes else f"{left} s"


def about(seconds: float) -> str:
    """Write how long in one unit below an hour: a page need not be sent again for a second.

    >>> [about(s) for s in (4, 75, 3720)]
    ['4 s', '1 min', '1 h 02 min']
    """
    minutes = int(seconds // 60)
    return f"{minutes} min" if 1 <= minutes < 60 else duration(seconds)


def clock(t_s: float) -> str:
    """Write a moment; times are UTC on all pages.

    >>> clock(0)
    '1 Jan 1970 00:00:00'
    """
    moment = datetime.fromtimestamp(t_s, tz=UTC)
    return f"{moment.day} {moment:%b %Y %H:%M:%S}"


def evidence_text(finding: Finding) -> str:
    """Quote the first pieces of evidence and the last, which is about the job as a whole."""
    said = [each.says for each in finding.evidence]
    if len(said) > QUOTED:
        said = [*said[: QUOTED - 1], f"{len(said) - QUOTED} more like these", said[-1]]
    return "; ".join(said)


def outcome_text(outcome: Outcome) -> str:
    """Write what came of a decision, in the unit of its action's yardstick."""
    change = outcome.effect.by if outcome.effect is not None else None
    if outcome.effect is not None:
        return f"changed by {amount(change.mid)}" if change is not None else "unknown"
    return measured_text(outcome.gained.mid, outcome.yardstick)


def measured_text(value: float, yardstick: str) -> str:
    """Write a figure of a yardstick with its unit.

    >>> measured_text(5400.0, "put-to-work")
    '1.50 GPU-h'
    """
    unit = YARDSTICKS[yardstick].unit
    if unit == "GPU-seconds":
        return gpu_hours(value)
    if unit == "seconds":
        return f"{amount(value)} s"
    return f"{amount(value / JOULES_PER_KWH)} kWh" if unit == "joules" else amount(value)


def kept_share(story: Story) -> float | None:
    """Return how much of its promise a decision kept, as rules are judged; None if unknown."""
    in_gpu_time = story.decision.action.yardstick in (PUT_TO_WORK, RUN)
    judged = [each for each in story.outcomes if not (in_gpu_time and each.effect is not None)]
    known = [each.kept_share for each in judged if each.kept_share is not None]
    return known[-1] if known else None


def promises_text(stories: Iterable[Story]) -> str:
    """Count the decisions that kept their promise, by the measure that judges rules."""
    shares = [share_ for story in stories if (share_ := kept_share(story)) is not None]
    if not shares:
        return "no promise was checked yet"
    kept = sum(each >= KEPT_SHARE for each in shares)
    return f"{kept:,} of {plural(len(shares), 'promise')} kept"


def quoted_text(finding: Finding) -> str:
    """Quote the first line that a finding rests on, and count the rest."""
    if not finding.quotes:
        return ""
    first = finding.quotes[0].text[:LINE]
    more = len(finding.quotes) - 1
    return f"{first} (and {plural(more, 'more line')})" if more else first


def quantity_text(quantity: str, value: float) -> str:
    """Write a forecast's figure; what ends in `_s` is a duration.

    >>> quantity_text("idle.remaining_s", 365.0), quantity_text("loan.yield", 0.6)
    ('6 min 05 s', '0.60')
    """
    return duration(value) if quantity.endswith("_s") else amount(value)


def plural(count: int, one: str, many: str = "") -> str:
    """Count things in words.

    >>> plural(1, "GPU"), plural(3, "GPU"), plural(2, "entry", "entries")
    ('1 GPU', '3 GPUs', '2 entries')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def gpus_text(gpus: tuple[str, ...]) -> str:
    """Name a few GPUs, and count the rest.

    >>> gpus_text(("n1/gpu0", "n1/gpu1", "n1/gpu2", "n1/gpu3"))
    'n1/gpu0, n1/gpu1, n1/gpu2 and 1 more'
    """
    named = ", ".join(gpus[:3])
    return named if len(gpus) <= 3 else f"{named} and {len(gpus) - 3} more"
