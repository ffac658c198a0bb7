"""The labels of the series of some rows, with what was once worked out about them.

Which series there are changes seldom, and what belongs to what depends on nothing else: rows that
are looked at again have the very same `Names`, and nothing is worked out twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar, cast

__all__ = ["NAMELESS", "Labels", "Names"]

Labels = tuple[tuple[str, str], ...]  # by name
T = TypeVar("T")
_MOST_OTHERS = 3  # beside which the same names are looked at; the newest count


class Names(tuple[Labels, ...]):
    """Labels of each row; asked by what they are (`is`), not by what is in them."""

    def __init__(self, labels: Iterable[Labels] = ()) -> None:
        del labels  # a tuple has them already
        self._known: dict[Hashable, object] = {}

    def remembered(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what was worked out about these names before, or work it out."""
        known = cast("dict[Hashable, T]", self._known)
        if what not in known:
            known[what] = make()
        return known[what]

    def beside(self, other: Names, what: Hashable, make: Callable[[], T]) -> T:
        """Return what was worked out about these names and others, if those are the same."""
        pairs: list[tuple[Names, T]] = self.remembered(what, list)
        for names, found in pairs:
            if names is other:
                return found
        made = make()
        pairs[:] = [(other, made), *pairs[: _MOST_OTHERS - 1]]
        return made

    def then(self, other: Names) -> Names:
        """Return these names, and then the others."""
        return self.beside(other, "then", lambda: Names((*self, *other)))


NAMELESS = Names([()])  # one series without labels
