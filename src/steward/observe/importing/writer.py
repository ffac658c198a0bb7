"""Writes what importers read into a store folder, as a whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from steward.errors import StewardError
from steward.model.event import Observation
from steward.model.frame import T_S
from steward.observe.importing.source import ImportCounts, Importer, ImportSource
from steward.store.recording import Recording

__all__ = ["ImportTask", "Imported", "import_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTask:
    """One file and how it is to be read."""

    importer: Importer
    source: ImportSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of an import."""

    out: str
    files: tuple[Mapping[str, str], ...]
    rows: int  # of the files
    samples: int  # numbers that are kept under our names
    other: int  # numbers that are kept under theirs
    from_s: float | None
    to_s: float | None
    entities: int
    columns: Mapping[str, str]  # theirs: ours
    unknown: tuple[str, ...]
    text: tuple[str, ...]
    spans: Mapping[str, int]  # by kind
    bad: Mapping[str, int]
    examples: Mapping[str, Sequence[str]]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Count:
    samples: int = 0
    other: int = 0
    from_s: float = float("inf")
    to_s: float = float("-inf")

    def add(self, seen: Observation) -> None:
        frame = seen.frame
        self.other += seen.other.height
        nulls = frame.null_count().sum_horizontal().sum() if frame.height else 0
        self.samples += frame.height * (frame.width - 2) - int(nulls)
        for table in (frame, seen.other):
            if table.height:
                self.from_s = min(self.from_s, float(table[T_S].min()))  # type: ignore[arg-type]
                self.to_s = max(self.to_s, float(table[T_S].max()))  # type: ignore[arg-type]


def import_all(works: Sequence[ImportTask], out: Path) -> Imported:
    """Read all files into a new store folder. When anything fails, there is no folder."""
    tally, count = ImportCounts(), _Count()
    entities: set[str] = set()
    with _whole(out) as folder:
        about = {
            "made by": "steward observe import",
            "from": [{"file": w.source.path.name, "format": w.importer.name} for w in works],
        }
        with closing(Recording(folder, keep_days=float("inf"), about=about)) as recording:
            for work in works:
                for seen in work.importer.read(work.source, tally):
                    recording.keep(seen)
                    count.add(seen)
                    for table in (seen.frame, seen.other):
                        entities.update(table["entity"].unique().to_list())
            # What holds for a node and for all below it are two spans, but one thing.
            spans = {(span.kind, span.name, span.from_s) for span in recording.spans.read()}
            kinds = [kind for kind, _, _ in spans]
            recording.settle()
    for text in recording.damage():
        tally.note(text)
    if count.samples + count.other == 0:
        tally.note("no number was found in any file")
    return Imported(
        out=str(out),
        files=tuple(
            {"file": str(work.source.path), "format": work.importer.name} for work in works
        ),
        rows=tally.rows,
        samples=count.samples,
        other=count.other,
        from_s=count.from_s if count.from_s <= count.to_s else None,
        to_s=count.to_s if count.from_s <= count.to_s else None,
        entities=len(entities),
        columns=dict(sorted(tally.known.items())),
        unknown=tuple(sorted(tally.unknown)),
        text=tuple(sorted(tally.text)),
        spans={kind: kinds.count(kind) for kind in sorted({*kinds})},
        bad=dict(tally.bad),
        examples=tally.examples,
        notes=tuple(tally.notes),
    )


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Yield a folder next to `out` that becomes `out` at the end."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StewardError(
            "is there already and is not empty",
            where=str(out),
            hint="name a new folder with --out, or remove this one",
        )
    partial = out.absolute().with_name(f".{out.absolute().name}.partial-{token_hex(4)}")
    try:
        partial.mkdir(parents=True)
        yield partial
        if out.exists():
            out.rmdir()
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
