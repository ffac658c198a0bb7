"""When the deployed model is not enough any more: drift of its doubt, or too many mistakes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

__all__ = ["AccuracyAlert", "PageHinkley"]


@dataclass(slots=True, kw_only=True)
class PageHinkley:
    """Report when the mean of a series has risen by more than `allowed` for long enough.

    The reference is the mean of the first `settled` values after each `restart`, so that a slow
    rise is not learned as normal.
    """

    allowed: float  # a rise that is still normal
    threshold: float  # sum of what is above it
    settled: int = 100
    _count: int = 0
    _mean: float = 0.0
    _sum: float = 0.0

    def update(self, value: float) -> bool:
        """Add a value; return True if there is drift."""
        self._count += 1
        if self._count <= self.settled:
            self._mean += (value - self._mean) / self._count
            return False
        self._sum = max(0.0, self._sum + value - self._mean - self.allowed)
        return self._sum > self.threshold

    def restart(self) -> None:
        """Forget everything: another model answers now."""
        self._count, self._mean, self._sum = 0, 0.0, 0.0


@dataclass(slots=True, kw_only=True)
class AccuracyAlert:
    """Report when fewer than `least` of the last labelled answers were right."""

    least: float
    window: int = 30
    _right: deque[bool] = field(default_factory=deque)

    def update(self, *, right: bool) -> bool:
        """Add an answer that the expert has judged; return True if too few are right."""
        self._right.append(right)
        if len(self._right) > self.window:
            self._right.popleft()
        return len(self._right) == self.window and self.share < self.least

    @property
    def share(self) -> float:
        """Return the share of right answers in the window; 1 before the first."""
        return sum(self._right) / len(self._right) if self._right else 1.0

    def restart(self) -> None:
        """Forget everything: another model answers now."""
        self._right.clear()
