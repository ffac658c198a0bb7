"""Keeps floods of the same line away: some are let through, the rest become a number.

Lines are similar when they differ in digits and in the letters a to f only, that is, in numbers and
addresses. Within a window of time the first of them pass; of the rest, a line at the end of each
read reports how many they were, so that none is pending at the end. Events are for people:
of those that were suppressed, one event reports it when the window ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from steward.model.event import Event

__all__ = ["Repeated", "StormFilter", "shape_of", "shapes_of"]

_NUMBERS = b"0123456789abcdef"
_SHAPES = 5000  # kept at a time; beyond these, lines pass: they are not similar


@dataclass(slots=True)
class Repeated:
    """How often a line came in a window, and the last of those that were held back."""

    source: str
    seen: int = 0
    held: int = 0  # in this window
    unreported: int = 0  # in this look
    t_s: float = 0.0
    entity: str = ""
    text: str = ""
    level: int = 6
    event: Event | None = None


def shape_of(text: str) -> bytes:
    """Return what lines that differ in numbers only have in common.

    >>> shape_of("retry 17 of 0x3fa0") == shape_of("retry 9 of 0x3fb2")
    True
    """
    return text.encode("utf-8", "replace").translate(None, _NUMBERS)


def shapes_of(texts: list[str]) -> list[bytes]:
    """Return the shapes of very many lines at once; none of them may have a line end."""
    return shape_of("\n".join(texts)).split(b"\n")


class StormFilter:
    """Counts lines by source and shape; the first `burst` of a kind pass in each window."""

    def __init__(self, *, burst: int = 50, window_s: float = 10.0) -> None:
        self.burst = burst
        self.window_s = window_s
        self._began_s = float("-inf")
        self._counted: dict[tuple[str, object], Repeated] = {}
        self._of_source: dict[str, int] = {}
        self._unreported: list[Repeated] = []

    def roll_window(self, t_s: float) -> tuple[float, list[Repeated]]:
        """Begin a new window when it is time; return how long the old one was and what it held."""
        lasted_s = t_s - self._began_s
        if 0.0 <= lasted_s < self.window_s:
            return 0.0, []
        held = [each for each in self._counted.values() if each.held]
        self._began_s = t_s
        self._counted.clear()
        self._of_source.clear()
        return abs(lasted_s), held

    def drain(self) -> list[Repeated]:
        """Return what was suppressed since the last call, and reset the counts."""
        unreported, self._unreported = self._unreported, []
        return unreported

    def below_burst(self, source: str, count: int) -> bool:
        """Return whether so many more lines of a source cannot be a storm, whatever their text."""
        total = self._of_source.get(source, 0) + count
        self._of_source[source] = total
        return total <= self.burst

    def suppress(self, source: str, key: object, *, burst: int = 0) -> Repeated | None:
        """Count a line; return where to put it if it is held back, None if it passes."""
        where = (source, key)
        counted = self._counted.get(where)
        if counted is None:
            if len(self._counted) >= _SHAPES:
                return None
            counted = self._counted[where] = Repeated(source)
        counted.seen += 1
        if counted.seen <= (burst or self.burst):
            return None
        if not counted.unreported:
            self._unreported.append(counted)
        counted.held += 1
        counted.unreported += 1
        return counted
