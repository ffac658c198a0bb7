"""`/patterns`: what is mined from the newest telemetry, and the phases of each GPU over time."""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from nicegui import ui

from steward.errors import StewardError
from steward.mining.recorded import recorded_page
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, tag
from steward.service.pages.rows import Html

__all__ = ["mined", "patterns_page"]

log = logging.getLogger(__name__)

HOURS = {1: "1 h", 6: "6 h", 24: "24 h"}
WINDOWS = {5: "5 s", 30: "30 s", 60: "1 min", 300: "5 min"}
NICE = 10
NOTHING = empty(
    "Nothing mined yet",
    "Choose how far to look back. Mining runs in a process of its own and takes up to a minute.",
)
MINING = tag("p", "Mining…", class_="st-quiet", role="status")
_one_at_a_time = asyncio.Lock()


def patterns_page(visit: Visit) -> Show:
    """Build the page; it changes only by what is chosen."""
    _PatternsPage(visit.live_state.settings.store.path)

    def show(_snapshot: StateSnapshot) -> None:
        """Do nothing: what was mined stays until it is mined anew."""

    return show


class _PatternsPage:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with card("Patterns in the newest telemetry"):
            with ui.element("div").classes("st-form"):
                self._hours = ui.select(HOURS, value=1, label="Look back").props("dense")
                self._window = ui.select(WINDOWS, value=30, label="Windows of").props("dense")
                self._button = ui.button("Mine", color=None, on_click=self._mine)
                self._button.props("no-caps unelevated dense").classes("st-choice")
            self._answer = Html(NOTHING)

    async def _mine(self) -> None:
        self._button.disable()
        self._answer.show(MINING)
        asked = float(self._window.value or 30), int(self._hours.value or 1)
        async with _one_at_a_time:
            shown = await asyncio.to_thread(mined, self._folder, *asked)
        if not self._answer.is_deleted:
            self._answer.show(shown)
            self._button.enable()


def mined(folder: Path, window_s: float, hours: int) -> Markup:
    """Return the page of patterns in a frame of its own, or what is wrong."""
    spawn = get_context("spawn")  # a fork would take the service's locks and sockets along
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=os.nice, initargs=(NICE,)) as worker:
        try:
            drawn = worker.submit(_page, folder, window_s, hours).result()
        except BrokenProcessPool:
            log.exception("mining was ended")
            drawn = StewardError(
                "mining was ended by the system",
                hint="it may have run out of memory: look back less, or take longer windows",
            )
    if isinstance(drawn, StewardError):
        hint = tag("p", drawn.hint) if drawn.hint else None
        return tag("div", tag("b", drawn.problem), hint, class_="st-notice", role="alert")
    return tag("iframe", srcdoc=drawn, sandbox="", title="Patterns", class_="st-report")


def _page(folder: Path, window_s: float, hours: int) -> str | StewardError:
    """Return a page, or a fault as a value: it has to cross processes."""
    try:
        return recorded_page(folder, window_s=window_s, hours=hours)
    except StewardError as fault:
        return StewardError(fault.problem, where=fault.where, hint=fault.hint)
