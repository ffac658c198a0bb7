"""Catalogue files and folders of them: a folder is one package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from steward.model.planning.catalog import Accelerator, Catalog, CatalogSite
from steward.model.rules import SourceLocation
from steward.store.catalog.faults import CatalogFaults
from steward.store.catalog.merging import CatalogPackage
from steward.store.catalog.reader import FileContent, read_text
from steward.store.rules.faults import Diagnostics, RuleFault
from steward.store.rules.tree import MAX_BYTES

__all__ = [
    "Examined",
    "builtin_file",
    "catalog_files",
    "examine",
    "parse_catalog",
    "read_packages",
]

T = TypeVar("T", CatalogSite, Accelerator)
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What was read, and what is wrong with it."""

    package: CatalogPackage
    faults: tuple[RuleFault, ...]


def builtin_file() -> Path:
    """Return the catalogue that comes with steward."""
    return Path(__file__).with_name("builtin.yaml")


def read_packages(paths: Sequence[Path]) -> tuple[CatalogPackage, ...]:
    """Return the package of each file or folder, or raise `CatalogFaults` with all faults."""
    found = [examine(path) for path in paths]
    if faults := [fault for each in found for fault in each.faults]:
        raise CatalogFaults(faults)
    return tuple(each.package for each in found)


def parse_catalog(text: str, *, file: str = "") -> Catalog:
    """Return the catalogue in a text, or raise `CatalogFaults` with all faults."""
    examined = _joined([read_text(text, file=file)], name=file)
    if examined.faults:
        raise CatalogFaults(examined.faults)
    return examined.package.catalog


def examine(path: Path) -> Examined:
    """Read a file or folder; return faults instead of raising them."""
    return _joined([_read_file(each) for each in catalog_files(path)], name=str(path))


def catalog_files(path: Path) -> Iterator[Path]:
    """Yield the file itself, or those below the folder; a folder without any is yielded itself."""
    inside = [each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file()]
    hidden = [each for each in inside if any(part.startswith(".") for part in _below(each, path))]
    yield from sorted(set(inside) - set(hidden)) or [path]


def _below(file: Path, folder: Path) -> tuple[str, ...]:
    return file.relative_to(folder).parts


def _read_file(path: Path) -> FileContent:
    start = SourceLocation(file=str(path))
    faults = Diagnostics()
    if path.is_dir():
        problem = f"a folder without catalogue files: none ends in {' or '.join(SUFFIXES)}"
        faults.fault(start, problem)
        return FileContent(diagnostics=faults)
    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)  # pipes and devices have no size
        return read_text(data.decode("utf-8-sig"), file=str(path))
    except OSError as error:
        faults.fault(start, f"cannot be read: {error.strerror or error}")
    except UnicodeDecodeError as error:
        problem = f"this is no UTF-8 text: byte {error.start} is {error.object[error.start]:#x}"
        faults.fault(start, problem, "is it a catalogue? if so, save it as UTF-8")
    return FileContent(diagnostics=faults)


def _joined(contents: Sequence[FileContent], *, name: str) -> Examined:
    clashes = Diagnostics()
    sites = _unique([each for content in contents for each in content.sites], "site", clashes)
    accelerators = _unique(
        [each for content in contents for each in content.accelerators], "accelerator", clashes
    )
    faults = [fault for content in contents for fault in _in_order(content.diagnostics.faults)]
    return Examined(
        package=CatalogPackage(
            name=name, catalog=Catalog(sites=tuple(sites), accelerators=tuple(accelerators))
        ),
        faults=(*faults, *clashes.faults),
    )


def _unique(found: Sequence[tuple[T, SourceLocation]], kind: str, clashes: Diagnostics) -> list[T]:
    first: dict[str, SourceLocation] = {}
    kept = []
    for value, place in found:
        if value.name in first:
            problem = f"a second {kind} '{value.name}'; the first is in {first[value.name]}"
            hint = "rename one of them; a package may change what another package has"
            clashes.fault(place, problem, hint)
        else:
            first[value.name] = place
            kept.append(value)
    return kept


def _in_order(faults: Iterable[RuleFault]) -> list[RuleFault]:
    return sorted(faults, key=lambda each: (each.place.line, each.place.column))
