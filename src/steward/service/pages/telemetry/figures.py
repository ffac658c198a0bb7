"""Values of metrics as text: the unit that reads well, and its size."""

from __future__ import annotations

from steward.model.metrics import METRICS
from steward.service.pages.wording import NARROW

__all__ = ["figure", "title", "unit_for"]

UNITS = {each.name: each.unit for each in METRICS}
# The largest that is not larger than the value counts: (size, word).
SIZES: dict[str, tuple[tuple[float, str], ...]] = {
    "By": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "By/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "Hz": ((1e6, "MHz"),),
    "W": ((1.0, "W"),),
    "Cel": ((1.0, "°C"),),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "1/s": ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
}
SHARE = (0.01, "%")


def unit_for(metric: str, most: float) -> tuple[float, str]:
    """Return how large the unit is in which `most` reads well, and what it is called.

    >>> unit_for("gpu.memory.used_bytes", 3e9), unit_for("gpu.busy_share", 0.4)
    ((1073741824.0, 'GiB'), (0.01, '%'))
    """
    if metric.endswith("_share"):
        return SHARE
    sizes = SIZES.get(UNITS.get(metric, ""), ((1.0, ""),))
    return next((each for each in sizes if abs(most) >= each[0]), sizes[-1])


def figure(metric: str, value: float | None) -> str:
    """Write one value with its unit.

    >>> figure("gpu.clock.sm_hz", 1.98e9), figure("gpu.power_watts", None)
    ('1980\u202fMHz', 'unknown')
    """
    if value is None:
        return "unknown"
    size, word = unit_for(metric, value)
    shown = value / size
    digits = (
        0
        if not shown or abs(shown) >= 100 or word in ("%", "W", "°C")
        else 2
        if abs(shown) < 1
        else 1
    )
    text = f"{shown:.{digits}f}"
    return f"{text}{NARROW}{word}" if word else text


def title(metric: str) -> str:
    """Name a metric for people: its path without what the place it stands in says already.

    >>> title("gpu.sm.active_share"), title("host.pressure.io.some_share")
    ('sm active', 'pressure io some')
    """
    path = metric.partition(".")[2] or metric
    head, _, unit = path.rpartition("_")
    ends = {"share", "bytes", "watts", "celsius", "hz", "seconds", "count", "s"}
    named = head.removesuffix("_bytes_per").removesuffix("_per") if unit in ends else path
    return named.replace(".", " ").replace("_", " ") or path
