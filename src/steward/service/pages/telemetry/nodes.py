"""`/nodes`: every node in a line, and how what looks at them is doing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from steward.model.cluster_snapshot import GpuState
from steward.observe.intake import SILENT_AFTER_S, AgentState
from steward.service.live_state import StateSnapshot
from steward.service.pages.drawings import empty
from steward.service.pages.frame import Show, Visit, card
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html
from steward.service.pages.telemetry.figures import figure
from steward.service.pages.wording import duration, plural, share
from steward.service.telemetry import NodeSummary
from steward.service.telemetry.latest_values import CollectorState

__all__ = [
    "agent_table",
    "collector_table",
    "meter",
    "node_table",
    "nodes_page",
    "pressure_text",
    "state_chip",
    "table",
]

SHOWN_JOBS = 4
CLOCK_OFF_S = 0.5  # as the alert has it: causes and effects change places
CLOCK_AGREES_S = 0.05  # what agents leave alone
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
    with card("Agents"):
        agents = Html(classes="st-scroll")
    with card("Collectors of this steward"):
        collectors = Html(classes="st-scroll")

    def show(snapshot: StateSnapshot) -> None:
        newest = visit.live_state.latest
        nodes.show(node_table(newest.nodes(snapshot.cluster)))
        agents.show(agent_table(visit.live_state.roster.all(), time.time()))
        collectors.show(collector_table(newest.collectors()))

    return show


def node_table(nodes: tuple[NodeSummary, ...]) -> Markup:
    """List the nodes with their main figures."""
    if not nodes:
        return NO_NODES
    heads = ("Node", "State", "GPUs", "GPUs busy", "Processors", "Memory", "Held up by", "Jobs")
    return table(heads, (_row(node) for node in nodes))


def _row(node: NodeSummary) -> Markup:
    values = node.values
    used, limit = values.get("host.memory.used_bytes"), values.get("host.memory.limit_bytes")
    jobs = node.jobs
    more = f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else ""
    return tag(
        "tr",
        tag("td", tag("a", node.id, href=f"/nodes/{quote(node.id)}")),
        tag("td", state_chip(node)),
        tag("td", str(len(node.gpus) or len(node.of_kind("gpu"))), class_="st-number"),
        tag("td", meter(node.busy_share)),
        tag("td", meter(values.get("host.cpu.busy_share"))),
        tag("td", meter(used / limit if used is not None and limit else None)),
        tag("td", pressure_text(node), class_="st-quiet"),
        tag("td", ", ".join(jobs[:SHOWN_JOBS]) + more, class_="st-quiet"),
    )


def state_chip(node: NodeSummary) -> Markup:
    """Write whether new jobs may start on a node and whether it reports; the worst that applies."""
    count = Counter(gpu.state for gpu in node.gpus)
    failed, silent, all_ = count[GpuState.FAILED], count[GpuState.UNKNOWN], len(node.gpus)
    word, kind = "up", "done"
    if failed:
        word, kind = f"{failed} of {plural(all_, 'GPU')} failed", "failed"
    elif not node.values and not node.parts:
        word, kind = "no samples", "failed"
    elif node.draining:
        word, kind = ("draining" if node.jobs else "drained"), "waiting"
    elif silent:
        word, kind = f"{silent} of {plural(all_, 'GPU')} silent", "waiting"
    if node.draining and kind == "failed":
        word = f"{'draining' if node.jobs else 'drained'}, {word}"
    return tag("span", word, class_=f"st-chip st-chip-{kind}")


def pressure_text(node: NodeSummary) -> str:
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


def agent_table(agents: Sequence[AgentState], now_s: float) -> Markup:
    """List the agents with the state in their newest parcel."""
    if not agents:
        return empty(
            "No agents", "steward observe agent, run on a node, sends that node's telemetry here."
        )
    heads = ("Node", "State", "Last report", "Version", "Clock", "Waiting", "Lost")
    return table(heads, (_agent(each, now_s) for each in agents))


def _agent(agent: AgentState, now_s: float) -> Markup:
    silent_s = max(0.0, now_s - agent.heard_s)
    off = agent.offset_s is not None and abs(agent.offset_s) > CLOCK_OFF_S
    trouble = [
        word
        for word, wrong in (
            ("silent", silent_s > SILENT_AFTER_S),
            ("clock is off", off),
            ("lost parcels", agent.gaps > 0),
        )
        if wrong
    ]
    return tag(
        "tr",
        tag("td", tag("a", agent.node, href=f"/nodes/{quote(agent.node)}")),
        tag("td", ", ".join(trouble) or "sends", class_="st-is-bad" if trouble else "st-quiet"),
        tag("td", f"{duration(silent_s)} ago", class_="st-number"),
        tag("td", agent.version or "unknown", class_="st-quiet"),
        tag("td", _clock(agent.offset_s), class_="st-number"),
        tag("td", figure("fs.used_bytes", agent.buffered_bytes), class_="st-number"),
        tag("td", plural(agent.gaps, "parcel") if agent.gaps else "nothing", class_="st-number"),
    )


def _clock(offset_s: float | None) -> str:
    """Write the offset of an agent's clock."""
    if offset_s is None:
        return "unknown"
    if abs(offset_s) < CLOCK_AGREES_S:
        return "agrees"
    return f"{abs(offset_s):.3g} s {'behind' if offset_s > 0 else 'ahead'}"


def collector_table(collectors: tuple[CollectorState, ...]) -> Markup:
    """List the collectors and whether they keep up."""
    if not collectors:
        return empty("No collectors", "They stand in the configuration: observe.collectors.")
    rows = (
        tag(
            "tr",
            tag("td", tag("code", each.name)),
            tag("td", _state(each), class_="st-is-bad" if each.fault else "st-quiet"),
            tag("td", _pace(each), class_="st-quiet st-number"),
        )
        for each in collectors
    )
    return table(("Collector", "State", "Pace"), rows)


def _state(state: CollectorState) -> str:
    if state.fault:
        return state.fault
    return f"nothing to read: {state.missing}" if state.missing else "works"


def _pace(state: CollectorState) -> str:
    if state.missing:
        return "asked again every turn"
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
