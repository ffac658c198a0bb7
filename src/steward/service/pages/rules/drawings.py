"""Parts of the pages of rules as HTML. Pure: the same rule, the same markup."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from steward.inspection.explanation import describe_conditions
from steward.learn.rules import KEPT_SHARE
from steward.model.rules import RuleState
from steward.service.pages.drawings import moment, tile
from steward.service.pages.markup import Markup, join, prose, tag
from steward.service.pages.telemetry.nodes import meter
from steward.service.pages.wording import about, plural, share
from steward.service.rulebook import RuleRow

__all__ = [
    "address_of",
    "hit_bars",
    "meaning",
    "rule_row",
    "rule_tiles",
    "state_chips",
]

STATES = {
    RuleState.ON: ("on", "st-chip"),
    RuleState.OFF: ("off", "st-chip"),
    RuleState.FAULTY: ("faulty", "st-chip st-chip-fault"),
}
SEVERE = ("critical", "high")
BARS, BAR_S = 48, 1800.0  # a day in half hours
WIDTH, HEIGHT = 144, 24


def address_of(rule: str) -> str:
    """Return where the page of a rule is."""
    return f"/rules/{quote(rule, safe='')}"


def rule_row(row: RuleRow, now_s: float) -> Markup:
    """Show one rule as the cells of a line."""
    stats = row.stats
    last = moment(stats.last_s, now_s) if stats.last_s is not None else "never"
    severity = row.severity.word if row.severity is not None else "unknown"
    return join(
        tag(
            "td",
            tag("a", tag("b", row.title or row.id), href=address_of(row.id)),
            tag("span", row.id, class_="st-quiet") if row.title else None,
            tag("span", row.standing.why, class_="st-quiet") if row.standing.why else None,
        ),
        tag("td", state_chips(row)),
        tag("td", tag("b", severity) if severity in SEVERE else severity),
        tag("td", row.standing.pack, class_="st-quiet"),
        tag("td", hit_bars(stats.history, now_s), class_="st-hits"),
        tag("td", f"{stats.fired:,}", class_="st-number"),
        tag("td", last, class_="st-number st-quiet"),
        tag("td", _judged(row)),
    )


def state_chips(row: RuleRow) -> Markup:
    """Show whether a rule runs, and whether it should; never by colour alone."""
    word, classes = STATES[row.standing.state]
    retire = tag("span", "retire?", class_="st-chip st-chip-waste", title="wrong more than right")
    return tag(
        "div",
        tag("span", word, class_=classes, title=row.standing.why or None),
        retire if row.stats.retire else None,
        class_="st-line",
    )


def _judged(row: RuleRow) -> Markup:
    if not row.stats.judged:
        return tag("span", "not judged yet", class_="st-quiet")
    return join(
        meter(row.stats.weight),
        tag("span", f"judged {plural(row.stats.judged, 'time')}", class_="st-quiet"),
    )


def hit_bars(history: Sequence[tuple[float, int]], now_s: float) -> Markup:
    """Draw how often a rule matched in each half hour of the last day."""
    counts = [0] * BARS
    for t_s, hits in history:
        at = BARS - 1 - int((now_s - t_s) // BAR_S)
        if 0 <= at < BARS:
            counts[at] += hits
    if not any(counts):
        return Markup("")
    top, step = max(counts), WIDTH / BARS
    bars = (
        tag(
            "rect",
            x=f"{at * step:.1f}",
            y=f"{HEIGHT - height:.1f}",
            width=f"{step - 0.6:.1f}",
            height=f"{height:.1f}",
        )
        for at, count in enumerate(counts)
        if count and (height := 2 + (HEIGHT - 2) * count / top)
    )
    said = (
        f"{plural(sum(counts), 'match', 'matches')} in the last day, at most {top} in half an hour"
    )
    return tag(
        "svg",
        join(*bars),
        class_="st-bars",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=said,
    )


def rule_tiles(row: RuleRow) -> Markup:
    """Show the statistics of a rule."""
    stats = row.stats
    weight = share(stats.weight) if stats.judged else "unknown"
    span = f"{share(stats.low)} to {share(stats.high)}" if stats.judged else "not judged yet"
    kind = "bad" if stats.retire else ""
    return join(
        tile("Right so far", weight, "more wrong than right: retire it?" if kind else span, kind),
        tile("Matches", f"{stats.fired:,}", f"{plural(stats.findings, 'finding')}"),
        tile("Confirmed", f"{stats.confirmed:,}", f"{stats.dismissed:,} dismissed"),
        tile(
            "Decisions",
            f"{stats.decisions:,}",
            f"{stats.refused:,} refused, {stats.undone:,} undone",
        ),
        tile(
            "Promises kept",
            f"{stats.met:,} of {stats.met + stats.missed:,}",
            f"a promise is kept from {share(KEPT_SHARE)} of it on",
        ),
    )


def meaning(row: RuleRow) -> Markup:
    """Write what a rule looks for, what it means and what to do about it."""
    rule = row.standing.rule
    if rule is None:
        return tag("p", row.standing.why, class_="st-notice")
    parts = (
        ("What it is", rule.description),
        ("Cause", rule.cause),
        ("Impact", rule.impact),
        ("What to do", rule.mitigation),
    )
    parts_shown = [join(tag("h3", name), prose(text)) for name, text in parts if text]
    links = [
        tag("li", tag("a", each, href=each, rel="noreferrer") if _is_web(each) else each)
        for each in rule.references
    ]
    if rule.treatment is not None:
        treatment = rule.treatment
        says = f"{treatment.action}: {treatment.advice}"
        promise = treatment.effect
        checked = (
            f" It promises that {promise.expr} goes {promise.direction} by at least "
            f"{promise.at_least:g}, checked after {about(treatment.check_after_s)}."
            if promise is not None
            else ""
        )
        parts_shown.append(join(tag("h3", "What steward does"), tag("p", says + checked)))
    return join(
        tag("p", row.standing.why, class_="st-notice") if row.standing.why else None,
        tag("h3", "What it looks for"),
        tag("ul", join(*_waits(row)), class_="st-waits"),
        *parts_shown,
        join(tag("h3", "References"), tag("ul", join(*links), class_="st-basis"))
        if links
        else None,
        tag("p", f"{row.standing.place}", class_="st-quiet st-file"),
    )


def _is_web(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def _waits(row: RuleRow) -> list[Markup]:
    rule = row.standing.rule
    lines = describe_conditions(rule) if rule is not None else ()
    return [
        tag(
            "li", line.lstrip(), style=f"margin-left:{0.6 * (len(line) - len(line.lstrip())):.1f}em"
        )
        for line in lines
    ]
