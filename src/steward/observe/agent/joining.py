"""Makes one observation of a few, on the agent's side.

The server's `observe/intake/merging.py` does the same for many and knows wire formats, whose
decoders are compiled: an agent goes without, for the sake of its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from steward.model.event import Event, Observation
from steward.model.frame import Frame, empty_frame

__all__ = ["joined"]


def joined(seen: Observation, *more: Observation, events: Sequence[Event]) -> Observation:
    """Return `seen` with the tables, jobs and spans of `more`; tables that are alike are one."""
    alike: dict[tuple[str, ...], list[Frame]] = {}
    for table in (table for each in (seen, *more) for table in each.tables):
        alike.setdefault(tuple(table.columns), []).append(table)
    return replace(
        seen,
        frame=empty_frame(),
        frames=tuple(pl.concat(tables) for tables in alike.values()),
        events=(*events, *seen.events),
        spans=(*seen.spans, *(span for each in more for span in each.spans)),
        jobs=(*seen.jobs, *(job for each in more for job in each.jobs)),
        cluster=seen.cluster or next((each.cluster for each in more if each.cluster), None),
        tenants=seen.tenants or next((each.tenants for each in more if each.tenants), None),
        health={gpu: now for each in (*more, seen) for gpu, now in each.health.items()},
        draining={node: now for each in (*more, seen) for node, now in each.draining.items()},
    )
