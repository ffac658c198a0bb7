"""`/jobs/ID`: one job with its whole life, or an array with its tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import ui

from steward.errors import StewardError
from steward.model.managed_job import LifeState
from steward.service.live_state import StateSnapshot
from steward.service.pages.confirmation import Confirmation, toast
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.jobs.elements import (
    Record,
    cost_tiles,
    headline,
    loan_table,
    log_text,
    reason,
    task_table,
    what_runs,
    why_waits,
)
from steward.service.pages.jobs.job_reader import WAITS, JobReader
from steward.service.pages.jobs.state_words import state_chip
from steward.service.pages.jobs.timeline import event_list, timeline
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html

__all__ = ["job_page", "possible_changes"]

TICK_S = 1.0
WHY_TICKS = 5  # a policy is asked again so often
SCRIPT = '<script src="/static/jobs.js" defer></script>'
CHANGES = {
    "release": ("Release", "It may start when there is room."),
    "resume": ("Resume", "It goes on where it was, when there is room."),
    "hold": ("Hold", "It does not start until it is released."),
    "save": ("Save", "It writes a checkpoint and goes on."),
    "preempt": ("Preempt", "It saves, stops, and goes back into the queue."),
    "cancel": ("Cancel", "It ends for good. What is not saved is lost."),
}
EXPLAINED = frozenset({*WAITS, LifeState.SUBMITTED, LifeState.HELD})
HIDDEN = tag(
    "p",
    "Its command, log and checkpoints are for its owner and operators.",
    class_="st-quiet",
)
OWN_FILE = "Its output goes to a file of its owner's choice: "
NO_OUTPUT, NONE_AT_ALL = "No output yet.", "It wrote nothing."


def possible_changes(record: Record) -> tuple[str, ...]:
    """Return what can be done to a job in its state; of an array, to one of its tasks at least."""
    if "tasks" in record:
        found = {each for task in record["tasks"] for each in possible_changes(task)}
        return tuple(each for each in CHANGES if each in found)
    state = LifeState(record["state"])
    ran = bool(record["attempts"])
    saves = state.runs and state is not LifeState.SAVING and record.get("can_save")
    can = {
        "release": state is LifeState.HELD and not ran,
        "resume": state is LifeState.HELD and ran,
        "hold": state in (*WAITS, LifeState.SUBMITTED),
        "save": saves,
        "preempt": saves,
        "cancel": not state.ended,
    }
    return tuple(each for each in CHANGES if can[each])


def job_page(visit: Visit, reader: JobReader, id_: str) -> Show:
    """Build the page of a job and return what keeps it up to date."""
    ui.add_body_html(SCRIPT)
    Html(tag("a", "← All jobs", href="/jobs", class_="st-back"))
    page = _Job(visit, reader, id_)
    ui.timer(TICK_S, page.tick)

    def show(_snapshot: StateSnapshot) -> None:
        """Jobs change between turns as well: the page has a rhythm of its own."""

    return show


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """All that the page shows at one moment."""

    record: Record
    now_s: float
    cost: Record
    why: Record | None
    log: str | None
    decisions: frozenset[str]


class _Job:
    """One open page."""

    def __init__(self, visit: Visit, reader: JobReader, id_: str) -> None:
        self._visit, self._reader, self._id = visit, reader, id_
        self._offered: tuple[str, ...] | None = None
        self._decided: dict[str, bool] = {}
        self._why: tuple[int, Record | None] = (0, None)
        self._ticks = 0
        self._confirmation = Confirmation()
        with ui.element("section").classes("st-card"):
            with ui.element("div").classes("st-decision-head st-job-head"):
                self._head = Html(classes="st-grow")
                self._actions = ui.element("div").classes("st-actions st-wrap")
            self._reason = Html()
        with card("Tasks") as self._tasks_card:
            self._tasks = Html()
        with card("Why it waits") as self._why_card:
            self._waits = Html()
        with card("Life") as self._life_card:
            self._life = Html()
        with ui.element("div").classes("st-columns") as self._columns:
            with ui.element("div"):
                with card("Log") as self._log_card:
                    self._log = Html(tag="pre", classes="st-pre st-log").props(
                        'tabindex=0 role=log aria-label="End of the output"'
                    )
                with card("What it runs"):
                    self._runs = Html()
            with ui.element("div"), card("What happened"):
                self._events = Html()
        with card("What it cost"):
            self._cost = Html(classes="st-figures")
        with card("Who lent what to whom") as self._loans_card:
            self._loans = Html()
        later = (self._tasks_card, self._why_card, self._life_card, self._log_card)
        for each in (*later, self._columns, self._loans_card):
            each.set_visibility(False)

    async def tick(self) -> None:
        """Read the job anew, and show what changed."""
        if self._visit.current_user() is None:
            return  # the frame goes to the login
        self._ticks += 1
        look = await asyncio.to_thread(self._look)
        if not self._head.is_deleted:
            self._show(look)

    def _look(self) -> _Look:
        user, reader = self._visit.user, self._reader
        jobs, record = reader.found(self._id), reader.record(self._id, user)
        single = "tasks" not in record
        return _Look(
            record=record,
            now_s=reader.runner.clock.now_s(),
            cost=reader.cost(jobs),
            why=self._explained() if single and jobs[0].state in EXPLAINED else None,
            log=reader.log(self._id, user) if single else None,
            decisions=frozenset(self._known_decisions(record.get("events", []))),
        )

    def _explained(self) -> Record | None:
        """Return why it waits; a policy is asked every few seconds only."""
        asked, found = self._why
        if found is None or self._ticks >= asked + WHY_TICKS:
            found = self._reader.why(self._reader.found(self._id)[0])
            self._why = (self._ticks, found)
        return found

    def _known_decisions(self, events: list[Record]) -> list[str]:
        for each in {each["decision"] for each in events} - {None}:
            if not self._decided.get(each):  # it may be in the journal by now
                self._decided[each] = self._reader.decided(each)
        return [id_ for id_, known in self._decided.items() if known]

    def _show(self, look: _Look) -> None:
        record, now_s = look.record, look.now_s
        single = "tasks" not in record
        mine = single and record["spec"] is not None
        self._offer(possible_changes(record) if self._visit.user.may_decide else ())
        self._head.show(headline(record, now_s) if single else _array_headline(record))
        self._reason.show(reason(record, now_s) if single else Markup(""))
        self._cost.show(cost_tiles(look.cost, _unit(record)))
        self._tasks_card.set_visibility(not single)
        self._why_card.set_visibility(look.why is not None)
        self._waits.show(why_waits(look.why) if look.why else Markup(""))
        self._life_card.set_visibility(single)
        self._columns.set_visibility(single)
        self._log_card.set_visibility(mine)
        loans = [_told(each, record["id"]) for each in record.get("loans") or ()]
        self._loans_card.set_visibility(bool(loans))
        self._loans.show(loan_table(loans, now_s))
        if not single:
            self._tasks.show(task_table(record["tasks"], now_s))
            return
        self._life.show(timeline(record, now_s, look.decisions))
        self._events.show(event_list(record, look.decisions))
        self._runs.show(what_runs(record) if mine else HIDDEN)
        self._log.show(_log(record, look.log) if mine else Markup(""))

    def _offer(self, offered: tuple[str, ...]) -> None:
        if offered == self._offered:
            return
        self._offered = offered
        self._actions.clear()
        with self._actions:
            for what in offered:
                button = ui.button(CHANGES[what][0], color=None, on_click=self._choosing(what))
                kind = "approve" if what in ("release", "resume") else "reject"
                button.props("no-caps unelevated dense").classes(f"st-choice st-choice-{kind}")

    def _choosing(self, what: str) -> Callable[[], Awaitable[None]]:
        async def choose() -> None:
            word, means = CHANGES[what]
            text = join(tag("h2", f"{word} job {self._id}?"), tag("p", means, class_="st-quiet"))
            yes = f"{word} job {self._id}"
            if not await self._confirmation.ask(text, yes=yes, no="Leave it"):
                return
            user = self._visit.current_user()
            if user is None:
                ui.navigate.to("/login")
                return
            try:
                await asyncio.to_thread(self._reader.change, self._id, what, user)
            except StewardError as fault:
                toast(f"{fault.problem}. {fault.hint}", "negative")
                return
            toast(f"{word}: asked for.", "positive")
            await self.tick()

        return choose


def _told(loan: Record, id_: str) -> Record:
    """Return a loan with who is its owner and who its borrower."""
    mine = loan["role"] == "owner"
    owner, borrower = (id_, loan["other"]) if mine else (loan["other"], id_)
    return {**loan, "owner": owner, "borrower": borrower}


def _log(record: Record, text: str | None) -> Markup:
    if text is None:
        return join(OWN_FILE, record["log"])
    return join(log_text(text) or (NONE_AT_ALL if record["ended"] else NO_OUTPUT))


def _unit(record: Record) -> str:
    one = record["tasks"][0] if "tasks" in record else record
    return "slot" if one["on_slots"] else "GPU"


def _array_headline(record: Record) -> Markup:
    return join(
        tag("h1", record["name"], class_="st-title"),
        tag(
            "div",
            tag("span", f"array {record['id']} of {record['user']}", class_="st-quiet"),
            state_chip(record["state"]),
            class_="st-line",
        ),
    )
