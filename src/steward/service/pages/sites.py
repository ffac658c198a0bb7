"""The other sites on the first page: how each does, with a link to its own dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from steward.model.site import SiteHealth
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.wording import clock

__all__ = ["site_table"]

HEADS = ("Site", "State", "Last turn", "What is wrong")


def site_table(sites: Sequence[SiteHealth]) -> Markup:
    """List the sites, those that are not fine with the reason."""
    head = tag("tr", join(*(tag("th", text, scope="col") for text in HEADS)))
    rows = join(*map(_row, sites))
    return tag("table", tag("thead", head), tag("tbody", rows), class_="st-table")


def _row(site: SiteHealth) -> Markup:
    name = tag("b", site.name)
    state = site.state.value + ("" if site.since_s is None else f" since {clock(site.since_s)}")
    return tag(
        "tr",
        tag("td", tag("a", name, href=site.url) if site.url else name),
        tag("td", state),
        tag("td", "" if site.last_turn_t_s is None else clock(site.last_turn_t_s)),
        tag("td", site.text),
    )
