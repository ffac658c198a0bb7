"""One catalogue of several packages: the later wins, and every difference is reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from steward.model.planning.catalog import Accelerator, Catalog, CatalogSite, Queue

__all__ = ["CatalogPackage", "Conflict", "Merged", "merge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPackage:
    """The content of one file, folder or installed package."""

    name: str  # for people: where it is from
    catalog: Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two packages that do not agree about the same thing."""

    about: str
    kept: str  # name of the package whose word counts
    dropped: str

    def __str__(self) -> str:
        return f"{self.about} is in {self.dropped} as well; that of {self.kept} counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """All packages as one catalogue."""

    catalog: Catalog
    conflicts: tuple[Conflict, ...]
    origins: dict[str, str]  # site -> packages that it is from


def merge(packages: Sequence[CatalogPackage]) -> Merged:
    """Merge packages: queues by their name, other fields of a site where a later one sets them.

    Aliases of an accelerator are those of all packages.
    """
    conflicts: list[Conflict] = []
    sites: dict[str, tuple[CatalogSite, str]] = {}
    accelerators: dict[str, tuple[Accelerator, str]] = {}
    for package in packages:
        for site in package.catalog.sites:
            before = sites.get(site.name)
            if before is None:
                sites[site.name] = (site, package.name)
            else:
                conflicts += _site_conflicts(before, (site, package.name))
                sites[site.name] = _joined(before, (site, package.name))
        for each in package.catalog.accelerators:
            known = accelerators.get(each.name)
            aliases = (*known[0].aliases, *each.aliases) if known is not None else each.aliases
            one = replace(each, aliases=tuple(dict.fromkeys(aliases)))
            if known is not None and _differ(known[0], each):
                about = f"accelerator {each.name}"
                conflicts.append(Conflict(about=about, kept=package.name, dropped=known[1]))
            accelerators[each.name] = (one, package.name)
    cleared = _without_clashes(list(accelerators.values()), conflicts)
    return Merged(
        catalog=Catalog(sites=tuple(site for site, _ in sites.values()), accelerators=cleared),
        conflicts=tuple(dict.fromkeys(conflicts)),
        origins={name: origin for name, (_, origin) in sites.items()},
    )


def _differ(one: Accelerator, two: Accelerator) -> bool:
    """Return True if what is known of a card differs, wherever that is from."""
    return replace(one, aliases=(), source=two.source) != replace(two, aliases=())


def _joined(
    before: tuple[CatalogSite, str], after: tuple[CatalogSite, str]
) -> tuple[CatalogSite, str]:
    old, new = before[0], after[0]
    queues: dict[str, Queue] = {each.name: each for each in (*old.queues, *new.queues)}
    plain = CatalogSite(name=new.name, engine=new.engine, queues=())
    changes: dict[str, Any] = {
        name: getattr(new, name)
        for name in _site_fields()
        if getattr(new, name) != getattr(plain, name)
    }
    site = replace(old, engine=new.engine, queues=tuple(queues.values()), **changes)
    names = dict.fromkeys([*before[1].split(", "), after[1]])
    return site, ", ".join(names)


def _site_conflicts(
    before: tuple[CatalogSite, str], after: tuple[CatalogSite, str]
) -> Iterable[Conflict]:
    old, new = before[0], after[0]
    plain = CatalogSite(name="", engine=new.engine, queues=())
    differing = [
        f"{name} of site {new.name}"
        for name in ("engine", *_site_fields())
        if name != "source"
        and getattr(old, name) != getattr(new, name)
        and (
            name == "engine" or getattr(plain, name) not in (getattr(old, name), getattr(new, name))
        )
    ]
    known = {queue.name: queue for queue in old.queues}
    differing += [
        f"queue {new.name}/{queue.name}"
        for queue in new.queues
        if queue.name in known and known[queue.name] != queue
    ]
    return [Conflict(about=about, kept=after[1], dropped=before[1]) for about in differing]


def _site_fields() -> list[str]:
    return [
        each.name for each in fields(CatalogSite) if each.name not in ("name", "engine", "queues")
    ]


def _without_clashes(
    found: list[tuple[Accelerator, str]], conflicts: list[Conflict]
) -> tuple[Accelerator, ...]:
    """Return accelerators whose aliases name one of them each: names first, then the later."""
    names = {each.name.casefold(): origin for each, origin in found}
    owner = {
        alias.casefold(): (each.name, origin) for each, origin in found for alias in each.aliases
    }
    cleared = []
    for each, origin in found:
        kept = []
        for alias in each.aliases:
            key = alias.casefold()
            if key in names and key != each.name.casefold():
                about = f"'{alias}', an alias of {each.name} and a name,"
                conflicts.append(Conflict(about=about, kept=names[key], dropped=origin))
            elif owner[key][0] != each.name:
                about = f"'{alias}', an alias of {each.name} and of {owner[key][0]},"
                conflicts.append(Conflict(about=about, kept=owner[key][1], dropped=origin))
            else:
                kept.append(alias)
        cleared.append(
            each if len(kept) == len(each.aliases) else replace(each, aliases=tuple(kept))
        )
    return tuple(cleared)
