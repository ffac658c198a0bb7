"""`/findings/FINDING`: its evidence, opinions on it, and the decisions it led to."""

from __future__ import annotations

import asyncio

from nicegui import ui

from steward.errors import StewardError
from steward.inspection.explanation import describe_detector
from steward.model.finding import Finding, Opinion
from steward.model.identity import FindingId
from steward.model.outcome import Story
from steward.model.rules import Rule
from steward.service.live_state import StateSnapshot
from steward.service.pages.confirmation import toast
from steward.service.pages.drawings import empty, moment, severity_chip, state_chip
from steward.service.pages.explanation import timeline
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, prose, tag
from steward.service.pages.rows import Chart, Html
from steward.service.pages.rules.drawings import address_of
from steward.service.pages.rules.evidence import Drawn, evidence_charts, quote_table
from steward.service.pages.wording import about, gpus_text, plural
from steward.store.explain import FindingStory
from steward.store.opinions import OpinionName

__all__ = ["finding_page", "headline", "opinion_list"]

WORDS: dict[OpinionName, str] = {"confirm": "Confirm", "dismiss": "Dismiss"}
THANKS = {
    "confirm": "Noted: its rule is trusted more.",
    "dismiss": "Noted: its rule is trusted less.",
}
MISSING = empty("There is no such finding", "The address may be cut off. The list has the newest.")
UNDECIDED = empty("Nothing decided", "No policy made a decision of this finding.")


def finding_page(visit: Visit, finding: FindingId) -> Show:
    """Build the page and return what keeps it up to date."""
    return _Page(visit, finding).show


class _Page:
    """One open page of one finding."""

    def __init__(self, visit: Visit, finding: FindingId) -> None:
        self._visit = visit
        self._id = finding
        self._version = -1
        self._drawn: FindingId | None = None
        Html(tag("a", "← All findings", href="/findings", class_="st-back"))
        self._missing = Html()
        with ui.element("section").classes("st-card") as self._card:
            with ui.element("div").classes("st-decision-head"):
                self._head = Html(tag="div", classes="st-grow")
                self._actions = ui.element("div").classes("st-actions")
            self._opinions = Html(classes="st-said")
        with card("Log lines") as self._lines_card:
            self._lines = Html()
        self._charts = ui.element("div").classes("st-curves")
        with card("What was decided") as self._decided_card:
            self._decided = Html()
        for each in (self._card, self._lines_card, self._decided_card):
            each.set_visibility(False)
        if visit.user.may_decide:
            with self._actions:
                for word in WORDS:
                    self._button(word)

    def show(self, snapshot: StateSnapshot) -> None:
        """Read again what came of it; pages find the newest in the journal."""
        if snapshot.version != self._version:
            self._version = snapshot.version
            ui.timer(0, self._refresh, once=True)

    async def _refresh(self) -> None:
        live_state = self._visit.live_state
        try:
            story = await asyncio.to_thread(live_state.finding, self._id)
        except StewardError:
            self._missing.show(MISSING)
            return
        rule = self._rule(story.finding)
        self._fill(story, live_state.snapshot, rule)
        finding = story.finding
        if self._drawn is None or live_state.snapshot.cluster.t_s < finding.t_s + 900:
            self._drawn = finding.id
            await self._draw(finding)

    def _rule(self, finding: Finding) -> Rule | None:
        rows = self._visit.live_state.snapshot.rules
        found = (row.standing.rule for row in rows if row.id == finding.rule)
        return next(found, None)

    def _fill(self, story: FindingStory, snapshot: StateSnapshot, rule: Rule | None) -> None:
        finding = story.finding
        self._card.set_visibility(True)
        self._decided_card.set_visibility(True)
        self._head.show(headline(story, snapshot, rule))
        self._opinions.show(opinion_list(story.opinions, snapshot.cluster.t_s))
        self._lines_card.set_visibility(bool(finding.quotes))
        self._lines.show(quote_table(finding.quotes, rule))
        listed = [_story(each) for each in story.stories]
        self._decided.show(join(*listed) if listed else UNDECIDED)

    async def _draw(self, finding: Finding) -> None:
        telemetry = self._visit.live_state.loop.telemetry
        try:
            drawn: Drawn = await asyncio.to_thread(evidence_charts, telemetry, finding)
        except StewardError:
            return  # a finding can be shown without its curve; the loop reports the fault
        if self._charts.is_deleted:
            return
        self._charts.clear()
        with self._charts:
            for heading, said, chart in drawn:
                with ui.element("section").classes("st-card"):
                    Html(join(tag("h2", heading), tag("p", said, class_="st-quiet")))
                    Chart(chart)

    def _button(self, word: OpinionName) -> None:
        button = ui.button(WORDS[word], color=None, on_click=lambda: self._give_opinion(word))
        kind = "approve" if word == "confirm" else "reject"
        button.props("no-caps unelevated dense").classes(f"st-choice st-choice-{kind}")

    async def _give_opinion(self, word: OpinionName) -> None:
        user = self._visit.current_user()
        if user is None:
            ui.navigate.to("/login")
            return
        client = ui.context.client
        try:
            await asyncio.to_thread(
                self._visit.live_state.record_opinion, self._id, word, user=user
            )
        except StewardError as fault:
            with client:
                toast(f"{fault.problem}. {fault.hint}", "negative")
            return
        with client:
            toast(THANKS[word], "positive")
        await self._refresh()


