"""Rules of the public corpus over their own logs: the engine finds what the reference finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from decide.rules.reference import FAR, Compat, Fired, Forbidden, LetterRule, MatchedLine
from steward.decide.rules.engine import RuleEngine
from steward.decide.rules.terms import compile_term
from steward.model.rules import Hit, LogBlock, Mode, Rule, Stream, Term
from steward.observe.logs import read_blocks
from steward.store.rules import read_rules

DATA = Path(os.environ.get("STEWARD_DATA", "../shared/data")) / "cre"


def wanted_of(rule: Rule) -> tuple[LetterRule, dict[str, Term]]:
    """Return a rule in letters, and what the letters stand for."""
    terms: dict[Term, str] = {}

    def letter(what: object) -> str:
        assert isinstance(what, Term)
        return terms.setdefault(what, f"T{len(terms)}")

    root = rule.root
    wanted = LetterRule(
        ordered=root.kind == "sequence",
        terms=tuple(letter(each.what) for each in root.clauses for _ in range(max(1, each.count))),
        window=root.window_ns,
        forbidden=tuple(
            Forbidden(
                term=letter(each.what),
                window=each.window_ns,
                slide=each.slide_ns,
                anchor=each.anchor,
                absolute=each.absolute,
            )
            for each in root.negations
        ),
    )
    return wanted, {name: term for term, name in terms.items()}


def lines_of(blocks: list[LogBlock], terms: dict[str, Term]) -> list[MatchedLine]:
    tests = {name: compile_term(term) for name, term in terms.items()}
    return [
        MatchedLine(
            int(block.line[entry]),
            int(block.t_ns[entry]),
            frozenset(name for name, test in tests.items() if test(block.text(entry))),
        )
        for block in blocks
        for entry in range(len(block))
    ]


@pytest.mark.data
def test_every_rule_finds_on_its_log_what_the_reference_finds() -> None:
    rules = read_rules([DATA], lenient=True)
    assert len(rules) >= 180

    for rule in rules:
        path = Path(rule.place.file).parent / "test.log"
        blocks = list(read_blocks(path, mode=Mode.PREQ, stream=Stream(name="test.log")))
        wanted, terms = wanted_of(rule)

        expected = Compat(wanted).run(lines_of(blocks, terms))

        engine = RuleEngine([rule], mode=Mode.PREQ)
        found: list[Fired] = []
        for block in blocks:
            found += [(_numbers(hit), hit.fired_ns) for hit in engine.read(block)]
        found += [(_numbers(hit), FAR) for hit in engine.finish()]
        assert found == expected, rule.id
        assert found, rule.id


def _numbers(hit: Hit) -> tuple[int, ...]:
    return tuple(item.line for item in hit.items)
