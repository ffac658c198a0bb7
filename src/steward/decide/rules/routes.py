"""Which terms to look for in lines of which source, and which leaves want to hear of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steward.decide.rules.joining import Leaf
from steward.decide.rules.terms import Prefilter
from steward.model.rules import Term

__all__ = ["Route", "Routes"]

_OTHER = "\0"  # any source that no rule names


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Route:
    """What is looked for in one source: all its terms at once, and who wants each of them."""

    prefilter: Prefilter
    wanted_by: tuple[tuple[tuple[Leaf, int], ...], ...]  # by term: leaves, and their slots


class Routes:
    """Made when a source is first seen. A stream of an unknown source is looked at by all."""

    def __init__(self, leaves: Sequence[Leaf], *, respect_sources: bool) -> None:
        self._leaves = leaves
        self._respect = respect_sources
        self._named = {each.source for each in leaves}
        self._routes: dict[str, Route | None] = {}

    def of(self, source: str) -> Route | None:
        """Return what to look for, or None where nobody looks."""
        group = "" if not self._respect else source if source in self._named | {""} else _OTHER
        if group not in self._routes:
            looking = [
                each for each in self._leaves if group in ("", each.source) or not each.source
            ]
            self._routes[group] = _route(looking) if looking else None
        return self._routes[group]


def _route(leaves: Sequence[Leaf]) -> Route:
    wanted: dict[Term, list[tuple[Leaf, int]]] = {}
    for leaf in leaves:
        for term, mask in leaf.masks.items():
            wanted.setdefault(term, []).append((leaf, mask))
    return Route(prefilter=Prefilter(list(wanted)), wanted_by=tuple(map(tuple, wanted.values())))
