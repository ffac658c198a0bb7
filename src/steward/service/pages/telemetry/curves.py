"""A grid of charts over one time range, and the switch that chooses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from steward.errors import StewardError
from steward.service.pages.markup import Markup, tag
from steward.service.pages.rows import Html, set_prop
from steward.service.pages.telemetry.panels import Panel, options, throttled
from steward.service.telemetry import Series, read_series
from steward.store.telemetry import Telemetry

__all__ = ["DEFAULT_RANGE", "RANGES", "ButtonGroup", "Charts", "Curves", "notice", "read_charts"]

RANGES = {"1 min": 60.0, "10 min": 600.0, "1 h": 3600.0, "6 h": 21600.0, "1 day": 86400.0}
DEFAULT_RANGE = "1 h"
POINTS = 600  # per curve: more than a card is wide
BITS = "gpu.throttle_bits"
Charts = dict[str, dict[str, Any]]  # options by the title of the panel; without samples: left out


def read_charts(
    telemetry: Telemetry,
    panels: Sequence[Panel],
    *,
    entities: Mapping[str, Sequence[str]],
    time: tuple[float, float],
) -> Charts:
    """Read what charts show; `entities` are those of each kind. May wait for a disk."""
    found: dict[str, list[Series]] = {}
    for kind, names in entities.items():
        wanted = {each for panel in panels if panel.of == kind for each in panel.metrics}
        wanted |= {BITS} if kind == "gpu" and len(names) == 1 else set()
        if wanted and names:
            found[kind] = read_series(
                telemetry, names, sorted(wanted), from_s=time[0], to_s=time[1], points=POINTS
            )
    charts: Charts = {}
    for panel in panels:
        of_kind = found.get(panel.of, [])
        mine = [each for name in panel.metrics for each in of_kind if each.metric == name]
        bits = [each for each in of_kind if each.metric == BITS]
        marks = throttled(bits) if panel.title == "Clocks" else ()
        if mine:
            charts[panel.title] = options(panel, mine, time=time, marks=marks)
    return charts


class Curves:
    """One card per panel that has samples."""

    def __init__(self, panels: Sequence[Panel]) -> None:
        self._cards = {}
        with ui.element("div").classes("st-curves"):
            for panel in panels:
                with ui.element("section").classes("st-card") as section:
                    Html(tag("h2", panel.title))
                    chart = ui.echart({"series": []}).classes("st-chart st-low")
                section.set_visibility(False)
                self._cards[panel.title] = (section, chart)

    def show(self, charts: Charts) -> None:
        """Draw what is there; a panel without samples is not shown at all."""
        for name, (section, chart) in self._cards.items():
            section.set_visibility(name in charts)
            if name in charts and charts[name] != chart.options:
                chart.options.clear()
                chart.options.update(charts[name])
                chart.update()


class ButtonGroup:
    """Buttons of which one is pressed."""

    def __init__(
        self, names: Mapping[str, str], *, label: str, chosen: str, on_choose: Callable[[str], None]
    ) -> None:
        self._on_choose = on_choose
        with ui.element("div").classes("st-filters").props(f'role=group aria-label="{label}"'):
            self._buttons = {key: self._button(key, name) for key, name in names.items()}
        self.press(chosen)

    def press(self, chosen: str) -> None:
        """Show which one holds."""
        for key, button in self._buttons.items():
            set_prop(button, "aria-pressed", "true" if key == chosen else "false")

    def offer(self, keys: Sequence[str]) -> None:
        """Show only those that make sense now."""
        for key, button in self._buttons.items():
            button.set_visibility(key in keys)

    def _button(self, key: str, name: str) -> ui.button:
        button = ui.button(name, color=None, on_click=lambda: self._choose(key))
        return button.props("flat no-caps dense").classes("st-filter")

    def _choose(self, key: str) -> None:
        self.press(key)
        self._on_choose(key)


def notice(fault: StewardError | None) -> Markup:
    """Write what went wrong while reading; empty if nothing did."""
    return tag("p", f"{fault}. {fault.hint}", class_="st-notice") if fault else Markup("")
