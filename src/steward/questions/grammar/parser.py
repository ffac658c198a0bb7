"""Finds what a question is about: names, time and concepts, then the intent that they fit best."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from steward.model.actions import ACTIONS
from steward.questions.grammar.entities import Mention, Names, find_mentions
from steward.questions.grammar.intents import Asked, Call, Intent, intents
from steward.questions.grammar.lexicon import concept_of, is_plain, looks_foreign, phrases
from steward.questions.grammar.windows import Window, find_window

__all__ = ["LONGEST", "Reading", "read_question"]

LONGEST = 1000  # characters that are looked at; more is no question
_WORD = re.compile(r"[^\W_][\w'/-]*")
_PLAN = re.compile(
    r"\b(\d{1,5}|an?|one)\s*x?\s*(?:nvidia )?([A-Za-z]{1,4}\d{1,4}[A-Za-z]?)s?\b(?!\w*/)",
    re.IGNORECASE,
)
_HOURS = re.compile(
    r"\b(\d{1,5}(?:\.\d+)?|an?|one|two|three|half a)\s*(min(?:ute)?s?|h(?:ou)?rs?|h|d(?:ays?)?)\b",
    re.IGNORECASE,
)
_MEANING = re.compile(r"^\W*what(?:'s| is| are) an? \w|\bwhat do(?:es)? .{1,40} mean\b")
_NUMBER = re.compile(r"(?<![\w.-])\d{1,6}(?![\w.-])")
_WEIGHTS: Mapping[str, float] = {
    "LIST": 0.3, "HOWMANY": 0.6, "WHO": 0.8, "WHERE": 0.8, "EXPLAIN": 0.8, "STATE": 0.8,
    "WHY": 1.0, "WHEN": 1.0, "HOWLONG": 1.0, "MOST": 0.8, "LEAST": 0.8, "HOLD": 0.4, "RUN": 0.8,
    "STEWARD": 0.6, "WINDOW": 0.6, "CLUSTER": 0.8, "USER": 0.6, "JOB": 0.7, "GPUS": 0.7,
    "NODE": 0.8, "MEANSTAT": 0.5, "OLDEST": 0.8, "HOWTO": 2.5,
}  # fmt: skip
_OTHER_WEIGHT = 1.5
_SLOT, _UNUSED, _STRANGE = 2.0, 1.0, 1.6
_LEAST = 0.5
_NEAR = 0.25  # of two readings that are so close, neither is preferred


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a question was read as. Without a call, `why` says what is in the way."""

    intent: str = ""
    call: Call | None = None
    why: str = ""
    meanings: tuple[tuple[str, Call], ...] = ()  # of a question with two meanings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    asked: Asked
    mentions: tuple[Mention, ...]
    strange: tuple[str, ...]  # words that stand for nothing here
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    score: float
    intent: Intent
    asked: Asked


def read_question(question: str, names: Names, now_s: float) -> Reading:
    """Return the intent and the call of a question, or why there is none."""
    text = " ".join(question[: LONGEST + 1].split())
    if not text or not any(char.isalnum() for char in text):
        return Reading(why="empty")
    if len(question) > LONGEST:
        return Reading(why="long")
    parts = _parts(text, names, now_s)
    if looks_foreign([word.lower() for word in _WORD.findall(text)]):
        return Reading(why="foreign")
    if parts.window.is_future:
        return Reading(why="future")
    found = sorted(_candidates(parts), key=lambda each: -each.score)
    if not found or found[0].score < _LEAST:
        return Reading(why="strange" if parts.strange else "unclear")
    return _chosen(found)


def _chosen(found: Sequence[_Candidate]) -> Reading:
    best = found[0]
    call = best.intent.call(best.asked)
    rivals = [
        each
        for each in found[1:]
        if best.score - each.score < _NEAR and each.asked.slots != best.asked.slots
    ]
    meanings = {each.intent.name: each.intent.call(each.asked) for each in (best, *rivals)}
    if len(meanings) > 1:
        return Reading(why="ambiguous", meanings=tuple(meanings.items()))
    return Reading(intent=best.intent.name, call=call)


# -- parts -----------------------------------------------------------------------------------------


