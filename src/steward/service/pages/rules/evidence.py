"""The log lines and series that a finding rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steward.model.finding import Evidence, Finding, Quote
from steward.model.rules import Rule
from steward.service.highlight import matched_spans
from steward.service.pages.charts import GREY
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.telemetry.figures import figure, title, unit_for
from steward.service.pages.telemetry.panels import Panel, options
from steward.service.pages.wording import clock
from steward.service.telemetry import Series, read_series
from steward.store.telemetry import Telemetry

__all__ = ["Drawn", "evidence_charts", "quote_table"]

LEAD_SHARE, LEAST_LEAD_S = 0.6, 120.0  # of the window, shown before and after it
MOST_CHARTS = 6
POINTS = 600
RED = "#c9433a"

Drawn = list[tuple[str, str, dict[str, Any]]]  # heading, caption, chart options


def quote_table(quotes: Sequence[Quote], rule: Rule | None) -> Markup:
    """Show lines as they were written, with what matched marked."""
    rows = (
        tag(
            "li",
            tag(
                "span",
                tag("time", f"{clock(quote.t_s)} UTC"),
                " · ",
                _place(quote),
                class_="st-quiet",
            ),
            tag("pre", _marked(quote.text, rule)),
        )
        for quote in quotes
    )
    return tag("ol", join(*rows), class_="st-quotes")


def _place(quote: Quote) -> str:
    where = f"{quote.stream}:{quote.line}" if quote.line else quote.stream
    return f"{where} on {quote.entity}" if quote.entity else where


def _marked(text: str, rule: Rule | None) -> Markup:
    parts: list[str | Markup] = []
    done = 0
    for begin, end in matched_spans(rule, text):
        parts += [text[done:begin], tag("mark", text[begin:end])]
        done = end
    return join(*parts, text[done:])


def evidence_charts(telemetry: Telemetry, finding: Finding) -> Drawn:
    """Read the series of a finding and draw the window that fired. May wait for a disk."""
    by_metric: dict[str, list[Evidence]] = {}
    for each in finding.evidence:
        by_metric.setdefault(each.metric, []).append(each)
    drawn: Drawn = []
    for metric, pieces in list(by_metric.items())[:MOST_CHARTS]:
        begin_s = min(each.from_s for each in pieces)
        end_s = max(each.to_s for each in pieces)
        lead_s = max(LEAST_LEAD_S, LEAD_SHARE * (end_s - begin_s))
        time = (begin_s - lead_s, end_s + lead_s)
        entities = list(dict.fromkeys(each.entity for each in pieces))
        series = read_series(
            telemetry, entities, [metric], from_s=time[0], to_s=time[1], points=POINTS
        )
        if series:
            heading = f"{title(metric)} of {', '.join(entities[:4])}"
            said = "; ".join(dict.fromkeys(each.says for each in pieces[:4]))
            drawn.append((heading, said, _chart(metric, pieces, series, time)))
    return drawn


def _chart(
    metric: str, pieces: Sequence[Evidence], series: Sequence[Series], time: tuple[float, float]
) -> dict[str, Any]:
    window = (min(each.from_s for each in pieces), max(each.to_s for each in pieces), "this fired")
    panel = Panel(title=metric, of="", metrics=(metric,))
    chart = options(panel, series, time=time, marks=[window])
    threshold = next((each.threshold for each in pieces if each.threshold is not None), None)
    if threshold is None:
        return chart
    most = max((float(np.nanmax(each.mean)) for each in series if len(each.mean)), default=0.0)
    size, _ = unit_for(metric, most)
    chart["series"][0]["markLine"] = {
        "symbol": "none",
        "silent": True,
        "label": {
            "formatter": figure(metric, threshold),
            "color": GREY,
            "position": "insideStartTop",
        },
        "lineStyle": {"color": RED, "type": "dashed"},
        "data": [{"yAxis": threshold / size}],
    }
    if chart["yAxis"].get("max") is None:
        chart["yAxis"]["max"] = None if threshold <= most else round(1.15 * threshold / size, 3)
    return chart
