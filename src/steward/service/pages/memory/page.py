"""The page: one section for each process that is watched from this store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui
from nicegui.element import Element

from steward.config.memory_loop import read_statuses
from steward.service.live_state import StateSnapshot
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.memory.drawings import (
    how_to_watch,
    idle_bars,
    memory_figures,
    memory_head,
    tier_bar,
    tier_chart,
    tier_series,
)
from steward.service.pages.rows import Chart, Html, Rows

__all__ = ["memory_page"]

TICK_S = 1.0
CHART_EVERY_S = 2.0
Status = Mapping[str, Any]


def memory_page(visit: Visit) -> Show:
    """Build the page; it follows the watched processes by itself."""
    folder = visit.live_state.settings.store.path
    with ui.element("div") as nothing, card("No process is watched"):
        Html(how_to_watch())
    rows: Rows[str, Status] = Rows(ui.element("div").classes("st-gateways"), _section)

    async def tick() -> None:
        found = await asyncio.to_thread(read_statuses, folder)
        nothing.set_visibility(not found)
        rows.show([(str(each.get("pid")), each) for each in found])

    ui.timer(TICK_S, tick)

    def show(_snapshot: StateSnapshot) -> None:
        """Do nothing: the files of watchers are read at their own pace."""

    return show


def _section(first: Status) -> tuple[Element, Callable[[Status], None]]:
    """Build the section of one process, and return what brings it up to date."""
    with ui.element("div").classes("st-gateway") as section:
        head, figures = Html(tag="div"), Html(classes="st-figures")
        with ui.element("div").classes("st-columns"):
            with ui.element("div"):
                with card("Tiers"):
                    tiers = Html()
                with card("Near and far over time, in MiB"):
                    chart = Chart(tier_chart(), every_s=CHART_EVERY_S)
            with ui.element("div"), card("Blocks by how long they were not used"):
                idle = Html()

    def show(status: Status) -> None:
        head.show(memory_head(status, time.time()))
        figures.show(memory_figures(status))
        tiers.show(tier_bar(status))
        idle.show(idle_bars(status))
        chart.show(lambda: tier_series(status))

    show(first)
    return section, show
