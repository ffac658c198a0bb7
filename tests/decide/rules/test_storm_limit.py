"""Storms: of one term and stream so many lines are matched in ten seconds, the rest is counted."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from decide.rules.reference import LetterRule
from decide.rules.tiny_rules import block_of, node_of, rule_of
from steward.decide.rules.engine import EngineLimits, RuleEngine
from steward.decide.rules.storm_limit import WINDOW_NS
from steward.model.rules import Clause, Mode, RuleNode, Stream, Term

START_NS = 1_767_600_000 * 10**9
MOST = 3
LINES = st.lists(
    st.tuples(st.sampled_from([0, 1, WINDOW_NS // 3, WINDOW_NS, -5]), st.sampled_from("AB")),
    min_size=1,
    max_size=60,
)
STREAM = Stream(name="letters", source="letters", entity="n1")


def one(letter: str) -> LetterRule:
    return LetterRule(ordered=False, terms=(letter,), window=0)


def engine(mode: Mode = Mode.STRICT) -> RuleEngine:
    rules = [rule_of(node_of(one(letter)), f"R-{letter}") for letter in "AB"]
    return RuleEngine(rules, mode=mode, limits=EngineLimits(storm_lines=MOST))


@given(LINES, st.sets(st.integers(1, 59)))
@example([(0, "A")] * 10, {2, 5})
@example([(0, "A")] * 10 + [(WINDOW_NS, "A")] * 5, set())
def test_the_first_lines_of_a_window_are_matched_however_a_log_is_cut(
    steps: list[tuple[int, str]], cuts: set[int]
) -> None:
    times = list(accumulate((step for step, _ in steps), initial=START_NS))[1:]
    lines = [(t_ns, f"<{word}>") for t_ns, (_, word) in zip(times, steps, strict=True)]
    ends = sorted({0, len(lines), *(each for each in cuts if each < len(lines))})
    rules = engine()

    hits = [
        hit
        for begin, end in pairwise(ends)
        for hit in rules.read(block_of(lines[begin:end], STREAM, first=begin))
    ]

    clocks = list(accumulate(times, max))
    keys = [(clock // WINDOW_NS, word) for clock, (_, word) in zip(clocks, steps, strict=True)]
    kept = [at for at, key in enumerate(keys) if keys[:at].count(key) < MOST]
    assert sorted((hit.t_ns, hit.rule) for hit in hits) == sorted(
        (times[at], f"R-{steps[at][1]}") for at in kept
    )
    assert rules.counts.suppressed == len(lines) - len(kept)


def test_each_stream_and_each_host_has_its_own_limit() -> None:
    rules = engine()
    merged = Stream(name="all.log", source="letters")
    lines = [f"<30>Nov 11 10:00:00 n{at % 2} app: <A>" for at in range(10)]

    hits = rules.read(block_of([(START_NS, "<A>")] * 10, STREAM))
    hits += rules.read(block_of([(START_NS, line) for line in lines], merged))

    assert [hit.entity for hit in hits].count("n1") == 2 * MOST
    assert [hit.entity for hit in hits].count("n0") == MOST
    assert rules.counts.suppressed == 20 - 3 * MOST


def test_preq_and_logs_without_times_have_no_limit() -> None:
    preq, numbered = engine(Mode.PREQ), engine()

    assert len(preq.read(block_of([(START_NS, "<A>")] * 10, STREAM))) == 10
    assert len(numbered.read(block_of([(at, "<A>") for at in range(10)], STREAM))) == 10
    assert preq.counts.suppressed == numbered.counts.suppressed == 0


def test_a_rule_that_needs_more_lines_gets_them() -> None:
    wanted = Term(kind="value", text="<A>")
    root = RuleNode(
        kind="set", clauses=(Clause(what=wanted, count=8),), window_ns=10**10, source="letters"
    )
    rules = RuleEngine([rule_of(root)], limits=EngineLimits(storm_lines=MOST))

    hits = rules.read(block_of([(START_NS, "<A>")] * 40, STREAM))

    assert len(hits) == 2
    assert rules.counts.suppressed == 40 - 16


def test_a_clock_that_is_set_back_begins_a_new_window() -> None:
    rules = engine()
    for day in (1, 0):
        start_ns = START_NS + day * 86_400 * 10**9
        rules.read(block_of([(start_ns, "<A>")] * 100, STREAM))

    assert rules.counts.set_back == 1
    assert rules.counts.suppressed == 2 * (100 - MOST)
