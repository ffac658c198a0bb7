"""What of a rule cannot run, and where that is written."""

from __future__ import annotations

from decide.rules.tiny_rules import rule_of, term
from steward.decide.rules.rule_check import check
from steward.model.rules import (
    Clause,
    Extract,
    MetricTerm,
    Negation,
    RuleNode,
    SourceLocation,
    Term,
)


def at(line: int) -> SourceLocation:
    return SourceLocation(file="rule.yaml", line=line, column=3)


def node(*clauses: Clause, **more: object) -> RuleNode:
    return RuleNode(kind="set", clauses=clauses, source="letters", window_ns=1, **more)  # type: ignore[arg-type]


def test_a_rule_that_can_run_has_no_problems() -> None:
    root = node(
        Clause(what=term("A"), extracts=(Extract(name="pid", kind="regex", text=r"(\d+)"),)),
        Clause(what=node(Clause(what=MetricTerm(expr="gpu_busy_share < 0.3")))),
        negations=(Negation(what=term("N"), anchor=1),),
        correlations=("host", "pid"),
    )

    assert check(rule_of(root)) == []


def test_all_patterns_that_do_not_compile_are_named_with_their_place() -> None:
    root = node(
        Clause(
            what=Term(kind="regex", text="a("),
            extracts=(Extract(name="pid", kind="regex", text="("),),
            place=at(4),
        ),
        Clause(what=Term(kind="jq", text=".a |"), place=at(3)),
        Clause(what=MetricTerm(expr="rate("), place=at(5)),
        negations=(Negation(what=Term(kind="regex", text="(?=x)"), place=at(6)),),
    )

    problems = check(rule_of(root))

    assert [each.place.line for each in problems] == [3, 4, 4, 5, 6]
    assert problems[2].problem.startswith("extract 'pid': ")
    assert all(each.problem for each in problems)


def test_a_pattern_that_would_need_too_much_memory_is_refused() -> None:
    root = node(Clause(what=Term(kind="regex", text="((((a{1,100}){1,100}){1,100}){1,100})")))

    (problem,) = check(rule_of(root))

    assert problem.hint


def test_64_slots_are_accepted_and_65_are_not() -> None:
    def many(count: int) -> RuleNode:
        return node(*(Clause(what=Term(kind="value", text=f"t{i}")) for i in range(count)))

    assert check(rule_of(many(64))) == []
    (problem,) = check(rule_of(many(65)))
    assert "65 different conditions, more than 64" in problem.problem


def test_128_copies_of_one_term_are_accepted_and_a_million_are_not() -> None:
    assert check(rule_of(node(*[Clause(what=term("A"))] * 128))) == []
    (problem,) = check(rule_of(node(Clause(what=term("A"), count=10**6))))
    assert "1000000 things" in problem.problem


def test_an_anchor_must_be_one_of_the_things_looked_for() -> None:
    two = Clause(what=term("A"), count=2)

    assert check(rule_of(node(two, negations=(Negation(what=term("N"), anchor=1),)))) == []
    (problem,) = check(
        rule_of(node(two, negations=(Negation(what=term("N"), anchor=2, place=at(9)),)))
    )
    assert "anchor 2" in problem.problem
    assert "(0 to 1)" in problem.problem
    assert problem.place.line == 9


def test_a_correlation_that_nothing_has_is_named_with_what_there_is() -> None:
    inner = node(Clause(what=term("A"), extracts=(Extract(name="pid", kind="jq", text=".p"),)))
    (problem,) = check(rule_of(node(Clause(what=inner), correlations=("pids",))))

    assert "'pids'; known: container, gpu, host, job, pid, rank" in problem.problem
    assert problem.hint == "did you mean 'pid'?"
    (other,) = check(rule_of(node(Clause(what=inner), correlations=("zebra",))))
    assert other.hint == "extract 'zebra' in each of its conditions"


def test_series_may_have_any_label() -> None:
    root = node(Clause(what=MetricTerm(expr="gpu_busy_share < 0.3")), correlations=("pod",))

    assert check(rule_of(root)) == []


def test_nodes_inside_one_another_have_an_end() -> None:
    root = node(Clause(what=term("A")))
    for _ in range(2000):
        root = node(Clause(what=root))

    (problem,) = check(rule_of(root))

    assert "more than 16 deep" in problem.problem
