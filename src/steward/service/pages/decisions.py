"""`/decisions` and `/decisions/ID`: what was decided, why, and what people chose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, get_args

from nicegui import ui
from nicegui.element import Element

from steward.errors import StewardError
from steward.model.actions import CallBack
from steward.model.decision import DecisionState
from steward.model.identity import DecisionId
from steward.model.outcome import Story
from steward.service.live_state import StateSnapshot
from steward.service.pages.approvals import StandingApprovals
from steward.service.pages.confirmation import Confirmation, toast
from steward.service.pages.drawings import empty, moment, state_chip
from steward.service.pages.explanation import Explanation
from steward.service.pages.frame import Show, Visit, card, keep_in_address
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, Rows, set_prop
from steward.service.pages.wording import STATE_WORDS, about, gpu_hours, measured_text, outcome_text
from steward.store.choices import ChoiceName, possible_choices
from steward.store.journal_summary import TrackedStory

__all__ = ["ListOrder", "decision_line", "decision_page", "decisions_page", "question"]

T = TypeVar("T")

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
    "Ended without effect": frozenset(
        {
            DecisionState.REJECTED,
            DecisionState.UNDONE,
            DecisionState.EXPIRED,
            DecisionState.FAILED,
        }
    ),
}


def decisions_page(visit: Visit, *, chosen: str = "All") -> Show:
    """Build the page and return what keeps it up to date."""
    decisions = _List(visit, chosen if chosen in FILTERS else "All")
    approvals = StandingApprovals(visit)

    def show(snapshot: StateSnapshot) -> None:
        decisions.show(snapshot)
        approvals.show(snapshot)

    return show


class ListOrder:
    """Which decisions a list shows, and in which order. Neither changes by itself.

    Decisions that were made since are counted, and shown when a person asks for them: what is
    under the pointer stays there.
    """

    def __init__(self) -> None:
        self.shown: list[DecisionId] = []
        self._seen: set[DecisionId] = set()
        self._fitting: list[DecisionId] = []

    def update(self, fitting: Sequence[DecisionId]) -> None:
        """Set the decisions that fit the filter now, newest first; fill an empty list."""
        self._fitting = list(fitting)
        if not self.shown:
            self.begin()

    def begin(self) -> None:
        """Show the newest that fit now."""
        self._seen = set(self._fitting)
        self.shown = self._fitting[:AT_ONCE]

    def show_older(self) -> None:
        """Add the next older ones at the end."""
        self.shown += self._older()[:AT_ONCE]

    @property
    def new(self) -> int:
        """The number of decisions that fit the filter since the list was begun."""
        return sum(each not in self._seen for each in self._fitting)

    @property
    def older(self) -> int:
        """The number of decisions that fit and are not shown yet."""
        return len(self._older())

    def _older(self) -> list[DecisionId]:
        shown = set(self.shown)
        return [each for each in self._fitting if each in self._seen and each not in shown]


class _List:
    """Decisions of the chosen states, newest first, a page's worth at a time."""

    def __init__(self, visit: Visit, chosen: str) -> None:
        self._visit = visit
        self._chosen = chosen
        self._order = ListOrder()
        self._known: dict[DecisionId, TrackedStory] = {}
        self._opened: set[DecisionId] = set()
        confirmation = Confirmation()
        with ui.element("section").classes("st-card"):
            with ui.element("div").classes("st-card-head st-new"):
                Html(tag("h2", "Decisions"))
                self._new = ui.button("", color=None, on_click=self._begin)
                self._new.props("flat no-caps dense")
            with ui.element("div").classes("st-filters").props('role=group aria-label="Show"'):
                self._filters = {name: self._filter(name) for name in FILTERS}
            self._nothing = Html()
            with ui.element("div").classes("st-list") as parent:
                self._rows: Rows[DecisionId, TrackedStory] = Rows(
                    parent,
                    lambda tracked: _Row(visit, tracked, confirmation, opened=self._opened).parts,
                )
            self._more = ui.button("Show more", color=None, on_click=self._show_more)
            self._more.props("flat no-caps").classes("st-filter")

    def show(self, snapshot: StateSnapshot) -> None:
        """Bring the rows up to date; their order stays as it is."""
        order = self._order
        fitting = [
            tracked for tracked in snapshot.stories if tracked.state in FILTERS[self._chosen]
        ]
        order.update([tracked.story.decision.id for tracked in fitting])
        now = {tracked.story.decision.id: tracked for tracked in snapshot.stories}
        self._known = {id_: now.get(id_) or self._known[id_] for id_ in order.shown}
        self._rows.show(list(self._known.items()))
        self._new.set_visibility(order.new > 0)
        self._new.set_text(f"{order.new:,} new, show")
        self._more.set_visibility(order.older > 0)
        self._nothing.show(Markup("") if len(self._rows) else _nothing(self._chosen))
        for name, button in self._filters.items():
            count = sum(snapshot.states[each] for each in FILTERS[name])
            button.set_text(f"{name} {count:,}")
            set_prop(button, "aria-pressed", "true" if name == self._chosen else "false")

    def _filter(self, name: str) -> ui.button:
        button = ui.button(name, color=None, on_click=lambda: self._choose(name))
        return button.props("flat no-caps dense").classes("st-filter")

    def _choose(self, name: str) -> None:
        self._chosen = name
        self._opened.clear()
        keep_in_address("/decisions", {"show": name}, {"show": "All"})
        self._order = ListOrder()
        self.show(self._visit.live_state.snapshot)

    def _begin(self) -> None:
        self._order.begin()
        self.show(self._visit.live_state.snapshot)

    def _show_more(self) -> None:
        self._order.show_older()
        self.show(self._visit.live_state.snapshot)


