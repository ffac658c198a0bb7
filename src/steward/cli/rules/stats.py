"""`steward rules stats`: how often rules fired, and how often they were right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steward.cli.options import Config, Data, Json, now_s, open_store
from steward.cli.output import print_json, print_note, print_table
from steward.cli.words import ago, sparkline

if TYPE_CHECKING:
    from steward.model.rules import RuleStats
    from steward.store.journal import Journal

__all__ = ["stats"]

_PAGE = 5000
_WEEK_S, _STEP_S = 7 * 86400.0, 6 * 3600.0
_COLUMNS = (
    "rule", "fired", "findings", "confirmed", "dismissed", "decisions", "undone", "met", "missed",
    "weight", "last", "last week", "",
)  # fmt: skip


def stats(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """Show how often each rule fired, and how often it was right.

    Counts come from findings, choices and outcomes in the journal. The weight
    is the share of judged findings that were right, and its range. A rule that is wrong more
    often than right is marked: retire it, or make it narrower.
    """
    from steward.learn.rules import rule_stats

    with open_store(config, data) as store:
        at_s = now_s(store.journal)
        found = rule_stats(_values(store.journal), now_s=at_s)
    if as_json:
        print_json(found)
        return
    print_table(_COLUMNS, [_row(each, at_s) for each in found], empty="no rule has fired yet")
    wrong = [each.rule for each in found if each.retire]
    if wrong:
        print_note(f"wrong more often than right: {', '.join(wrong)}; rules.disabled turns one off")


def _values(journal: Journal) -> Iterator[object]:
    from steward.learn.rules import KINDS

    after = 0
    while entries := journal.read(after=after, kinds=KINDS, limit=_PAGE):
        yield from (entry.value for entry in entries)
        after = entries[-1].seq


def _row(each: RuleStats, at_s: float) -> tuple[str, ...]:
    counts = (each.fired, each.findings, each.confirmed, each.dismissed, each.decisions,
              each.undone, each.met, each.missed)  # fmt: skip
    weight = f"{each.weight:.2f} ({each.low:.2f}-{each.high:.2f})" if each.judged else "not judged"
    last = ago(each.last_s, at_s) if each.last_s is not None else ""
    return (
        each.rule,
        *(f"{count:,}" for count in counts),
        weight,
        last,
        _week(each, at_s),
        "retire?" if each.retire else "",
    )


def _week(each: RuleStats, at_s: float) -> str:
    """Draw how often it fired in the last seven days."""
    steps = [0.0] * int(_WEEK_S / _STEP_S)
    for t_s, hits in each.history:
        place = int((t_s - at_s + _WEEK_S) // _STEP_S)
        if 0 <= place < len(steps):
            steps[place] += hits
    return sparkline(steps, width=len(steps)) if any(steps) else ""
