"""Faults of rule files, with their places and hints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from steward.errors import StewardError, did_you_mean
from steward.model.rules import SourceLocation

__all__ = ["Diagnostics", "RuleFault", "RuleFaults"]

REFERENCE = "docs/reference/rules.md lists every field; `steward rules check` shows all faults"
MAX_LISTED = 1000  # per file and kind
MAX_GUESSED = 200  # hints per file: guessing is slow
SHOWN = 20  # faults in one error: about a screen


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFault:
    """One fault: its place, its rule, and a hint."""

    place: SourceLocation
    problem: str
    hint: str = ""
    rule: str = ""  # `cre.id`, or '' where there is none

    def __str__(self) -> str:
        rule = f" {self.rule}:" if self.rule else ""
        return f"{self.place}:{rule} {self.problem}" + (f" ({self.hint})" if self.hint else "")


class RuleFaults(StewardError):  # noqa: N818 - holds several faults
    """All faults of the files that were read together."""

    def __init__(self, faults: Sequence[RuleFault]) -> None:
        self.faults = tuple(faults)
        if len(faults) == 1:
            only = faults[0]
            problem = f"{only.rule}: {only.problem}" if only.rule else only.problem
            super().__init__(problem, where=str(only.place), hint=only.hint or REFERENCE)
            return
        lines = "".join(f"\n  {fault}" for fault in faults[:SHOWN])
        more = f"\n  and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        super().__init__(f"{len(faults)} faults in rules{lines}{more}", hint=REFERENCE)


@dataclass(slots=True, kw_only=True)
class Diagnostics:
    """Collect faults and notes while one file is read.

    A fault disables a rule; a note does not. `lenient` turns what other engines ignore into notes.
    """

    lenient: bool = False
    rule: str = ""  # the rule that is being read
    raised: int = 0  # all faults, including unlisted ones
    faults: dict[RuleFault, None] = field(default_factory=dict)  # in order, each once
    notes: dict[RuleFault, None] = field(default_factory=dict)
    places: set[SourceLocation] = field(default_factory=set)  # of faults

    @property
    def is_full(self) -> bool:
        """Whether the limit of listed faults is reached, so that reading can stop."""
        return len(self.faults) > MAX_LISTED

    def near(self, word: str, known: Iterable[str]) -> str:
        """Return a "did you mean" hint; none beyond the limit of guesses."""
        if max(len(self.faults), len(self.notes)) > MAX_GUESSED:
            return ""
        return did_you_mean(word[:100], known)

    def fault(self, place: SourceLocation, problem: str, hint: str = "") -> None:
        """Add a fault."""
        self.raised += 1
        if not self.is_full:
            self.places.add(place)
        self._list(self.faults, RuleFault(place=place, problem=problem, hint=hint, rule=self.rule))

    def note(self, place: SourceLocation, problem: str, hint: str = "") -> None:
        """Add a note."""
        self._list(self.notes, RuleFault(place=place, problem=problem, hint=hint, rule=self.rule))

    def ignored(self, place: SourceLocation, problem: str, hint: str = "") -> None:
        """Add a fault about what other engines ignore, or a note when lenient."""
        (self.note if self.lenient else self.fault)(place, problem, hint)

    def _list(self, kind: dict[RuleFault, None], what: RuleFault) -> None:
        if len(kind) < MAX_LISTED:
            kind[what] = None
        elif len(kind) == MAX_LISTED and what not in kind:
            problem = f"there is more to say about this file than the {MAX_LISTED} things listed"
            kind[RuleFault(place=SourceLocation(file=what.place.file), problem=problem)] = None
