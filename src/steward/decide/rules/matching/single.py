"""One thing: every line that fits is a match, in both modes and whatever its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steward.decide.rules.matching.shape import NEVER, Match, Seen

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["One"]


class One:
    """Remembers nothing."""

    __slots__ = ()
    due_ns = NEVER
    held = 0

    def take(self, seen: Seen, mask: int, clock_ns: int) -> Sequence[Match]:
        """Return it."""
        del mask
        return (Match(clock_ns, (seen,)),)

    def tick(self, clock_ns: int) -> Sequence[Match]:
        """Let time pass, which completes nothing."""
        del clock_ns
        return ()
