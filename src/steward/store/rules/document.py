"""One entry of a rule file, from its keys to a `Rule`."""

from __future__ import annotations

import re
from typing import Literal

from steward.model.rules import Application, Effect, Rule, RuleNode, RuleSeverity, Treatment
from steward.store.rules.checks import with_origin
from steward.store.rules.faults import Diagnostics
from steward.store.rules.identity import hash_of, key_of
from steward.store.rules.mapping_reader import MappingReader, shown
from steward.store.rules.nodes import NodeReader
from steward.store.rules.terms import ExpansionLimitError, NamedTerms
from steward.store.rules.tree import MappingTree, Scalar, Tree

__all__ = ["read_rule"]

_ID = re.compile(r"[A-Za-z0-9-]{4,}")
_KEY = re.compile(r"[1-9A-Za-z]{12,}")


def read_rule(
    tree: Tree, named: NamedTerms, diagnostics: Diagnostics, *, user: bool
) -> tuple[Rule, bool]:
    """Return the rule of an entry of `rules`, as far as it can be read, and whether it is valid.

    `user` fills in missing `metadata` ids; packages must have them.
    """
    faults_before = diagnostics.raised
    diagnostics.rule = _name_of(tree)
    named.used.clear()
    fields = MappingReader(tree, "rule", diagnostics)
    cre = fields.one("cre")
    root = _root(fields, named, diagnostics)
    rule_id = _id(cre, diagnostics)
    key, digest = _identity(fields, rule_id, tree, named, user=user)
    rule = _rule(fields, cre, root, names=(rule_id, key, digest))
    diagnostics.rule = ""
    return rule, diagnostics.raised == faults_before


def _name_of(tree: Tree) -> str:
    """Return the id early, so that each diagnostic has it."""
    cre = _value(tree, "cre")
    name = _value(cre, "id") if cre is not None else None
    return shown(name.text) if isinstance(name, Scalar) else ""


def _value(tree: Tree, key: str) -> Tree | None:
    found = tree.entries if isinstance(tree, MappingTree) else ()
    return next((each.value for each in found if each.key.text == key), None)


def _root(fields: MappingReader, named: NamedTerms, diagnostics: Diagnostics) -> RuleNode:
    root = fields.one("rule")
    if "set" in root and "sequence" in root:
        problem = "a rule has a set or a sequence, and this has both"
        hint = "take one out; other tools, and this one when lenient, use the sequence"
        diagnostics.ignored(root.key_at("set"), problem, hint)
    kind: Literal["set", "sequence"] = "sequence" if "sequence" in root else "set"
    tree = root.tree(kind)
    empty = RuleNode(kind=kind, clauses=(), place=fields.place)
    if tree is None:
        if "rule" in fields:
            diagnostics.fault(root.place, "a rule needs a `set` or a `sequence`, and has neither")
        return empty
    reader = NodeReader(named=named, diagnostics=diagnostics)
    try:
        node = reader.read(tree, kind)
    except ExpansionLimitError:
        return empty
    return with_origin(node, diagnostics) if reader.is_whole else node


def _id(cre: MappingReader, diagnostics: Diagnostics) -> str:
    rule_id = cre.text("id")
    if "id" in cre and not _ID.fullmatch(rule_id):
        problem = f"a rule cannot be called '{shown(rule_id)}'"
        diagnostics.fault(cre.at("id"), problem, "4 or more letters, digits and dashes")
    return rule_id


def _identity(
    fields: MappingReader, rule_id: str, tree: Tree, named: NamedTerms, *, user: bool
) -> tuple[str, str]:
    metadata = fields.one("metadata")
    found = {}
    for name in ("id", "hash"):
        found[name] = metadata.text(name)
        if found[name] and not _KEY.fullmatch(found[name]):
            problem = f"`metadata.{name}` cannot be '{shown(found[name])}'"
            hint = "12 or more of 1-9A-Za-z; leave it out, and it is filled in"
            metadata.diagnostics.fault(metadata.at(name), problem, hint)
        elif not found[name] and not user:
            problem = f"`metadata.{name}` is missing, and packages must bring it"
            metadata.diagnostics.fault(fields.place, problem, "`steward rules pack` fills it in")
    return found["id"] or key_of(rule_id), found["hash"] or hash_of(tree, named.used)


def _rule(
    fields: MappingReader, cre: MappingReader, root: RuleNode, *, names: tuple[str, str, str]
) -> Rule:
    metadata = fields.one("metadata")
    generation = "generation" if "generation" in metadata else "gen"
    rule_id, key, digest = names
    return Rule(
        id=rule_id,
        key=key,
        hash=digest,
        root=root,
        title=cre.text("title"),
        severity=_severity(cre),
        category=cre.text("category"),
        author=cre.text("author"),
        description=cre.text("description"),
        cause=cre.text("cause"),
        impact=cre.text("impact"),
        mitigation=cre.text("mitigation"),
        tags=cre.texts("tags"),
        references=cre.texts("references"),
        applications=tuple(map(_application, cre.many("applications"))),
        impact_score=cre.whole("impactScore"),
        mitigation_score=cre.whole("mitigationScore"),
        reports=cre.whole("reports"),
        generation=metadata.whole(generation),
        version=metadata.text("version"),
        treatment=_treatment(fields),
        place=fields.place,
    )


def _severity(cre: MappingReader) -> RuleSeverity:
    number = cre.whole("severity")
    if number <= max(RuleSeverity):
        return RuleSeverity(number)
    words = ", ".join(f"{each.value} {each.word}" for each in RuleSeverity)
    cre.diagnostics.ignored(cre.at("severity"), f"`severity` is {number}, not one of {words}")
    return RuleSeverity.INFO


def _application(fields: MappingReader) -> Application:
    return Application(
        name=fields.text("name"),
        process_name=fields.text("processName"),
        process_path=fields.text("processPath"),
        container_name=fields.text("containerName"),
        image_url=fields.text("imageUrl"),
        repo_url=fields.text("repoUrl"),
        version=fields.text("version"),
    )


def _treatment(rule: MappingReader) -> Treatment | None:
    if "steward" not in rule:
        return None
    block = rule.one("steward")
    check_after_ns = block.duration("check_after", default=600_000_000_000)
    if check_after_ns <= 0:
        block.diagnostics.fault(block.at("check_after"), "`check_after` has to be above zero")
    if "advice" in block and not block.text("advice").strip():
        block.diagnostics.fault(block.at("advice"), "`advice` is empty")
    return Treatment(
        action=block.choice("action"),
        advice=block.text("advice"),
        precondition=block.text("precondition"),
        effect=_effect(block),
        check_after_s=check_after_ns / 1e9,
        undo=block.choice("undo"),
    )


def _effect(block: MappingReader) -> Effect | None:
    if "effect" not in block:
        return None
    fields = block.one("effect")
    at_least = fields.number("at_least")
    if at_least < 0:
        problem = f"`at_least` is {at_least:g}; it has to be 0 or more"
        fields.diagnostics.fault(fields.at("at_least"), problem, "`direction: down` says less")
    direction = fields.choice("direction")
    return Effect(
        expr=fields.text("expr"),
        direction="down" if direction == "down" else "up",
        at_least=at_least,
    )
