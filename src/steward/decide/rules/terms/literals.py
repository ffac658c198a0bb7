"""Literals that a text must contain for a part of a regular expression to match.

Sets of strings are worked out bottom up: `exact` is everything that a part can match where that is
a short list; `need` lists alternatives: every match contains all strings of at least one of them.
Unknown syntax counts as "matches anything", so that a gap here costs time and never a match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

__all__ = [
    "ANYTHING",
    "NOTHING",
    "Facts",
    "Literal",
    "Need",
    "either",
    "letters",
    "rarity",
    "sequence",
    "text",
]

_MOST_EXACT = 16  # strings in a product: more add little
_MOST_ALTERNATIVES = 200
_MOST_TOGETHER = 3  # strings of one alternative
_SHORTEST = 2  # one letter is in nearly every line
_WORTH_ADDING = 3  # letters of a string that is searched for besides a better one
_LONG_ENOUGH = 8  # beyond this length fewer strings are better than rarer ones
_COMMON = re.compile(  # common in logs of any program
    rb"(?i)access|address|already|application|args|async|attempt|auth|cache|cannot|certificate|"
    rb"check|client|cluster|code|command|complete|config(?:uration)?|connect(?:ion|ed)?|"
    rb"container|controller|could|create|cre|data(?:base)?|debug|default|delete|detected|device|"
    rb"disk|docker|does|down|empty|ended|err(?:or)?|event|exceeded|exception|execut\w+|exist|"
    rb"exit|expired|fail(?:ed|ure)?|fatal|file|found|from|host|http|info|internal|invalid|"
    rb"is|key|kube\w*|length|level|limit|line|list|load|lock|log|main|manager|master|max|memory|"
    rb"message|metadata|metrics?|missing|mode|module|name(?:space)?|network|node|normal|not|null|"
    rb"number|open|operation|out|path|peer|permission|pod|pool|port|process|proxy|python|query|"
    rb"queue|rate|reach\w*|read(?:y)?|reason|refused|register|replica|request|required|reset|"
    rb"resource|response|retry|run(?:time|ning)?|save|secret|send|server|service|session|set|"
    rb"ssl|start(?:ed|ing)?|state|status|stop(?:ped|ping)?|storage|stream|string|success|sync|"
    rb"system|table|task|thread|time(?:out|d)?|time|to|token|true|type|unable|unknown|up|user|"
    rb"value|version|view|volume|wait\w*|warn(?:ing)?|with|worker|write"
)
# What Unicode calls the same letter in another case, outside ASCII.
_ODD_FOLDS = {"k": "\u212a", "s": "\u017f"}


class Literal(NamedTuple):
    """Bytes to search for; `caseless` ones are in lower case, and fold ASCII only."""

    text: bytes
    caseless: bool = False


LiteralSet = frozenset[Literal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Every matching text contains all of one of `alternatives`; `enough`: these match."""

    alternatives: frozenset[LiteralSet]
    enough: bool = False


class _Text(NamedTuple):
    text: str
    caseless: bool


