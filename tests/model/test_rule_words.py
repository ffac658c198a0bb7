from __future__ import annotations

from steward.model.rules import Clause, MetricTerm, Negation, RuleNode, Term
from steward.model.rules.words import MOST_DEEP, waits_for

S = 10**9


def told(node: RuleNode) -> list[str]:
    return ["  " * deep + text for deep, text in waits_for(node)]


def test_a_single_line_is_waited_for() -> None:
    node = RuleNode(
        kind="set", clauses=(Clause(what=Term(kind="value", text="oops")),), source="a.b"
    )

    assert told(node) == ["this, in a.b", "  a line with oops"]


def test_nested_rules_say_order_window_joins_counts_and_what_denies_them() -> None:
    leaf = RuleNode(
        kind="sequence",
        window_ns=90 * S,
        source="cre.log.kernel",
        clauses=(
            Clause(what=Term(kind="regex", text="Xid (\\d+)"), count=3),
            Clause(what=Term(kind="jq", text=".level")),
        ),
    )
    idle = MetricTerm(expr="gpu_busy_share\n < 0.3", for_s=300.0)
    root = RuleNode(
        kind="set",
        window_ns=3600 * S,
        correlations=("gpu", "host"),
        clauses=(Clause(what=leaf, count=2), Clause(what=idle)),
        negations=(
            Negation(what=Term(kind="value", text="reset"), window_ns=5 * S),
            Negation(what=MetricTerm(expr="up")),
            Negation(what=leaf, window_ns=60 * S),
        ),
    )

    assert told(root) == [
        "all of these, in any order, within 1 h, with the same gpu, host",
        "  the following, 2 times",
        "  all of these, in this order, within 90 s, in cre.log.kernel",
        "    a line that matches Xid (\\d+), 3 times",
        "    a line for which jq says .level",
        "  series with gpu_busy_share < 0.3 for 5 min",
        "  unless within 5 s there is a line with reset",
        "  unless there is series with up",
        "  unless within 1 min of it",
        "    all of these, in this order, within 90 s, in cre.log.kernel",
        "      a line that matches Xid (\\d+), 3 times",
        "      a line for which jq says .level",
    ]


def test_words_end_where_rules_would_be_refused() -> None:
    node = RuleNode(kind="set", clauses=(Clause(what=Term(kind="value", text="x")),))
    for _ in range(100):
        node = RuleNode(kind="set", clauses=(Clause(what=node),))

    assert max(deep for deep, _ in waits_for(node)) == MOST_DEEP
