"""Sets, sequences and what is in them: what fits together, and what does not."""

from __future__ import annotations

import pytest

from rule_texts import file, only_problem, problems, remarks, root
from steward.model.rules import MetricTerm, RuleNode, Term
from steward.store.rules import examine_text, parse_rules

LEAF = "set: {event: {source: %s}, match: [x]}"
ORIGIN = "set: {event: {source: %s, origin: true}, match: [x]}"


def texts(node: RuleNode) -> list[str]:
    return [each.what.text for each in node.clauses if isinstance(each.what, Term)]


def numbered(count: int, form: str = "t%d") -> str:
    return ", ".join(form % number for number in range(count))


def test_raw_scalars_stay_the_text_that_was_written() -> None:
    node = root(
        "set: {event: {source: a}, window: 1s, match: [502, true, yes, 1e3, 2024-01-01, 0x1F, ~]}"
    )

    assert texts(node) == ["502", "true", "yes", "1e3", "2024-01-01", "0x1F", "~"]
    assert all(each.what == Term(kind="value", text=each.what.text) for each in node.clauses)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (
            "sequence: {window: 1s, event: {source: a}, order: [x]}",
            "a sequence needs two things or more under `order`, and this has 1",
        ),
        (
            "sequence: {window: 1s, event: {source: a}, order: [], negate: [x]}",
            "a sequence needs two things or more under `order`, and this has 0",
        ),
        (
            "sequence: {window: 0s, event: {source: a}, order: [x, y]}",
            "a sequence needs a `window` above zero",
        ),
        (
            "sequence: {window: -1s, event: {source: a}, order: [x, y]}",
            "a sequence needs a `window` above zero",
        ),
        (
            "sequence: {event: {source: a}, order: [x, y]}",
            "`window` is missing in `sequence`",
        ),
        (
            "sequence: {window: 1s, event: {source: a}}",
            "`order` is missing in `sequence`",
        ),
        ("set: {event: {source: a}}", "`match` is missing in `set`"),
        ("set: {event: {source: a}, match: []}", "a set needs one thing or more under `match`"),
        ("set: {event: {source: a}, match: }", "a set needs one thing or more under `match`"),
        (
            "set: {event: {source: a}, match: [], negate: [x]}",
            "a set needs one thing or more under `match`",
        ),
        (
            "set: {event: {source: a}, match: [x], window: 5s}",
            "a set of one thing takes no `window`",
        ),
        ("set: {event: {source: a}, match: [x, y]}", "a set of 2 things needs a `window`"),
        (
            "set: {event: {source: a}, match: [{value: x, count: 3}]}",
            "a set of 3 things needs a `window`",
        ),
        (
            "set: {event: {source: a}, match: [x, y], window: -1s}",
            "`window` is below zero",
        ),
        (
            "set: {event: {source: a}, match: [x, y], window: soon}",
            "`window`: 'soon' is no duration",
        ),
        ("set: {match: [x]}", "a node with plain terms needs `event: {source: …}`"),
        ("set: {event: {source: ''}, match: [x]}", "`event` needs a `source`"),
        ("set: {event: {source: a}, match: x}", "`match` has to be a list, and this is 'x'"),
        ("set: [x]", "`set` has to be a mapping, and this is a list"),
    ],
)
def test_what_a_node_needs(rule: str, problem: str) -> None:
    assert only_problem(rule) == problem


def test_a_count_makes_a_sequence_of_one_term_long_enough() -> None:
    node = root("sequence: {window: 1s, event: {source: a}, order: [{value: x, count: 2}]}")

    assert [each.count for each in node.clauses] == [2]


def test_a_count_below_one_is_one_and_a_huge_one_is_refused() -> None:
    rule = "set: {event: {source: a}, match: [{value: x, count: %s}]}"

    assert root(rule % 0).clauses[0].count == 1
    assert root(rule % -4).clauses[0].count == 1
    assert remarks(file(rule % 0)) == ["`count: 0` counts as 1"]
    assert "from -10000 to 10000" in only_problem(rule % 10_001)
    assert only_problem(rule % '"3"') == '`count` is a whole number, not "3" in quotes'


