"""The heat map: a row per node, a cell per GPU, coloured by use or by owner.

Cells are rounded to fifths of busy time before they are compared, so that a row is sent only when
the difference is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from urllib.parse import quote

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from steward.model.cluster_snapshot import ClusterSnapshot, GpuRow, GpuState, NodeRow
from steward.service.pages.drawings import empty
from steward.service.pages.markup import Markup, join, tag
from steward.service.pages.rows import Html, Rows, set_prop
from steward.service.pages.wording import GPU_MARKS, GPU_WORDS, about, share

__all__ = ["HeatMap", "cells_of", "gpu_detail", "legend"]

Cell = tuple[str, int, int, int]
_SWITCH = 'role=group aria-label="Colour GPUs by"'
GIB = 2**30
DENSE = 256  # GPUs: with more, cells are drawn smaller
SCRIPT = Path(__file__).parents[1] / "static" / "node_row.js"


def cells_of(node: NodeRow, place: dict[str, int]) -> list[Cell]:
    """Return what a row shows of each GPU; `place` is where a tenant stands in the list."""
    return [
        (gpu.state.value, _heat(gpu), _at(place, gpu.tenant), _at(place, gpu.borrower_tenant))
        for gpu in node.gpus
    ]


def _at(place: dict[str, int], tenant: str | None) -> int:
    return -1 if tenant is None else place.get(tenant, -1)


def _heat(gpu: GpuRow) -> int:
    """Count fifths of busy time; a GPU that is in use has at least one."""
    fifths = ceil(5 * min(1.0, max(0.0, gpu.busy_share or 0.0)))
    return max(1, fifths) if gpu.state is GpuState.BUSY else fifths


class _NodeRow(Element, component=SCRIPT):
    """One row in the browser."""

    def __init__(self, node: str, on_pick: Callable[[int], None]) -> None:
        super().__init__()
        self._props["node"] = node
        self._shown: dict[str, object] = {}
        self.on("pick", lambda event: on_pick(_picked(event)))

    def show(self, node: NodeRow, places: dict[str, int]) -> None:
        """Send what changed, if anything did."""
        new = {
            "cells": cells_of(node, places),
            "names": [gpu.id for gpu in node.gpus],
            "tenants": list(places),
        }
        if new != self._shown:
            self._shown = new
            with self._props.suspend_updates():
                self._props.update(new)
            self.update()


def _picked(event: GenericEventArguments) -> int:
    return event.args if isinstance(event.args, int) else -1


class HeatMap:
    """All rows, the switch above them, and a line about the GPU that was clicked."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRow] = {}
        self._picked: tuple[str, int] | None = None
        self._now_s = 0.0
        self._places: dict[str, int] = {}
        with ui.element("section").classes("st-card") as card:
            self._card = card
            with ui.element("div").classes("st-card-head"):
                Html(tag("h2", "GPUs"))
                with ui.element("div").classes("st-filters").props(_SWITCH):
                    self._by_use = self._switch("Utilisation", by_owner=False)
                    self._by_owner = self._switch("Owner", by_owner=True)
            self._legend = Html(classes="st-legend")
            with ui.element("div").classes("st-map") as self._map:
                self._rows: Rows[str, NodeRow] = Rows(self._map, self._make)
            self._empty = Html()
            self._detail = Html(classes="st-detail").props('role=status aria-live="polite"')
        self._colour(by_owner=False)

    def show(self, shown: ClusterSnapshot) -> None:
        """Bring the map up to date."""
        self._now_s = shown.t_s
        self._nodes = {node.id: node for node in shown.nodes}
        self._places = {tenant.id: row for row, tenant in enumerate(shown.tenants)}
        self._rows.show([(node.id, node) for node in shown.nodes if node.gpus])
        longest = max((len(node.id) for node in shown.nodes), default=0)
        self._map.style(f"--st-name: {min(14, longest) + 0.5}ch")
        count = sum(shown.states.values())
        dense = ("st-dense", "") if count > DENSE else ("", "st-dense")
        self._map.classes(add=dense[0], remove=dense[1])
        self._legend.show(legend(list(self._places)) if count else Markup(""))
        self._empty.show(Markup("") if count else _NO_GPUS)
        self._show_detail()

    def _make(self, node: NodeRow) -> tuple[Element, Callable[[NodeRow], None]]:
        row = _NodeRow(node.id, lambda at: self._pick(node.id, at))

        def show(node: NodeRow) -> None:
            row.show(node, self._places)

        show(node)
        return row, show

    def _switch(self, name: str, *, by_owner: bool) -> ui.button:
        button = ui.button(name, color=None, on_click=lambda: self._colour(by_owner=by_owner))
        return button.props("flat no-caps dense").classes("st-filter")

    def _colour(self, *, by_owner: bool) -> None:
        on, off = ("owner", "use") if by_owner else ("use", "owner")
        self._card.classes(add=f"st-by-{on}-on", remove=f"st-by-{off}-on")
        set_prop(self._by_owner, "aria-pressed", "true" if by_owner else "false")
        set_prop(self._by_use, "aria-pressed", "false" if by_owner else "true")

    def _pick(self, node: str, at: int) -> None:
        self._picked = (node, at)
        self._show_detail()

    def _show_detail(self) -> None:
        node, at = self._picked or ("", -1)
        gpus = self._nodes[node].gpus if node in self._nodes else ()
        self._detail.show(gpu_detail(gpus[at]) if 0 <= at < len(gpus) else Markup(""))


