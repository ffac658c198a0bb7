"""`/search`: everything that has the words, with where it is shown."""

from __future__ import annotations

from collections.abc import Mapping

from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, tag
from steward.service.pages.rows import Html
from steward.service.tables import SearchHit, search

__all__ = ["hit_table", "search_page"]

MOST_CHARACTERS = 200
KINDS = {
    "jobs": "job",
    "gpus": "GPU",
    "nodes": "node",
    "tenants": "tenant",
    "findings": "finding",
    "decisions": "decision",
    "rules": "rule",
}


def search_page(_visit: Visit, chosen: Mapping[str, str], *, job_pages: bool) -> Show:
    """Build the page and return what keeps it up to date."""
    words = chosen.get("q", "")[:MOST_CHARACTERS]
    with card("Search"):
        Html(_form(words))
        found = Html()

    def show(snapshot: StateSnapshot) -> None:
        found.show(hit_table(words, search(words, snapshot, job_pages=job_pages)))

    return show


def hit_table(words: str, hits: tuple[SearchHit, ...]) -> Markup:
    """Show what was found."""
    if not words.strip():
        return tag(
            "p", "Jobs, GPUs, nodes, tenants, findings, decisions, rules.", class_="st-quiet"
        )
    if not hits:
        text = (
            "Only what steward has in memory is searched: what is there now, and what was newest."
        )
        return empty("Nothing has all of these words", text)
    rows = [
        tag(
            "tr",
            tag("td", KINDS[hit.kind]),
            tag("td", tag("a", hit.id, href=hit.path), class_="st-number"),
            tag("td", hit.text),
        )
        for hit in hits
    ]
    head = tag("tr", *(tag("th", name, scope="col") for name in ("kind", "name", "what")))
    body = tag("table", tag("thead", head), tag("tbody", *rows), class_="st-table")
    return tag("div", body, class_="st-scroll")


def _form(words: str) -> Markup:
    field = tag(
        "input",
        type="search",
        name="q",
        value=words,
        aria_label="Search everything",
        placeholder="a name, a user, a node, a word",
        maxlength=str(MOST_CHARACTERS),
    )
    button = tag("button", "Search", type="submit", class_="st-plain-button")
    return tag("form", field, button, action="/search", method="get", role="search")
