"""Every field of rule files: one table for the parser, the schema and the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from steward.model.actions import (
    ACTIONS,
    FABRIC_ACTIONS,
    MEMORY_ACTIONS,
    PLANNING_ACTIONS,
    SERVING_ACTIONS,
)

__all__ = [
    "ACTION_TYPES",
    "ALIASES",
    "ATTRIBUTES",
    "DIRECTIONS",
    "MAPPINGS",
    "NEGATE_ONLY",
    "TERM_KINDS",
    "FieldKind",
    "FieldSpec",
    "MappingSpec",
]

# Rules look at clusters: nothing that they find asks for a model server.
_OTHER_DOMAINS = (*FABRIC_ACTIONS, *MEMORY_ACTIONS, *PLANNING_ACTIONS, *SERVING_ACTIONS)
ACTION_TYPES = tuple(sorted(name for name, each in ACTIONS.items() if each not in _OTHER_DOMAINS))
DIRECTIONS = ("up", "down")
ATTRIBUTES = ("container", "gpu", "host", "job", "rank")
ALIASES = {"hostname": "host", "container_id": "container"}  # aliases
TERM_KINDS = ("value", "regex", "jq", "set", "sequence", "promql")
NEGATE_ONLY = ("window", "slide", "anchor", "absolute")


class FieldKind(Enum):
    """Kind of value of a field."""

    TEXT = "text"
    TEXTS = "list of text"
    WHOLE = "whole number, 0 or more"
    COUNT = "whole number"
    NUMBER = "number"
    FLAG = "true or false"
    DURATION = "duration"
    CHOICE = "one of some words"
    ONE = "mapping"
    MANY = "list of mappings"
    NAMED = "mapping of names to terms"
    TERMS = "list of terms"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One key: its kind of value and its meaning."""

    name: str
    kind: FieldKind
    doc: str
    required: bool = False
    default: str = ""
    shape: str = ""  # of mappings: the table of their fields
    choices: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()  # common misspellings
    only_lenient: bool = False  # keys of the public corpus without meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSpec:
    """One kind of mapping with its fields."""

    name: str
    path: str  # its place in a file
    doc: str
    fields: Mapping[str, FieldSpec]


def _shape(name: str, path: str, doc: str, *fields: FieldSpec) -> MappingSpec:
    return MappingSpec(name=name, path=path, doc=doc, fields={each.name: each for each in fields})


def _text(name: str, doc: str, *, required: bool = False) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.TEXT, doc=doc, required=required)


def _whole(name: str, doc: str, *, default: str = "0") -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.WHOLE, doc=doc, default=default)


def _one(name: str, shape: str, doc: str, *, required: bool = False) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.ONE, doc=doc, shape=shape, required=required)


def _duration(name: str, doc: str, *, default: str = "0s") -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.DURATION, doc=doc, default=default)


def _flag(name: str, doc: str) -> FieldSpec:
    return FieldSpec(name=name, kind=FieldKind.FLAG, doc=doc, default="false")


def _ignored(name: str, kind: FieldKind) -> FieldSpec:
    doc = "Means nothing; some public rules have it. Accepted with `--lenient`."
    return FieldSpec(name=name, kind=kind, doc=doc, only_lenient=True)


