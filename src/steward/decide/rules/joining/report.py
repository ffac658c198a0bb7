"""What a node says to the one above it, and what becomes of it at the top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from steward.model.rules import Hit, Item

__all__ = ["Report", "hit_of", "merged"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A match below: its items, what it can be joined on, and whether it takes the blame."""

    items: tuple[Item, ...]
    entity: str
    attributes: Mapping[str, str]
    t_ns: int
    fired_ns: int  # when it was certain, which may be later than it happened
    origin: bool = False
    joined_on: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


def merged(parts: Sequence[Report], joined_on: Mapping[str, str], fired_ns: int) -> Report:
    """Put reports of one match together. The origin gives time and entity, or else the first."""
    blamed = next((each for each in parts if each.origin), None)
    known = next((each.entity for each in parts if each.entity), "")
    attributes: dict[str, str] = {}
    for each in parts:
        for name, value in each.attributes.items():
            attributes.setdefault(name, value)
    attributes.update(joined_on)
    return Report(
        items=tuple(item for each in parts for item in each.items),
        entity=(blamed.entity if blamed else "") or known,
        attributes=attributes,
        t_ns=(blamed or parts[0]).t_ns,
        fired_ns=max(fired_ns, *(each.fired_ns for each in parts)),
        origin=blamed is not None,
        joined_on=joined_on,
    )


def hit_of(rule: str, report: Report) -> Hit:
    """Return the match of a whole rule."""
    return Hit(
        rule=rule,
        t_ns=report.t_ns,
        fired_ns=report.fired_ns,
        items=report.items,
        entity=report.entity,
        joined_on=report.joined_on,
    )