def headline(story: FindingStory, snapshot: StateSnapshot, rule: Rule | None) -> Markup:
    """Write what was found, when, about which entity, and by which rule."""
    finding, now_s = story.finding, snapshot.cluster.t_s
    holds = finding.id in snapshot.open_findings
    facts = (
        gpus_text(finding.gpus) or finding.subject,
        f"job {finding.job}" if finding.job else "",
        finding.tenant or "",
        plural(story.hits, "match", "matches"),
    )
    name = (
        tag("a", finding.rule, href=address_of(finding.rule))
        if rule is not None
        else tag("code", finding.rule)
    )
    advice = finding.treatment.advice if finding.treatment is not None else ""
    mitigation = rule.mitigation if rule is not None else ""
    detector = describe_detector(finding.rule) if rule is None else ""
    return join(
        tag(
            "div",
            severity_chip(finding),
            tag("span", "holds now", class_="st-chip st-chip-active") if holds else None,
            tag(
                "span",
                moment(finding.t_s, now_s),
                f", began {about(finding.t_s - finding.since_s)} before that",
                class_="st-quiet",
            ),
            class_="st-line",
        ),
        tag("h1", finding.title, class_="st-title"),
        tag("p", " · ".join(each for each in facts if each), class_="st-quiet"),
        tag("p", tag("span", "Detector " if detector else "Rule ", class_="st-quiet"), name),
        tag("p", detector, class_="st-quiet") if detector else None,
        tag("p", tag("b", "Advice: "), advice) if advice else None,
        join(tag("h3", "What to do"), prose(mitigation)) if mitigation else None,
    )


def opinion_list(opinions: tuple[Opinion, ...], now_s: float) -> Markup:
    """List opinions on a finding."""
    if not opinions:
        return Markup("")
    words = {"confirm": "confirmed", "dismiss": "dismissed"}
    said = (
        tag(
            "li",
            tag("b", each.user),
            f" {words[each.opinion]} it ",
            moment(each.t_s, now_s),
            f": {each.note}" if each.note else None,
        )
        for each in opinions
    )
    return tag("ul", join(*said), class_="st-basis")


def _story(story: Story) -> Markup:
    decision = story.decision
    return tag(
        "article",
        tag(
            "div",
            state_chip(story.state),
            tag("a", tag("b", decision.action.sentence), href=f"/decisions/{decision.id}"),
            class_="st-line",
        ),
        tag("p", decision.because, class_="st-quiet"),
        timeline(story),
        class_="st-decision",
    )