_DOCUMENT = _shape(
    "document",
    "(top)",
    "A file holds one document or several, divided by `---`.",
    FieldSpec(
        name="rules",
        kind=FieldKind.MANY,
        shape="rule",
        doc="The rules; may be empty.",
        required=True,
    ),
    FieldSpec(
        name="terms",
        kind=FieldKind.NAMED,
        shape="term",
        doc="Terms by name, for any rule that is read together with them: a `value` that equals a"
        " name stands for the term.",
    ),
    _text(
        "section",
        "In packages: `rules` for a document that holds rules, `version` for one that is skipped.",
    ),
)
_RULE = _shape(
    "rule",
    "rules[]",
    "One rule: who it is, what it means, what to look for, and what to do about it.",
    _one("metadata", "metadata", "What programs call the rule."),
    _one("cre", "cre", "Texts of the finding.", required=True),
    _one("rule", "root", "What to look for.", required=True),
    _one("steward", "steward", "What to do about it. Other tools ignore this block."),
)
_METADATA = _shape(
    "metadata",
    "rules[].metadata",
    "What programs call a rule. Filled in where it is missing, except in packages.",
    _text("id", "12 or more of `1-9A-Za-z`. Default: base58 of the sha1 of `cre.id`."),
    _text("hash", "12 or more of `1-9A-Za-z`. Default: base58 of the sha256 of the rule."),
    _whole("generation", "Grows by one with every change."),
    _whole("gen", "The same as `generation`: what most public rules write."),
    _text("kind", "Which family of rules this is; `prequel` in public rules. Not used."),
    _text("version", "Version of the rule, for people."),
    _text("name", "A name, for people. Not used."),
)
_CRE = _shape(
    "cre",
    "rules[].cre",
    "Texts of the finding when the rule fires.",
    _text("id", "4 or more letters, digits and dashes; unique. `CRE-2025-0001`.", required=True),
    _whole(
        "severity",
        "0 critical, 1 high, 2 medium, 3 low, 4 info. Careful: the default is critical.",
    ),
    _text("title", "One line."),
    _text("category", "One word for the kind of problem."),
    _text("author", "Who wrote it."),
    _text("description", "What happens, in a few sentences."),
    _text("cause", "Why it happens."),
    _text("impact", "What it costs."),
    _text("mitigation", "What to do."),
    FieldSpec(name="tags", kind=FieldKind.TEXTS, doc="Words to find it by."),
    FieldSpec(name="references", kind=FieldKind.TEXTS, doc="Where to read more."),
    FieldSpec(
        name="applications",
        kind=FieldKind.MANY,
        shape="application",
        doc="Programs that it is about.",
    ),
    _whole("impactScore", "How bad it is, 1 to 10."),
    _whole("mitigationScore", "How hard it is to mend, 1 to 10."),
    _whole("reports", "How many people reported it."),
    _ignored("version", FieldKind.TEXT),
    _ignored("generation", FieldKind.WHOLE),
)
_APPLICATION = _shape(
    "application",
    "rules[].cre.applications[]",
    "A program that a rule is about. For people; it changes nothing.",
    _text("name", "What it is called."),
    _text("processName", "Its process."),
    _text("processPath", "Where its program is."),
    _text("containerName", "Its container."),
    _text("imageUrl", "Its image."),
    _text("repoUrl", "Its source."),
    _text("version", "Which versions."),
)
_ROOT = _shape(
    "root",
    "rules[].rule",
    "Either a set or a sequence. With both, other tools use the sequence; here it is a fault"
    " without `--lenient`.",
    _one("set", "set", "Things that happen within a window, in any order."),
    _one("sequence", "sequence", "Things that happen within a window, in this order."),
)
_AROUND = (
    _one(
        "event",
        "event",
        "Where lines come from. A node that has it holds plain terms; one without"
        " it holds other nodes and `promql` terms.",
    ),
    FieldSpec(
        name="negate", kind=FieldKind.TERMS, shape="term", doc="What must not happen around it."
    ),
    FieldSpec(
        name="correlations",
        kind=FieldKind.TEXTS,
        doc="What all conditions must share: `host`, `gpu`, `job`, `rank`, `container`, or the name"
        " of an extract. Other tools ignore it.",
    ),
)
_SET = _shape(
    "set",
    "rules[].rule.set",
    "Things that happen within a window, in any order.",
    _duration("window", "Needed with two or more things, and refused with one.", default=""),
    FieldSpec(
        name="match",
        kind=FieldKind.TERMS,
        shape="term",
        doc="What must happen: one thing or more.",
        instead=("order",),
        required=True,
    ),
    *_AROUND,
    FieldSpec(name="count", kind=FieldKind.COUNT, doc="Means nothing here: write it at the term."),
)
_SEQUENCE = _shape(
    "sequence",
    "rules[].rule.sequence",
    "Things that happen within a window, in this order.",
    FieldSpec(
        name="window",
        kind=FieldKind.DURATION,
        doc="From the first thing to the last.",
        required=True,
    ),
    FieldSpec(
        name="order",
        kind=FieldKind.TERMS,
        shape="term",
        doc="What must happen: two things or more.",
        instead=("match",),
        required=True,
    ),
    *_AROUND,
    _flag("origin", "Means nothing here: write it under `event`."),
)
_EVENT = _shape(
    "event",
    "….event",
    "Where lines come from.",
    _text("source", "A name such as `cre.log.redis`, compared letter by letter.", required=True),
    _flag(
        "origin",
        "This node takes the blame and gives the time. Exactly one in a rule that looks at"
        " several; implied where there is one.",
    ),
)
_TERM = _shape(
    "term",
    "….match[], ….order[], ….negate[], terms.NAME",
    "One condition: a plain text (the same as `value`), or a mapping with exactly one of `value`,"
    " `regex`, `jq`, `set`, `sequence` and `promql`.",
    _text("value", "Text that the line holds, in this case; or the name of a term."),
    _text("regex", "RE2, found anywhere in the line."),
    _text("jq", "A jq program over the line as JSON: true when it gives anything but null, false."),
    _one("set", "set", "A set inside."),
    _one("sequence", "sequence", "A sequence inside."),
    _one("promql", "promql", "A condition on telemetry. Other tools ignore it."),
    FieldSpec(
        name="count",
        kind=FieldKind.COUNT,
        doc="How often it must happen. Not at what must not happen, nor at a node.",
        default="1",
    ),
    _text(
        "distinct",
        "The name of an extract: of lines that give one value within the window only the first"
        " counts. For `count` in a node with `correlations`. Other tools ignore it.",
    ),
    FieldSpec(
        name="extract",
        kind=FieldKind.MANY,
        shape="extract",
        doc="Values to take from the line, for `correlations`. Not at what must not happen.",
    ),
    _text("field", "Means nothing yet; other tools ignore it too."),
    _duration("window", "Of what must not happen: how much longer to look; may be negative."),
    _duration("slide", "Of what must not happen: how much later to begin; may be negative."),
    _whole("anchor", "Of what must not happen: which event to begin at, counted from 0."),
    FieldSpec(
        name="absolute",
        kind=FieldKind.FLAG,
        default="false",
        instead=("abs",),
        doc="Of what must not happen: `window` is all, without the match's own length.",
    ),
)
_EXTRACT = _shape(
    "extract",
    "….extract[]",
    "A value to take from a line: exactly one of `regex` and `jq`.",
    _text("name", "Letters, digits and underscores, a letter first.", required=True),
    _text("regex", "The first group, or the whole match where there is none."),
    _text("jq", "The first thing that the program gives."),
)
_PROMQL = _shape(
    "promql",
    "….promql",
    "A condition on telemetry, looked at for each entity by itself.",
    _text("expr", "PromQL; see the page on metric terms for what is understood.", required=True),
    _duration("for", "How long it must have held."),
    _duration("interval", "How often it is looked at; default: at every sample.", default=""),
    _one("event", "metric-event", "Which telemetry, and whether it takes the blame."),
)
_METRIC_EVENT = _shape(
    "metric-event",
    "….promql.event",
    "Which telemetry a condition is about.",
    _text("source", "A name, for people."),
    _flag("origin", "This condition takes the blame and gives the time."),
)
_STEWARD = _shape(
    "steward",
    "rules[].steward",
    "What to do about it, and how one sees whether it helped.",
    FieldSpec(
        name="action",
        kind=FieldKind.CHOICE,
        choices=ACTION_TYPES,
        required=True,
        doc="What is done.",
    ),
    _text("advice", "What a person would do by hand; shown with the finding.", required=True),
    _text("precondition", "PromQL that must hold for the entity when it is done."),
    _one("effect", "effect", "What should be better afterwards."),
    _duration("check_after", "When the effect is looked at.", default="10m"),
    FieldSpec(name="undo", kind=FieldKind.CHOICE, choices=ACTION_TYPES, doc="What takes it back."),
)
_EFFECT = _shape(
    "effect",
    "rules[].steward.effect",
    "A promise that can be checked.",
    _text("expr", "PromQL, its mean before and after.", required=True),
    FieldSpec(
        name="direction",
        kind=FieldKind.CHOICE,
        choices=DIRECTIONS,
        required=True,
        doc="Whether more or less of it is better.",
    ),
    FieldSpec(
        name="at_least",
        kind=FieldKind.NUMBER,
        required=True,
        doc="How much the mean changes, in the unit of the expression; 0 or more.",
    ),
)

MAPPINGS: Mapping[str, MappingSpec] = {
    each.name: each
    for each in (
        _DOCUMENT,
        _RULE,
        _METADATA,
        _CRE,
        _APPLICATION,
        _ROOT,
        _SET,
        _SEQUENCE,
        _EVENT,
        _TERM,
        _EXTRACT,
        _PROMQL,
        _METRIC_EVENT,
        _STEWARD,
        _EFFECT,
    )
}
