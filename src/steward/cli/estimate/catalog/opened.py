"""The catalogue that a command works on, and what is to be said about it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from steward.cli.options import read_settings
from steward.cli.output import print_warnings

if TYPE_CHECKING:
    from steward.model.planning.catalog import CatalogSite, Queue, Source
    from steward.store.catalog import Merged

__all__ = ["age_of", "now_s", "old_notes", "open_catalog"]


def open_catalog(config: Path | None, data: Path | None) -> Merged:
    """Read all packages; where they do not agree is a warning."""
    from steward.config.catalog import read_catalog

    merged = read_catalog(read_settings(config, data))
    print_warnings(str(each) for each in merged.conflicts)
    return merged


def now_s() -> float:
    """Return the present, by which the age of facts is counted."""
    return time.time()


def age_of(source: Source, now: float) -> str:
    """Return the day of a fact, marked where it is older than a year."""
    from steward.decide.planning.limits import OLD_S

    age_s = source.age_s(now)
    if age_s is None:
        return "unknown"
    return f"{source.as_of} (old)" if age_s > OLD_S else source.as_of


def old_notes(site: CatalogSite, queues: list[Queue], now: float) -> list[str]:
    """Return one sentence for each source of a site that is too old, or undated."""
    from steward.decide.planning.limits import age_notes

    found: dict[Source, list[str]] = {}
    for queue in queues:
        if notes := age_notes(site, queue, now):
            source = queue.source if queue.source.as_of else site.source
            found.setdefault(source, []).append(notes[0])
    return [
        notes[0] if len(notes) == 1 else f"{notes[0]}; {len(notes) - 1} more queues are as old"
        for notes in found.values()
    ]
