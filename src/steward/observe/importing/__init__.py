"""Telemetry that others recorded, in their files, as a store folder of ours.

Belongs here: formats of files, one file each, and what of them could not be used. Does not:
sources that are read live (`observe/collectors`), or job traces (`sim/traces`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from steward.errors import StewardError, unknown_name
from steward.observe.importing.h200 import H200
from steward.observe.importing.parquet_files import Parquet
from steward.observe.importing.prometheus_files import PrometheusFiles
from steward.observe.importing.source import FileHead, Importer, ImportSource
from steward.observe.importing.text_tables import Csv, Reveal
from steward.observe.importing.writer import Imported, ImportTask, import_all

__all__ = [
    "IMPORTERS",
    "ImportSource",
    "ImportTask",
    "Imported",
    "import_all",
    "importer_for",
    "task_for",
]

# The most particular first: that is the order in which a format is guessed.
IMPORTERS: dict[str, Importer] = {
    each.name: each for each in (Parquet(), H200(), Csv(), PrometheusFiles(), Reveal())
}


def importer_for(path: Path, name: str | None = None) -> Importer:
    """Return the importer of a file: the one called `name`, or the first that recognises it."""
    if name is not None:
        if name not in IMPORTERS:
            raise unknown_name("format", name, IMPORTERS)
        return IMPORTERS[name]
    head = FileHead.of(path)
    found = next((each for each in IMPORTERS.values() if each.recognises(head)), None)
    if found is None:
        begins = f"has no known format; it begins with: {head.line[:120]}"
        raise StewardError(
            begins if head.line else "its first line is empty, and so is perhaps the file",
            where=str(path),
            hint=f"name it with --format; known: {', '.join(sorted(IMPORTERS))}",
        )
    return found


def task_for(source: ImportSource, name: str | None = None) -> ImportTask:
    """Return how a file is to be read. Without a node, its name is the node."""
    importer = importer_for(source.path, name)
    stem = source.path.name.partition(".")[0]
    usual = importer.name if isinstance(importer, H200) else stem
    return ImportTask(importer=importer, source=replace(source, node=source.node or usual))
