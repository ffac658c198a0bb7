"""A plan as markup: what is recommended, the picture, the table, and why others lost. Pure."""

from __future__ import annotations

import shlex

from steward.decide.planning.formatting import amount, duration, way_name
from steward.errors import StewardError
from steward.model.planning.plan import Choice, Plan
from steward.planning.rows import (
    FRONT_COLUMNS,
    REJECTED_COLUMNS,
    front_rows,
    moment,
    money,
    note_lines,
    rejected_rows,
)
from steward.planning.scatter import scatter
from steward.service.pages.markup import Markup, join, tag

__all__ = ["answer", "refusal"]

MOST_REJECTED = 30


def answer(plan: Plan) -> Markup:
    """Return the whole answer."""
    if not plan.front:
        return join(_nothing(plan), _lost(plan))
    best = plan.front[0]
    return join(
        _figures(best, plan),
        tag("p", f"{plan.why}.", class_="st-hint"),
        tag("div", Markup(scatter(plan)), class_="st-scroll st-scatter"),
        tag(
            "p",
            "Numbers are rows of the table, grey is what another choice beats. Area: energy.",
            class_="st-quiet",
        ),
        _table(FRONT_COLUMNS, list(front_rows(plan))),
        *(tag("p", each, class_="st-quiet") for each in note_lines(plan)),
        _command(best),
        _lost(plan),
    )


def refusal(fault: StewardError) -> Markup:
    """Write what is wrong with a question, and what to do about it."""
    hint = tag("p", fault.hint) if fault.hint else None
    return tag("div", tag("b", str(fault)), hint, class_="st-notice", role="alert")


def _nothing(plan: Plan) -> Markup:
    relax = tag("ul", *(tag("li", each) for each in plan.relax)) if plan.relax else None
    said = tag("b", "Nothing that is known can do this")
    return tag("div", said, relax, class_="st-notice", role="status")


def _figures(best: Choice, plan: Plan) -> Markup:
    chance = "no deadline"
    if best.deadline_chance is not None:
        chance = f"{best.deadline_chance:.0%} by the deadline"
    carbon = "CO₂ unknown" if best.co2_kg is None else amount(best.co2_kg.mid, "kg CO₂")
    return tag(
        "div",
        _figure("Recommended", f"{best.site}/{best.queue}", way_name(best.way)),
        _figure(
            "Ends", moment(best.end_s.mid), f"in {duration(best.end_s.mid - plan.request.now_s)}"
        ),
        _figure("In time", chance, f"19 of 20 such jobs end by {moment(best.end_s.high)}"),
        _figure("Cost", money(best), carbon),
        class_="st-figures st-planned",
    )


def _figure(name: str, value: str, more: str) -> Markup:
    return tag(
        "div",
        tag("span", name, class_="st-quiet"),
        tag("b", value),
        tag("small", more, class_="st-quiet"),
        class_="st-figure",
    )


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Markup:
    head = tag("tr", *(tag("th", each, scope="col") for each in columns))
    body = (tag("tr", *(tag("td", cell) for cell in row)) for row in rows)
    whole = tag("table", tag("thead", head), tag("tbody", *body), class_="st-table")
    return tag("div", whole, class_="st-scroll")


def _command(best: Choice) -> Markup:
    """Return what writes a script for the recommended choice: submitting is a person's to do."""
    typed = f"steward estimate plan … --sites {shlex.quote(best.site)} --scripts DIR --command …"
    return tag("p", "Scripts that are ready to run there: ", tag("code", typed), class_="st-quiet")


def _lost(plan: Plan) -> Markup | None:
    rows = list(rejected_rows(plan, most=MOST_REJECTED))
    if not rows:
        return None
    more = len(plan.rejected) - len(rows)
    return tag(
        "details",
        tag("summary", f"Why {len(plan.rejected):,} others are not among them"),
        _table(REJECTED_COLUMNS, rows),
        tag("p", f"and {more:,} more", class_="st-quiet") if more > 0 else None,
        class_="st-folded",
    )
