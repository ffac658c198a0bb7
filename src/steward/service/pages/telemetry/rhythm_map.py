"""The heat map in the browser: sends cells when they changed, receives which columns are picked."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from steward.service.pages.telemetry.figures import unit_for
from steward.service.telemetry import MetricHeatMap

__all__ = ["RhythmChart", "cells_of"]

SCRIPT = Path(__file__).parents[2] / "static" / "heat.js"
GAP = 255
Picked = tuple[int, int] | None


def cells_of(heat: MetricHeatMap) -> bytes:
    """Return a byte per cell: 0 is the low end of the colours, 254 the high one, 255 a gap."""
    low, high = heat.range
    part = (heat.values - low) / (high - low) if high > low else np.zeros_like(heat.values)
    known = np.isfinite(part)
    cells = np.full(part.shape, GAP, np.uint8)
    cells[known] = np.rint(np.clip(part[known], 0.0, 1.0) * (GAP - 1))
    return cells.tobytes()


class RhythmChart(Element, component=SCRIPT):
    """Browser element of one rhythm map."""

    def __init__(self, on_pick: Callable[[Picked], None]) -> None:
        super().__init__()
        self._props["columns"] = 0
        self.on("pick", lambda event: on_pick(_picked(event)))

    def show(self, heat: MetricHeatMap, *, label: str, picked: Picked) -> None:
        """Send what is to be seen."""
        size, unit = unit_for(heat.metric, heat.range[1])
        low, high = heat.range
        with self._props.suspend_updates():
            self._props.update(
                {
                    "cells": base64.b64encode(cells_of(heat)).decode(),
                    "columns": len(heat.values),
                    "rows": heat.rhythm_map.rows,
                    "from_s": heat.from_s,
                    "column_s": heat.rhythm_map.column_s,
                    "row_s": heat.rhythm_map.row_s,
                    "low": low / size,
                    "high": high / size,
                    "unit": unit,
                    "label": label,
                    "picked": list(picked) if picked else None,
                }
            )
        self.update()


def _picked(event: GenericEventArguments) -> Picked:
    match event.args:
        case [int(first), int(last)] if 0 <= first <= last:
            return first, last
    return None
