"""Every field of a rule arrives, and what does not fit is named with its place."""

from __future__ import annotations

import pytest

from rule_texts import EVERYTHING, file, one, only_problem, problems, remarks
from steward.model.rules import (
    Application,
    Clause,
    Effect,
    Extract,
    MetricTerm,
    Negation,
    RuleNode,
    RuleSeverity,
    SourceLocation,
    Term,
    Treatment,
)
from steward.store.rules import examine_text

SMALLEST = "set: {event: {source: a}, match: [x]}"
TREATMENT = "steward: {action: tell, advice: look}\n"


def test_every_field_arrives() -> None:
    rule = one(EVERYTHING)

    assert (rule.id, rule.key, rule.hash) == (
        "TEST-0001",
        "4hje4sHmZW2GnSxijP6TQh",
        "mnRBzQ9fdJZqXQ6xRAv2tT",
    )
    assert (rule.generation, rule.version) == (3, "1.2")
    assert (rule.title, rule.category, rule.author) == (
        "Everything at once",
        "testing",
        "somebody",
    )
    assert rule.description == "Two lines\nof text.\n"
    assert (rule.cause, rule.impact, rule.mitigation) == ("a", "b", "c")
    assert rule.severity is RuleSeverity.MEDIUM
    assert rule.tags == ("one", "2", "yes")
    assert rule.references == ("https://example.org/1",)
    assert (rule.impact_score, rule.mitigation_score, rule.reports) == (8, 4, 12)
    assert rule.applications == (
        Application(
            name="redis",
            process_name="redis-server",
            process_path="/usr/bin/redis-server",
            container_name="cache",
            image_url="example.org/redis",
            repo_url="example.org/source",
            version="7.0",
        ),
    )


def test_everything_that_must_and_must_not_happen_arrives() -> None:
    memory = Clause(
        what=Term(kind="value", text="out of memory"),
        count=3,
        extracts=(
            Extract(name="pod", kind="regex", text=r"pod=(\w+)"),
            Extract(name="node", kind="jq", text=".node"),
        ),
    )
    restart = Negation(
        what=Term(kind="regex", text="restart(ed)?"),
        window_ns=-5_000_000_000,
        slide_ns=-1_000_000_000,
        anchor=3,
        absolute=True,
    )
    leaf = RuleNode(
        kind="set",
        clauses=(memory, Clause(what=Term(kind="value", text="killed"))),
        negations=(restart,),
        window_ns=10_000_000_000,
        source="cre.log.redis",
        origin=True,
    )
    series = MetricTerm(expr="gpu_util < 0.3", for_s=300.0, interval_s=10.0, source="telemetry")
    warming = RuleNode(
        kind="set",
        clauses=(Clause(what=Term(kind="jq", text=".warming")),),
        source="cre.log.training",
    )

    assert one(EVERYTHING).root == RuleNode(
        kind="sequence",
        clauses=(Clause(what=leaf), Clause(what=series)),
        negations=(Negation(what=warming),),
        window_ns=90_000_000_000,
        correlations=("host", "pod"),
    )


def test_what_is_done_about_it_arrives() -> None:
    assert one(EVERYTHING).treatment == Treatment(
        action="lend",
        advice="Lend the GPU.",
        precondition="gpu_util < 0.5",
        effect=Effect(expr="gpu_util", direction="up", at_least=0.2),
        check_after_s=900.0,
        undo="call-back",
    )


def test_a_short_treatment_has_defaults() -> None:
    rule = one(file(SMALLEST, more=TREATMENT))

    assert rule.treatment == Treatment(action="tell", advice="look", check_after_s=600.0)
    assert one(file(SMALLEST)).treatment is None


def test_places_are_lines_and_columns_from_one() -> None:
    rule = one(EVERYTHING)
    leaf = rule.root.clauses[0].what
    killed = EVERYTHING.splitlines().index(" " * 16 + "- killed") + 1

    assert rule.place == SourceLocation(file="rules.yaml", line=3, column=5)
    assert isinstance(leaf, RuleNode)
    assert leaf.clauses[1].place == SourceLocation(file="rules.yaml", line=killed, column=19)
    assert leaf.negations[0].place == SourceLocation(file="rules.yaml", line=killed + 2, column=19)