def decision_page(visit: Visit, decision: DecisionId) -> Show:
    """Build the page of one decision, opened."""
    Html(tag("a", "← All decisions", href="/decisions", class_="st-back"))
    confirmation = Confirmation()
    with card("Decision"):
        place = ui.element("div").classes("st-list")
    row: _Row | None = None
    old = _from_journal(visit, decision)  # one that is no longer in memory

    def show(snapshot: StateSnapshot) -> None:
        nonlocal row
        tracked = _find(snapshot, decision) or old
        if tracked is None:
            return
        if row is None:
            with place:
                row = _Row(visit, tracked, confirmation, opened={decision})
        else:
            row.show(tracked)

    return show


def _find(snapshot: StateSnapshot, decision: DecisionId) -> TrackedStory | None:
    return next(
        (tracked for tracked in snapshot.stories if tracked.story.decision.id == decision), None
    )


def _from_journal(visit: Visit, decision: DecisionId) -> TrackedStory | None:
    for seq, story in visit.live_state.loop.journal.stories(ids=(decision,), limit=1):
        return TrackedStory.of(story, seq=seq)
    return None


def _nothing(name: str) -> Markup:
    if name == "Waiting":
        return empty("Nothing waits for you", "Decisions that need approval are listed here.")
    return empty(
        "No decisions here yet",
        "When a finding and waiting work fit together, steward decides, with its reasons.",
    )


