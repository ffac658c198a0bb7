"""`/findings`: what was noticed, each with the samples it rests on, and what keeps happening."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import quote

from nicegui import background_tasks, ui
from nicegui.element import Element

from steward.model.cluster_snapshot import GpuState
from steward.model.finding import Finding, Pattern, Severity
from steward.model.identity import FindingId
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty, moment, severity_chip, sparkline
from steward.service.pages.frame import Show, Visit, card, keep_in_address
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, Rows
from steward.service.pages.telemetry.curves import ButtonGroup
from steward.service.pages.wording import about, evidence_text, gpus_text, quoted_text, share
from steward.service.sparklines import Spark
from steward.service.telemetry.latest_values import node_of

__all__ = ["DEFAULTS", "findings_page", "is_open", "lasted_s", "pattern_list", "select_findings"]

SHOWN = 25
MANY = 12  # options, from which on one can type to search
ALL = "all"
DEFAULTS = {
    "severity": ALL,
    "state": ALL,
    "sort": "newest",
    "rule": "",
    "node": "",
    "page": "1",
}
CHOICES = {
    "severity": {ALL: "All", "fault": "Faults", "waste": "Waste", "note": "Notes"},
    "state": {ALL: "Open and over", "open": "Open", "over": "Over"},
    "sort": {"newest": "Newest", "longest": "Longest", "severity": "Most severe"},
}
LABELS = {"severity": "Severity", "state": "State", "sort": "Order"}
NO_MATCH = empty("No findings match these filters", "Choose other filters.")
NOTHING = empty(
    "Nothing noticed yet",
    "What rules recognise in lines and samples is listed here with its evidence, as are GPUs that "
    "are held but idle for five minutes, outside compilation, data loading and checkpoints.",
)


def findings_page(visit: Visit, query: Mapping[str, str]) -> Show:
    """Build the page and return what keeps it up to date; `query` are filters of the address."""
    with card("What keeps happening") as patterns_card:
        patterns = Html()
    findings = _List(visit, query)

    def show(snapshot: StateSnapshot) -> None:
        patterns_card.set_visibility(bool(snapshot.patterns))
        patterns.show(pattern_list(snapshot.patterns))
        findings.show(snapshot)

    return show


def select_findings(snapshot: StateSnapshot, chosen: Mapping[str, str]) -> list[Finding]:
    """Return the findings that pass the filters, in the chosen order."""
    kept = [
        each
        for each in snapshot.findings
        if chosen["severity"] in (ALL, each.severity.value)
        and chosen["rule"] in ("", each.rule)
        and (not chosen["node"] or chosen["node"] in _nodes(each))
        and chosen["state"] in (ALL, "open" if is_open(each, snapshot) else "over")
    ]
    ranks = list(Severity)
    if chosen["sort"] == "longest":
        kept.sort(key=lambda each: lasted_s(each, snapshot), reverse=True)
    elif chosen["sort"] == "severity":
        kept.sort(
            key=lambda each: (ranks.index(each.severity), lasted_s(each, snapshot)), reverse=True
        )
    return kept


def is_open(finding: Finding, snapshot: StateSnapshot) -> bool:
    """Return whether a finding holds now; a fault holds as long as one of its GPUs is failed."""
    if finding.id in snapshot.open_findings:
        return True
    return finding.severity is Severity.FAULT and bool(failed_gpus(finding, snapshot))


def failed_gpus(finding: Finding, snapshot: StateSnapshot) -> tuple[str, ...]:
    """Return the GPUs of a finding, or of the node that it is about, that are failed now."""
    own = {finding.subject, *finding.gpus}
    if not snapshot.cluster.states.get(GpuState.FAILED):
        return ()
    failed = (gpu.id for gpu in snapshot.cluster.gpus if gpu.state is GpuState.FAILED)
    return tuple(
        each for each in failed if each in own or (not finding.gpus and node_of(each) in own)
    )


def lasted_s(finding: Finding, snapshot: StateSnapshot) -> float:
    """Return how long a finding has lasted, up to now or to its last match."""
    if is_open(finding, snapshot):
        return snapshot.cluster.t_s - finding.since_s
    return snapshot.last_seen.get(finding.id, finding.t_s) - finding.since_s


def _nodes(finding: Finding) -> set[str]:
    entities = [finding.subject, *finding.gpus, *(each.entity for each in finding.evidence)]
    return {node_of(each) for each in entities} - {""}


class _List:
    """Findings with filters, order and pages, all of which are in the address."""

    def __init__(self, visit: Visit, query: Mapping[str, str]) -> None:
        self._visit = visit
        self._chosen = {key: query.get(key, default) for key, default in DEFAULTS.items()}
        for key, names in CHOICES.items():
            if self._chosen[key] not in names:
                self._chosen[key] = DEFAULTS[key]
        page = self._chosen["page"]
        self._page = int(page) if page.isdecimal() and len(page) < 6 else 1
        snapshot = visit.live_state.snapshot
        with card("Findings"):
            with ui.element("div").classes("st-line"):
                for key, names in CHOICES.items():
                    ButtonGroup(
                        names,
                        label=LABELS[key],
                        chosen=self._chosen[key],
                        on_choose=partial(self._choose, key),
                    )
            with ui.element("div").classes("st-form"):
                rules = sorted({each.rule for each in snapshot.findings} | {self._chosen["rule"]})
                self._select("rule", "Rule", rules)
                nodes = sorted(
                    {each.id for each in snapshot.cluster.nodes} | {self._chosen["node"]}
                )
                self._select("node", "Node", nodes)
            self._nothing = Html()
            with ui.element("div").classes("st-list") as parent:
                self._rows: Rows[FindingId, Markup] = Rows(parent, _make)
            with ui.element("div").classes("st-pager"):
                self._before = self._turn("Previous", -1)
                self._count = Html(tag="span", classes="st-quiet st-number")
                self._after = self._turn("Next", 1)

    def show(self, snapshot: StateSnapshot) -> None:
        """Bring the list up to date."""
        found = select_findings(snapshot, self._chosen)
        last = max(1, -(-len(found) // SHOWN))
        at = min(max(1, self._page), last)
        first = (at - 1) * SHOWN
        shown = found[first : first + SHOWN]
        self._nothing.show(Markup("") if found else NOTHING if not snapshot.findings else NO_MATCH)
        self._before.set_enabled(at > 1)
        self._after.set_enabled(at < last)
        text = f"{first + 1:,} to {first + len(shown):,} of {len(found):,}" if found else "none"
        self._count.show(join(text))
        decided = _decided(snapshot)
        sparklines = self._visit.live_state.sparklines
        rows = [
            (each.id, _row(each, snapshot, sparklines[each.id], decided.get(each.id)))
            for each in shown
        ]
        self._rows.show(rows)
        self._page = at
        background_tasks.create(asyncio.to_thread(sparklines.catch_up, shown))

    def _choose(self, key: str, value: str) -> None:
        self._chosen[key], self._page = value, 1
        self._again()

    def _select(self, key: str, label: str, names: list[str]) -> None:
        options = {name: name or "all" for name in dict.fromkeys(("", *names))}
        select = ui.select(
            options,
            label=label,
            value=self._chosen[key],
            with_input=len(options) > MANY,
            on_change=lambda event: self._choose(key, str(event.value or "")),
        )
        select.props("dense").style("min-width: 200px")

    def _turn(self, name: str, by: int) -> ui.button:
        def turn() -> None:
            self._page += by
            self._again()

        button = ui.button(name, color=None, on_click=turn)
        return button.props("flat no-caps dense").classes("st-filter")

    def _again(self) -> None:
        self.show(self._visit.live_state.snapshot)
        chosen = {**self._chosen, "page": str(self._page)}
        keep_in_address("/findings", chosen, DEFAULTS)


def _make(markup: Markup) -> tuple[Element, Callable[[Markup], None]]:
    row = Html(markup, tag="article", classes="st-finding")
    return row, row.show


def _decided(snapshot: StateSnapshot) -> dict[FindingId, str]:
    return {
        finding: each.story.decision.id
        for each in reversed(snapshot.stories)
        for finding in each.story.decision.findings
    }


def _row(finding: Finding, snapshot: StateSnapshot, spark: Spark, decision: str | None) -> Markup:
    now_s = snapshot.cluster.t_s
    holds = is_open(finding, snapshot)
    failed = failed_gpus(finding, snapshot)
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
    lasted = (
        f"for {about(now_s - finding.since_s)} now"
        if holds
        else (f"over after {about(lasted_s(finding, snapshot))}")
    )
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
            tag("p", _failed(failed), class_="st-is-bad") if failed else None,
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


def _failed(gpus: tuple[str, ...]) -> Markup:
    links = (tag("a", each, href=f"/gpus/{quote(each)}") for each in gpus[:3])
    return join("Failed now: ", *(part for link in links for part in (link, " ")))


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
