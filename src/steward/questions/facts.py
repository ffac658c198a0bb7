"""Values that an answer consists of: facts with their sources, and sentences that cite them."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from steward.questions.wording import written

__all__ = ["Answer", "Fact", "Proposal", "Reply", "Sentence", "say", "unknown"]

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/:+-]{0,80}")
_TEXTS = ("text", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One value that a tool computed. `source` is where anybody can look it up again.

    `unit` says how it is written: s, time, share, GPUs, celsius, watts, name, … A `statement` is
    text of our own, a `text` is one that people, rules or programs wrote.
    """

    label: str
    value: str | float
    source: str
    unit: str = "name"
    link: str = ""  # the dashboard's page about it

    @property
    def text(self) -> str:
        """The value as sentences have it."""
        return written(self.value, self.unit)

    @property
    def is_untrusted(self) -> bool:
        """Whether people, rules or logs wrote it freely: it is data, and no model reads it."""
        if self.unit not in _TEXTS or not isinstance(self.value, str):
            return False
        return self.unit == "text" or _SAFE.fullmatch(self.value) is None

    def as_record(self) -> dict[str, Any]:
        """Return the fact as JSON shows it."""
        known = isinstance(self.value, str) or isfinite(self.value)
        return {**asdict(self), "value": self.value if known else None, "text": self.text}

    @property
    def withheld(self) -> str:
        """What a model reads instead of a text that others wrote."""
        return f"(text withheld, see {self.link or self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence and the facts that it rests on; without facts it states none."""

    text: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Something that a person could let happen: steward itself did nothing."""

    text: str
    decision: str = ""  # one that waits for approval already
    command: str = ""  # what a person would type
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a tool returns. `known` is False where it can't answer: its sentences say why."""

    sentences: tuple[Sentence, ...]
    known: bool = True
    proposals: tuple[Proposal, ...] = ()

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, each once."""
        return tuple(dict.fromkeys(fact for each in self.sentences for fact in each.facts))

    def as_record(self) -> dict[str, Any]:
        """Return it for a model: texts that others wrote are withheld."""
        return {
            "text": " ".join(map(_without_texts, self.sentences)),
            "known": self.known,
            "facts": [_trusted(fact) for fact in self.facts],
            "proposals": [asdict(each) for each in self.proposals],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer in words. `way` is who wrote it: grammar, or the model's name."""

    question: str
    sentences: tuple[Sentence, ...]
    abstained: bool
    intent: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    way: str = "grammar"
    notes: tuple[str, ...] = ()  # such as why a model's words are not shown
    proposals: tuple[Proposal, ...] = field(default=())

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts in the order in which they are cited, each once."""
        return tuple(dict.fromkeys(fact for each in self.sentences for fact in each.facts))

    @property
    def text(self) -> str:
        """All sentences as one text, without marks."""
        return " ".join(each.text for each in self.sentences)

    def as_record(self) -> dict[str, Any]:
        """Return the answer as JSON shows it; `cites` counts facts from 1."""
        numbers = {fact: place for place, fact in enumerate(self.facts, 1)}
        return {
            "question": self.question,
            "answer": self.text,
            "abstained": self.abstained,
            "facts": [fact.as_record() for fact in self.facts],
            "sentences": [
                {"text": each.text, "cites": sorted({numbers[fact] for fact in each.facts})}
                for each in self.sentences
            ],
            "intent": self.intent,
            "calls": list(self.calls),
            "way": self.way,
            "notes": list(self.notes),
            "proposals": [asdict(each) for each in self.proposals],
        }


def say(template: str, /, *also: Fact, **facts: Fact) -> Sentence:
    """Return a sentence whose fields are facts, so that it can't state what it does not cite.

    >>> say("{n} wait.", n=Fact(label="jobs that wait", value=3, unit="jobs", source="x")).text
    '3 jobs wait.'
    """
    named = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    cited = (*(facts[name] for name in named), *also)
    text = template.format(**{name: fact.text for name, fact in facts.items()})
    return Sentence(text=text, facts=tuple(dict.fromkeys(cited)))


def _without_texts(sentence: Sentence) -> str:
    text = sentence.text
    for fact in sentence.facts:
        if fact.is_untrusted and fact.text:
            text = text.replace(fact.text, fact.withheld)
    return text


def _trusted(fact: Fact) -> dict[str, Any]:
    shown = fact.withheld if fact.is_untrusted else fact.text
    value = fact.withheld if fact.is_untrusted else fact.value
    return {**asdict(fact), "value": value, "text": shown}


def unknown(*texts: str | Sentence) -> Reply:
    """Return a reply that says what is not known."""
    return Reply(sentences=tuple(_sentences(texts)), known=False)


def _sentences(texts: Iterable[str | Sentence]) -> Iterable[Sentence]:
    return (Sentence(text=each) if isinstance(each, str) else each for each in texts)