def test_what_most_public_rules_call_gen_is_the_generation() -> None:
    assert one(file(SMALLEST, more="metadata: {gen: 7}\n")).generation == 7


def test_empty_fields_are_empty_text() -> None:
    text = "rules: [{cre: {id: AAAA, title: , cause: ~, tags: null}, rule: {SMALLEST}}]"

    rule = one(text.replace("SMALLEST", SMALLEST))

    assert (rule.title, rule.cause, rule.tags) == ("", "", ())


def test_all_faults_are_found_at_once_with_their_places() -> None:
    text = """\
rules:
  - cre:
      id: TEST-0001
      severty: 2
      impactScore: "8"
      tags: {a: b}
    rule:
      sequence:
        window: 5
        event: {source: a}
        order: [x, {regx: y}]
    steward: {action: lnd, advice: x}
  - cre: {id: x}
    rule: {set: {event: {source: a}, match: [x], window: 5s}}
"""
    assert problems(text) == [
        "4:7 there is no key `severty` in `cre`",
        '5:20 `impactScore` is a whole number, not "8" in quotes',
        "6:13 `tags` has to be a list, and this is a mapping",
        "9:17 `window`: '5' is no duration",
        "11:20 a term needs exactly one of value, regex, jq, set, sequence, promql; it has none",
        "11:21 there is no key `regx` in `term`",
        (
            "12:23 there is no action 'lnd'; known: call-back, cap-power, diagnose, drain, lend, "
            "migrate, preempt, reboot, reprioritise, reset, resize, resume, right-size, save, "
            "start, tell, undrain"
        ),
        "13:15 a rule cannot be called 'x'",
        "14:50 a set of one thing takes no `window`",
    ]


def test_faults_name_their_rule_and_what_was_meant() -> None:
    faults = examine_text(file(SMALLEST.replace("match", "mach")), file="rules.yaml").faults

    assert {each.rule for each in faults} == {"TEST-0001"}
    assert [each.hint for each in faults if "mach" in each.problem] == ["did you mean 'match'?"]
    assert str(faults[0]).startswith("rules.yaml:4:10: TEST-0001: ")


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{}", "a rule needs a `set` or a `sequence`, and has neither"),
        ("", "a rule needs a `set` or a `sequence`, and has neither"),
        ("[]", "`root` has to be a mapping, and this is a list"),
        (
            f"{SMALLEST}\nsequence: {{window: 1s, event: {{source: a}}, order: [x, y]}}",
            "a rule has a set or a sequence, and this has both",
        ),
    ],
)
def test_a_rule_is_a_set_or_a_sequence(rule: str, problem: str) -> None:
    assert problem in [each.partition(" ")[2] for each in problems(file(rule))]


def test_when_lenient_a_sequence_wins_over_a_set() -> None:
    text = file(f"{SMALLEST}\nsequence: {{window: 1s, event: {{source: a}}, order: [x, y]}}")

    assert one(text, lenient=True).root.kind == "sequence"
    assert remarks(text, lenient=True) == ["a rule has a set or a sequence, and this has both"]


def test_when_lenient_unknown_keys_are_only_noted() -> None:
    cre = "{id: AAAA, version: '1', generation: 2, Immediate steps: x}"
    text = f"rules: [{{cre: {cre}, rule: {{{SMALLEST}}}}}]"

    assert len(problems(text)) == 3
    assert one(text, lenient=True).id == "AAAA"
    assert remarks(text, lenient=True) == [
        "`version` means nothing in `cre`",
        "`generation` means nothing in `cre`",
        "there is no key `Immediate steps` in `cre`",
    ]


