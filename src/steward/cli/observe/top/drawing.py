"""How `top` looks: lines that fit a terminal of 80 by 24 and use one of 200 by 60."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steward.cli.observe.top.scene import QUIET_SHARE, GpuLine, HostLine, JobLine, Scene, Values
from steward.cli.output import clean
from steward.cli.words import moment, span
from steward.observe.throttling import throttle_reasons

__all__ = ["SORTS", "Looks", "draw", "sorted_jobs"]

SORTS = ("gpu", "idle", "cpu", "memory", "job")
GIB = 2.0**30
MOST_HOSTS = 4
WIDE, MIDDLE = 130, 100
PRESSURES = ("cpu", "memory", "io")  # in this order, as the heading says
SPARKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """What somebody has chosen, and how much room there is."""

    width: int
    height: int
    sort: str = SORTS[0]
    only_idle: bool = False
    scrolled: int = 0

    def scrolled_by(self, lines: int) -> Looks:
        """Return the looks after scrolling."""
        return replace(self, scrolled=max(0, self.scrolled + lines))


def sorted_jobs(jobs: Sequence[JobLine], looks: Looks) -> list[JobLine]:
    """Return the jobs that are shown, in their order; what is not known comes last."""
    keys: dict[str, Callable[[JobLine], float]] = {
        "gpu": lambda job: -(job.busy_share or 0.0) * max(1, len(job.gpus)),
        "idle": lambda job: -(job.idle_s or -1.0),
        "cpu": lambda job: -(job.cpu_cores or 0.0),
        "memory": lambda job: -(job.memory_bytes or 0.0),
        "job": lambda _: 0.0,
    }
    shown = [job for job in jobs if job.is_idle or not looks.only_idle]
    return sorted(shown, key=lambda job: (keys[looks.sort](job), job.id))


def draw(scene: Scene, looks: Looks) -> RenderableType:
    """Return everything as one thing that fits."""
    parts: list[RenderableType] = [_head(scene, looks)]
    parts += [_host(host, looks) for host in scene.hosts[:MOST_HOSTS]]
    hidden = len(scene.hosts) - MOST_HOSTS
    parts += [Text(f"and {hidden} more machines", style="dim")] if hidden > 0 else []
    parts += [Text(clean(note), style="yellow", no_wrap=True) for note in scene.notes]
    room = looks.height - len(parts) - 4  # headings, and the line of keys
    gpus = min(len(scene.gpus), max(1, room - min(len(scene.jobs), max(3, room // 3))))
    if scene.gpus:
        parts.append(_gpus(scene.gpus[:gpus], looks))
        left = len(scene.gpus) - gpus
        parts += [Text(f"and {left} more GPUs", style="dim")] if left else []
    parts.append(_jobs(sorted_jobs(scene.jobs, looks), looks, room=max(1, room - gpus - 1)))
    return Group(*parts)


def _head(scene: Scene, looks: Looks) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("steward", style="bold cyan")
    text.append(f"  {_clock(scene.t_s)}  {clean(scene.source)}")
    keys = f"q quit  s sort: {looks.sort}  i {'all' if looks.only_idle else 'only idle'}"
    gap = looks.width - text.cell_len - len(keys)
    return text.append(" " * gap + keys, style="dim") if gap > 1 else text


def _host(host: HostLine, looks: Looks) -> Text:
    values = host.values
    used, limit = values.get("host.memory.used_bytes"), values.get("host.memory.limit_bytes")
    size = 14 if looks.width >= MIDDLE else 8
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{clean(host.node)}  ", style="bold")
    text.append("CPU ").append_text(_bar(values.get("host.cpu.busy_share"), size))
    text.append("  memory ").append_text(_bar(_part(used, limit), size))
    if used is not None and limit:
        text.append(f" {used / GIB:.0f}/{limit / GIB:.0f} GiB")
    load = values.get("host.load_1m")
    text.append(f"  load {load:.1f}" if load is not None else "")
    waits = [values.get(f"host.pressure.{name}.some_share") for name in PRESSURES]
    if all(each is None for each in waits):
        return text
    figures = "/".join("?" if each is None else f"{100 * each:.0f}" for each in waits)
    text.append("  waits cpu/mem/io " if looks.width >= MIDDLE else "  waits ")
    return text.append(f"{figures}%")


def _gpus(gpus: Sequence[GpuLine], looks: Looks) -> Table:
    table = _table()
    wide, middle = looks.width >= WIDE, looks.width >= MIDDLE
    known = {name for gpu in gpus for name in gpu.values}
    extra = [
        (word, name)
        for word, name in (("SM", "sm"), ("tensor", "tensor"), ("DRAM", "dram"))
        if f"gpu.{name}.active_share" in known and middle
    ]
    table.add_column("GPU", no_wrap=True)
    table.add_column("busy", no_wrap=True)
    for word, _ in extra:
        table.add_column(word, justify="right", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    table.add_column("power", justify="right", no_wrap=True)
    table.add_column("temp", justify="right", no_wrap=True)
    if middle:
        table.add_column("before", no_wrap=True)
    table.add_column("held by", no_wrap=True)
    slowed = any(throttle_reasons(gpu.values.get("gpu.throttle_bits", 0.0)) for gpu in gpus)
    if slowed:
        table.add_column("slowed by", no_wrap=True)
    size = 20 if wide else 8
    for gpu in gpus:
        of, history = gpu.values, gpu.history[-(30 if wide else 12) :]
        table.add_row(
            Text(clean(gpu.id), style="bold"),
            _bar(of.get("gpu.busy_share"), size),
            *(_percent(of.get(f"gpu.{name}.active_share")) for _, name in extra),
            _memory(of, size),
            _watts(of),
            _number(of.get("gpu.temperature_celsius"), "°C"),
            *([_spark(history)] if middle else []),
            Text(clean(", ".join(gpu.jobs) or gpu.state)),
            *([_slowed(of)] if slowed else []),
        )
    return table


def _jobs(jobs: Sequence[JobLine], looks: Looks, *, room: int) -> RenderableType:
    if not jobs:
        said = "no job lets its GPUs rest" if looks.only_idle else "no jobs are known here"
        return Text(said, style="dim")
    table = _table()
    table.add_column("job", no_wrap=True)
    table.add_column("user", no_wrap=True)
    for name in ("GPUs", "busy", "GPU mem", "cores", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("idle", no_wrap=True)
    first = min(looks.scrolled, max(0, len(jobs) - room))
    for job in jobs[first : first + room]:
        table.add_row(
            Text(clean(job.id), style="yellow" if job.is_idle else ""),
            clean(job.user),
            str(len(job.gpus) or ""),
            _percent(job.busy_share) if job.gpus else Text(""),
            _gib(job.gpu_memory_bytes),
            "" if job.cpu_cores is None else f"{job.cpu_cores:.1f}",
            _gib(job.memory_bytes),
            Text(f"idle {span(job.idle_s or 0.0)}" if job.is_idle else "", style="bold yellow"),
        )
    return table


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="dim")


def _clock(t_s: float) -> str:
    return f"{moment(t_s)[:19].replace('T', ' ')} UTC"


def _spark(history: Sequence[float | None]) -> str:
    """Draw how busy a GPU was, from nothing to all of it; a gap is a gap."""
    return "".join(
        " " if each is None else SPARKS[min(7, int(8 * max(0.0, each)))] for each in history
    )


def _slowed(of: Values) -> Text:
    return Text(", ".join(throttle_reasons(of.get("gpu.throttle_bits", 0.0))), style="yellow")


def _bar(share: float | None, size: int) -> Text:
    """Draw a share; what is not known has no bar at all."""
    if share is None:
        return Text("?".ljust(size + 5), style="dim")
    full = round(size * min(1.0, max(0.0, share)))
    style = "green" if share >= QUIET_SHARE else "yellow"
    bar = Text("█" * full, style=style)
    return bar.append("░" * (size - full), style="dim").append(f" {100 * share:3.0f}%", style="")


def _memory(of: Values, size: int) -> Text:
    used, limit = of.get("gpu.memory.used_bytes"), of.get("gpu.memory.limit_bytes")
    if used is None:
        return Text("?", style="dim")
    if not limit:
        return Text(f"{used / GIB:.0f} GiB")
    full = round(size * min(1.0, used / limit))
    bar = Text("█" * full, style="blue").append("░" * (size - full), style="dim")
    return bar.append(f" {used / GIB:.0f}/{limit / GIB:.0f}", style="")


def _watts(of: Values) -> Text:
    watts, limit = of.get("gpu.power_watts"), of.get("gpu.power.limit_watts")
    if watts is None:
        return Text("?", style="dim")
    return Text(f"{watts:.0f}/{limit:.0f} W" if limit else f"{watts:.0f} W")


def _percent(share: float | None) -> Text:
    return Text("?", style="dim") if share is None else Text(f"{100 * share:.0f}%")


def _number(value: float | None, unit: str) -> Text:
    return Text("?", style="dim") if value is None else Text(f"{value:.0f}{unit}")


def _gib(size: float | None) -> str:
    return "" if size is None else f"{size / GIB:.1f} GiB"


def _part(used: float | None, limit: float | None) -> float | None:
    return used / limit if used is not None and limit else None
