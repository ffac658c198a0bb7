"""Terms: one test each, names that stand for them, and what is taken from a line."""

from __future__ import annotations

import pytest

from rule_texts import file, only_problem, problems, remarks, root
from steward.model.rules import Extract, Negation, RuleNode, Term
from steward.store.rules import examine_text

RULE = "set: {event: {source: a}, match: [%s]}"
TERMS = """
    plain: some text
    tested: {regex: 'a+', count: 2, extract: [{name: one, regex: (a)}]}
    late: {value: stop, window: 5s, slide: 1s, anchor: 1, absolute: true}
    another: plain
    inside: {set: {event: {source: b}, match: [plain]}}
"""


def test_a_name_stands_for_the_term() -> None:
    assert root(RULE % "plain", terms=TERMS).clauses[0].what == Term(kind="value", text="some text")
    assert root(RULE % "{value: plain}", terms=TERMS) == root(RULE % "plain", terms=TERMS)


def test_a_name_is_only_a_name_as_a_value() -> None:
    what = root(RULE % "{regex: plain}", terms=TERMS).clauses[0].what

    assert what == Term(kind="regex", text="plain")


def test_names_are_looked_up_once() -> None:
    what = root(RULE % "another", terms=TERMS).clauses[0].what

    assert what == Term(kind="value", text="plain")


def test_names_inside_a_named_node_are_looked_up() -> None:
    node = root("set: {match: [inside]}", terms=TERMS)

    assert isinstance(node.clauses[0].what, RuleNode)
    assert node.clauses[0].what.clauses[0].what == Term(kind="value", text="some text")


def test_count_and_extracts_of_a_named_term_are_used() -> None:
    (clause,) = root(
        "sequence: {window: 1s, event: {source: a}, order: [tested]}", terms=TERMS
    ).clauses

    assert clause.count == 2
    assert clause.extracts == (Extract(name="one", kind="regex", text="(a)"),)


def test_count_and_extracts_beside_a_name_are_not_lost() -> None:
    rule = (
        "set: {window: 1s, event: {source: a},"
        " match: [{value: tested, count: 4, extract: [{name: two, jq: .b}]}]}"
    )

    (clause,) = root(rule, terms=TERMS).clauses

    assert clause.count == 4
    assert [each.name for each in clause.extracts] == ["one", "two"]
    assert remarks(file(rule, terms=TERMS)) == [
        "other tools lose a `count` beside the name of a term"
    ]


def test_options_beside_a_name_win_over_those_of_the_term() -> None:
    rule = "set: {event: {source: a}, window: 1s, match: [x, y], negate: [%s]}"

    named = root(rule % "late", terms=TERMS).negations[0]
    changed = root(rule % "{value: late, window: -2s, absolute: false}", terms=TERMS).negations[0]

    stop = Term(kind="value", text="stop")
    assert named == Negation(
        what=stop, window_ns=5 * 10**9, slide_ns=10**9, anchor=1, absolute=True
    )
    assert changed == Negation(what=stop, window_ns=-2 * 10**9, slide_ns=10**9, anchor=1)


def test_a_named_node_cannot_stand_among_plain_terms() -> None:
    assert only_problem(RULE % "inside", terms=TERMS) == (
        "`set` cannot stand in a node that has an `event`"
    )


def test_terms_that_go_round_in_a_circle_are_refused_with_the_circle() -> None:
    terms = """
        a: {set: {match: [b]}}
        b: {sequence: {window: 1s, order: [{set: {match: [c]}}, c]}}
        c: {set: {match: [a]}}
    """

    found = problems(file("set: {match: [a]}", terms=terms))

    assert [each.partition(" ")[2] for each in found] == [
        "terms go round in a circle: a → b → c → a"
    ]


def test_a_term_that_holds_itself_is_refused_though_no_rule_uses_it() -> None:
    found = problems(file(RULE % "x", terms="a: {set: {match: [a]}}"))

    assert [each.partition(" ")[2] for each in found] == ["terms go round in a circle: a → a"]


def test_a_few_names_cannot_become_a_huge_rule() -> None:
    last = "n14: {set: {event: {source: a}, match: [x]}}\n"
    terms = "".join(
        f"n{i}: {{set: {{window: 1s, match: [{', '.join([f'n{i + 1}'] * 4)}]}}}}\n"
        for i in range(14)
    )

    found = problems(file("set: {match: [n0]}", terms=terms + last))

    assert [each.partition(" ")[2] for each in found] == [
        "a rule of more than 10000 terms, with names looked up"
    ]


