"""`/health`: the fleet by the state of its hardware, incidents, suspicious nodes, rates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite, log10

from steward.service.fleet_health import (
    STATES,
    CodeRate,
    FleetSummary,
    IncidentRow,
    NodeCells,
    UnitRow,
    fleet_summary,
)
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty, tile
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html

__all__ = ["fleet_map", "health_page", "incident_table", "rate_table", "timeline", "unit_table"]

SHOWN = 20
PROGRAM = "program"  # a part: faults of programs say nothing about a node
LANES = 12
WIDTH, LANE = 960, 22
_OFF = empty(
    "Faults are not looked for here",
    "Add climb-ladder to decide.policies: it reads the kernel's lines of all nodes, and says which "
    "of them should leave service. At autonomy 'advise' it only says so.",
)
_QUIET = empty("No fault so far", "Faults of GPUs and hosts appear here when the kernel logs them.")


def health_page(visit: Visit) -> Show:
    """Build the page and return what keeps it up to date."""
    tiles = Html(classes="st-figures st-large")
    with card("Fleet"):
        fleet = Html()
    with card("Incidents"):
        line = Html(classes="st-scroll")
        incidents = Html(classes="st-scroll")
    with card("Suspicious nodes"):
        units = Html(classes="st-scroll")
    with card("Rates by code"):
        rates = Html(classes="st-scroll")

    def show(_: StateSnapshot) -> None:
        summary = fleet_summary(visit.live_state.loop)
        tiles.show(_tiles(summary))
        fleet.show(fleet_map(summary.nodes))
        none = _QUIET if summary.enabled else _OFF
        line.show(timeline(summary.incidents, summary.t_s) if summary.incidents else none)
        incidents.show(incident_table(summary.incidents))
        units.show(unit_table(summary.units))
        rates.show(rate_table(summary.rates, summary.exposure_days))

    return show


def _tiles(summary: FleetSummary) -> Markup:
    states = summary.states
    follow = sum(not each.primary for each in summary.incidents)
    programs = sum(each.primary and each.part == PROGRAM for each in summary.incidents)
    ill = sum(states.get(each, 0) for each in ("faulty", "drained", "failed", "proven"))
    fatal = sum(each.fatal for each in summary.incidents)
    lemons = sum(each.lemon_probability >= 0.5 for each in summary.units)
    return join(
        tile("GPUs with a fault", f"{ill:,}", f"of {sum(states.values()):,}", "bad" if ill else ""),
        tile("Incidents", f"{len(summary.incidents):,}", f"{fatal:,} take a GPU"),
        tile("No reason for a drain", f"{follow + programs:,}", "follow from others, or programs'"),
        tile("Likely lemons", f"{lemons:,}", "nodes with more faults than their like"),
    )


def fleet_map(nodes: Sequence[NodeCells]) -> Markup:
    """Draw a row per node and a cell per GPU; what is wrong is said, not only coloured."""
    legend = join(
        *(
            tag("span", tag("i", mark, class_=f"st-gpu st-health-{state}"), text)
            for state, (mark, text) in STATES.items()
        )
    )
    rows = [_node(each) for each in nodes if each.gpus]
    if not rows:
        return empty("No GPUs yet", "They appear with the first turn that finds some.")
    return join(
        tag("div", legend, class_="st-legend"),
        tag("ul", *rows, class_="st-fleet", aria_label="Nodes and their GPUs"),
    )


def _node(node: NodeCells) -> Markup:
    cells = join(
        *(
            tag(
                "i",
                STATES[gpu.state][0],
                class_=f"st-gpu st-health-{gpu.state}",
                title=f"{gpu.id}: {gpu.state}",
            )
            for gpu in node.gpus
        )
    )
    worst = max((gpu.state for gpu in node.gpus), key=list(STATES).index)
    label = f"{node.node}: {worst}{', ' + node.text if node.text else ''}"
    name = tag("a", node.node, href=f"/nodes/{node.node}", title=node.node)
    boxes = tag("span", cells, class_="st-cells", role="img", aria_label=label)
    return tag("li", name, boxes, tag("small", node.text, class_="st-quiet") if node.text else None)


def timeline(incidents: Sequence[IncidentRow], now_s: float) -> Markup:
    """Draw incidents by time, a lane for each of the nodes that had most."""
    counts: dict[str, int] = {}
    for each in incidents:
        counts[each.node] = counts.get(each.node, 0) + (each.part != PROGRAM)
    lanes = sorted(counts, key=lambda node: (-counts[node], node))[:LANES]
    shown = [each for each in incidents if each.node in lanes and isfinite(each.t_s)]
    if not shown:
        return Markup("")
    first_s = min(each.t_s for each in shown)
    span_s = max(60.0, now_s - first_s)
    height = LANE * len(lanes) + 18
    parts = [_lane(node, row) for row, node in enumerate(lanes)]
    parts += [_dot(each, lanes.index(each.node), first_s, span_s) for each in reversed(shown)]
    ends = ((130, "start", first_s), (WIDTH, "end", now_s))
    parts += [
        tag("text", _when(t_s), x=str(x), y=str(height - 2), text_anchor=anchor)
        for x, anchor, t_s in ends
    ]
    label = f"{len(shown)} incidents on {len(lanes)} nodes over {span_s / 3600:.1f} hours"
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {height}",
        class_="st-incident-timeline",
        role="img",
        aria_label=label,
    )


def _lane(node: str, row: int) -> Markup:
    y = LANE * row + LANE // 2
    return join(
        tag("text", node[:16], x="0", y=str(y + 4)),
        tag("line", x1="130", x2=str(WIDTH), y1=str(y), y2=str(y)),
    )


def _dot(each: IncidentRow, row: int, first_s: float, span_s: float) -> Markup:
    x = 136 + (WIDTH - 142) * (each.t_s - first_s) / span_s
    cause = each.primary and each.part != PROGRAM
    kind = "fatal" if each.fatal else "mild" if cause else "after"
    return tag(
        "circle",
        tag("title", f"{_when(each.t_s)} {each.node} {each.gpu}: {each.meaning}"),
        cx=f"{x:.1f}",
        cy=str(LANE * row + LANE // 2),
        r="6" if each.fatal else "4",
        class_=f"st-dot-{kind}",
    )


def incident_table(incidents: Sequence[IncidentRow]) -> Markup:
    """List the newest that are causes, with what should be done; programs' own are left out."""
    causes = [each for each in incidents if each.primary and each.part != PROGRAM]
    rows = [
        tag(
            "tr",
            tag("td", _when(each.t_s), class_="st-number"),
            tag("td", tag("b", each.node), tag("span", each.gpu, class_="st-quiet")),
            tag("td", each.meaning, class_="st-is-bad" if each.fatal else ""),
            tag("td", tag("b", each.action), tag("span", each.why, class_="st-quiet")),
        )
        for each in causes[:SHOWN]
    ]
    return _table(("When (UTC)", "Where", "What", "Remedy"), rows)


