"""`/ask`: a conversation; each sentence shows the numbers of its facts, each fact its source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from steward.errors import StewardError
from steward.questions.asking import examples
from steward.questions.facts import Answer, Fact
from steward.questions.grammar.parser import LONGEST
from steward.service.live_state import StateSnapshot
from steward.service.pages.frame import Show, Visit, card, keep_in_address
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.planning.answer import refusal
from steward.service.pages.rows import Html
from steward.service.questions import Questions

__all__ = ["answer_markup", "ask_page", "asked_markup"]

KEPT = 20  # answers on the page
_HINT = (
    "Answers come from this steward's records, each with its source. Nothing is changed by asking; "
    "the language is English unless a model is configured."
)
_SHOWN = (0, 2, 7, 9, 17, 22, 23)  # of the examples: one of each room


def ask_page(_visit: Visit, questions: Questions, given: Mapping[str, str]) -> Show:
    """Build the page; `?q=` asks at once, so that a question has a link."""
    _AskPage(questions, str(given.get("q", "")))

    def show(_snapshot: StateSnapshot) -> None:
        """Do nothing: an answer says of which time it is."""

    return show


class _AskPage:
    def __init__(self, questions: Questions, first: str) -> None:
        self._questions = questions
        self._told: list[Markup] = []
        self._busy = False
        with card("Ask steward", classes="st-ask"):
            Html(tag("p", _HINT, class_="st-hint"))
            with ui.element("div").classes("st-ask-form"):
                self._box = ui.input("Your question", placeholder="why is job 812 waiting?")
                self._box.props(f'dense outlined maxlength={LONGEST} autocomplete="off"')
                self._box.classes("st-ask-box").on("keydown.enter", self._ask)
                ui.button("Ask", on_click=self._ask).props("unelevated no-caps")
            with (
                ui.element("div")
                .classes("st-ask-examples")
                .props('role="group" aria-label="Examples"')
            ):
                for text in _examples(questions):
                    ui.button(text, on_click=self._example(text)).props("flat dense no-caps")
            self._answers = Html(classes="st-ask-answers").props(
                'role="log" aria-live="polite" aria-label="Answers"'
            )
        if first:
            self._box.set_value(first[:LONGEST])
            ui.timer(0.1, self._ask, once=True)

    def _example(self, text: str) -> Callable[[], Any]:
        async def ask() -> None:
            self._box.set_value(text)
            await self._ask()

        return ask

    async def _ask(self) -> None:
        question = str(self._box.value or "").strip()
        if not question or self._busy:
            return
        self._busy = True
        waiting = asked_markup(question, tag("p", "Looking it up …", class_="st-quiet"))
        self._answers.show(join(waiting, *self._told))
        try:
            shown = await asyncio.to_thread(_answered, self._questions, question)
        finally:
            self._busy = False
        if self._answers.is_deleted:
            return
        self._told = [asked_markup(question, shown), *self._told][:KEPT]
        self._answers.show(join(*self._told))
        self._box.set_value("")
        keep_in_address("/ask", {"q": question}, {"q": ""})


def _examples(questions: Questions) -> list[str]:
    """Return questions of each room, about jobs that are there."""
    shown = questions.records().cluster
    jobs: list[str] = []
    if shown is not None:
        jobs = [j.id for j in shown.queue[:1]] + [j.id for j in shown.running[:1]]
    texts = [examples()[place] for place in _SHOWN]
    if not jobs:
        return [text for text in texts if "812" not in text]
    return [text.replace("812", jobs[0]) for text in texts]


def _answered(questions: Questions, question: str) -> Markup:
    began = time.perf_counter()
    try:
        answer = questions.ask(question)
    except StewardError as fault:
        return refusal(fault)
    return answer_markup(answer, time.perf_counter() - began)


def asked_markup(question: str, answer: Markup) -> Markup:
    """Return one question with what stands below it."""
    return tag("article", tag("h3", question), answer, class_="st-answer")


def answer_markup(answer: Answer, took_s: float) -> Markup:
    """Return an answer: sentences with marks, then the facts with their sources."""
    numbers = {fact: place for place, fact in enumerate(answer.facts, 1)}
    sentences = [
        tag("p", each.text, _marks([numbers[fact] for fact in each.facts]))
        for each in answer.sentences
    ]
    chip = tag("span", "not known", class_="st-chip") if answer.abstained else None
    way = "without a model" if answer.way == "grammar" else f"written by {answer.way}, checked"
    quiet = tag("p", chip, f" {way}, {took_s * 1000:.0f} ms", class_="st-quiet")
    notes = (tag("p", each, class_="st-hint") for each in answer.notes)
    return join(*sentences, *_proposals(answer), _facts(numbers), quiet, *notes)


def _marks(numbers: list[int]) -> Markup | None:
    return tag("sup", f" [{_ranges(numbers)}]") if numbers else None


def _ranges(numbers: list[int]) -> str:
    """Return numbers with neighbours together: 1, 3 to 5, 9."""
    groups: list[list[int]] = []
    for each in sorted(numbers):
        if groups and each == groups[-1][-1] + 1:
            groups[-1].append(each)
        else:
            groups.append([each])
    return ", ".join(
        str(group[0]) if len(group) == 1 else f"{group[0]}\N{EN DASH}{group[-1]}"
        for group in groups
    )


def _proposals(answer: Answer) -> list[Markup]:
    return [
        tag("p", each.text, " ", tag("code", each.command), " ", _link("Open it", each.link))
        for each in answer.proposals
    ]


def _facts(numbers: Mapping[Fact, int]) -> Markup | None:
    if not numbers:
        return None
    rows = (
        tag(
            "tr",
            tag("td", str(number), class_="st-number"),
            tag("td", fact.label),
            tag("td", _link(fact.text, fact.link)),
            tag("td", tag("code", fact.source)),
        )
        for fact, number in numbers.items()
    )
    heads = ("No.", "What", "Value", "Source")
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    table = tag("table", head, tag("tbody", *rows), class_="st-table")
    count = f"{len(numbers)} facts and their sources"
    return tag(
        "details",
        tag("summary", count),
        tag("div", table, class_="st-scroll", tabindex="0", role="region", aria_label="Sources"),
        class_="st-folded",
    )


def _link(text: str, link: str) -> Markup:
    """Return a link into the dashboard; only our own paths are links."""
    if link.startswith("/") and not link.startswith("//"):
        return tag("a", text, href=link)
    return tag("span", text)
