"""`/decisions` and `/decisions/ID`: what was decided, why, and what people say to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, get_args

from nicegui import ui
from nicegui.element import Element

from steward.errors import StewardError
from steward.model.actions import CallBack
from steward.model.decision import DecisionState
from steward.model.identity import DecisionId
from steward.model.outcome import Story
from steward.service.live_state import Say, StateSnapshot
from steward.service.pages.drawings import empty, moment, state_chip
from steward.service.pages.explanation import draw_explanation
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, Rows, set_prop
from steward.service.pages.wording import STATE_WORDS, gpu_hours
from steward.store.choices import possible_choices
from steward.store.journal_summary import TrackedStory

__all__ = ["decision_page", "decisions_page"]

AT_ONCE = 25
WORDS = {"approve": "Approve", "reject": "Reject", "undo": "Undo"}
DONE = {
    "approve": "Approved. It is carried out in the next turn.",
    "reject": "Rejected.",
    "undo": "It is taken back in the next turn.",
}
FILTERS: dict[str, frozenset[DecisionState]] = {
    "All": frozenset(DecisionState),
    "Waiting": frozenset({DecisionState.WAITING}),
    "In effect": frozenset({DecisionState.ACTIVE, DecisionState.UNDER_WAY, DecisionState.APPROVED}),
    "Done": frozenset({DecisionState.DONE}),
    "Advice": frozenset({DecisionState.ADVISED}),
    "Held back": frozenset({DecisionState.HELD}),
    "Refused": frozenset(
        {
            DecisionState.REJECTED,
            DecisionState.UNDONE,
            DecisionState.EXPIRED,
            DecisionState.FAILED,
        }
    ),
}


def decisions_page(visit: Visit, *, state: str = "All") -> Show:
    """Build the page and return what keeps it up to date."""
    return _List(visit, state if state in FILTERS else "All").show


class _List:
    """Decisions of the chosen states, newest first, a page's worth at a time."""

    def __init__(self, visit: Visit, chosen: str) -> None:
        self._visit = visit
        self._chosen = chosen
        self._most = AT_ONCE
        self._opened: set[DecisionId] = set()
        with card("Decisions"):
            with ui.element("div").classes("st-filters").props('role=group aria-label="Show"'):
                self._filters = {name: self._filter(name) for name in FILTERS}
            self._nothing = Html()
            with ui.element("div").classes("st-list") as parent:
                self._rows: Rows[DecisionId, TrackedStory] = Rows(
                    parent, lambda told: _Row(visit, told, opened=self._opened).parts
                )
            self._more = ui.button("Show more", color=None, on_click=self._show_more)
            self._more.props("flat no-caps").classes("st-filter")

    def show(self, snapshot: StateSnapshot) -> None:
        """Bring the list up to date. What somebody reads stays, though newer ones come."""
        wanted = [told for told in snapshot.stories if told.state in FILTERS[self._chosen]]
        newest = {told.story.decision.id for told in wanted[: self._most]}
        kept = newest | self._opened
        shown = [(told.story.decision.id, told) for told in snapshot.stories]
        self._rows.show([(id_, told) for id_, told in shown if id_ in kept])
        self._more.set_visibility(len(wanted) > self._most)
        self._nothing.show(Markup("") if len(self._rows) else _nothing(self._chosen))
        for name, button in self._filters.items():
            count = sum(snapshot.states[each] for each in FILTERS[name])
            button.set_text(f"{name} {count:,}")
            set_prop(button, "aria-pressed", "true" if name == self._chosen else "false")

    def _filter(self, name: str) -> ui.button:
        button = ui.button(name, color=None, on_click=lambda: self._choose(name))
        return button.props("flat no-caps dense").classes("st-filter")

    def _choose(self, name: str) -> None:
        self._chosen, self._most = name, AT_ONCE
        self._opened.clear()
        self.show(self._visit.live_state.snapshot)

    def _show_more(self) -> None:
        self._most += AT_ONCE
        self.show(self._visit.live_state.snapshot)


def decision_page(visit: Visit, decision: DecisionId) -> Show:
    """Build the page of one decision, opened."""
    Html(tag("a", "← All decisions", href="/decisions", class_="st-back"))
    with card("Decision"):
        place = ui.element("div").classes("st-list")
        missing = Html()
    row: _Row | None = None
    old = _from_journal(visit, decision)  # one that is no longer in memory

    def show(snapshot: StateSnapshot) -> None:
        nonlocal row
        told = _told(snapshot, decision) or old
        missing.show(_MISSING if told is None else Markup(""))
        if told is None:
            return
        if row is None:
            with place:
                row = _Row(visit, told, opened={decision})
        else:
            row.show(told)

    return show


def _told(snapshot: StateSnapshot, decision: DecisionId) -> TrackedStory | None:
    return next((told for told in snapshot.stories if told.story.decision.id == decision), None)


def _from_journal(visit: Visit, decision: DecisionId) -> TrackedStory | None:
    for seq, story in visit.live_state.loop.journal.stories(ids=(decision,), limit=1):
        return TrackedStory.of(story, seq=seq)
    return None


_MISSING = empty("There is no such decision", "The address may be cut off. The list has them all.")


