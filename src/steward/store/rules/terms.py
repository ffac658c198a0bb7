"""Reader of terms: a test of one line, a condition on series, or the name of either."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steward.model.rules import Extract, MetricTerm, SourceLocation, Term
from steward.store.rules.faults import Diagnostics
from steward.store.rules.language.fields import TERM_KINDS
from steward.store.rules.mapping_reader import MappingReader, shown
from steward.store.rules.tree import MappingEntry, MappingTree, Scalar, Tree

__all__ = [
    "ExpansionLimitError",
    "NamedTerms",
    "ResolvedTerm",
    "count_of",
    "distinct_of",
    "extracts_of",
    "metric_of",
    "plain_of",
    "resolve_term",
]

MAX_COUNT = 10_000
MAX_EXTRACTS = 32
MAX_EFFORT = 500_000  # of one file: ten for each term, and the size of what names stand for
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class ExpansionLimitError(Exception):
    """A rule expands beyond the limit: reading it ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTerm:
    """A term of a file, with its name resolved.

    `own` is the mapping at this place; `fields` is the named term where there is one. The condition
    is in `fields`; options at this place win over those of the named term.
    """

    own: MappingReader
    fields: MappingReader
    kind: str  # one of TERM_KINDS, or ''
    name: str = ""

    @property
    def place(self) -> SourceLocation:
        """Its place in the file."""
        return self.own.place

    def option(self, name: str) -> MappingReader:
        """Return the mapping that has an option: this one, or the named term."""
        return self.own if name in self.own else self.fields


@dataclass(slots=True, kw_only=True)
class NamedTerms:
    """Terms by name: those of the file itself first, then those of files read along with it."""

    own: Mapping[str, MappingEntry]
    others: Mapping[str, Sequence[MappingEntry]]
    used: dict[str, Tree] = field(default_factory=dict)  # names used by the rule that is being read
    read: set[SourceLocation] = field(default_factory=set)  # keys of terms that some rule used
    effort: int = 0

    def spend(self, effort: int, place: SourceLocation, diagnostics: Diagnostics) -> None:
        """Count the cost of expansion: a short file of names must not take hours."""
        self.effort += effort
        if self.effort > MAX_EFFORT:
            diagnostics.fault(place, "the rules of this file unfold to more than can be read")
            raise ExpansionLimitError

    def find(self, name: str, place: SourceLocation, diagnostics: Diagnostics) -> Tree | None:
        """Return the term of that name, if any."""
        found = self.own.get(name)
        if found is None and name in self.others:
            found, *more = self.others[name]
            if more:
                places = ", ".join(str(each.key.place) for each in self.others[name])
                problem = f"several files have a term '{shown(name)}': {places}"
                diagnostics.fault(place, problem, "rename all but one")
            else:
                problem = f"'{shown(name)}' is the name of a term in {found.key.place}"
                diagnostics.note(place, problem)
        if found is None:
            return None
        self.spend(found.value.size, place, diagnostics)
        self.used[name] = found.value
        self.read.add(found.key.place)
        return found.value


def resolve_term(tree: Tree, named: NamedTerms, diagnostics: Diagnostics) -> ResolvedTerm:
    """Read a term, and resolve it if it is a name. One level: a name cannot name another."""
    own = _fields(tree, diagnostics)
    kind = _kind(own, diagnostics)
    if kind == "value":
        name = own.text("value")
        found = named.find(name, own.at("value"), diagnostics) if name else None
        if found is not None:
            fields = _fields(found, diagnostics)
            return ResolvedTerm(own=own, fields=fields, kind=_kind(fields, diagnostics), name=name)
    return ResolvedTerm(own=own, fields=own, kind=kind)


def _fields(tree: Tree, diagnostics: Diagnostics) -> MappingReader:
    if not isinstance(tree, Scalar):
        return MappingReader(tree, "term", diagnostics)
    key = tree._replace(text="value", quoted=False)
    value = tree._replace(quoted=True)  # `- null` is the text
    whole = MappingTree(entries=(MappingEntry(key=key, value=value),), place=tree.place, size=3)
    return MappingReader(whole, "term", diagnostics)