def test_a_few_names_cannot_make_many_rules_huge() -> None:
    match = ", ".join(["x"] * 5_000)
    terms = f"big: {{set: {{event: {{source: a}}, window: 1s, match: [{match}]}}}}"
    rule = "- {cre: {id: RULE-%d}, rule: {set: {match: [big]}}}"
    text = "rules:\n" + "\n".join(rule % number for number in range(100, 140))

    faults = examine_text(f"{text}\nterms: {{{terms}}}").faults

    assert {each.problem for each in faults} == {
        "the rules of this file unfold to more than can be read"
    }
    assert len(faults) == 31  # nine were read before


def test_terms_that_no_rule_uses_are_checked_too() -> None:
    (fault,) = examine_text(file(RULE % "x", terms="unused: {set: {match: [y]}}")).faults

    assert fault.problem == "a node with plain terms needs `event: {source: …}`"
    assert fault.rule == ""


def test_a_second_term_of_a_name_is_refused() -> None:
    text = file(RULE % "a", terms="a: x\nb: y") + "---\nrules: []\nterms: {b: z}\n"

    assert problems(text) == ["10:9 a second term 'b'; the first is in rules.yaml:7:3"]


@pytest.mark.parametrize("terms", ["[a]", "x"])
def test_terms_are_a_mapping(terms: str) -> None:
    (found,) = problems(f"rules: []\nterms: {terms}")

    assert "2:8 `terms` has to be a mapping of names to terms" in found


def test_no_terms_are_fine() -> None:
    assert problems("rules: []\nterms:\n") == []


@pytest.mark.parametrize(
    ("term", "problem"),
    [
        ("{value: a, regex: b}", "it has value and regex"),
        ("{regex: a, jq: b, promql: {expr: c}}", "it has regex and jq and promql"),
        ("{}", "it has none"),
        ("[a]", "`term` has to be a mapping, and this is a list"),
        ("''", "`value` is empty"),
        ("", "`value` is empty"),
        ("{regex: }", "`regex` is empty"),
        ("{value: [a]}", "`value` has to be text, and this is a list"),
        ("{value: a, extract: x}", "`extract` has to be a list"),
        ("{value: a, extract: [x]}", "`extract` has to be a mapping"),
        ("{value: a, extract: [{name: 1a, jq: .}]}", "an extract cannot be called '1a'"),
        ("{value: a, extract: [{name: a, jq: ., regex: b}]}", "and 'a' has both"),
        ("{value: a, extract: [{name: a}]}", "and 'a' has neither"),
        ("{value: a, extract: [{jq: .}]}", "`name` is missing in `extract`"),
        (
            "{value: a, extract: [{name: a, jq: .}, {name: a, regex: b}]}",
            "there are two extracts called 'a'",
        ),
        (
            f"{{value: a, extract: [{', '.join(f'{{name: a{i}, jq: .}}' for i in range(33))}]}}",
            "33 extracts at one term; at most 32",
        ),
    ],
)
def test_what_a_term_cannot_be(term: str, problem: str) -> None:
    found = problems(
        file(RULE % f"\n  {term},\n" if term else "set: {event: {source: a}, match: ['']}")
    )

    assert [each for each in found if problem in each], found


PIDS = "{regex: 'pid=(.)', count: 3, distinct: %s, extract: [{name: pid, regex: 'pid=(.)'}]}"


def test_repetitions_can_be_asked_to_differ_in_an_extract() -> None:
    (clause,) = root(
        f"set: {{event: {{source: a}}, window: 1s, correlations: [host], match: [{PIDS % 'pid'}]}}"
    ).clauses

    assert (clause.count, clause.distinct) == (3, "pid")


def test_what_must_differ_has_to_be_an_extract_of_the_term_beside_correlations() -> None:
    joined = "set: {event: {source: a}, window: 1s, correlations: [host], match: [%s]}"
    alone = "set: {event: {source: a}, window: 1s, match: [%s]}"

    assert only_problem(joined % (PIDS % "tid")) == (
        "`distinct` names 'tid', which is no extract of this term"
    )
    assert only_problem(alone % (PIDS % "pid")) == "`distinct` needs `correlations` beside it"
