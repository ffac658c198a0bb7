"""`/rules/RULE`: what a rule looks for, what it means, how often it matched, what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from steward.service.live_state import StateSnapshot
from steward.service.pages.charts import HUES, line_chart
from steward.service.pages.drawings import empty, found_list
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Chart, Html
from steward.service.pages.rules.drawings import meaning, rule_tiles, state_chips

__all__ = ["hits_series", "rule_page"]

SHOWN = 20
STEP_S = 600.0
DAY_S = 86400.0
MISSING = empty("There is no such rule", "The address may be cut off. The list has them all.")
NOTHING = empty("Nothing found yet", "What this rule finds is listed here with its evidence.")


def rule_page(visit: Visit, rule: str) -> Show:
    """Build the page and return what keeps it up to date."""
    del visit  # all of it is in the snapshot
    Html(tag("a", "← All rules", href="/rules", class_="st-back"))
    missing = Html()
    head = Html()
    tiles = Html(classes="st-figures")
    with card("Matches in ten minutes") as hits_card:
        chart = Chart(_bars(), every_s=5.0)
    with ui.element("div").classes("st-columns"):
        with ui.element("div"), card("What it means") as meaning_card:
            words = Html()
        with ui.element("div"), card("Findings") as findings_card:
            findings = Html()

    def show(snapshot: StateSnapshot) -> None:
        row = next((each for each in snapshot.rules if each.id == rule), None)
        missing.show(MISSING if row is None else Markup(""))
        for each in (meaning_card, findings_card):
            each.set_visibility(row is not None)
        hits_card.set_visibility(row is not None and bool(row.stats.history))
        if row is None:
            return
        severity = row.severity.word if row.severity is not None else ""
        title = tag("h1", row.title or row.id, class_="st-title")
        facts = " · ".join(each for each in (row.id, row.standing.pack, severity) if each)
        head.show(join(title, state_chips(row), tag("p", facts, class_="st-quiet")))
        tiles.show(rule_tiles(row))
        words.show(meaning(row))
        chart.show(lambda: hits_series(row.stats.history, snapshot.cluster.t_s))
        mine = [each for each in snapshot.findings if each.rule == rule][:SHOWN]
        findings.show(found_list(mine, snapshot.cluster.t_s) if mine else NOTHING)

    return show


def _bars() -> dict[str, Any]:
    chart = line_chart()
    chart["yAxis"]["minInterval"] = 1
    chart["legend"]["show"] = False
    return chart


def hits_series(history: Sequence[tuple[float, int]], now_s: float) -> list[dict[str, Any]]:
    """Return how often a rule matched, as bars over the last day, or longer where there are any."""
    first_s = min([now_s - DAY_S, *(t_s for t_s, _ in history)])
    edges = [[1000 * t_s, 0] for t_s in (first_s, now_s)]
    # Bars are as far apart as the nearest two: with one alone, its room would be the whole day.
    no_bars = [[1000 * t_s, None] for t_s in (first_s, first_s + STEP_S)]
    return [
        {
            "type": "bar",
            "name": "matches",
            "color": HUES[0],
            "barMaxWidth": 8,
            "barMinHeight": 2,
            "data": [*no_bars, *([1000 * t_s, hits] for t_s, hits in history)],
        },
        {"type": "scatter", "symbolSize": 0, "silent": True, "data": edges},
    ]
