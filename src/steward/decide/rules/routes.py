"""Routes: the terms searched for in each source, and the leaves that use their matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steward.decide.rules.joining import LogLeaf
from steward.decide.rules.terms import Prefilter
from steward.model.rules import Term

__all__ = ["Route", "Routes"]

_OTHER = "\0"  # any source that no rule names


@dataclass(frozen=True, kw_only=True, eq=False)
class Route:
    """All terms of one source, and the leaves that use each of them.

    Rules of a single term are separate: every entry of their term is a match.
    """

    terms: tuple[Term, ...]
    wanted_by: tuple[tuple[tuple[LogLeaf, int], ...], ...]  # by term: leaves, and their slots
    matched_by: tuple[tuple[str, ...], ...]  # by term: rules that need nothing else
    is_wanted: NDArray[np.bool_]
    is_matched: NDArray[np.bool_]
    needed: NDArray[np.int64]  # by term: lines that the most demanding leaf could use

    @cached_property
    def prefilter(self) -> Prefilter:
        """The search for all terms, compiled on first use: where workers scan, it is theirs."""
        return Prefilter(self.terms)


class Routes:
    """Routes by source, built on first use. A stream of unknown source is read by all rules."""

    def __init__(self, leaves: Sequence[LogLeaf], *, respect_sources: bool) -> None:
        self._leaves = leaves
        self._respect = respect_sources
        self._named = {each.source for each in leaves}
        self._routes: dict[str, Route | None] = {}

    def of(self, source: str) -> Route | None:
        """Return the route of a source, or None where no rule reads it."""
        group = "" if not self._respect else source if source in self._named | {""} else _OTHER
        if group not in self._routes:
            looking = [
                each for each in self._leaves if group in ("", each.source) or not each.source
            ]
            self._routes[group] = _route(looking) if looking else None
        return self._routes[group]


def _route(leaves: Sequence[LogLeaf]) -> Route:
    wanted: dict[Term, list[tuple[LogLeaf, int]]] = {}
    matched: dict[Term, list[str]] = {}
    needed: dict[Term, int] = {}
    for leaf in leaves:
        alone = leaf.pattern.is_single and leaf.up is None and not leaf.extracts
        for term, mask in leaf.masks.items():
            needed[term] = max(needed.get(term, 0), 2 * sum(leaf.pattern.needed))
            wanted.setdefault(term, [])
            matched.setdefault(term, [])
            if alone:
                matched[term].append(leaf.rule)
            else:
                wanted[term].append((leaf, mask))
    return Route(
        terms=tuple(wanted),
        wanted_by=tuple(map(tuple, wanted.values())),
        matched_by=tuple(map(tuple, matched.values())),
        is_wanted=np.array([bool(each) for each in wanted.values()]),
        is_matched=np.array([bool(each) for each in matched.values()]),
        needed=np.array(list(needed.values()), dtype=np.int64),
    )
