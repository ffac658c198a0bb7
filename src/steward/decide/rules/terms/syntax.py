"""Reader of RE2 syntax, as far as needed for the literals of a match."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steward.decide.rules.terms.literals import (
    ANYTHING,
    NOTHING,
    Facts,
    Need,
    either,
    letters,
    sequence,
    text,
)

__all__ = ["needed_by"]

_DEEPEST = 40  # nesting of groups
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_GROUP = re.compile(r"\((?:(?!\?)|\?P?<\w+>|\?([imsU]*(?:-[imsU]*)?)([:)]))")
_REPEAT = re.compile(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})\??")
_NUMBERED = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]+)\}|([0-7]{1,3}))")
_ONE_OF_A_KIND = re.compile(r"\\(?:[dDsSwWC]|[pP](?:\{[^}]*\}|.))")
_CLASS = re.compile(r"\[(\^?)(\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*)\]", re.DOTALL)
_PLAIN_TEXT = re.compile(r"[^\\\[(){|.^$*+?]+(?![*+?{])")  # a sign of repetition is of one letter
_PLAIN_CLASS = re.compile(r"[^\\\[\-]*")


class _Unknown(Exception):  # noqa: N818 - not an error: the search goes on without
    """Syntax that this reader does not support, although RE2 does."""


def needed_by(pattern: str) -> Need | None:
    """Return what every match of a pattern contains, or None where nothing is certain.

    The pattern is one that RE2 takes.
    """
    reader = _Reader(pattern)
    try:
        facts = reader.alternatives(depth=0)
    except _Unknown:
        return None
    if reader.at < len(pattern):
        return None
    return facts.needed(plain=not reader.anchored)


@dataclass(slots=True)
class _Reader:
    pattern: str
    at: int = 0
    caseless: bool = False
    anchored: bool = False  # whether an anchor was read

    def alternatives(self, depth: int) -> Facts:
        """Read up to the end of the group."""
        if depth > _DEEPEST:
            raise _Unknown
        caseless, branches = self.caseless, [self._branch(depth)]
        while self._next == "|":
            self.at += 1
            branches.append(self._branch(depth))
        self.caseless = caseless
        return either(branches)

    @property
    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _branch(self, depth: int) -> Facts:
        parts: list[Facts] = []
        while self._next not in ("", "|", ")"):
            plain = _PLAIN_TEXT.match(self.pattern, self.at)
            if plain:
                self.at = plain.end()
                parts.append(text(plain[0], caseless=self.caseless))
                continue
            part = self._part(depth)
            repeat = _REPEAT.match(self.pattern, self.at)
            if repeat:
                self.at = repeat.end()
                self._refuse_repeat()
                part = part.times(*_bounds(repeat))
            parts.append(part)
        return sequence(parts)

    def _part(self, depth: int) -> Facts:
        sign = self._next
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return self._class()
        if sign == "\\":
            return self._escape()
        self.at += 1
        if sign in "^$":
            self.anchored = True
            return NOTHING
        return ANYTHING if sign == "." else letters(sign, caseless=self.caseless)

    def _group(self, depth: int) -> Facts:
        opened = _GROUP.match(self.pattern, self.at)
        if opened is None:
            raise _Unknown
        self.at = opened.end()
        before, flags = self.caseless, opened[1] or ""
        on, _, off = flags.partition("-")
        self.caseless = (before or "i" in on) and "i" not in off
        if opened[2] == ")":  # flags for the rest of the group around it
            self._refuse_repeat()
            return NOTHING
        inside = self.alternatives(depth + 1)
        if self._next != ")":
            raise _Unknown
        self.at += 1
        self.caseless = before
        return inside

    def _class(self) -> Facts:
        found = _CLASS.match(self.pattern, self.at)
        if found is None:
            raise _Unknown
        self.at = found.end()
        if found[1] or not _PLAIN_CLASS.fullmatch(found[2]):
            return ANYTHING
        return letters(found[2], caseless=self.caseless)

    def _escape(self) -> Facts:
        kind = _ONE_OF_A_KIND.match(self.pattern, self.at)
        if kind:
            self.at = kind.end()
            return ANYTHING
        numbered = _NUMBERED.match(self.pattern, self.at)
        if numbered:
            self.at = numbered.end()
            code = int(numbered[3], 8) if numbered[3] else int(numbered[1] or numbered[2], 16)
            return letters(chr(code), caseless=self.caseless)
        sign = self.pattern[self.at + 1]
        self.at += 2
        if sign == "Q":
            return self._quoted()
        if sign in "bBAz":
            self.anchored = True
            return NOTHING
        if sign.isalnum() and sign not in _CONTROL:
            raise _Unknown
        return letters(_CONTROL.get(sign, sign), caseless=self.caseless)

    def _quoted(self) -> Facts:
        r"""Read up to `\E` or the end; a repetition after it is of its last letter."""
        quoted, _, _ = self.pattern[self.at :].partition("\\E")
        after = self.at + len(quoted) + 2
        if _REPEAT.match(self.pattern, after):
            raise _Unknown
        self.at = min(after, len(self.pattern))
        return text(quoted, caseless=self.caseless)

    def _refuse_repeat(self) -> None:
        """Raise when what follows repeats something before what was just read."""
        if _REPEAT.match(self.pattern, self.at):
            raise _Unknown


def _bounds(repeat: re.Match[str]) -> tuple[int, int | None]:
    sign = repeat[1]
    if sign:
        return (1 if sign == "+" else 0), (1 if sign == "?" else None)
    least = int(repeat[2])
    if not repeat[3]:
        return least, least
    return least, int(repeat[4]) if repeat[4] else None
