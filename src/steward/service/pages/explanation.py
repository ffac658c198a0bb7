"""Why a decision was made and what came of it, as a page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nicegui import ui

from steward.model.actions import CallBack
from steward.model.decision import Decision, Ruling
from steward.model.forecast import Forecast
from steward.model.frame import Frame
from steward.model.metrics import METRICS
from steward.model.outcome import Interval, Story
from steward.model.yardstick import YARDSTICKS
from steward.service.pages.charts import sample_chart
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Chart, Html
from steward.service.pages.wording import (
    clock,
    duration,
    evidence_text,
    gpus_text,
    measured_text,
    outcome_text,
    quantity_text,
)
from steward.store.explain import DecisionExplanation

__all__ = ["Explanation", "promised_and_measured", "timeline"]

RULINGS = {
    Ruling.GO: "The guard let it pass",
    Ruling.ASK: "The guard asks a person",
    Ruling.ADVISE: "Given as advice",
    Ruling.HOLD: "The guard held it back",
    Ruling.EXPIRE: "It expired",
}
RESULTS = {
    "begun": "Begun",
    "done": "Carried out",
    "partly": "Carried out in part",
    "failed": "Failed",
}
SAID = {"approve": "approved", "reject": "rejected", "undo": "undid"}
MEANINGS = {metric.name: metric.meaning for metric in METRICS}


class Explanation:
    """The whole explanation, drawn into the present element and kept up to date there.

    Charts stay while their decision goes on: one that is replaced flickers, and a browser that
    is still loading the drawing library stumbles over it.
    """

    def __init__(self) -> None:
        with ui.element("div").classes("st-pair"):
            self._happened = Html()
            with ui.element("div"):
                self._promised = Html()
                self._basis = Html()
        self._charts_at = ui.element("div")
        self._charts: dict[str, Chart] = {}

    def show(self, found: DecisionExplanation, samples: Mapping[str, Mapping[str, Frame]]) -> None:
        """Show what is known now."""
        story = found.story
        self._happened.show(join(tag("h3", "What happened"), timeline(story)))
        if not story.decision.returns:
            self._promised.show(
                join(tag("h3", "Promised and measured"), promised_and_measured(story))
            )
        self._basis.show(join(tag("h3", "What it rests on"), _basis(found)))
        for metric, series in samples.items():
            if any(frame.height for frame in series.values()):
                self._chart(metric, sample_chart(metric, series, decided_s=story.decision.t_s))

    def _chart(self, metric: str, options: dict[str, Any]) -> None:
        if metric not in self._charts:
            meaning = MEANINGS.get(metric, "")
            with self._charts_at:
                Html(tag("h3", metric, tag("span", f" {meaning}" if meaning else None)))
                self._charts[metric] = Chart(options)
        self._charts[metric].show(lambda: options["series"])


def timeline(story: Story) -> Markup:
    """List all entries in order of time."""
    steps = (
        tag("li", tag("time", clock(t_s)), what, said, class_=f"st-step st-step-{kind}")
        for t_s, kind, what, said in sorted(_lines(story), key=lambda line: line[0])
    )
    return tag("ol", join(*steps), class_="st-timeline")


def _lines(story: Story) -> Iterator[tuple[float, str, Markup, str]]:
    decision = story.decision
    yield decision.t_s, "decided", tag("b", "Decided"), f" by the policy {decision.policy}"
    for verdict in story.verdicts:
        yield verdict.t_s, "ruled", tag("b", RULINGS[verdict.ruling]), f": {verdict.why}"
    for choice in story.choices:
        note = f": {choice.note}" if choice.note else ""
        yield choice.t_s, "chosen", tag("b", choice.user), f" {SAID[choice.choice]} it{note}"
    for receipt in story.receipts:
        yield receipt.t_s, receipt.result, tag("b", RESULTS[receipt.result]), f": {receipt.text}"
    for outcome in story.outcomes:
        yardstick = YARDSTICKS[outcome.yardstick]
        worth = outcome_text(outcome) + (" gained" if yardstick.saves else f", {yardstick.text}")
        yield outcome.t_s, "measured", tag("b", worth), f": {outcome.text}"


def promised_and_measured(story: Story) -> Markup:
    """Compare what was promised with what came, by the yardstick of the action."""
    expects, yardstick = story.decision.expects, story.decision.action.yardstick
    first = Interval(low=expects.low, mid=expects.mid, high=expects.high)
    rows = [("Promised by the first check", first)]
    own = [each for each in story.outcomes if each.yardstick == yardstick and each.effect is None]
    if own:
        promised = sum(each.expected for each in own)
        rows.append(("Promised so far", Interval(low=promised, mid=promised, high=promised)))
        low, mid, high = (
            sum(getattr(each.gained, bound) for each in own) for bound in ("low", "mid", "high")
        )
        rows.append(("Measured so far", Interval(low=low, mid=mid, high=high)))
    most = max(1.0, *(max(0.0, figure.high) for _, figure in rows))
    bars = join(*(_bar(name, figure, yardstick, most=most) for name, figure in rows))
    wait = f"First check {duration(story.decision.check_after_s)} after it was carried out."
    return join(bars, tag("p", wait, class_="st-quiet") if not story.outcomes else None)


def _bar(name: str, figure: Interval, yardstick: str, *, most: float) -> Markup:
    width = f"width:{100 * max(0.0, figure.mid) / most:.1f}%"
    text, low, high = (
        measured_text(each, yardstick) for each in (figure.mid, figure.low, figure.high)
    )
    span = "" if low == high else f" ({low.partition(' ')[0]} to {high})"
    kind = "st-measured" if name.startswith("Measured") else "st-promised"
    return tag(
        "div",
        tag(
            "div",
            tag("span", name),
            tag("span", text, tag("small", span, class_="st-quiet"), class_="st-number"),
            class_="st-split",
        ),
        tag("div", tag("i", class_=kind, style=width), class_="st-bar st-thin"),
    )


def _basis(found: DecisionExplanation) -> Markup:
    decision = found.story.decision
    findings = (
        tag("li", tag("b", each.title), f": {evidence_text(each)}") for each in found.findings
    )
    forecasts = _beliefs(decision.forecasts)
    gpus = tag("li", f"GPUs: {gpus_text(decision.action.gpus)}", class_="st-quiet")
    return tag("ul", join(*findings, *forecasts, gpus, _loan(decision)), class_="st-basis")


def _loan(decision: Decision) -> Markup | None:
    if not isinstance(decision.action, CallBack):
        return None
    loan = decision.action.loan
    return tag("li", "It ends the loan ", tag("a", loan, href=f"/decisions/{loan}"))


def _beliefs(forecasts: tuple[Forecast, ...]) -> Iterator[Markup]:
    """List each forecast once: equal ones of several subjects share a line."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for each in forecasts:
        low, mid, high = (quantity_text(each.quantity, x) for x in (each.low, each.mid, each.high))
        alike.setdefault((each.quantity, f"{mid} ({low} to {high})", each.basis), []).append(
            each.subject
        )
    for (quantity, figures, basis), subjects in alike.items():
        said = f"{quantity} of {gpus_text(tuple(subjects))}: {figures}, {basis}"
        yield tag("li", said, class_="st-quiet")
