"""Compilation of terms and extracts into functions of an entry."""

from __future__ import annotations

import sys
from collections.abc import Callable

from steward.decide.rules.terms.jq_program import LONGEST_BYTES, Program
from steward.decide.rules.terms.pattern import capture_of, search_of
from steward.errors import StewardError
from steward.model.rules import Extract, Term

__all__ = ["Test", "compile_extract", "compile_term", "longest_bytes"]

Test = Callable[[bytes], bool]


def compile_term(term: Term) -> Test:
    """Return the test of a term, or raise with the reason why there is none."""
    if not term.text:
        hint = "write what the line must contain"
        raise StewardError(f"the {term.kind} of a term is empty", hint=hint)
    if term.kind == "value":
        return _contains(term.text)
    if term.kind == "regex":
        return search_of(term.text)
    return Program(term.text).passes


def longest_bytes(term: Term) -> int:
    """Return the longest entry that is tested; only jq has a limit."""
    return LONGEST_BYTES if term.kind == "jq" else sys.maxsize


def compile_extract(extract: Extract) -> Callable[[bytes], str | None]:
    """Return an extractor of a value from an entry; it returns None where there is none."""
    if extract.kind == "regex":
        return capture_of(extract.text, extract.name)
    return Program(extract.text).first


def _contains(value: str) -> Test:
    try:
        wanted = value.encode()
    except UnicodeEncodeError:
        problem = f"the value {value!a} has half of a surrogate pair, which no text can hold"
        raise StewardError(problem, hint="write the character itself") from None
    return lambda text: wanted in text
