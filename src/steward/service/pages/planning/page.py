"""`/plan`: a few questions about a job, and the plan over all known sites while one types."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from nicegui import ui

from steward.errors import StewardError
from steward.planning.question import PlanQuestion, ways_without_queue
from steward.service.job_outlook import JobOutlook
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.planning.answer import answer, refusal
from steward.service.pages.rows import Html

__all__ = ["answered", "plan_page"]

TEXTS = (
    ("run_times", "How long it runs", "1xA100=8h..12h, 4xA100=2h..4h, cpu=30h"),
    ("deadline", "Ends by", "12h, or 2026-12-01 18:00"),
    ("budget", "Costs at most, USD", "50"),
    ("memory", "Memory of each node", "64 GB"),
    ("sites", "Only these sites", "all"),
    ("waits", "What jobs wait there", "SITE/QUEUE=2h, SITE=10min..1h"),
)
SWITCHES = (("saves", "It saves checkpoints"), ("later", "It may start later"))
NOTHING = empty(
    "Nothing asked yet",
    "Write how long the job runs on which GPUs: where it should run stands here as you type.",
)


def plan_page(_visit: Visit, outlook: JobOutlook) -> Show:
    """Build the page; it changes only by what is typed."""
    _PlanPage(outlook)

    def show(_snapshot: StateSnapshot) -> None:
        """Do nothing: what happens on the cluster changes no answer."""

    return show


class _PlanPage:
    def __init__(self, outlook: JobOutlook) -> None:
        self._outlook = outlook
        self._asked: dict[str, Any] = {}
        self._newest = 0
        with card("Where should it run?"):
            with ui.element("div").classes("st-form st-plan"):
                for name, label, example in TEXTS:
                    box = ui.input(label, placeholder=example, on_change=self._typed(name))
                    box.props('dense debounce=400 autocomplete="off" spellcheck="false"')
                for name, label in SWITCHES:
                    ui.checkbox(label, on_change=self._typed(name)).props("dense")
            self._answer = Html(NOTHING)

    def _typed(self, name: str) -> Callable[[Any], Any]:
        async def take(event: Any) -> None:  # noqa: ANN401 - the page framework's
            self._asked[name] = event.value
            await self._ask()

        return take

    async def _ask(self) -> None:
        """Answer what stands there now; an answer that a newer question overtook is dropped."""
        self._newest += 1
        mine = self._newest
        shown = await asyncio.to_thread(answered, self._outlook, dict(self._asked))
        if mine == self._newest and not self._answer.is_deleted:
            self._answer.show(shown)


def answered(outlook: JobOutlook, asked: dict[str, Any]) -> Markup:
    """Return what stands under the form for what was typed into it."""
    if not str(asked.get("run_times") or "").strip():
        return NOTHING
    try:
        plan, missing = outlook.planned(_question(asked), time.time())
        missed = ways_without_queue(plan.request.ways, outlook.catalog())
    except StewardError as fault:
        return refusal(fault)
    return join(
        answer(plan), *(tag("p", f"{each}.", class_="st-hint") for each in (*missed, *missing))
    )


def _question(asked: dict[str, Any]) -> PlanQuestion:
    def text(name: str) -> str:
        return str(asked.get(name) or "").strip()

    def texts(name: str) -> tuple[str, ...]:
        parts = text(name).replace(";", ",").split(",")
        return tuple(each.strip() for each in parts if each.strip())

    return PlanQuestion(
        run_times=texts("run_times"),
        deadline=text("deadline"),
        budget_usd=_budget(text("budget")),
        memory=text("memory"),
        sites=text("sites"),
        waits=texts("waits"),
        saves=bool(asked.get("saves")),
        later=bool(asked.get("later")),
    )


def _budget(text: str) -> float | None:
    if not text:
        return None
    try:
        usd = float(text.removeprefix("$").strip())
    except ValueError:
        usd = -1.0
    if not 0 <= usd < float("inf"):
        raise StewardError(f"'{text}' is no sum of money", where="budget", hint="write 50, in USD")
    return usd
