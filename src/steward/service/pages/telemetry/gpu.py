"""`/gpus/GPU`: telemetry of one GPU, as curves and as a map in which periods are stripes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import quote

from nicegui import ui

from steward.errors import StewardError
from steward.model.cluster_snapshot import GpuRow
from steward.model.finding import Finding, Severity
from steward.observe.throttling import throttle_reasons
from steward.service.live_state import LiveState, StateSnapshot
from steward.service.pages.drawings import empty, found_list, tile
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
from steward.service.pages.telemetry.figures import figure, title
from steward.service.pages.telemetry.nodes import table
from steward.service.pages.telemetry.panels import GPU_PANELS
from steward.service.pages.telemetry.rhythm_map import Picked, RhythmChart
from steward.service.pages.wording import GPU_WORDS, about, clock, duration, share
from steward.service.telemetry import Contrast, MetricHeatMap, contrast, read_heat_map
from steward.service.telemetry.latest_values import Values, node_of

__all__ = ["contrast_table", "findings_about", "gpu_figures", "gpu_page", "rhythm_text"]

REFRESH_S = 5.0
SHOWN = 10  # metrics that were different
NOTABLE = 0.5  # standard deviations
MAPPED = (
    "gpu.busy_share",
    "gpu.sm.active_share",
    "gpu.tensor.active_share",
    "gpu.dram.active_share",
    "gpu.power_watts",
    "gpu.clock.sm_hz",
    "gpu.memory.used_bytes",
)
COLUMN_WORDS = {1.0: "second", 60.0: "minute", 3600.0: "hour", 86400.0: "day"}
TOO_FEW = empty(
    "Too few samples for a map",
    "It appears as soon as some came in. Choose a longer time, or another metric.",
)


def gpu_page(visit: Visit, gpu: str, *, chosen: str = DEFAULT_RANGE) -> Show:
    """Build the page and return what keeps it up to date."""
    return _GpuView(visit, gpu, chosen if chosen in RANGES else DEFAULT_RANGE).show


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What the page shows. `picked` is a time range within the map."""

    range: str
    metric: str
    whole: tuple[float, float]
    picked: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    heat: MetricHeatMap | None
    charts: Charts
    contrasts: list[Contrast]


