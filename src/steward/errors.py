"""What went wrong, where, what was possible, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["PermanentError", "StewardError", "TemporaryError", "did_you_mean", "unknown_name"]


class StewardError(Exception):
    """A fault that a person can act on; it is shown without a traceback."""

    def __init__(self, problem: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" if self.where else self.problem

    def as_record(self) -> dict[str, str]:
        """Return the three fields that the command line and the API both show."""
        return {"problem": self.problem, "where": self.where, "hint": self.hint}


class TemporaryError(StewardError):
    """Something failed in a way that may pass: the same may be tried again.

    `retry_after_s` is how long the other side asked to wait, if it did.
    """

    def __init__(
        self,
        problem: str,
        *,
        where: str = "",
        hint: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(problem, where=where, hint=hint)
        self.retry_after_s = retry_after_s


class PermanentError(StewardError):
    """An actuator failed for good: the decision is given up."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known word, or nothing when none is near.

    >>> did_you_mean("lend-idel", ["lend-idle", "fifo"])
    "did you mean 'lend-idle'?"
    >>> did_you_mean("zebra", ["lend-idle"])
    ''
    """
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else ""


def unknown_name(kind: str, name: str, known: Iterable[str], *, where: str = "") -> StewardError:
    """Build the error for a name that is not in a table, with the ones that are."""
    names = sorted(known)
    problem = f"there is no {kind} called '{name}'; known: {', '.join(names) or 'none'}"
    hint = did_you_mean(name, names) or f"use one of the known {kind} names"
    return StewardError(problem, where=where, hint=hint)
