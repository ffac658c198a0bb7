"""Builds the lab's page: form, progress, results."""

from __future__ import annotations

import asyncio

from nicegui import ui
from nicegui.events import GenericEventArguments

from steward.errors import StewardError
from steward.service.lab import LabRun, LabRuns, LabState
from steward.service.lab.comparison_request import offered
from steward.service.live_state import StateSnapshot
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.lab.elements import NOTHING, headline, outcome, past_runs, progress
from steward.service.pages.lab.form import lab_form
from steward.service.pages.markup import Markup, tag
from steward.service.pages.rows import Html

__all__ = ["lab_page"]

TICK_S = 0.5
SCRIPT = '<script src="/static/lab.js" defer></script>'
VIEWERS = tag(
    "p",
    "Operators start comparisons; you can read what came out.",
    class_="st-quiet",
)
LOADING = tag("p", "Looking up the policies…", class_="st-quiet")


def lab_page(visit: Visit, runs: LabRuns, *, chosen: str = "") -> Show:
    """Build the page and return what keeps it up to date."""
    ui.add_body_html(SCRIPT)
    page = _Lab(visit, runs, chosen)
    ui.on("lab_started", page.started)
    ui.timer(TICK_S, page.tick)
    page.tick()

    def show(_picture: StateSnapshot) -> None:
        """Nothing on this page comes from the loop."""

    return show


class _Lab:
    """One open lab page. `chosen` is the comparison that it shows; "" is the newest."""

    def __init__(self, visit: Visit, runs: LabRuns, chosen: str) -> None:
        self._visit = visit
        self._runs = runs
        self._chosen = chosen
        with card("Compare policies on a trace"):
            self._form = Html(LOADING if visit.user.may_decide else VIEWERS)
        with card("Comparison", classes="st-lab-result"):
            with ui.element("div").classes("st-card-head"):
                self._headline = Html()
                self._cancel = ui.button("Cancel", color=None, on_click=self._end)
                self._cancel.props("no-caps unelevated dense").classes("st-choice st-choice-undo")
            self._progress = Html()
            self._outcome = Html()
        with card("Comparisons so far") as self._past_card:
            self._past = Html()
        if visit.user.may_decide:
            ui.timer(0, self._fill_form, once=True)

    def started(self, event: GenericEventArguments) -> None:
        """Show the comparison that this page's form has just begun."""
        self._chosen = str(event.args)
        self.tick()

    def tick(self) -> None:
        """Bring the page up to date; what did not change is not sent again."""
        all_ = self._runs.list()
        run = self._shown(all_)
        running = run is not None and run.state is LabState.RUNNING
        self._headline.show(headline(run) if run else Markup(""))
        self._progress.show(progress(run) if run and running else Markup(""))
        self._outcome.show(outcome(run) if run else NOTHING)
        self._cancel.set_visibility(running and self._visit.user.may_decide)
        self._past_card.set_visibility(len(all_) > 1)
        self._past.show(past_runs(all_, run.id if run else ""))

    def _shown(self, all_: tuple[LabRun, ...]) -> LabRun | None:
        chosen = next((run for run in all_ if run.id == self._chosen), None)
        return chosen or next(iter(all_), None)

    async def _fill_form(self) -> None:
        offer = await asyncio.to_thread(offered)  # the first time, that imports the engines
        most_bytes = self._visit.live_state.settings.service.upload_limit_bytes
        if not self._form.is_deleted:
            self._form.show(lab_form(offer, most_bytes=most_bytes))

    async def _end(self) -> None:
        user = self._visit.current_user()
        run = self._shown(self._runs.list())
        if user is None:
            ui.navigate.to("/login")
        elif user.may_decide and run is not None and run.state is LabState.RUNNING:
            try:
                await asyncio.to_thread(self._runs.cancel, run.id)
            except StewardError as fault:
                ui.notify(str(fault), type="negative", position="top")
