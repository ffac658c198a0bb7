"""Report of a node to its parent, and the hit that the root makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from steward.decide.rules.joining.attributes import blamed
from steward.model.rules import Hit, Item

__all__ = ["NodeMatch", "hit_of", "merged"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


class NodeMatch(NamedTuple):
    """A match of a child node: its items, join attributes, and whether it is the origin."""

    items: tuple[Item, ...]
    entity: str
    attributes: Mapping[str, str]
    t_ns: int
    fired_ns: int  # when it was certain, which may be later than it happened
    origin: bool = False
    joined_on: Mapping[str, str] = _NOTHING


def merged(parts: Sequence[NodeMatch], joined_on: Mapping[str, str], fired_ns: int) -> NodeMatch:
    """Merge the reports of one match; the first report with a value wins."""
    hit = hit_of("", parts, joined_on, fired_ns)
    attributes: dict[str, str] = {}
    for each in reversed(parts):
        attributes.update(each.attributes)
    attributes.update(joined_on)
    return NodeMatch(
        items=hit.items,
        entity=hit.entity,
        attributes=attributes,
        t_ns=hit.t_ns,
        fired_ns=hit.fired_ns,
        origin=any(each.origin for each in parts),
        joined_on=joined_on,
    )


def hit_of(
    rule: str, parts: Sequence[NodeMatch], joined_on: Mapping[str, str], fired_ns: int
) -> Hit:
    """Return the match of a whole rule. The origin gives time and entity, or else the first."""
    origin, entity = None, ""
    items: tuple[Item, ...] = ()
    for each in parts:
        items += each.items
        entity = entity or each.entity
        fired_ns = max(fired_ns, each.fired_ns)
        if each.origin and origin is None:
            origin = each
    source = origin or parts[0]
    written_by = (origin.entity if origin is not None else "") or entity
    about = blamed(written_by, {**source.items[0].extracted, **joined_on})
    return Hit(rule, source.t_ns, fired_ns, items, about, joined_on)