class _GpuView:
    """One open page of one GPU."""

    def __init__(self, visit: Visit, gpu: str, chosen: str) -> None:
        self._live_state = visit.live_state
        self._gpu = gpu
        self._request = self._now(chosen, MAPPED[0])
        self._heat: MetricHeatMap | None = None
        self._columns: Picked = None
        self._busy = False
        node = node_of(gpu)
        Html(tag("a", f"← Node {node}", href=f"/nodes/{quote(node)}", class_="st-back"))
        self._missing = Html()
        with ui.element("div").classes("st-split st-wrap"):
            Html(tag("h1", gpu, class_="st-title"))
            names = {name: name for name in RANGES}
            ButtonGroup(names, label="How long", chosen=chosen, on_choose=self._choose_range)
        self._figures = Html(classes="st-figures")
        self._notice = Html()
        with card("Findings about it") as self._findings_card:
            self._findings = Html()
        self._build_map()
        self._curves = Curves(GPU_PANELS)
        ui.timer(REFRESH_S, self._follow)

    def _build_map(self) -> None:
        with ui.element("section").classes("st-card"):
            with ui.element("div").classes("st-card-head"):
                Html(tag("h2", "Rhythm"))
                names = {name: title(name) for name in MAPPED}
                self._metrics = ButtonGroup(
                    names, label="Metric", chosen=MAPPED[0], on_choose=self._choose_metric
                )
            self._about = Html(tag="p", classes="st-quiet st-rhythm-about")
            self._map = RhythmChart(self._pick)
            self._empty = Html()
            with ui.element("div") as self._range:
                with ui.element("div").classes("st-card-head st-rhythm-head"):
                    self._chosen = Html(tag="h3")
                    clear = ui.button("Show all", color=None, on_click=lambda: self._pick(None))
                    clear.props("flat no-caps dense").classes("st-plain-button")
                self._contrast = Html(classes="st-scroll")
        self._range.set_visibility(False)
        self._map.set_visibility(False)

    def show(self, snapshot: StateSnapshot) -> None:
        """Bring the figures up to date; map and curves have a pace of their own."""
        row = next((gpu for gpu in snapshot.cluster.gpus if gpu.id == self._gpu), None)
        values = self._live_state.latest.of(self._gpu)
        there = row is not None or bool(values)
        self._missing.show(Markup("") if there else _missing(self._gpu))
        if there:
            self._figures.show(gpu_figures(row, values))
            known = [name for name in MAPPED if name in values]
            self._metrics.offer(known or MAPPED[:1])
        about_it = findings_about(self._gpu, snapshot)
        self._findings_card.set_visibility(bool(about_it))
        self._findings.show(found_list(about_it, snapshot.cluster.t_s))

    def _now(self, range_: str, metric: str) -> _Request:
        now_s = self._live_state.snapshot.cluster.t_s
        return _Request(range=range_, metric=metric, whole=(now_s - RANGES[range_], now_s))

    def _choose_range(self, name: str) -> None:
        keep_in_address(f"/gpus/{quote(self._gpu)}", {"for": name}, {"for": DEFAULT_RANGE})
        self._load(self._now(name, self._request.metric), None)

    def _choose_metric(self, metric: str) -> None:
        before = self._request
        request = _Request(
            range=before.range, metric=metric, whole=before.whole, picked=before.picked
        )
        self._load(request, self._columns)

    def _pick(self, columns: Picked) -> None:
        heat, before = self._heat, self._request
        if columns is None or heat is None:
            self._load(self._now(before.range, before.metric), None)
            return
        first, last = columns
        from_s = heat.from_s + first * heat.rhythm_map.column_s
        to_s = heat.from_s + (last + 1) * heat.rhythm_map.column_s
        request = _Request(
            range=before.range, metric=before.metric, whole=before.whole, picked=(from_s, to_s)
        )
        self._load(request, columns)

    def _load(self, request: _Request, columns: Picked) -> None:
        self._request, self._columns = request, columns
        ui.timer(0, self._refresh, once=True)

    async def _follow(self) -> None:
        """Move on with time, unless a time range is picked."""
        if self._request.picked is None:
            self._request = self._now(self._request.range, self._request.metric)
            await self._refresh()

    async def _refresh(self) -> None:
        if self._busy:
            return  # the running refresh reads `_request` again
        self._busy = True
        answered = None
        try:
            while answered is not self._request:
                answered = self._request
                answer = await asyncio.to_thread(_read, self._live_state, self._gpu, answered)
                self._draw(answered, answer)
            self._notice.show(Markup(""))
        except StewardError as fault:
            self._notice.show(notice(fault))
        finally:
            self._busy = False

    def _draw(self, request: _Request, answer: _Answer) -> None:
        self._heat = heat = answer.heat
        self._curves.show(answer.charts)
        self._map.set_visibility(heat is not None)
        self._empty.show(TOO_FEW if heat is None else Markup(""))
        self._about.show(rhythm_text(heat) if heat else Markup(""))
        if heat is not None:
            label = f"Heat map of {title(request.metric)} of {self._gpu}"
            self._map.show(heat, label=label, picked=self._columns)
        self._range.set_visibility(request.picked is not None)
        if request.picked is not None:
            from_s, to_s = request.picked
            said = (
                f"{clock(from_s)} UTC, {duration(to_s - from_s)}: what was different from the rest"
            )
            self._chosen.show(join(said))
            self._contrast.show(contrast_table(answer.contrasts, self._gpu))


def _read(live_state: LiveState, gpu: str, request: _Request) -> _Answer:
    telemetry = live_state.loop.telemetry
    from_s, to_s = request.whole
    return _Answer(
        heat=read_heat_map(telemetry, gpu, request.metric, from_s=from_s, to_s=to_s),
        charts=read_charts(
            telemetry, GPU_PANELS, entities={"gpu": [gpu]}, time=request.picked or request.whole
        ),
        contrasts=contrast(
            telemetry, [gpu, node_of(gpu)], whole=request.whole, inside=request.picked
        )
        if request.picked
        else [],
    )