def test_64_slots_are_accepted_and_65_refused() -> None:
    rule = "%s: {event: {source: a}, window: 1s, %s: [%s]}"

    assert len(root(rule % ("set", "match", numbered(64))).clauses) == 64
    assert len(root(rule % ("sequence", "order", numbered(64))).clauses) == 64
    for kind, key in (("set", "match"), ("sequence", "order")):
        assert "65 different things" in only_problem(rule % (kind, key, numbered(65)))


def test_128_copies_of_one_term_are_one_slot() -> None:
    copies = ", ".join(["x"] * 128)

    assert root(f"set: {{event: {{source: a}}, window: 1s, match: [{copies}]}}")
    assert root(f"sequence: {{event: {{source: a}}, window: 1s, order: [{copies}]}}")
    assert root("set: {event: {source: a}, window: 1s, match: [{value: x, count: 128}]}")


def test_a_sequence_keeps_repeats_apart_that_are_not_neighbours() -> None:
    back_and_forth = ", ".join(["x, y"] * 33)

    assert root(f"set: {{event: {{source: a}}, window: 1s, match: [{back_and_forth}]}}")
    assert "66 different things" in only_problem(
        f"sequence: {{event: {{source: a}}, window: 1s, order: [{back_and_forth}]}}"
    )


# -- negations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("anchor", [0, 1, 2, 3])
def test_any_event_of_the_match_can_be_the_anchor(anchor: int) -> None:
    rule = (
        "sequence: {event: {source: a}, window: 1s, order: [x, {value: y, count: 3}], negate: [%s]}"
    )

    node = root(rule % f"{{value: z, anchor: {anchor}}}")

    assert node.negations[0].anchor == anchor


def test_an_anchor_beyond_the_match_is_refused() -> None:
    rule = "set: {event: {source: a}, window: 1s, match: [x, y], negate: [{value: z, anchor: 2}]}"

    (fault,) = examine_text(file(rule)).faults

    assert fault.problem == "`anchor: 2`, but a match has 2 events"
    assert fault.hint == "count from 0: 0 to 1"


def test_anchors_that_other_tools_refuse_are_noted() -> None:
    rule = (
        "sequence: {event: {source: a}, window: 1s, order: [%s], negate: [{value: z, anchor: %d}]}"
    )

    assert remarks(file(rule % ("x, y, z", 2))) == ["`anchor: 2`: other tools accept 0 and 1 only"]
    assert remarks(file(rule % ("{value: x, count: 2}, y", 1))) == [
        "`anchor: 1` is a repetition, which other tools refuse"
    ]
    assert remarks(file(rule % ("x, y", 1))) == []


@pytest.mark.parametrize(
    ("negate", "problem"),
    [
        ("{value: z, count: 2}", "what must not happen has no `count`: once is enough"),
        (
            "{value: z, extract: [{name: a, regex: b}]}",
            "what must not happen has no `extract`",
        ),
        ("{value: z, anchor: -1}", "`anchor` is a whole number from 0 to"),
        ("{value: z, window: 5}", "`window`: '5' is no duration"),
        ("{window: 5s}", "a term needs exactly one of value, regex, jq, set, sequence, promql"),
        ("{value: ''}", "`value` is empty: it would match every line"),
        ("{value: z, abs: true}", "there is no key `abs` in `term`"),
    ],
)
def test_what_a_negation_cannot_have(negate: str, problem: str) -> None:
    found = only_problem(f"set: {{event: {{source: a}}, match: [x], negate: [{negate}]}}")

    assert problem in found


def test_a_count_of_one_is_allowed_where_once_is_enough() -> None:
    assert root("set: {event: {source: a}, match: [x], negate: [{value: z, count: 1}]}").negations