_Texts = frozenset[_Text]
_LiteralSets = frozenset[_Texts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about the matches of a part of an expression."""

    exact: _Texts | None = None
    need: _LiteralSets | None = None

    @property
    def alternatives(self) -> _LiteralSets | None:
        """What every match needs; None where that would be in nearly every line."""
        return self.need if self.exact is None else _literal_sets(self.exact)

    def times(self, least: int, most: int | None) -> Facts:
        """Return what is known when the part comes so often; None is without end."""
        if least == 1 and most == 1:
            return self
        if self.exact is not None and most is not None and most * len(self.exact) <= _LONG_ENOUGH:
            return either([sequence([self] * often) for often in range(least, most + 1)])
        return Facts(need=self.alternatives) if least else ANYTHING

    def needed(self, *, plain: bool) -> Need | None:
        """Return the needed literals, or None where nothing is certain.

        `plain`: nothing but these strings decides, no anchors.
        """
        if self.alternatives is None:
            return None
        alternatives = {
            frozenset(map(_as_literal, literal_set)) for literal_set in self.alternatives
        }
        texts = [each for literal_set in self.alternatives for each in literal_set]
        odd = {frozenset({Literal(fold.encode())}) for each in texts for fold in _odd_folds(each)}
        # A part in one case and a part in any case are looked for in any case together.
        sharp = plain and self.exact is not None and not any(each.caseless for each in texts)
        return Need(alternatives=frozenset(alternatives | odd), enough=sharp)


NOTHING = Facts(exact=frozenset({_Text("", caseless=False)}))  # matches, and takes no text
ANYTHING = Facts()


@lru_cache(maxsize=50_000)
def rarity(text: bytes) -> float:
    """Guess how seldom a text is in logs: by its length, where common words hardly count."""
    return len(text) - 0.8 * sum(len(word) for word in _COMMON.findall(text))


def letters(characters: Iterable[str], *, caseless: bool) -> Facts:
    """Return the facts of one character out of a few."""
    texts = frozenset(_Text(each, caseless and each.isalpha()) for each in characters)
    vague = any(_is_vague(each.text, caseless=caseless) for each in texts)
    return ANYTHING if vague or len(texts) > _MOST_EXACT else Facts(exact=texts)


def text(characters: str, *, caseless: bool) -> Facts:
    """Return the facts of characters that follow one another."""
    if not characters.isascii():
        return sequence([letters(each, caseless=caseless) for each in characters])
    folds = caseless and any(each.isalpha() for each in characters)
    return Facts(exact=frozenset({_Text(characters, folds)}))


def _is_vague(character: str, *, caseless: bool) -> bool:
    """Whether more than its own bytes can stand for it: U+FFFD is read for each bad byte."""
    if caseless:
        return not character.isascii()
    return character == "\ufffd" or "\ud800" <= character <= "\udfff"


def sequence(parts: Sequence[Facts]) -> Facts:
    """Return the facts of parts that follow one another."""
    run, needs = NOTHING, list[_LiteralSets | None]()
    for part in parts:
        longer = _one_after_the_other(run, part)
        if longer is None:
            needs += [run.alternatives, part.need]
            longer = NOTHING if part.exact is None else part
        run = longer
    return Facts(need=_all_of([*needs, run.alternatives])) if needs else run


def either(branches: Sequence[Facts]) -> Facts:
    """Return the facts of branches of which one is taken."""
    exacts = [each.exact for each in branches if each.exact is not None]
    if len(exacts) == len(branches):
        exact = frozenset[_Text]().union(*exacts)
        if len(exact) <= _MOST_ALTERNATIVES:
            return Facts(exact=exact)
    known = [each.alternatives for each in branches if each.alternatives is not None]
    alternatives = frozenset[_Texts]().union(*known)
    return (
        Facts(need=alternatives)
        if len(known) == len(branches) and len(alternatives) <= _MOST_ALTERNATIVES
        else ANYTHING
    )


def _one_after_the_other(first: Facts, second: Facts) -> Facts | None:
    if first.exact is None or second.exact is None:
        return None
    if len(first.exact) * len(second.exact) > _MOST_EXACT:
        return None
    pairs = product(first.exact, second.exact)
    return Facts(
        exact=frozenset(_Text(a.text + b.text, a.caseless or b.caseless) for a, b in pairs)
    )


def _all_of(needs: Sequence[_LiteralSets | None]) -> _LiteralSets | None:
    """Return alternatives that have a part of each need, the best ones first."""
    known = sorted((each for each in needs if each is not None), key=_worth, reverse=True)
    if not known:
        return None
    alternatives = known[0]
    for more in known[1:]:
        if _shortest(more) >= _WORTH_ADDING and len(alternatives) * len(more) <= _MOST_ALTERNATIVES:
            alternatives = frozenset(_rarest_of(a | b) for a, b in product(alternatives, more))
    return alternatives


def _rarest_of(literal_set: _Texts) -> _Texts:
    return frozenset(sorted(literal_set, key=lambda each: (-_rarity(each), each))[:_MOST_TOGETHER])


def _worth(alternatives: _LiteralSets) -> tuple[float, int, float]:
    commonest = min(max(_rarity(each) for each in literal_set) for literal_set in alternatives)
    return min(commonest, _LONG_ENOUGH), -len(alternatives), commonest


def _shortest(alternatives: _LiteralSets) -> int:
    return min(len(each.text) for literal_set in alternatives for each in literal_set)


def _rarity(each: _Text) -> float:
    return rarity(each.text.encode())


def _literal_sets(texts: _Texts) -> _LiteralSets | None:
    if min(len(each.text) for each in texts) < _SHORTEST:
        return None
    return frozenset(frozenset({each}) for each in texts)


def _as_literal(each: _Text) -> Literal:
    text = each.text.encode()
    return Literal(text.lower() if each.caseless else text, each.caseless)


def _odd_folds(each: _Text) -> Iterator[str]:
    if each.caseless:
        yield from (fold for letter, fold in _ODD_FOLDS.items() if letter in each.text.lower())