def unit_table(units: Sequence[UnitRow]) -> Markup:
    """List nodes by how likely they have more faults than their like."""
    rows = [
        tag(
            "tr",
            tag("td", tag("b", each.node), tag("span", ", ".join(each.devices), class_="st-quiet")),
            tag("td", f"{each.faults:,} in {each.days:,.1f} days", class_="st-number"),
            tag("td", _interval(each.low, each.mid, each.high, 1.0), class_="st-number"),
            tag("td", f"{each.lemon_probability:.0%}", class_="st-number"),
            tag("td", each.state),
        )
        for each in units[:SHOWN]
    ]
    if not rows:
        return tag("p", "No node has had a fault that counts against it.", class_="st-quiet")
    return _table(("Node", "Faults", "A day (95 %)", "A lemon", "Case"), rows)


def rate_table(rates: Sequence[CodeRate], exposure_days: float) -> Markup:
    """List how often each code came, with its interval drawn on a common scale."""
    if not rates:
        return tag("p", "No code has come that counts against a node.", class_="st-quiet")
    highest = max((each.high for each in rates if isfinite(each.high)), default=1.0)
    rows = [
        tag(
            "tr",
            tag("td", tag("b", each.code)),
            tag("td", f"{each.count:,}", class_="st-number"),
            tag("td", _interval(each.low, each.mid, each.high, 1.0), class_="st-number"),
            tag("td", _bar(each, highest)),
        )
        for each in rates
    ]
    said = f"Over {exposure_days:,.1f} node-days in service; intervals are exact (Poisson)."
    head = ("Code", "Incidents", "In 1,000 node-days (95 %)", "Interval")
    return join(_table(head, rows), tag("p", said, class_="st-quiet"))


def _bar(each: CodeRate, highest: float) -> Markup:
    def at(value: float) -> float:
        least = highest / 1000.0
        return 120.0 * log10(max(value, least) / least) / 3.0 if isfinite(value) else 120.0

    low, mid, high = at(each.low), at(each.mid), at(each.high)
    return tag(
        "svg",
        tag("line", x1=f"{low:.1f}", x2=f"{high:.1f}", y1="7", y2="7"),
        tag("circle", cx=f"{mid:.1f}", cy="7", r="4", class_="st-dot-mild"),
        viewBox="-5 0 130 14",
        class_="st-interval",
        role="img",
        aria_label=f"{each.code}: {each.low:.3g} to {each.high:.3g}",
    )


def _when(t_s: float) -> str:
    if not isfinite(t_s):
        return "unknown"
    return datetime.fromtimestamp(t_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _interval(low: float, mid: float, high: float, unit: float) -> str:
    if not isfinite(mid) or not isfinite(high):
        return "unknown: no exposure yet"
    return f"{mid * unit:.3g} ({low * unit:.3g} to {high * unit:.3g})"


def _table(head: Sequence[str], rows: Sequence[Markup]) -> Markup:
    if not rows:
        return Markup("")
    names = tag("tr", *(tag("th", name, scope="col") for name in head))
    body = tag("tbody", *rows)
    return tag("table", tag("thead", names), body, class_="st-table st-health-table")