def test_options_of_negations_mean_nothing_at_what_must_happen() -> None:
    text = file("set: {event: {source: a}, match: [{value: x, window: 5s, anchor: 1}]}")

    assert remarks(text) == [
        "`window` means nothing at what must happen",
        "`anchor` means nothing at what must happen",
    ]


# -- nesting -----------------------------------------------------------------------------------


def test_a_leaf_alone_takes_the_blame() -> None:
    assert root(LEAF % "a").origin
    assert root("set: {match: [{promql: {expr: a > 1}}]}").origin


def test_a_single_leaf_inside_others_takes_the_blame() -> None:
    rule = "set: {match: [{set: {match: [{%s}]}}], negate: [{%s}]}"

    node = root(rule % (LEAF % "a", LEAF % "b"))

    middle = node.clauses[0].what
    assert isinstance(middle, RuleNode)
    leaf = middle.clauses[0].what
    assert isinstance(leaf, RuleNode)

    assert (node.origin, middle.origin, leaf.origin) == (False, False, True)
    assert isinstance(node.negations[0].what, RuleNode)
    assert not node.negations[0].what.origin


def test_of_several_leaves_exactly_one_takes_the_blame() -> None:
    rule = "set: {window: 1s, match: [{%s}, {%s}]}"

    assert root(rule % (LEAF % "a", ORIGIN % "b"))
    assert only_problem(rule % (LEAF % "a", LEAF % "b")) == (
        "a rule over 2 sources needs one `origin: true`"
    )
    assert only_problem(rule % (ORIGIN % "a", ORIGIN % "b")) == (
        "a second `origin: true`; the first is in line 4"
    )


def test_a_series_beside_nodes_can_take_the_blame() -> None:
    rule = "set: {window: 1s, match: [{%s}, {promql: {expr: a > 1, event: {origin: %s}}}]}"

    node = root(rule % (LEAF % "a", "true"))

    assert isinstance(node.clauses[1].what, MetricTerm)
    assert node.clauses[1].what.origin
    assert not node.origin
    assert "needs one `origin: true`" in only_problem(rule % (LEAF % "a", "false"))
    assert "a second `origin: true`" in only_problem(rule % (ORIGIN % "a", "true"))


def test_of_series_alone_one_may_say_that_it_takes_the_blame() -> None:
    series = "{promql: {expr: a > 1, event: {origin: true}}}"

    assert root(f"set: {{window: 1s, match: [{series}, {{promql: {{expr: b > 1}}}}]}}").origin
    assert "a second `origin: true`" in only_problem(
        f"set: {{window: 1s, match: [{series}, {series}]}}"
    )


def test_plain_terms_and_nodes_do_not_mix() -> None:
    nested, series = "{%s}" % (LEAF % "b"), "{promql: {expr: a > 1}}"

    assert only_problem(f"set: {{event: {{source: a}}, window: 1s, match: [x, {nested}]}}") == (
        "`set` cannot stand in a node that has an `event`"
    )
    assert only_problem(f"set: {{event: {{source: a}}, match: [x], negate: [{series}]}}") == (
        "`promql` cannot stand in a node that has an `event`"
    )
    assert only_problem(f"set: {{window: 1s, match: [x, {nested}]}}") == (
        "a plain term cannot stand in a node without `event`"
    )
    assert only_problem(f"set: {{match: [{nested}], negate: [x]}}") == (
        "a plain term cannot stand in a node without `event`"
    )


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ("", "`expr` is missing in `promql`"),
        ("expr: ' '", "`expr` is empty"),
        ("expr: a, for: -5m", "`for` is below zero"),
        ("expr: a, interval: 5", "`interval`: '5' is no duration"),
        ("expr: a, fore: 5m", "there is no key `fore` in `promql`"),
    ],
)
def test_a_condition_on_series_is_checked(inside: str, problem: str) -> None:
    found = problems(file(f"set: {{match: [{{promql: {{{inside}}}}}]}}"))

    assert [each.partition(" ")[2] for each in found] == [problem]