def _missing(gpu: str) -> Markup:
    text = "It has not reported lately. The list of nodes leads to those that are known."
    return empty(f"There is no GPU called {gpu}", text)


def findings_about(gpu: str, snapshot: StateSnapshot) -> list[Finding]:
    """Return the findings about a GPU, those that hold now and faults first, then newest first."""
    node = node_of(gpu)
    mine = [
        each
        for each in snapshot.findings
        if gpu in (each.subject, *each.gpus, *(piece.entity for piece in each.evidence))
        or (each.subject == node and each.severity is Severity.FAULT)
    ]
    mine.sort(
        key=lambda each: (each.id in snapshot.open_findings, each.severity is Severity.FAULT),
        reverse=True,
    )
    return mine[:SHOWN]


def gpu_figures(row: GpuRow | None, values: Values) -> Markup:
    """Show the few figures that say how a GPU is."""
    limit_watts = values.get("gpu.power.limit_watts")
    size = values.get("gpu.memory.limit_bytes") or (row.memory_bytes if row else None)
    bits = values.get("gpu.throttle_bits")
    words = ", ".join(throttle_reasons(bits)) if bits is not None else ""
    busy = values.get("gpu.busy_share")
    holder = row.owner if row else None
    tiles = [
        tile("Busy", share(busy), GPU_WORDS[row.state] if row else "in no list of GPUs"),
        tile(
            "Memory",
            figure("gpu.memory.used_bytes", values.get("gpu.memory.used_bytes")),
            f"of {figure('gpu.memory.limit_bytes', size)}" if size else "",
        ),
        tile(
            "Power",
            figure("gpu.power_watts", values.get("gpu.power_watts")),
            f"of {figure('gpu.power.limit_watts', limit_watts)}" if limit_watts else "",
        ),
        tile(
            "Temperature",
            figure("gpu.temperature_celsius", values.get("gpu.temperature_celsius")),
            "",
        ),
        tile("Held by", holder or "no job", (row.tenant or "") if row else ""),
    ]
    if bits is not None:
        kind = "waste" if words else ""
        tiles.append(tile("Held back by", words or "nothing", "what keeps clocks down", kind))
    if row is not None:
        tiles.append(tile("Health", row.health.value, row.model))
    return join(*tiles)


def rhythm_text(heat: MetricHeatMap) -> Markup:
    """Explain how to read the map."""
    column, row_s = COLUMN_WORDS[heat.rhythm_map.column_s], heat.rhythm_map.row_s
    row = f"{1000 * row_s:.0f} ms" if row_s < 1 else about(row_s)
    low, high = (figure(heat.metric, each) for each in heat.range)
    return join(
        f"A column is one {column}, a cell {row}; time goes up, then right. What recurs at the "
        f"same place of every {column} is a stripe. Faint is {low}, strong is {high}; hatched: no "
        "sample. Drag over columns to compare them with the rest."
    )


def contrast_table(contrasts: list[Contrast], gpu: str) -> Markup:
    """List what was different inside a range, most different first."""
    notable = [each for each in contrasts if each.distance >= NOTABLE][:SHOWN]
    if not contrasts:
        return empty(
            "Nothing to compare", "There are no samples inside this range, or none beside it."
        )
    if not notable:
        return empty("Nothing was different", "All metrics were about the same as in the rest.")
    rows = (
        tag(
            "tr",
            tag("td", title(each.metric), tag("span", each.metric, class_="st-quiet")),
            tag("td", "this GPU" if each.entity == gpu else f"node {each.entity}"),
            tag("td", tag("b", figure(each.metric, each.inside)), class_="st-number"),
            tag("td", figure(each.metric, each.outside), class_="st-number"),
            tag("td", f"{each.distance:.1f} SD", class_="st-number st-quiet"),
        )
        for each in notable
    )
    return table(("Metric", "Of", "Mean inside", "Mean of the rest", "Apart"), rows)
