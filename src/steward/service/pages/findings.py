"""`/findings`: what was noticed, each with the samples it rests on, and what keeps happening."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui
from nicegui.element import Element

from steward.model.finding import Finding, Pattern
from steward.model.identity import FindingId
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty, moment, severity_chip, sparkline
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, Rows
from steward.service.pages.wording import about, evidence_text, gpus_text, quoted_text, share
from steward.service.sparklines import Spark

__all__ = ["findings_page", "pattern_list"]

SHOWN = 50
NOTHING = empty(
    "Nothing noticed yet",
    "What rules recognise in lines and samples is listed here with its evidence, as are GPUs that "
    "are held but idle for five minutes, outside compilation, data loading and checkpoints.",
)


def findings_page(visit: Visit) -> Show:
    """Build the page and return what keeps it up to date."""
    with card("What keeps happening") as patterns_card:
        patterns = Html()
    with card("Findings"):
        nothing = Html()
        with ui.element("div").classes("st-list") as parent:
            rows: Rows[FindingId, Markup] = Rows(parent, _make)

    def show(snapshot: StateSnapshot) -> None:
        patterns_card.set_visibility(bool(snapshot.patterns))
        patterns.show(pattern_list(snapshot.patterns))
        newest = snapshot.findings[:SHOWN]
        nothing.show(Markup("") if newest else NOTHING)
        decided = _decided(snapshot)
        rows.show(
            [
                (
                    each.id,
                    _row(
                        each, snapshot, visit.live_state.sparklines[each.id], decided.get(each.id)
                    ),
                )
                for each in newest
            ]
        )

    return show


def _make(markup: Markup) -> tuple[Element, Callable[[Markup], None]]:
    row = Html(markup, tag="article", classes="st-finding")
    return row, row.show


def _decided(snapshot: StateSnapshot) -> dict[FindingId, str]:
    return {
        finding: told.story.decision.id
        for told in reversed(snapshot.stories)
        for finding in told.story.decision.findings
    }


def _row(finding: Finding, snapshot: StateSnapshot, spark: Spark, decision: str | None) -> Markup:
    now_s = snapshot.cluster.t_s
    holds = finding.id in snapshot.open_findings
    says = evidence_text(finding) or quoted_text(finding)
    whose = " · ".join(
        part
        for part in (
            gpus_text(finding.gpus) or finding.subject,
            f"job {finding.job}" if finding.job else "",
            finding.tenant or "",
        )
        if part
    )
    lasted = f"for {about(now_s - finding.since_s)} now" if holds else "over"
    link = tag("a", "Decision", href=f"/decisions/{decision}") if decision else None
    return join(
        tag(
            "div",
            tag(
                "div",
                severity_chip(finding),
                tag("span", "holds now", class_="st-chip st-chip-active") if holds else None,
                tag("span", moment(finding.t_s, now_s), ", ", lasted, class_="st-quiet"),
                class_="st-line",
            ),
            tag("b", tag("a", finding.title, href=f"/findings/{finding.id}")),
            tag("p", whose, class_="st-quiet"),
            tag("p", says),
            tag(
                "p",
                tag("span", "Rule ", tag("code", finding.rule), class_="st-quiet"),
                " ",
                link,
                class_="st-line",
            ),
        ),
        tag("figure", sparkline(spark, says), tag("figcaption", _caption(finding)))
        if finding.evidence
        else None,
    )


def _caption(finding: Finding) -> str:
    first = finding.evidence[0] if finding.evidence else None
    return f"{first.metric} of {first.entity}" if first else ""


def pattern_list(patterns: tuple[Pattern, ...]) -> Markup:
    """List patterns with how often they held."""
    return tag(
        "ul",
        join(
            *(
                tag(
                    "li",
                    each.statement,
                    tag(
                        "span",
                        f" {each.hits:,} of {each.cases:,} times, so "
                        f"{share(each.low_share)} to {share(each.high_share)}",
                        class_="st-quiet",
                    ),
                )
                for each in patterns
            )
        ),
        class_="st-patterns",
    )