def _nothing(name: str) -> Markup:
    if name == "Waiting":
        return empty("Nothing waits for you", "Decisions that need a person's yes stand here.")
    return empty(
        "No decisions here yet",
        "When a finding and waiting work fit together, steward decides, and says why.",
    )


class _Row:
    """One decision: a line, buttons for what may be said, and the explanation when opened.

    `opened` is what all rows of a page share: the decisions that are open.
    """

    def __init__(self, visit: Visit, told: TrackedStory, *, opened: set[DecisionId]) -> None:
        self._visit = visit
        self._told = told
        self._all_opened = opened
        self._explained = 0  # up to which journal entry
        with ui.element("article").classes("st-decision") as self.element:
            with ui.element("div").classes("st-decision-head"):
                self._head = Html(tag="div", classes="st-decision-line")
                self._head.props('role="button" tabindex="0"')
                self._head.on("click", self._toggle)
                self._head.on("keydown.enter", self._toggle)
                self._head.on("keydown.space.prevent", self._toggle)
                self._actions = ui.element("div").classes("st-actions")
            self._body = ui.element("div").classes("st-decision-body")
        self._offered: tuple[str, ...] | None = None
        self.show(told)

    @property
    def parts(self) -> tuple[Element, Callable[[TrackedStory], None]]:
        """Return what a list of rows needs."""
        return self.element, self.show

    def show(self, told: TrackedStory) -> None:
        """Bring the row up to date; what is open stays open."""
        self._told = told
        story = told.story
        self._head.show(_line(story, self._visit.live_state.snapshot.cluster.t_s))
        set_prop(self._head, "aria-expanded", "true" if self._opened else "false")
        set_prop(self._head, "aria-label", _spoken(story))
        self._offer(possible_choices(story) if self._visit.user.may_decide else ())
        self._body.set_visibility(self._opened)
        if self._opened and told.seq != self._explained:
            self._explained = told.seq
            ui.timer(0, self._explain, once=True)

    @property
    def _opened(self) -> bool:
        return self._told.story.decision.id in self._all_opened

    def _toggle(self) -> None:
        self._all_opened.symmetric_difference_update({self._told.story.decision.id})
        self.show(self._told)

    async def _explain(self) -> None:
        decision = self._told.story.decision.id
        live_state = self._visit.live_state
        try:
            found = await asyncio.to_thread(live_state.explain, decision)
            samples = await asyncio.to_thread(live_state.samples, found)
        except StewardError as fault:
            notice = _notice(fault)
            self._fill(lambda: Html(notice))
            return
        self._fill(lambda: draw_explanation(found, samples))

    def _fill(self, draw: Callable[[], object]) -> None:
        if not self.element.is_deleted:  # the list may have moved on in the meantime
            self._body.clear()
            with self._body:
                draw()

    def _offer(self, offered: tuple[Say, ...]) -> None:
        if offered == self._offered:
            return
        self._offered = offered
        self._actions.clear()
        with self._actions:
            for say in get_args(Say):
                if say in offered:
                    self._button(say)

    def _button(self, say: Say) -> None:
        what = self._told.story.decision.action.sentence
        button = ui.button(WORDS[say], color=None, on_click=lambda: self._say(say))
        button.props("no-caps unelevated dense").classes(f"st-say st-say-{say}")
        set_prop(button, "aria-label", f"{WORDS[say]}: {what}")

    async def _say(self, say: Say) -> None:
        user = self._visit.current_user()
        if user is None:
            ui.navigate.to("/login")
            return
        live_state, decision = self._visit.live_state, self._told.story.decision.id
        client = ui.context.client  # the row itself may be gone when the answer is there
        try:
            await asyncio.to_thread(live_state.choose, decision, say, user=user)
        except StewardError as fault:
            with client:
                _toast(f"{fault.problem}. {fault.hint}", "negative")
            return
        with client:
            _toast(DONE[say], "positive")
        told = _told(await asyncio.to_thread(live_state.refresh), decision)
        if told is not None and not self.element.is_deleted:
            self.show(told)


def _toast(message: str, kind: Literal["positive", "negative"]) -> None:
    ui.notify(message, type=kind, position="top", multi_line=True)


def _notice(fault: StewardError) -> Markup:
    return tag("p", f"{fault}. {fault.hint}", class_="st-notice")


def _spoken(story: Story) -> str:
    return f"{STATE_WORDS[story.state]}: {story.decision.action.sentence}"


def _worth(story: Story) -> Markup:
    action = story.decision.action
    if isinstance(action, CallBack):
        return tag("span", f"ends the loan {action.loan}")
    if story.outcomes:
        return tag("span", tag("b", gpu_hours(story.gained)), " measured")
    return tag("span", gpu_hours(story.decision.expects.mid), " expected")


def _line(story: Story, now_s: float) -> Markup:
    decision = story.decision
    return join(
        tag(
            "div",
            state_chip(story.state),
            tag("b", decision.action.sentence),
            class_="st-line",
        ),
        tag("p", decision.because, class_="st-quiet st-clip"),
        tag(
            "p",
            tag("span", moment(decision.t_s, now_s)),
            tag("span", decision.tenant),
            _worth(story),
            tag("code", decision.id),
            class_="st-quiet st-facts st-number",
        ),
    )
