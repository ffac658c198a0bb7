"""What a text must contain so that a part of a regular expression can match in it at all.

Sets of strings are worked out bottom up: `exact` is everything that a part can match where that is
a short list; `need` is a list of which every match has at least one in it. Whatever is not
understood counts as anything, so that a gap here costs time and never a match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ANYTHING", "NOTHING", "Facts", "Literal", "Need", "either", "letters", "sequence"]

_MOST_EXACT = 16  # strings in a product: more of them say little more
_MOST_NEEDED = 200
_SHORTEST = 2  # one letter is in nearly every line
_LONG_ENOUGH = 8  # from here on fewer strings are better than longer ones
# What Unicode calls the same letter in another case, outside ASCII.
_ODD_FOLDS = {"k": "\u212a", "s": "\u017f"}


class Literal(NamedTuple):
    """Bytes to look for; `caseless` ones are in lower case, and fold ASCII only."""

    text: bytes
    caseless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Every matching text has one of `literals`; `enough` where each text with one matches."""

    literals: frozenset[Literal]
    enough: bool = False


class _Text(NamedTuple):
    text: str
    caseless: bool


_Texts = frozenset[_Text]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about the matches of a part of an expression."""

    exact: _Texts | None = None
    need: _Texts | None = None

    @property
    def best(self) -> _Texts | None:
        """The list that says most."""
        return _better(self.exact, self.need)

    def times(self, least: int, most: int | None) -> Facts:
        """Return what is known when the part comes so often; None is without end."""
        if least == 1 and most == 1:
            return self
        if self.exact is not None and most is not None and most * len(self.exact) <= _LONG_ENOUGH:
            return either([sequence([self] * often) for often in range(least, most + 1)])
        return Facts(need=self.best) if least else ANYTHING

    def needed(self, *, plain: bool) -> Need | None:
        """Return what to look for, or None where that would be nearly everywhere.

        `plain`: nothing but these strings decides, no anchors.
        """
        best = self.best
        if best is None or _shortest(best) < _SHORTEST:
            return None
        literals = frozenset(_as_literal(each) for each in best)
        odd = frozenset(Literal(fold.encode()) for each in best for fold in _odd_folds(each))
        # A part in one case and a part in any case are looked for in any case together.
        sharp = plain and best is self.exact and not any(each.caseless for each in best)
        return Need(literals=literals | odd, enough=sharp)


NOTHING = Facts(exact=frozenset({_Text("", caseless=False)}))  # matches, and takes no text
ANYTHING = Facts()


def letters(characters: Iterable[str], *, caseless: bool) -> Facts:
    """Return the facts of one character out of a few."""
    texts = frozenset(_Text(each, caseless and each.isalpha()) for each in characters)
    vague = any(_is_vague(each, caseless=caseless) for each in characters)
    return ANYTHING if vague or not 0 < len(texts) <= _MOST_EXACT else Facts(exact=texts)


def _is_vague(character: str, *, caseless: bool) -> bool:
    """Whether more than its own bytes can stand for it: U+FFFD is read for each bad byte."""
    if caseless:
        return not character.isascii()
    return character == "\ufffd" or "\ud800" <= character <= "\udfff"


def sequence(parts: Sequence[Facts]) -> Facts:
    """Return the facts of parts that follow one another."""
    run, best, whole = NOTHING.exact, None, True
    for part in parts:
        product = None if part.exact is None else _product(run, part.exact)
        if product is not None:
            run = product
            continue
        whole = False
        best = _better(_better(best, run), part.need)
        run = part.exact or NOTHING.exact
    return Facts(exact=run) if whole else Facts(need=_better(best, run))


def either(branches: Sequence[Facts]) -> Facts:
    """Return the facts of branches of which one is taken."""
    exacts = [each.exact for each in branches if each.exact is not None]
    if len(exacts) == len(branches):
        exact = frozenset[_Text]().union(*exacts)
        if len(exact) <= _MOST_NEEDED:
            return Facts(exact=exact)
    needs = [each.best for each in branches]
    known = [each for each in needs if each is not None]
    need = frozenset[_Text]().union(*known)
    return Facts(need=need) if len(known) == len(needs) and len(need) <= _MOST_NEEDED else ANYTHING


def _product(first: _Texts | None, second: _Texts) -> _Texts | None:
    if first is None or len(first) * len(second) > _MOST_EXACT:
        return None
    return frozenset(
        _Text(a.text + b.text, a.caseless or b.caseless) for a in first for b in second
    )


def _better(first: _Texts | None, second: _Texts | None) -> _Texts | None:
    if first is None or second is None:
        return first if second is None else second
    return max(first, second, key=_worth)


def _worth(texts: _Texts) -> tuple[int, int, int]:
    shortest = _shortest(texts)
    return min(shortest, _LONG_ENOUGH), -len(texts), shortest


def _shortest(texts: _Texts) -> int:
    return min(len(each.text) for each in texts)


def _as_literal(each: _Text) -> Literal:
    text = each.text.encode()
    return Literal(text.lower() if each.caseless else text, each.caseless)


def _odd_folds(each: _Text) -> Iterator[str]:
    if each.caseless:
        yield from (fold for letter, fold in _ODD_FOLDS.items() if letter in each.text.lower())
