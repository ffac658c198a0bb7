"""`/nodes/NODE`: one machine, with its GPUs, jobs, disks and networks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import quote

from nicegui import ui

from steward.errors import StewardError
from steward.service.live_state import LiveState, StateSnapshot
from steward.service.pages.drawings import empty, tile
from steward.service.pages.frame import Show, Visit, card, keep_in_address
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html
from steward.service.pages.telemetry.curves import (
    DEFAULT_RANGE,
    RANGES,
    ButtonGroup,
    Charts,
    Curves,
    notice,
    read_charts,
)
from steward.service.pages.telemetry.figures import figure
from steward.service.pages.telemetry.nodes import meter, pressure_text, table
from steward.service.pages.telemetry.panels import NODE_PANELS
from steward.service.pages.wording import GPU_WORDS, duration, plural, share
from steward.service.telemetry import NodeSummary

__all__ = ["gpu_table", "job_table", "node_figures", "node_page"]

REFRESH_S = 5.0
PARTS = ("gpu", "disk", "fs", "net", "ib")
NO_HOST = tag(
    "p",
    "No samples of the machine itself came in lately, only of what is listed here. Its processors, "
    "memory and disks are read by the collector ",
    tag("code", "host"),
    " or by an agent on it.",
    class_="st-quiet",
)


def node_page(visit: Visit, node: str, *, chosen: str = DEFAULT_RANGE) -> Show:
    """Build the page and return what keeps it up to date."""
    return _NodeView(visit, node, chosen if chosen in RANGES else DEFAULT_RANGE).show


class _NodeView:
    """One open page of one node."""

    def __init__(self, visit: Visit, node: str, chosen: str) -> None:
        self._live_state = visit.live_state
        self._node = node
        self._range = chosen
        self._busy = False
        Html(tag("a", "← All nodes", href="/nodes", class_="st-back"))
        self._missing = Html()
        with ui.element("div").classes("st-split st-wrap"):
            Html(tag("h1", node, class_="st-title"))
            ButtonGroup(
                {name: name for name in RANGES},
                label="How long",
                chosen=self._range,
                on_choose=self._choose,
            )
        self._figures = Html(classes="st-figures")
        self._no_host = Html()
        self._notice = Html()
        self._curves = Curves(NODE_PANELS)
        with ui.element("div").classes("st-columns"):
            with ui.element("div"), card("GPUs"):
                self._gpus = Html(classes="st-scroll")
            with ui.element("div"), card("Jobs here"):
                self._jobs = Html(classes="st-scroll")
        ui.timer(REFRESH_S, self._refresh)

    def show(self, snapshot: StateSnapshot) -> None:
        """Bring figures and tables up to date; curves have a pace of their own."""
        state = self._live_state.latest.node(snapshot.cluster, self._node)
        self._missing.show(_missing(self._node) if state is None else Markup(""))
        if state is not None:
            self._figures.show(node_figures(state))
            self._no_host.show(Markup("") if state.values else NO_HOST)
            self._gpus.show(gpu_table(state))
            self._jobs.show(job_table(state))

    def _choose(self, name: str) -> None:
        self._range = name
        address = f"/nodes/{quote(self._node)}"
        keep_in_address(address, {"for": name}, {"for": DEFAULT_RANGE})
        ui.timer(0, self._refresh, once=True)

    async def _refresh(self) -> None:
        if self._busy:
            return
        self._busy = True
        asked = self._range
        try:
            charts = await asyncio.to_thread(_read, self._live_state, self._node, RANGES[asked])
            self._notice.show(Markup(""))
            self._curves.show(charts)
        except StewardError as fault:
            self._notice.show(notice(fault))
        finally:
            self._busy = False
        if asked != self._range:
            await self._refresh()


def _read(live_state: LiveState, node: str, span_s: float) -> Charts:
    shown = live_state.snapshot.cluster
    state = live_state.latest.node(shown, node)
    if state is None:
        return {}
    entities = {kind: list(state.of_kind(kind)) for kind in PARTS}
    entities["gpu"] = entities["gpu"] or [gpu.id for gpu in state.gpus]
    entities["node"] = [node]
    time = (shown.t_s - span_s, shown.t_s)
    return read_charts(live_state.loop.telemetry, NODE_PANELS, entities=entities, time=time)


def _missing(node: str) -> Markup:
    return empty(
        f"There is no node called {node}",
        "It has not reported lately. The list of nodes has those that are known.",
    )


def node_figures(state: NodeSummary) -> Markup:
    """Show the few figures that say how a machine is."""
    values = state.values
    used, limit = values.get("host.memory.used_bytes"), values.get("host.memory.limit_bytes")
    gpus = len(state.gpus) or len(state.of_kind("gpu"))
    tiles = [tile("GPUs busy", share(state.busy_share), f"mean of {plural(gpus, 'GPU')}")]
    if values:
        beside = f"of {figure('host.memory.limit_bytes', limit)}" if limit else ""
        load = values.get("host.load_1m")
        tiles += [
            tile(
                "Processors",
                share(values.get("host.cpu.busy_share")),
                f"load {load:.1f}" if load is not None else "busy",
            ),
            tile("Memory", figure("host.memory.used_bytes", used), beside),
            tile("Held up by", pressure_text(state), "part of the time that tasks wait"),
            tile("Disk reads", figure("disk.read_bytes_per_s", _sum(state, "disk.read")), "all"),
            tile(
                "Network in", figure("net.receive_bytes_per_s", _sum(state, "net.receive")), "all"
            ),
        ]
    return join(*tiles, tile("Jobs", str(len(state.jobs)), "hold a GPU or run here"))


def _sum(state: NodeSummary, what: str) -> float | None:
    parts = state.of_kind(what.partition(".")[0]).values()
    known = [each[name] for each in parts if (name := f"{what}_bytes_per_s") in each]
    return sum(known) if known else None


def gpu_table(state: NodeSummary) -> Markup:
    """List the GPUs of a node; each leads to its own page."""
    names = [gpu.id for gpu in state.gpus] or list(state.of_kind("gpu"))
    if not names:
        return empty("No GPUs", "Nothing has found any on this machine.")
    rows = {gpu.id: gpu for gpu in state.gpus}
    lines = []
    for name in names:
        row, values = rows.get(name), state.parts.get(name, {})
        busy = row.busy_share if row else values.get("gpu.busy_share")
        lines.append(
            tag(
                "tr",
                tag("td", tag("a", name.partition("/")[2] or name, href=f"/gpus/{quote(name)}")),
                tag("td", GPU_WORDS[row.state] if row else "in no list"),
                tag("td", meter(busy)),
                tag("td", _of(values, "gpu.memory.used_bytes"), class_="st-number"),
                tag("td", _of(values, "gpu.power_watts"), class_="st-number"),
                tag("td", _of(values, "gpu.temperature_celsius"), class_="st-number"),
                tag("td", row.owner if row and row.owner else "", class_="st-quiet"),
            )
        )
    return table(("GPU", "State", "Busy", "Memory", "Power", "Temperature", "Held by"), lines)


def _of(values: Mapping[str, float], metric: str) -> str:
    return figure(metric, values.get(metric))


def job_table(state: NodeSummary) -> Markup:
    """List the jobs that hold or use something here."""
    if not state.jobs:
        return empty("No jobs here", "Jobs that hold a GPU of this node, or run on it, stand here.")
    lines = []
    for job in state.jobs:
        own = state.parts.get(f"{state.id}@{job}", {})
        held = [gpu for gpu in state.gpus if job in (gpu.owner, gpu.borrower)]
        idle = [gpu.idle_s for gpu in held if gpu.owner == job and gpu.idle_s is not None]
        lines.append(
            tag(
                "tr",
                tag("td", tag("b", job)),
                tag("td", str(len(held)), class_="st-number"),
                tag(
                    "td", f"{own['job.cpu.busy_cores']:.1f}" if "job.cpu.busy_cores" in own else ""
                ),
                tag("td", _memory(own)),
                tag("td", f"idle for {duration(max(idle))}" if idle else "", class_="st-is-waste"),
            )
        )
    return table(("Job", "GPUs", "Cores", "Memory", ""), lines)


def _memory(values: Mapping[str, float]) -> str:
    used = values.get("job.memory.charged_bytes", values.get("job.memory.used_bytes"))
    return figure("job.memory.used_bytes", used) if used is not None else ""
