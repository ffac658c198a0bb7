"""Decisions and findings as rows, and as records for programs."""

from __future__ import annotations

from typing import Any

from steward.cli.output import plain
from steward.cli.words import ago, gpu_hours, in_unit, moment, moment_ago, number
from steward.model.finding import Finding
from steward.model.outcome import Story

__all__ = [
    "COLUMNS",
    "FINDING_COLUMNS",
    "finding_row",
    "record",
    "row",
]

COLUMNS = ("id", "decided", "state", "what", "measured", "because")
FINDING_COLUMNS = ("id", "noticed", "severity", "subject", "title")


def row(story: Story, now_s: float) -> tuple[str, ...]:
    """Return a decision as a row of `COLUMNS`."""
    decision = story.decision
    return (
        decision.id,
        f"{moment(decision.t_s)}, {ago(decision.t_s, now_s)}",
        story.state.value,
        decision.action.sentence,
        _measured(story),
        decision.because,
    )


def _measured(story: Story) -> str:
    """Write what was measured so far: all of a loan, the last figure of anything else."""
    if not story.outcomes:
        return "-"
    last = story.outcomes[-1]
    if story.gained or last.effect is not None:
        return gpu_hours(story.gained)
    value, unit = in_unit(last.gained.mid, last.yardstick)
    return f"{number(value)} {unit}"


def record(seq: int, story: Story) -> dict[str, Any]:
    """Return a decision as JSON shows it in a list."""
    decision = story.decision
    return {
        "seq": seq,
        "id": decision.id,
        "t_s": decision.t_s,
        "state": story.state.value,
        "undo_state": story.undo_state.value if story.undo_state else None,
        "what": decision.action.sentence,
        "because": decision.because,
        "policy": decision.policy,
        "tenant": decision.tenant,
        "action": plain(decision.action),
        "expects_gpu_seconds": plain(decision.expects),
        "gained_gpu_seconds": story.gained,
    }


def finding_row(finding: Finding, now_s: float) -> tuple[str, ...]:
    """Return a finding as a row of `FINDING_COLUMNS`."""
    return (
        finding.id,
        moment_ago(finding.t_s, now_s),
        finding.severity.value,
        finding.place,
        finding.title,
    )