def test_a_count_at_a_node_means_nothing_and_its_extract_is_refused() -> None:
    assert remarks(file("set: {match: [{count: 3, %s}]}" % (LEAF % "a"))) == [
        "`count` means nothing at a `set`"
    ]
    assert only_problem("set: {match: [{extract: [{name: a, jq: b}], %s}]}" % (LEAF % "a")) == (
        "`extract` needs a line to take from, and this is a `set`"
    )


def test_strays_that_other_tools_pass_over_are_noted() -> None:
    assert remarks(file("set: {count: 2, event: {source: a}, match: [x]}")) == [
        "`count` means nothing at a `set`; write it at the term"
    ]
    assert remarks(
        file("sequence: {origin: true, window: 1s, event: {source: a}, order: [x, y]}")
    ) == ["`origin` means nothing at a `sequence`; write it under `event`"]
    assert remarks(file("set: {event: {source: a}, match: [{value: x, field: message}]}")) == [
        "`field` means nothing yet: the whole line counts"
    ]


def test_a_text_with_a_line_end_is_noted_since_lines_have_none() -> None:
    rule = """
        set:
          event: {source: a}
          match:
            - value: |
                text
    """

    assert remarks(file(rule)) == ["`value` ends with a line end, which lines do not have"]
    assert remarks(file(rule.replace("|", "|-"))) == []
    assert remarks(file(rule.replace("value", "jq"))) == []


def test_joins_are_on_attributes_or_on_what_is_extracted() -> None:
    extract = "{value: x, extract: [{name: pod, regex: y}]}"
    rule = "set: {correlations: [%s], event: {source: a}, match: [%s]}"

    assert root(rule % ("host, gpu, job, rank, container, pod", extract)).correlations[-1] == "pod"
    (fault,) = examine_text(file(rule % ("pdo", extract))).faults
    assert fault.problem.startswith("nothing gives 'pdo' to join on; known: container, gpu")
    assert fault.hint == "did you mean 'pod'?"
    assert remarks(file(rule % ("cluster", "x")), lenient=True)
    (lenient,) = parse_rules(file(rule % ("cluster, gpu", "x")), lenient=True)
    assert lenient.root.correlations == ("gpu",)


def test_what_others_call_host_and_container_is_understood_unless_a_line_gives_it() -> None:
    rule = "set: {correlations: [hostname, container_id], event: {source: a}, match: [%s]}"
    extract = "{value: x, extract: [{name: hostname, regex: y}]}"

    assert root(rule % "x").correlations == ("host", "container")
    assert root(rule % extract).correlations == ("hostname", "container")


def test_a_fault_is_not_told_twice() -> None:
    rule = "set: {event: %s, window: 1s, match: [{value: x, count: %s}]}"

    assert problems(file(rule % ("{source: a}", '"3"'))) == [
        '4:69 `count` is a whole number, not "3" in quotes'
    ]
    assert problems(file(rule % ("{}", "3"))) == ["4:18 `source` is missing in `event`"]


def test_a_node_can_join_on_what_its_children_extract() -> None:
    leaf = "{set: {event: {source: a}, match: [{value: x, extract: [{name: pod, regex: y}]}]}}"

    assert root(f"set: {{correlations: [pod], match: [{leaf}]}}").correlations == ("pod",)


def test_nodes_can_be_16_deep_and_no_deeper() -> None:
    def deep(levels: int) -> str:
        return "{set: {match: [" * (levels - 1) + "{%s}" % (LEAF % "a") + "]}}" * (levels - 1)

    assert root(deep(16))
    assert only_problem(deep(17)) == "more than 16 nodes inside one another"


def test_a_rule_of_ten_thousand_terms_is_refused() -> None:
    rule = "set: {event: {source: a}, window: 1s, match: [%s]}"

    assert (
        only_problem(rule % ", ".join(["x"] * 10_001))
        == "a rule of more than 10000 terms, with names looked up"
    )
