"""What the kernels of simulated nodes write: a GPU that fails says so in their logs."""

from __future__ import annotations

from collections.abc import Iterable

from steward.model.event import Event, LogLine

__all__ = ["kernel_lines"]

_BUSES = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")  # where eight GPUs sit in such a node


def kernel_lines(events: Iterable[Event]) -> tuple[LogLine, ...]:
    """Return the lines that the driver writes when GPUs fall off the bus."""
    return tuple(line for event in events if event.kind == "gpu.failed" for line in _lost(event))


def _lost(event: Event) -> Iterable[LogLine]:
    node, _, gpu = event.subject.partition("/gpu")
    bus = f"PCI:0000:{_BUSES[int(gpu) % len(_BUSES)]}:00"
    texts = (
        f"NVRM: Xid ({bus}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        f"NVRM: GPU {bus.removeprefix('PCI:')}.0: GPU has fallen off the bus.",
    )
    return (
        LogLine(t_s=event.t_s, entity=node, source="kernel", text=text, level=3) for text in texts
    )
