"""The part of an entry that is kept when a term matches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from steward.decide.rules.joining.attributes import blamed
from steward.decide.rules.matching import Occurrence
from steward.model.rules import Hit, Item, Stream

__all__ = ["MatchedLine", "hit_of_lines", "line_of"]

NOTHING: Mapping[str, str] = MappingProxyType({})


class MatchedLine:
    """A line that matched a term. Its `Item` is built on first use and shared by rules."""

    __slots__ = ("_item", "extracted", "number", "stream", "t_ns", "text")

    def __init__(self, t_ns: int, text: bytes, number: int, stream: Stream) -> None:
        self.t_ns = t_ns
        self.text = text
        self.number = number
        self.stream = stream
        self.extracted = NOTHING
        self._item: Item | None = None

    def with_values(self, values: Mapping[str, str]) -> MatchedLine:
        """Return the same line with values that were read from it."""
        line = MatchedLine(self.t_ns, self.text, self.number, self.stream)
        line.extracted = MappingProxyType({**self.extracted, **values})
        return line

    @property
    def item(self) -> Item:
        """The line as an item of a hit."""
        if self._item is None:
            stream = self.stream
            text = self.text.decode("utf-8", "replace")
            where = (stream.name, self.number, stream.entity)
            self._item = Item(self.t_ns, text, *where, extracted=self.extracted)
        return self._item


def line_of(seen: Occurrence) -> MatchedLine:
    """Return the matched line of an occurrence."""
    return cast("MatchedLine", seen.what)


def hit_of_lines(rule: str, seen: Sequence[Occurrence], fired_ns: int) -> Hit:
    """Return a match of a whole rule that looks at one source."""
    items = tuple([line_of(each).item for each in seen])
    first = items[0]
    return Hit(rule, first.t_ns, fired_ns, items, blamed(first.entity, first.extracted))
