"""The page: one section per gateway, kept up to date while it is open."""

from __future__ import annotations

import time
from collections.abc import Callable

from nicegui import ui
from nicegui.element import Element

from steward.model.serving.gateway_snapshot import GatewaySnapshot
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Chart, Html, Rows
from steward.service.pages.serving.charts import (
    class_colours,
    kept_chart,
    kept_series,
    wait_chart,
    wait_series,
)
from steward.service.pages.serving.drawings import (
    event_list,
    gateway_notice,
    how_to_start,
    instance_table,
    queue_bars,
    serving_figures,
)
from steward.service.serving_state import Gateway

__all__ = ["serving_page"]

TICK_S = 1.0
CHART_EVERY_S = 3.0
NO_WAITS = empty("No waits yet", "A point for each request that waited, once some have.")
NOTHING_KEPT = empty("Nothing has ended yet", "The share of promises kept, as requests end.")
KEY = join(
    tag("span", tag("i", class_="st-key st-key-oldest"), "oldest waits"),
    tag("span", tag("i", class_="st-key st-key-expected"), "expected for a new one"),
    tag("span", tag("i", class_="st-key st-key-bound"), "90\u202f% bound"),
    tag("span", tag("i", class_="st-key st-key-deadline"), "deadline"),
)


def serving_page(visit: Visit) -> Show:
    """Build the page; it follows the gateways by itself, faster than the loop turns."""
    serving = visit.live_state.serving
    if not serving.gateways:
        with card("No gateway is configured"):
            Html(how_to_start())
        return lambda _snapshot: None
    rows: Rows[str, Gateway] = Rows(ui.element("div").classes("st-gateways"), _section)
    seen = -1

    def tick() -> None:
        nonlocal seen
        if serving.version != seen:
            seen = serving.version
            rows.show([(each.url, each) for each in serving.gateways])

    tick()
    ui.timer(TICK_S, tick)

    def show(_snapshot: StateSnapshot) -> None:
        tick()

    return show


def _section(first: Gateway) -> tuple[Element, Callable[[Gateway], None]]:
    """Build the section of one gateway, and return what brings it up to date."""
    with ui.element("div").classes("st-gateway") as section:
        head, notice = Html(tag="div"), Html()
        with ui.element("div").classes("st-gateway-body") as body:
            figures = Html(classes="st-figures")
            with ui.element("div").classes("st-columns"):
                with ui.element("div"):
                    with card("Queues against their deadlines"):
                        queues = Html()
                        Html(KEY, classes="st-legend")
                    with card("Instances"):
                        instances = Html(classes="st-scroll")
                    with card("Promises kept over time"):
                        no_curve = Html()
                        curve = Chart(kept_chart(), every_s=CHART_EVERY_S)
                with ui.element("div"):
                    with card("Predicted and observed waits"):
                        no_cloud = Html()
                        cloud = Chart(
                            wait_chart(), classes="st-chart st-square", every_s=CHART_EVERY_S
                        )
                    with card("Events"):
                        events = Html(classes="st-events")

    def show(gateway: Gateway) -> None:
        now_s = time.time()
        notice.show(gateway_notice(gateway, now_s))
        head.show(_head(gateway))
        shown = gateway.snapshot
        body.set_visibility(shown is not None)
        if shown is None:
            return
        colours = class_colours([each.name for each in shown.classes])
        figures.show(serving_figures(shown))
        queues.show(queue_bars(shown.classes))
        instances.show(instance_table(shown.instances))
        events.show(event_list(shown.events, shown.t_s or now_s))
        series = kept_series(gateway.kept, colours)
        _chart(curve, no_curve, NOTHING_KEPT, series)
        _chart(cloud, no_cloud, NO_WAITS, wait_series(shown.waits, colours))

    show(first)
    return section, show


def _chart(chart: Chart, beside: Html, nothing: Markup, series: list[dict[str, object]]) -> None:
    """Show a chart, or what will appear in its place."""
    chart.element.set_visibility(bool(series))
    beside.show(Markup("") if series else nothing)
    if series:
        chart.show(lambda: series)


def _head(gateway: Gateway) -> Markup:
    shown: GatewaySnapshot | None = gateway.snapshot
    policy = f"policy {shown.policy}" if shown and shown.policy else "policy unknown"
    return tag(
        "div",
        tag("h1", gateway.url, class_="st-title"),
        tag("span", policy, class_="st-quiet"),
        class_="st-split st-gateway-head",
    )