class _Row:
    """One decision: a line, buttons for possible choices, and the explanation when opened.

    `opened` is what all rows of a page share: the decisions that are open.
    """

    def __init__(
        self,
        visit: Visit,
        tracked: TrackedStory,
        confirmation: Confirmation,
        *,
        opened: set[DecisionId],
    ) -> None:
        self._visit = visit
        self._confirmation = confirmation
        self._tracked = tracked
        self._all_opened = opened
        self._explained = 0  # up to which journal entry
        self._explanation: Explanation | None = None
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
        self.show(tracked)

    @property
    def parts(self) -> tuple[Element, Callable[[TrackedStory], None]]:
        """Return what a list of rows needs."""
        return self.element, self.show

    def show(self, tracked: TrackedStory) -> None:
        """Bring the row up to date; what is open stays open."""
        self._tracked = tracked
        story = tracked.story
        live_state = self._visit.live_state
        self._head.show(
            decision_line(story, live_state.snapshot.cluster.t_s, answer_s=self._answer_s(story))
        )
        set_prop(self._head, "aria-expanded", "true" if self._opened else "false")
        set_prop(self._head, "aria-label", _aria_label(story))
        self._offer(possible_choices(story) if self._visit.user.may_decide else ())
        self._body.set_visibility(self._opened)
        if self._opened and tracked.seq != self._explained:
            self._explained = tracked.seq
            ui.timer(0, self._explain, once=True)

    def _answer_s(self, story: Story) -> float | None:
        """Return how long people have to answer, in real time; None if it does not wait."""
        until_s = self._visit.live_state.answer_before_s(story)
        return self._visit.live_state.real_s(until_s) if until_s is not None else None

    @property
    def _opened(self) -> bool:
        return self._tracked.story.decision.id in self._all_opened

    def _toggle(self) -> None:
        self._all_opened.symmetric_difference_update({self._tracked.story.decision.id})
        self.show(self._tracked)

    async def _explain(self) -> None:
        decision = self._tracked.story.decision.id
        live_state = self._visit.live_state
        try:
            found = await asyncio.to_thread(live_state.explain, decision)
            samples = await asyncio.to_thread(live_state.samples, found)
        except StewardError as fault:
            self._explanation = None
            notice = _notice(fault)
            self._fill(lambda: Html(notice))
            return
        if self._explanation is None:
            self._explanation = self._fill(Explanation)
        if not self.element.is_deleted and self._explanation is not None:
            self._explanation.show(found, samples)

    def _fill(self, draw: Callable[[], T]) -> T | None:
        """Draw into the emptied body; None if the list moved on in the meantime."""
        if self.element.is_deleted:
            return None
        self._body.clear()
        with self._body:
            return draw()

    def _offer(self, offered: tuple[ChoiceName, ...]) -> None:
        if offered == self._offered:
            return
        self._offered = offered
        self._actions.clear()
        with self._actions:
            for choice in get_args(ChoiceName):
                if choice in offered:
                    self._button(choice)

    def _button(self, choice: ChoiceName) -> None:
        what = self._tracked.story.decision.action.sentence
        button = ui.button(WORDS[choice], color=None, on_click=lambda: self._choose(choice))
        button.props("no-caps unelevated dense").classes(f"st-choice st-choice-{choice}")
        set_prop(button, "aria-label", f"{WORDS[choice]}: {what}")

    async def _choose(self, choice: ChoiceName) -> None:
        user = self._visit.current_user()
        if user is None:
            ui.navigate.to("/login")
            return
        story = self._tracked.story
        live_state, decision = self._visit.live_state, story.decision.id
        client = ui.context.client  # the row itself may be gone when the answer is there
        if not await self._confirmation.ask(
            question(story, choice), yes=f"{WORDS[choice]} {decision}"
        ):
            return
        try:
            await asyncio.to_thread(live_state.choose, decision, choice, user=user)
        except StewardError as fault:
            with client:
                toast(f"{fault.problem}. {fault.hint}", "negative")
            return
        with client:
            toast(DONE[choice], "positive")
        tracked = _find(await asyncio.to_thread(live_state.refresh), decision)
        if tracked is not None and not self.element.is_deleted:
            self.show(tracked)


def _notice(fault: StewardError) -> Markup:
    return tag("p", f"{fault}. {fault.hint}", class_="st-notice")


def question(story: Story, choice: ChoiceName) -> Markup:
    """Name the very decision that a choice is about."""
    decision = story.decision
    undo = f"To undo it: {decision.undo.sentence}" if choice == "undo" and decision.undo else None
    return join(
        tag("h2", f"{WORDS[choice]} this decision?"),
        tag("p", tag("b", decision.action.sentence)),
        tag("p", decision.because, class_="st-quiet"),
        tag("p", undo) if undo else None,
        tag("p", tag("code", decision.id), f" · {decision.tenant}", class_="st-quiet"),
    )


def _aria_label(story: Story) -> str:
    return f"{STATE_WORDS[story.state]}: {story.decision.action.sentence}"


def _worth(story: Story) -> Markup:
    action = story.decision.action
    if isinstance(action, CallBack):
        return tag("span", f"ends the loan {action.loan}")
    if story.outcomes:
        gained = story.gained or not any(each.effect is None for each in story.outcomes)
        worth = gpu_hours(story.gained) if gained else outcome_text(story.outcomes[-1])
        return tag("span", tag("b", worth), " measured")
    return tag("span", measured_text(story.decision.expects.mid, action.yardstick), " expected")


def decision_line(story: Story, now_s: float, *, answer_s: float | None = None) -> Markup:
    """Write a decision as a list shows it; `answer_s` is how long people have to answer."""
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
            tag("b", f"answer within {about(answer_s)}") if answer_s is not None else None,
            tag("code", decision.id),
            class_="st-quiet st-facts st-number",
        ),
    )
