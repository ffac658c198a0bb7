"""Where in a line the terms of a rule matched, so that a page can show it."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from steward.model.rules import Clause, Negation, Rule, RuleNode, Term

__all__ = ["matched_spans"]

_MOST_PATTERN_BYTES = 8 * 2**20


def matched_spans(rule: Rule | None, text: str) -> list[tuple[int, int]]:
    """Return the parts of a line that some term of a rule is about, in order, without overlap."""
    if rule is None:
        return []
    found = sorted(span for term in _terms(rule.root) for span in _spans(term, text))
    merged: list[tuple[int, int]] = []
    for begin, end in found:
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _terms(node: RuleNode) -> Iterator[Term]:
    parts: tuple[Clause | Negation, ...] = (*node.clauses, *node.negations)
    for each in parts:
        if isinstance(each.what, RuleNode):
            yield from _terms(each.what)
        elif isinstance(each.what, Term):
            yield each.what


def _spans(term: Term, text: str) -> Iterator[tuple[int, int]]:
    if term.kind == "value":
        at = text.find(term.text)
        if at >= 0 and term.text:
            yield at, at + len(term.text)
    elif term.kind == "regex":
        match = _searched(term.text, text)
        if match is not None and match.end() > match.start():
            yield match.start(), match.end()


def _searched(pattern: str, text: str) -> re2._Match | None:
    options = re2.Options()
    options.max_mem = _MOST_PATTERN_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(text)
    except re2.error:
        return None
