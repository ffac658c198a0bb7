"""What a regular expression within a jq program takes at most: its library goes back and tries.

Every run (`*`, `+`) multiplies by the length of the text, and so do the places where a match could
begin. Runs within runs have no bound that would help, and are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from steward.decide.rules.terms.programs.cost import Powers

__all__ = ["searching"]

_TRY = 0.08  # steps of work to begin or to go back
_LETTER = 0.02  # and to compare a letter
_MOST_RUNS = 2
_TOKEN = re.compile(
    r"(?P<group>\((?:\?:|\?<\w+>|(?!\?)))|(?P<end>\))|(?P<or>\|)"
    r"|(?P<repeat>[*+?][?+]?|\{(?:\d+(?:,\d*)?|,\d+)\}\??)"
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\\[])*\]|\\(?:[dDwWsSbBAzZhHntrfvae]|[^0-9A-Za-z])"
    r"|(?P<plain>[^\\(\[])",
    re.DOTALL,
)
_COUNTED = re.compile(r"\{(\d*)(,?)(\d*)\}")
_NOT_PLAIN = re.compile(r"[^\w :=]")


class _Unbounded(Exception):  # noqa: N818 - whoever asks says it in the words of a rule
    """Something for which there is no useful bound."""


@dataclass(slots=True)
class _Part:
    """What a piece of a pattern may do: how many runs it has, and in how many ways it matches."""

    runs: int = 0
    alternatives: float = 1
    repeats: bool = False  # whether what is inside could be cut into pieces in several alternatives
    letters: Counter[str] = field(default_factory=Counter)


def searching(pattern: str) -> Powers | None:
    """Return what it takes to look for a pattern in a text, or None where it may take for ever."""
    pattern = pattern.removeprefix("(?i)")
    reader = _Reader(pattern)
    try:
        whole = reader.alternatives()
    except _Unbounded:
        return None
    if reader.at < len(pattern) or whole.runs > _MOST_RUNS:
        return None
    # At one place of the text no more letters of the pattern fit than it has that are alike.
    alike = whole.letters.pop("", 0) + max(whole.letters.values(), default=0)
    tries = whole.alternatives * (_TRY + _LETTER * alike)
    begins = max(1, len(_plain_beginning(pattern)))
    found = [10.0 + len(pattern), 1.0 + tries, 0.0, 0.0]
    if whole.runs:
        found[whole.runs + 1] = tries / begins
    return found[0], found[1], found[2], found[3]


def _plain_beginning(pattern: str) -> str:
    """Return the letters that every match begins with, if they cannot overlap with themselves."""
    text = _NOT_PLAIN.split(pattern, maxsplit=1)[0].lower()
    if "|" in pattern or pattern[len(text) : len(text) + 1] in ("*", "?", "{"):
        return ""
    return text if text[:1] not in text[1:] else ""


@dataclass(slots=True)
class _Reader:
    pattern: str
    at: int = 0

    def alternatives(self) -> _Part:
        """Read up to the end of the group."""
        found, branches = self._branch(), 1
        while self.pattern[self.at : self.at + 1] == "|":
            self.at += 1
            other = self._branch()
            branches += 1
            found.runs = max(found.runs, other.runs)
            found.alternatives += other.alternatives
            found.letters += other.letters
        found.repeats = found.repeats or branches > 1
        return found

    def _branch(self) -> _Part:
        found = _Part()
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            part = self._repeated(self._part())
            found.runs += part.runs
            found.alternatives *= part.alternatives
            found.repeats = found.repeats or part.repeats
            found.letters += part.letters
        return found

    def _part(self) -> _Part:
        token = _TOKEN.match(self.pattern, self.at)
        if token is None or token["repeat"]:
            raise _Unbounded
        self.at = token.end()
        if token["group"]:
            inside = self.alternatives()
            self.at += 1  # the bracket: the library has read the pattern before
            return inside
        letter = token["plain"] or ""
        return _Part(letters=Counter(["" if letter == "." else letter.lower()]))

    def _repeated(self, part: _Part) -> _Part:
        token = _TOKEN.match(self.pattern, self.at)
        if token is None or not token["repeat"]:
            return part
        self.at = token.end()
        least, most = _bounds(token["repeat"])
        if most == 1:
            part.alternatives += 1
        elif part.repeats or part.runs:
            raise _Unbounded
        elif most is None:
            part.runs = 1
        else:
            part.alternatives *= most - least + 1
        part.repeats = True
        part.letters = Counter({each: n * max(least, 1) for each, n in part.letters.items()})
        return part


def _bounds(repeat: str) -> tuple[int, int | None]:
    counted = _COUNTED.match(repeat)
    if counted is None:
        return (1 if repeat[0] == "+" else 0), (1 if repeat[0] == "?" else None)
    least = int(counted[1] or 0)
    if not counted[2]:
        return least, max(least, 1)
    return least, int(counted[3]) if counted[3] else None
