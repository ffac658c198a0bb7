"""How far reading is, and how long it takes yet, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["byte_progress"]


@contextmanager
def byte_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield what is called with bytes: done, of all."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich import progress as parts
    from rich.console import Console

    columns = (
        parts.TextColumn(what),
        parts.BarColumn(),
        parts.DownloadColumn(),
        parts.TransferSpeedColumn(),
        parts.TextColumn("left"),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=600
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
