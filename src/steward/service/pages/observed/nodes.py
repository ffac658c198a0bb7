"""`/nodes`: every node in a line, and how what looks at them is doing."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from steward.service.board import Picture
from steward.service.observed import NodeState
from steward.service.observed.newest import CollectorState
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html
from steward.service.pages.wording import plural, share

__all__ = ["collector_table", "meter", "node_table", "nodes_page", "pressure_text", "table"]

SHOWN_JOBS = 4
NO_NODES = empty(
    "No nodes yet",
    "They appear with the first turn that finds some. Run steward doctor to learn what it sees.",
)
PRESSURES = (
    ("CPU", "host.pressure.cpu.some_share"),
    ("memory", "host.pressure.memory.some_share"),
    ("disk", "host.pressure.io.some_share"),
)


def nodes_page(visit: Visit) -> Show:
    """Build the page and return what keeps it up to date."""
    with card("Nodes"):
        nodes = Html(classes="st-scroll")
    with card("Collectors of this steward"):
        collectors = Html(classes="st-scroll")

    def show(picture: Picture) -> None:
        newest = visit.board.newest
        nodes.show(node_table(newest.nodes(picture.snapshot)))
        collectors.show(collector_table(newest.collectors()))

    return show


def node_table(nodes: tuple[NodeState, ...]) -> Markup:
    """List the nodes with the few figures that tell them apart."""
    if not nodes:
        return NO_NODES
    heads = ("Node", "GPUs", "GPUs busy", "Processors", "Memory", "Held up by", "Jobs")
    return table(heads, (_row(node) for node in nodes))


def _row(node: NodeState) -> Markup:
    values = node.values
    used, limit = values.get("host.memory.used_bytes"), values.get("host.memory.limit_bytes")
    jobs = node.jobs
    more = f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else ""
    return tag(
        "tr",
        tag("td", tag("a", node.id, href=f"/nodes/{quote(node.id)}")),
        tag("td", str(len(node.gpus) or len(node.of_kind("gpu"))), class_="st-number"),
        tag("td", meter(node.busy_share)),
        tag("td", meter(values.get("host.cpu.busy_share"))),
        tag("td", meter(used / limit if used is not None and limit else None)),
        tag("td", pressure_text(node), class_="st-quiet"),
        tag("td", ", ".join(jobs[:SHOWN_JOBS]) + more, class_="st-quiet"),
    )


def pressure_text(node: NodeState) -> str:
    """Name what tasks wait for; nothing that is below one percent."""
    known = [(word, node.values.get(metric)) for word, metric in PRESSURES]
    if all(value is None for _, value in known):
        return "unknown"
    felt = [f"{word} {share(value)}" for word, value in known if value and value >= 0.01]
    return ", ".join(felt) or "nothing"


def meter(value: float | None) -> Markup:
    """Draw a share as a small bar; what is not known is said to be."""
    if value is None:
        return tag("span", "unknown", class_="st-quiet")
    width = f"width:{100 * min(1.0, max(0.0, value)):.0f}%"
    bar = tag("span", tag("i", style=width), class_="st-meter")
    return tag("span", bar, tag("b", share(value)), class_="st-metered st-number")


def collector_table(collectors: tuple[CollectorState, ...]) -> Markup:
    """Say of each collector whether it keeps up."""
    if not collectors:
        return empty("No collectors", "They stand in the configuration: observe.collectors.")
    rows = (
        tag(
            "tr",
            tag("td", tag("code", each.name)),
            tag("td", each.fault or "works", class_="st-is-bad" if each.fault else "st-quiet"),
            tag("td", _pace(each), class_="st-quiet st-number"),
        )
        for each in collectors
    )
    return table(("Collector", "State", "Pace"), rows)


def _pace(state: CollectorState) -> str:
    if state.ticks is None:
        return "asked once per turn"
    said = [plural(state.ticks, "tick")]
    said += [f"{state.missed:,} missed"] if state.missed else []
    said += [f"{state.failed:,} failed"] if state.failed else []
    return ", ".join(said)


def table(heads: tuple[str, ...], rows: Iterable[Markup]) -> Markup:
    """Put rows below their headings."""
    head = tag("tr", join(*(tag("th", text, scope="col") for text in heads)))
    body = tag("tbody", join(*rows))
    return tag("table", tag("thead", head), body, class_="st-table")