def _kind(fields: MappingReader, diagnostics: Diagnostics) -> str:
    kinds = [kind for kind in TERM_KINDS if kind in fields]
    if len(kinds) == 1:
        return kinds[0]
    said = f"it has {' and '.join(kinds)}" if kinds else "it has none"
    problem = f"a term needs exactly one of {', '.join(TERM_KINDS)}; {said}"
    diagnostics.fault(fields.place, problem)
    return ""


def plain_of(fields: MappingReader, kind: str, diagnostics: Diagnostics) -> Term | None:
    """Return the test of one line."""
    text = fields.text(kind)
    if not text:
        diagnostics.fault(fields.at(kind), f"`{kind}` is empty: it would match every line")
        return None
    if kind != "jq" and text.endswith("\n"):
        said = f"`{kind}` ends with a line end, which lines do not have"
        diagnostics.note(fields.at(kind), said, "write `|-` or `>-`, which leave it out")
    if "field" in fields:
        diagnostics.note(fields.key_at("field"), "`field` means nothing yet: the whole line counts")
    if kind == "value":
        return Term(kind="value", text=text)
    return Term(kind="regex" if kind == "regex" else "jq", text=text)


def metric_of(fields: MappingReader, diagnostics: Diagnostics) -> MetricTerm | None:
    """Return the condition on series."""
    inside = fields.one("promql")
    event = inside.one("event")
    expr = inside.text("expr").strip()
    if not expr and "expr" in inside:
        diagnostics.fault(inside.at("expr"), "`expr` is empty")
    for name in ("for", "interval"):
        if inside.duration(name) < 0:
            diagnostics.fault(inside.at(name), f"`{name}` is below zero")
    if not expr:
        return None
    return MetricTerm(
        expr=expr,
        interval_s=inside.duration("interval") / 1e9,
        for_s=inside.duration("for") / 1e9,
        source=event.text("source"),
        origin=event.flag("origin"),
    )


def count_of(term: ResolvedTerm, diagnostics: Diagnostics) -> int:
    """Return the count of a term."""
    at = term.option("count")
    count = at.whole("count", default=1, at_most=MAX_COUNT)
    if count < 1:
        diagnostics.note(at.at("count"), f"`count: {count}` counts as 1")
    if term.name and "count" in term.own:
        said = "other tools lose a `count` beside the name of a term"
        diagnostics.note(term.own.key_at("count"), said)
    return max(count, 1)


def distinct_of(term: ResolvedTerm, extracts: Sequence[Extract], diagnostics: Diagnostics) -> str:
    """Return the extract of which repetitions must give different values; '' for none."""
    at = term.option("distinct")
    name = at.text("distinct")
    if name and name not in {each.name for each in extracts}:
        names = ", ".join(each.name for each in extracts) or "none"
        problem = f"`distinct` names '{shown(name)}', which is no extract of this term"
        diagnostics.fault(at.at("distinct"), problem, f"its extracts: {names}")
    return name


def extracts_of(term: ResolvedTerm, diagnostics: Diagnostics) -> tuple[Extract, ...]:
    """Return the extracts of a term: those of the named term, and those added here."""
    places = (term.fields, term.own) if term.name else (term.own,)
    found: dict[str, Extract] = {}
    for each in (extract for fields in places for extract in fields.many("extract")):
        extract = _extract(each, diagnostics)
        if extract is not None and extract.name in found:
            diagnostics.fault(each.at("name"), f"there are two extracts called '{extract.name}'")
        elif extract is not None:
            found[extract.name] = extract
    if len(found) > MAX_EXTRACTS:
        problem = f"{len(found)} extracts at one term; at most {MAX_EXTRACTS}"
        diagnostics.fault(term.place, problem)
    return tuple(found.values())


def _extract(fields: MappingReader, diagnostics: Diagnostics) -> Extract | None:
    name = fields.text("name")
    if "name" in fields and not _NAME.fullmatch(name):
        problem = f"an extract cannot be called '{shown(name)}'"
        diagnostics.fault(fields.at("name"), problem, "letters, digits and _, a letter first")
    regex, jq = fields.text("regex"), fields.text("jq")
    if bool(regex) == bool(jq):
        said = "has both" if regex else "has neither"
        problem = f"an extract needs exactly one of regex, jq, and '{shown(name)}' {said}"
        diagnostics.fault(fields.place, problem)
        return None
    return Extract(name=name, kind="regex" if regex else "jq", text=regex or jq)