def test_when_lenient_a_fraction_is_cut_off_as_other_tools_do() -> None:
    text = EVERYTHING.replace("impactScore: 8", "impactScore: 8.5")

    assert [each.partition(" ")[2] for each in problems(text)] == [
        "`impactScore` is a whole number, not '8.5'"
    ]
    assert one(text, lenient=True).impact_score == 8
    assert "`impactScore` counts as 8, not 8.5" in remarks(text, lenient=True)
    assert problems(text.replace("8.5", "inf"), lenient=True)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("action: lend", "`advice` is missing in `steward`"),
        ("advice: x", "`action` is missing in `steward`"),
        ("action: tell, advice: ' '", "`advice` is empty"),
        ("action: tell, advice: x, check_after: 0s", "`check_after` has to be above zero"),
        ("action: tell, advice: x, check_after: 10", "`check_after`: '10' is no duration"),
        ("action: tell, advice: x, effect: {direction: up, at_least: 1}", "`expr` is missing"),
        (
            "action: tell, advice: x, effect: {expr: a, direction: u, at_least: 1}",
            "there is no direction 'u'; known: up, down",
        ),
        (
            "action: tell, advice: x, effect: {expr: a, direction: up, at_least: -1}",
            "`at_least` is -1; it has to be 0 or more",
        ),
        (
            "action: tell, advice: x, effect: {expr: a, direction: up, at_least: much}",
            "`at_least` is a number, not 'much'",
        ),
        (
            "action: tell, advice: x, effect: {expr: a, direction: up, at_least: nan}",
            "`at_least` is a number, not 'nan'",
        ),
        (
            "action: tell, advice: x, effect: {expr: a, direction: up, at_least: }",
            "`at_least` is a number, not empty",
        ),
        (
            "action: tell, advice: x, effect: {expr: a, direction: up}",
            "`at_least` is missing in `effect`",
        ),
        ("action: [tell], advice: x", "`action` has to be one of some words, and this is a list"),
    ],
)
def test_a_treatment_is_checked(more: str, problem: str) -> None:
    (found,) = problems(file(SMALLEST, more=f"steward: {{{more}}}\n"))

    assert problem in found


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("severity: 2", "severity: 5", "`severity` is 5, not one of 0 critical, 1 high"),
        ("severity: 2", "severity: -1", "`severity` is a whole number from 0 to"),
        ("severity: 2", "severity: high", "`severity` is a whole number, not 'high'"),
        ("severity: 2", "severity: 2\n      severity: 2", "`severity` is written twice; first in"),
        ("reports: 12", "reports: 99999999999", "`reports` is a whole number from 0 to"),
        ("absolute: true", 'absolute: "true"', "`absolute` is true or false"),
        ("absolute: true", "absolute: maybe", "`absolute` is true or false, not 'maybe'"),
        ("absolute: true", "absolute: [true]", "`absolute` has to be true or false"),
        ("tags: [one, 2, yes]", "tags: [[one]]", "`tags` is a list of texts, and this is a list"),
        ("- name: redis", "- [redis]\n        - name: x", "`application` has to be a mapping"),
        ("title: Everything at once", "title: {a: b}", "`title` has to be text"),
        ("id: 4hje4sHmZW2GnSxijP6TQh", "id: 0000000000000", "`metadata.id` cannot be '0000"),
        ("hash: mnRBzQ9fdJZqXQ6xRAv2tT", "hash: abc", "`metadata.hash` cannot be 'abc'"),
        ("generation: 3", "generation: three", "`generation` is a whole number, not 'three'"),
    ],
)
def test_a_value_that_does_not_fit_is_named(old: str, new: str, problem: str) -> None:
    found = problems(EVERYTHING.replace(old, new, 1))

    assert [each for each in found if problem in each], found


def test_a_rule_that_is_no_mapping_or_has_no_name_is_refused() -> None:
    assert problems("rules: [x]") == ["1:9 `rule` has to be a mapping, and this is 'x'"]
    assert problems(f"rules: [{{cre: , rule: {{{SMALLEST}}}}}]") == [
        "1:15 `id` is missing in `cre`"
    ]
    assert [each.partition(" ")[2] for each in problems("rules: [{}]")] == [
        "`cre` is missing in `rule`",
        "`rule` is missing in `rule`",
    ]


def test_a_problem_is_said_with_the_text_cut_to_a_line() -> None:
    found = only_problem(f"set: {{event: {{source: a}}, match: [x], {'k' * 500}: 1}}")

    assert len(found) < 120