def _parts(text: str, names: Names, now_s: float) -> _Parts:
    mentions = tuple(find_mentions(text, names))
    rest = _without(text, mentions)
    plan, rest = _plan_of(rest)
    lower = rest.lower()
    window = find_window(lower, now_s) if not plan else Window(text=lower)
    numbers = tuple(float(each) for each in _NUMBER.findall(window.text))
    concepts, strange = _concepts(window.text)
    if window.from_s is not None:
        concepts = concepts | {"WINDOW"}
    if not mentions and _MEANING.search(lower):
        concepts = concepts | {"HOWTO"}
    asked = Asked(
        text=text,
        slots={},
        concepts=concepts,
        numbers=numbers,
        window=_given(window),
        plan=plan,
        action=_action(lower),
    )
    return _Parts(asked=asked, mentions=mentions, strange=strange, window=window)


def _given(window: Window) -> Mapping[str, float]:
    if window.from_s is None or window.to_s is None:
        return {}
    return {"from_s": window.from_s, "to_s": window.to_s}


def _without(text: str, mentions: Sequence[Mention]) -> str:
    for each in reversed(mentions):
        text = f"{text[: each.start]} {text[each.end :]}"
    return " ".join(text.split())


def _plan_of(text: str) -> tuple[dict[str, Any], str]:
    """Return the GPUs and hours of a job that does not exist yet, and the text without them."""
    gpu, hours = _PLAN.search(text), None
    if gpu is None:
        return {}, text
    rest = f"{text[: gpu.start()]} {text[gpu.end() :]}"
    hours = _HOURS.search(rest)
    if hours is None:
        return {}, text
    rest = f"{rest[: hours.start()]} {rest[hours.end() :]}"
    count = int(gpu[1]) if gpu[1].isdecimal() else 1
    return {"gpu": gpu[2].upper(), "gpus": count, "hours": _in_hours(hours)}, rest


def _in_hours(found: re.Match[str]) -> float:
    words = {"a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "half a": 0.5}
    count = words.get(found[1].lower())
    value = float(found[1]) if count is None else count
    unit = found[2].lower()[0]
    return value / 60 if unit == "m" else value * 24 if unit == "d" else value


def _action(text: str) -> str:
    words = set(_WORD.findall(text))
    return next((name for name in ACTIONS if name in words), "")


def _concepts(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    found: set[str] = set()
    for pattern, concepts in phrases():
        text, count = pattern.subn(" ", text)
        if count:
            found |= concepts
    strange = []
    for word in _WORD.findall(text):
        word = word.strip("'").removesuffix("'s")  # noqa: PLW2901
        concepts = concept_of(word)
        found |= concepts - {"PLAIN"}
        if not concepts and not is_plain(word) and not _NUMBER.fullmatch(word):
            strange.append(word)
    return frozenset(found - {"PLAIN"}), tuple(strange)


# -- candidates ------------------------------------------------------------------------------------


def _candidates(parts: _Parts) -> Iterator[_Candidate]:
    for slots in _slot_choices(parts.mentions):
        asked = replace(parts.asked, slots=slots)
        held = {*slots, *(("plan",) if parts.asked.plan else ())}
        for intent in intents():
            score = _score(intent, asked, held, parts)
            if score is not None:
                yield _Candidate(score=score, intent=intent, asked=asked)


def _slot_choices(mentions: Sequence[Mention]) -> Iterator[dict[str, str]]:
    """Return each way in which names can be understood; one name may be of two kinds."""
    for kinds in product(*(each.kinds for each in mentions[:4])):
        slots: dict[str, str] = {}
        for kind, each in zip(kinds, mentions, strict=False):
            slots.setdefault(kind, each.text)
        yield slots


def _score(intent: Intent, asked: Asked, held: set[str], parts: _Parts) -> float | None:
    if not held >= set(intent.slots):
        return None
    used = {*intent.slots, *intent.optional}
    if held - used:
        return None
    best = max(
        (value for cue in intent.cues if (value := _cue(cue, intent, asked)) is not None),
        default=None,
    )
    if best is None:
        return None
    strange = _STRANGE * len(parts.strange) if intent.name != "docs.how" else 0.0
    if best < strange:
        return None  # a weak cue is no evidence beside a word that is not known
    return best + _SLOT * len(held & set(intent.slots)) * (1.0 if best > 0 else 0.5) - strange


def _cue(wanted: frozenset[str], intent: Intent, asked: Asked) -> float | None:
    if not wanted <= asked.concepts:
        return None
    free = wanted | intent.also | ({"WINDOW"} if intent.takes_window else set())
    left = asked.concepts - free
    mild = 0.1 * len(asked.concepts & free - wanted)
    return _sum(wanted) - _UNUSED * _sum(left) - mild


def _sum(concepts: frozenset[str]) -> float:
    return sum(_WEIGHTS.get(each, _OTHER_WEIGHT) for each in concepts)
