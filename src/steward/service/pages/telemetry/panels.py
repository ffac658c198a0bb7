"""Which curves stand together in one chart, and the options of that chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steward.observe.throttling import throttle_reasons
from steward.service.pages.charts import GREY, HUES, line_chart
from steward.service.pages.telemetry.figures import title, unit_for
from steward.service.telemetry import Series

__all__ = ["GPU_PANELS", "NODE_PANELS", "Panel", "options", "throttled"]

DIGITS = 4  # what a screen can show
MOST_CURVES = 16
MOST_WORDS = 4  # on marks: more would stand in one another's way
AMBER = "rgba(217, 142, 31, 0.18)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart. `of` is the kind of entity; those below a node make a curve each."""

    title: str
    of: str
    metrics: tuple[str, ...]


def _panel(name: str, of: str, *metrics: str) -> Panel:
    return Panel(title=name, of=of, metrics=metrics)


GPU_PANELS = (
    _panel(
        "At work",
        "gpu",
        "gpu.busy_share",
        "gpu.sm.active_share",
        "gpu.tensor.active_share",
        "gpu.dram.active_share",
    ),
    _panel("Memory", "gpu", "gpu.memory.used_bytes", "gpu.memory.limit_bytes"),
    _panel("Power", "gpu", "gpu.power_watts", "gpu.power.instant_watts", "gpu.power.limit_watts"),
    _panel("Temperature", "gpu", "gpu.temperature_celsius", "gpu.memory.temperature_celsius"),
    _panel("Clocks", "gpu", "gpu.clock.sm_hz", "gpu.clock.memory_hz"),
    _panel("PCIe", "gpu", "gpu.pcie.receive_bytes_per_s", "gpu.pcie.transmit_bytes_per_s"),
    _panel("NVLink", "gpu", "gpu.nvlink.receive_bytes_per_s", "gpu.nvlink.transmit_bytes_per_s"),
)
NODE_PANELS = (
    _panel("GPUs busy", "gpu", "gpu.busy_share"),
    _panel("GPU power", "gpu", "gpu.power_watts"),
    _panel("Processors", "node", "host.cpu.busy_share"),
    _panel("Memory", "node", "host.memory.used_bytes", "host.memory.cached_bytes",
           "host.memory.limit_bytes"),
    _panel("Waiting for (pressure)", "node", "host.pressure.cpu.some_share",
           "host.pressure.memory.some_share", "host.pressure.io.some_share"),
    _panel("Disks", "disk", "disk.read_bytes_per_s", "disk.write_bytes_per_s"),
    _panel("File systems", "fs", "fs.used_bytes", "fs.limit_bytes"),
    _panel("Network", "net", "net.receive_bytes_per_s", "net.transmit_bytes_per_s"),
    _panel("InfiniBand", "ib", "ib.receive_bytes_per_s", "ib.transmit_bytes_per_s"),
)  # fmt: skip


def options(
    panel: Panel,
    series: Sequence[Series],
    *,
    time: tuple[float, float],
    marks: Sequence[tuple[float, float, str]] = (),
) -> dict[str, Any]:
    """Return the chart of some series; `marks` are stretches of time with a word on them."""
    shown = _busiest(series)
    most = max((_most(each) for each in shown), default=0.0)
    size, word = unit_for(panel.metrics[0], most)
    chart = line_chart()
    chart["xAxis"] |= {"min": 1000 * time[0], "max": 1000 * time[1]}
    chart["yAxis"]["axisLabel"] |= {"formatter": f"{{value}} {word}"}
    if word == "%":
        chart["yAxis"] |= {"min": 0, "max": 100 if most <= 1.0 else None}
    several = len({each.entity for each in shown}) > 1
    chart["series"] = [
        _curve(
            each, size=size, name=_name(each, panel, several=several), color=HUES[at % len(HUES)]
        )
        for at, each in enumerate(shown)
    ]
    for first in chart["series"][:1]:
        first["markArea"] = _mark_area(marks)
    return chart


def throttled(series: Sequence[Series]) -> list[tuple[float, float, str]]:
    """Return when clocks were held down and why, out of series of `gpu.throttle_bits`."""
    found: list[tuple[float, float, str]] = []
    for each in series:
        for t_s, bits, after_s in zip(each.t_s, each.most, [*each.t_s[1:], np.nan], strict=True):
            words = ", ".join(throttle_reasons(bits)) if np.isfinite(bits) else ""
            if not words or not np.isfinite(after_s):
                continue
            if found and found[-1][1] == t_s and found[-1][2] == words:
                found[-1] = (found[-1][0], float(after_s), words)
            else:
                found.append((float(t_s), float(after_s), words))
    return found


def _busiest(series: Sequence[Series]) -> list[Series]:
    """Leave out the flattest of many: twenty curves cannot be distinguished."""
    if len(series) <= MOST_CURVES:
        return list(series)
    kept = sorted(range(len(series)), key=lambda at: -_most(series[at]))[:MOST_CURVES]
    return [series[at] for at in sorted(kept)]


def _most(series: Series) -> float:
    known = series.mean[np.isfinite(series.mean)]
    return float(known.max()) if len(known) else 0.0


def _name(series: Series, panel: Panel, *, several: bool) -> str:
    part = series.entity.partition("/")[2] if several else ""
    what = title(series.metric) if len(panel.metrics) > 1 or not part else ""
    return " ".join(each for each in (part, what) if each)


def _curve(series: Series, *, size: float, name: str, color: str) -> dict[str, Any]:
    values = [
        None if not np.isfinite(each) else float(f"{each / size:.{DIGITS}g}")
        for each in series.mean.tolist()
    ]
    dashed = series.metric.endswith(("limit_bytes", "limit_watts"))
    return {
        "type": "line",
        "name": name,
        "data": [[round(1000 * t), v] for t, v in zip(series.t_s.tolist(), values, strict=True)],
        "showSymbol": False,
        "connectNulls": False,
        "color": GREY if dashed else color,
        "lineStyle": {"width": 1.4, "type": "dashed" if dashed else "solid"},
    }


def _mark_area(marks: Sequence[tuple[float, float, str]]) -> dict[str, Any]:
    few = len(marks) <= MOST_WORDS
    return {
        "silent": True,
        "itemStyle": {"color": AMBER},
        "label": {"show": few, "color": GREY, "fontSize": 11, "position": "insideTop"},
        "data": [
            [{"name": word, "xAxis": 1000 * from_s}, {"xAxis": 1000 * to_s}]
            for from_s, to_s, word in marks[:50]
        ],
    }
