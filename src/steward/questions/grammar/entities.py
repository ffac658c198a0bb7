"""Names in questions: of jobs, users, tenants, nodes, GPUs, decisions, findings and rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from steward.questions.grammar.lexicon import concept_of, is_plain
from steward.questions.records import Records

__all__ = ["Mention", "Names", "find_mentions"]

_ENTRY = re.compile(r"(?<![\w/-])([df])-([0-9a-z]{4,32})(?![\w-])", re.IGNORECASE)
_GPU = re.compile(r"(?<![\w./-])([a-z0-9][\w.-]*/gpu\d{1,4})(?![\w/])", re.IGNORECASE)
_RULE = re.compile(r"(?<![\w/-])([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)+)(?![\w-])")
_MARKED = re.compile(
    r"\b(job|jobs|task|user|account|tenant|team|group|node|host|machine|server|rule|gpu)s?"
    r"(?: (?:called|named|with id|id|number|no\.?))?[ #:]+([\w][\w./@:+-]*)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[\w][\w./@:+-]*")
_ID_LIKE = re.compile(r"[\w./@:+-]*\d[\w./@:+-]*")
_KINDS = {
    "task": "job", "jobs": "job", "account": "user", "team": "tenant", "group": "tenant",
    "host": "node", "machine": "node", "server": "node",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """One name in a question. `kinds` has more than one where it means several things."""

    text: str
    kinds: tuple[str, ...]
    start: int
    end: int
    marked: bool = False  # the word before it says what it is


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Names:
    """All names of a moment, by their lower-case form: what each is called, by kind."""

    by_word: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @staticmethod
    def of(records: Records) -> Names:
        """Collect the names of a moment."""
        found: dict[str, dict[str, str]] = {}
        for kind, name in _all(records):
            if name:
                found.setdefault(name.lower(), {}).setdefault(kind, name)
        return Names(by_word=found)


def _all(records: Records) -> Iterator[tuple[str, str]]:
    shown = records.cluster
    if shown is not None:
        for waiting in shown.queue:
            yield from (("job", waiting.id), ("user", waiting.user))
        for running in shown.running:
            yield from (("job", running.id), ("user", running.user))
        for tenant in shown.tenants:
            yield "tenant", tenant.id
        for node in shown.nodes:
            yield "node", node.id
            for gpu in node.gpus:
                yield "gpu", gpu.id
    for standing, _ in records.rules:
        yield "rule", standing.id


def find_mentions(text: str, names: Names) -> list[Mention]:
    """Return the names in a question, in the order of the text; none overlap."""
    taken: list[Mention] = []
    for each in (
        *_entries(text),
        *_gpus(text, names),
        *_known(text, names),
        *_marked(text),
        *_rules(text),
    ):
        if all(each.end <= other.start or each.start >= other.end for other in taken):
            taken.append(each)
    return sorted(taken, key=lambda each: each.start)


def _entries(text: str) -> Iterator[Mention]:
    for found in _ENTRY.finditer(text):
        kind = {"d": "decision", "f": "finding"}[found[1].lower()]
        yield Mention(text=found[0].lower(), kinds=(kind,), start=found.start(), end=found.end())


def _gpus(text: str, names: Names) -> Iterator[Mention]:
    for found in _GPU.finditer(text):
        known = names.by_word.get(found[1].lower(), {}).get("gpu", found[1])
        yield Mention(text=known, kinds=("gpu",), start=found.start(), end=found.end())


def _rules(text: str) -> Iterator[Mention]:
    for found in _RULE.finditer(text):
        if any(char.isdigit() for char in found[1]):
            yield Mention(text=found[1], kinds=("rule",), start=found.start(), end=found.end())


def _known(text: str, names: Names) -> Iterator[Mention]:
    marks = {found.start(2): found for found in _MARKED.finditer(text)}
    for found in _TOKEN.finditer(text):
        word, end = _bare(found[0]), found.start() + len(_bare(found[0]))
        kinds = names.by_word.get(word.lower())
        if not kinds or (word.isdecimal() and _is_amount(text, found, marks)):
            continue
        mark = marks.get(found.start())
        kind = _kind(mark[1]) if mark is not None else ""
        chosen = (kind,) if kind in kinds else tuple(sorted(kinds))
        if kind and kind not in kinds:
            continue  # `user 812` is no job
        yield Mention(
            text=kinds[chosen[0]], kinds=chosen, start=found.start(), end=end, marked=bool(kind)
        )


def _is_amount(text: str, found: re.Match[str], marks: Mapping[int, re.Match[str]]) -> bool:
    """Return whether a number counts something: `4 GPUs`, `6 h`, `top 5`."""
    if found.start() in marks:
        return False
    after = text[found.end() :].lstrip().lower()
    before = text[: found.start()].rstrip().lower()
    units = (
        r"(x\b|%|gpus?\b|h\b|hours?\b|min|days?\b|weeks?\b|months?\b|watts?\b|jobs?\b|nodes?\b"
        r"|[a-z]{1,3}\d)"
    )
    return bool(re.match(units, after)) or before.endswith(("top", "last", "past", "first"))


def _marked(text: str) -> Iterator[Mention]:
    """Names that are not known, where the word before says what they are."""
    for found in _MARKED.finditer(text):
        word, kind = _bare(found[2]), _kind(found[1])
        if kind == "gpu" and not _ID_LIKE.fullmatch(word):
            continue
        strange = bool(_ID_LIKE.fullmatch(word)) or kind in ("user", "tenant", "node", "rule")
        if strange and not _is_common(word):
            start = found.start(2)
            yield Mention(text=word, kinds=(kind,), start=start, end=start + len(word), marked=True)
    for found in _TOKEN.finditer(text):
        word = _bare(found[0])
        number = word.isdecimal() and len(word) >= 3 and not _is_year(text, found)
        if number and not _is_amount(text, found, {}):
            end = found.start() + len(word)
            yield Mention(text=word, kinds=("job",), start=found.start(), end=end)


def _is_year(text: str, found: re.Match[str]) -> bool:
    before = text[: found.start()].rstrip().lower()
    return bool(re.fullmatch(r"(19|20|21)\d\d\W*", found[0])) and before.endswith((" in", " year"))


def _is_common(word: str) -> bool:

    return is_plain(word.lower()) or bool(concept_of(word.lower()))


def _bare(word: str) -> str:
    """Return a name without what grammar and punctuation add to it.

    >>> _bare("812's"), _bare("n1/gpu0."), _bare("alice")
    ('812', 'n1/gpu0', 'alice')
    """
    return word.rstrip(".:,;-+/@").removesuffix("'s")


def _kind(word: str) -> str:
    word = word.lower()
    return _KINDS.get(word, word)