_NO_GPUS = empty(
    "No GPUs yet",
    "They appear with the first turn that finds some. Run steward doctor to learn what it sees.",
)


def gpu_detail(gpu: GpuRow) -> Markup:
    """Describe one GPU in a line."""
    parts = [
        f"{gpu.model}, {GPU_WORDS[gpu.state]}, {share(gpu.busy_share)} busy",
        f"held by job {gpu.owner} of {gpu.tenant or 'an unknown tenant'}" if gpu.owner else "",
        f"lent to job {gpu.borrower}" if gpu.borrower else "",
        f"not used by its owner for {about(gpu.idle_s)}" if gpu.idle_s is not None else "",
        _memory(gpu),
        f"{gpu.power_watts:.0f} W" if gpu.power_watts is not None else "",
        f"health {gpu.health.value}",
    ]
    loan = tag("a", "the decision", href=f"/decisions/{gpu.loan}") if gpu.loan else None
    text = " · ".join(part for part in parts if part)
    name = tag("a", tag("b", gpu.id), href=f"/gpus/{quote(gpu.id)}")
    return tag("p", name, f" {text}", " · " if loan else None, loan)


def _memory(gpu: GpuRow) -> str:
    if gpu.memory_used_bytes is None:
        return ""
    return f"{gpu.memory_used_bytes / GIB:.0f} of {gpu.memory_bytes / GIB:.0f} GiB"


def legend(tenants: Sequence[str]) -> Markup:
    """Explain colours and marks of both ways to look at the map."""
    ramp = join(*(tag("i", class_=f"st-gpu st-gpu-busy st-heat-{heat}") for heat in range(1, 6)))
    scale = tag("span", "0 %", tag("span", ramp, class_="st-ramp"), "100 %", class_="st-by-use")
    owners = join(
        *(
            tag(
                "span",
                tag("i", tenant[:1].upper(), class_=f"st-gpu st-gpu-key st-t{row % 8}"),
                tenant,
                class_="st-by-owner",
            )
            for row, tenant in enumerate(tenants)
        )
    )
    marks = join(
        *(
            tag(
                "span",
                tag("i", GPU_MARKS[state], class_=f"st-gpu st-gpu-{state.value} st-heat-0"),
                GPU_WORDS[state],
            )
            for state in (
                GpuState.IDLE,
                GpuState.LENT,
                GpuState.FREE,
                GpuState.UNKNOWN,
                GpuState.FAILED,
            )
        )
    )
    return join(scale, owners, marks)
