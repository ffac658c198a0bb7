"""What packages can hold: rules, or a catalogue. Everything else about them is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from steward.store.catalog import CatalogFaults, examine, read_packages
from steward.store.catalog.files import catalog_files
from steward.store.rules import read_rules

__all__ = ["CATALOG", "KINDS", "RULES", "FoundItem", "PackageKind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundItem:
    """What a package lists without opening its files: a rule, a site, an accelerator."""

    id: str
    title: str
    group: str
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageKind:
    """One kind of package. `name` is its folder in the archive, and its list in the manifest."""

    name: str
    items: str  # what they are called together
    group_key: str  # of an item in the manifest: what groups it
    command: str  # that packs, installs and lists it
    unique: bool  # an item may be in one installed package only
    read: Callable[[Path], tuple[FoundItem, ...]]  # of a folder, or raise all faults in it


def _rules(folder: Path) -> tuple[FoundItem, ...]:
    return tuple(
        FoundItem(
            id=rule.id, title=rule.title, group=rule.severity.word, file=Path(rule.place.file)
        )
        for rule in read_rules([folder], user=True)
    )


def _entries(folder: Path) -> tuple[FoundItem, ...]:
    read_packages([folder])  # as a whole: a site may be in one of its files only
    found = []
    for file in catalog_files(folder):
        examined = examine(file)
        if examined.faults:
            raise CatalogFaults(examined.faults)
        catalog = examined.package.catalog
        for site in catalog.sites:
            queues = f"{site.engine.value}, {len(site.queues)} queues"
            found.append(FoundItem(id=site.name, title=queues, group="site", file=file))
        for each in catalog.accelerators:
            size = f"{each.memory_bytes / 1e9:g} GB"
            found.append(FoundItem(id=each.name, title=size, group="accelerator", file=file))
    return tuple(found)


RULES = PackageKind(
    name="rules",
    items="rules",
    group_key="severity",
    command="steward rules",
    unique=True,
    read=_rules,
)
CATALOG = PackageKind(
    name="catalog",
    items="entries",
    group_key="kind",
    command="steward estimate catalog",
    unique=False,  # what is installed later wins, as in all catalogues
    read=_entries,
)
KINDS: Mapping[str, PackageKind] = {kind.name: kind for kind in (RULES, CATALOG)}
