"""Words of questions and the concepts that they stand for; mistyped words find their neighbour."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

__all__ = ["concept_of", "concepts", "is_plain", "looks_foreign", "phrases"]

_FILE = Path(__file__).parent / "words.yaml"


@cache
def concepts() -> Mapping[str, tuple[str, ...]]:
    """Return the words and phrases of each concept."""
    table = _table()["concepts"]
    return MappingProxyType({name: _words(words) for name, words in table.items()})


@cache
def _table() -> dict[str, Any]:
    return dict(yaml.safe_load(_FILE.read_text("utf-8")))


@cache
def _others(name: str) -> frozenset[str]:
    return frozenset(_words(_table()[name]))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


@cache
def phrases() -> tuple[tuple[re.Pattern[str], frozenset[str]], ...]:
    """Return patterns of phrases with the concepts that they stand for, longest first."""
    found: dict[str, set[str]] = {}
    for concept, words in concepts().items():
        for word in words:
            if " " in word or "-" in word:
                found.setdefault(word, set()).add(concept)
    longest = sorted(found, key=lambda each: (-len(each), each))
    return tuple(
        (re.compile(rf"(?<!\w){re.escape(p)}(?!\w)"), frozenset(found[p])) for p in longest
    )


@cache
def _concepts_by_word() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for concept, words in concepts().items():
        for word in words:
            if " " not in word:
                found.setdefault(word, set()).add(concept)
    return {word: frozenset(each) for word, each in found.items()}


def is_plain(word: str) -> bool:
    """Return whether a word says nothing about what a question is about."""
    return word in _others("plain")


@cache
def concept_of(word: str) -> frozenset[str]:
    """Return the concepts of a word; of a mistyped one, those of its nearest neighbour.

    >>> sorted(concept_of("waitng")), sorted(concept_of("banana"))
    (['WAIT'], [])
    """
    known = _concepts_by_word()
    if word in known:
        return known[word]
    if word in _others("plain"):
        return frozenset()
    best: tuple[int, str] | None = None
    for each in (*known, *_others("plain")):
        most = _mistakes(word, each)
        if most:
            far = _distance(word, each, most)
            if far <= most and (best is None or (far, each) < best):
                best = (far, each)
    return known.get(best[1], frozenset({"PLAIN"})) if best is not None else frozenset()


def _mistakes(word: str, meant: str) -> int:
    """Return how many mistakes are allowed: a short word is often another word, not a mistake."""
    if len(meant) < 4 or meant[0] != word[0] or abs(len(meant) - len(word)) > 2:
        return 0
    if len(word) >= 8:
        return 2
    swapped = sorted(word) == sorted(meant)
    left_out = len(word) == len(meant) - 1
    return int(len(word) >= 5 or swapped or (left_out and len(word) >= 3))


def _distance(one: str, other: str, most: int) -> int:
    """Return the number of typing mistakes between two words; swapped neighbours count once."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def looks_foreign(words: list[str]) -> bool:
    """Return whether words are of another language, or of another script."""
    letters = "".join(words)
    strange = sum(char.isalpha() and ord(char) > 0x24F for char in letters)
    if strange * 2 > len(letters):
        return True
    return sum(word in _others("foreign") for word in words) >= 2 and not any(map(is_plain, words))
