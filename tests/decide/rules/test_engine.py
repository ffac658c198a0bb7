"""The engine over blocks of lines: sources, clocks, limits, events."""

from __future__ import annotations

import numpy as np
import pytest

from decide.rules.reference import Forbidden, LetterRule
from decide.rules.tiny_rules import block_of, node_of, rule_of, term
from steward.decide.rules.engine import EngineLimits, RuleEngine
from steward.model.event import Event
from steward.model.rules import Clause, Extract, Mode, Rule, RuleNode, Stream, Term

BOTH = pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.value)
SINGLE = LetterRule(ordered=False, terms=("A",), window=0)
PAIR = LetterRule(ordered=True, terms=("A", "B"), window=10)
ALONE = LetterRule(ordered=False, terms=("A",), window=0, forbidden=(Forbidden("N", window=10),))


def rule(wanted: LetterRule, name: str = "R-0001", *, source: str = "letters") -> Rule:
    return rule_of(node_of(wanted, source=source), name)


@BOTH
def test_a_hit_names_its_lines_and_whose_they_are(mode: Mode) -> None:
    engine = RuleEngine([rule(PAIR)], mode=mode)
    stream = Stream(name="a.log", entity="n01")

    hits = engine.read(block_of([(1, "the <A>"), (2, "x"), (3, "the <B>")], stream, first=7))

    (hit,) = hits
    assert (hit.rule, hit.t_ns, hit.fired_ns, hit.entity) == ("R-0001", 1, 3, "n01")
    assert [(i.text, i.line, i.stream, i.t_ns) for i in hit.items] == [
        ("the <A>", 7, "a.log", 1),
        ("the <B>", 9, "a.log", 3),
    ]


@BOTH
def test_state_outlives_blocks_but_not_streams(mode: Mode) -> None:
    engine = RuleEngine([rule(PAIR)], mode=mode)
    one, two = Stream(name="one"), Stream(name="two")

    assert engine.read(block_of([(1, "<A>")], one)) == []
    assert engine.read(block_of([(2, "<B>")], two)) == []
    assert len(engine.read(block_of([(3, "<B>")], one))) == 1


def test_each_entity_of_one_stream_has_its_own_state() -> None:
    engine = RuleEngine([rule(PAIR)])

    assert engine.read(block_of([(1, "<A>")], Stream(name="s", entity="n01"))) == []
    assert engine.read(block_of([(2, "<B>")], Stream(name="s", entity="n02"))) == []


@pytest.mark.parametrize(
    ("source", "respect", "found"),
    [("letters", True, 1), ("", True, 1), ("other", True, 0), ("other", False, 1)],
)
def test_a_rule_looks_at_its_source_and_at_unknown_ones(
    source: str, found: int, *, respect: bool
) -> None:
    engine = RuleEngine([rule(SINGLE)], respect_sources=respect)

    hits = engine.read(block_of([(1, "<A>")], Stream(name="s", source=source)))

    assert len(hits) == found


def test_a_rule_without_a_source_looks_at_all() -> None:
    engine = RuleEngine([rule(SINGLE, source="")])

    assert len(engine.read(block_of([(1, "<A>")], Stream(name="s", source="any")))) == 1


@BOTH
def test_hits_come_in_the_order_in_which_they_were_certain(mode: Mode) -> None:
    engine = RuleEngine([rule(ALONE, "R-0001"), rule(SINGLE, "R-0002")], mode=mode)

    hits = engine.read(block_of([(1, "<A>"), (5, "<A>"), (12, "x"), (14, "<A>"), (30, "x")]))

    assert [(hit.rule, hit.fired_ns) for hit in hits] == [
        ("R-0002", 1),
        ("R-0002", 5),
        ("R-0001", 12),
        ("R-0002", 14),
        ("R-0001", 30),
        ("R-0001", 30),
    ]


@BOTH
def test_the_line_that_ends_a_wait_may_be_one_that_is_looked_for(mode: Mode) -> None:
    engine = RuleEngine([rule(ALONE)], mode=mode)

    hits = engine.read(block_of([(1, "<A>"), (12, "<A>"), (13, "x")]))

    assert [(hit.t_ns, hit.fired_ns) for hit in hits] == [(1, 12)]


@BOTH
def test_time_alone_lets_what_waits_fire(mode: Mode) -> None:
    engine = RuleEngine([rule(ALONE)], mode=mode)
    engine.read(block_of([(1, "<A>")]))

    assert engine.tick(11) == []
    assert [hit.fired_ns for hit in engine.tick(15)] == [15]
    assert engine.finish() == []


@BOTH
def test_at_the_end_what_waits_fires_at_the_moment_it_is_certain(mode: Mode) -> None:
    engine = RuleEngine([rule(ALONE)], mode=mode)
    engine.read(block_of([(1, "<A>"), (3, "<A>")]))

    assert [hit.fired_ns for hit in engine.finish()] == [12, 14]


@BOTH
def test_clocks_that_run_backwards_are_counted(mode: Mode) -> None:
    engine = RuleEngine(
        [rule(LetterRule(ordered=False, terms=("A", "B"), window=10)), rule(SINGLE, "S")], mode=mode
    )

    hits = engine.read(block_of([(5, "<A>"), (3, "<B>"), (2, "x"), (1, "<A>")]))

    assert engine.counts.late == 3
    whole = [hit for hit in hits if hit.rule == "R-0001"]
    assert len(whole) == (mode is Mode.STRICT)
    assert [hit.t_ns for hit in hits if hit.rule == "S"] == [5, 1]  # no window: any time will do


HOUR = 3600 * 10**9


def test_a_clock_that_was_set_back_does_not_blind_strict_rules() -> None:
    engine = RuleEngine([rule(PAIR), rule(ALONE, "N")], mode=Mode.STRICT)
    engine.read(block_of([(5 * HOUR, "<A>")]))
    past = [(HOUR + number, "x") for number in range(60)]

    certain = engine.read(block_of([*past, (HOUR + 100, "<A>"), (HOUR + 101, "<B>")]))

    pairs = [[item.t_ns for item in hit.items] for hit in certain if hit.rule == "R-0001"]
    assert pairs == [[HOUR + 100, HOUR + 101]]
    assert [hit.t_ns for hit in certain if hit.rule == "N"] == [5 * HOUR]  # nothing can deny it now
    assert engine.counts.set_back == 1


def test_a_few_stragglers_do_not_make_it_forget_what_has_begun() -> None:
    engine = RuleEngine([rule(PAIR)], mode=Mode.STRICT)
    now = 5 * HOUR
    engine.read(block_of([(now, "<A>")]))
    for number in range(3):
        engine.read(block_of([(number, "x")] * 20))
        engine.read(block_of([(now + 1, "x")]))

    assert len(engine.read(block_of([(now + 2, "<B>")]))) == 1
    assert engine.counts.set_back == 0


def test_an_engine_begins_anew_with_the_same_rules() -> None:
    engine = RuleEngine([rule(PAIR)])
    engine.read(block_of([(1, "<A>")]))

    anew = engine.fresh()

    assert anew.read(block_of([(2, "<B>")])) == []
    assert len(engine.read(block_of([(2, "<B>")]))) == 1


def test_an_empty_block_changes_nothing() -> None:
    engine = RuleEngine([rule(PAIR)])

    assert engine.read(block_of([])) == []
    assert engine.counts.late == 0


def test_of_an_endless_line_only_the_beginning_is_kept() -> None:
    engine = RuleEngine([rule(SINGLE)], limits=EngineLimits(text_bytes=8))

    (hit,) = engine.read(block_of([(1, "<A>" + "y" * 10**6)]))

    assert hit.items[0].text == "<A>yyyyy …"
    assert engine.counts.cut == 1


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    engine = RuleEngine([rule(SINGLE)])
    block = block_of([(1, "<A>?")])
    broken = type(block)(
        **{name: getattr(block, name) for name in block.__slots__ if name != "buffer"},
        buffer=block.buffer.replace(b"?", b"\xff"),
    )

    assert engine.read(broken)[0].items[0].text == "<A>\ufffd"


@BOTH
def test_a_rule_that_matches_everything_stays_bounded(mode: Mode) -> None:
    hot = LetterRule(ordered=True, terms=("A", "B"), window=10**18)
    engine = RuleEngine([rule(hot)], mode=mode, limits=EngineLimits(events_per_state=100))

    for first in range(0, 10_000, 1000):
        engine.read(block_of([(first + i, "<A>") for i in range(1000)]))

    assert engine.counts.evicted == 9900
    assert len(engine.read(block_of([(10_000, "<B>")]))) == 1


@BOTH
def test_too_many_entities_are_forgotten_least_recent_first(mode: Mode) -> None:
    hot = LetterRule(ordered=True, terms=("A", "B"), window=10**18)
    engine = RuleEngine([rule(hot)], mode=mode, limits=EngineLimits(entities=10))

    for number in range(100):
        engine.read(block_of([(1, "<A>")], Stream(name="s", entity=f"n{number}")))

    assert (engine.counts.evicted, engine.counts.evicted_states) == (90, 90)
    assert engine.read(block_of([(2, "<B>")], Stream(name="s", entity="n0"))) == []
    assert len(engine.read(block_of([(2, "<B>")], Stream(name="s", entity="n99")))) == 1


def test_all_that_is_remembered_together_is_bounded_too() -> None:
    hot = LetterRule(ordered=True, terms=("A", "B"), window=10**18)
    engine = RuleEngine([rule(hot)], limits=EngineLimits(events=50))

    for number in range(100):
        block = block_of([(i, "<A>") for i in range(10)], Stream(name="s", entity=f"n{number}"))
        engine.read(block)

    assert engine.counts.evicted == 950
    assert engine.counts.evicted_states == 95


def test_what_holds_nothing_is_not_counted_as_forgotten() -> None:
    engine = RuleEngine([rule(PAIR)], limits=EngineLimits(entities=2))

    for number in range(10):
        engine.read(block_of([(1, "<A>"), (2, "<B>")], Stream(name=f"{number}")))

    assert (engine.counts.evicted, engine.counts.evicted_states) == (0, 0)


def test_values_are_read_from_lines() -> None:
    gpu = Extract(name="gpu", kind="regex", text=r"gpu (\d+)")
    pid = Extract(name="pid", kind="regex", text=r"pid (\d+)")
    root = RuleNode(
        kind="set",
        clauses=(
            Clause(what=term("A"), extracts=(gpu, pid)),
            Clause(what=Term(kind="value", text="gpu"), extracts=(gpu,)),
            Clause(what=term("C")),
        ),
        window_ns=10,
        source="letters",
    )
    engine = RuleEngine([rule_of(root)])

    (hit,) = engine.read(block_of([(1, "<A> gpu 3"), (2, "<C>")]))

    assert [dict(item.extracted) for item in hit.items] == [{"gpu": "3"}, {"gpu": "3"}, {}]


def test_events_are_lines_that_say_kind_subject_and_text() -> None:
    start = Clause(what=Term(kind="value", text="job.started"))
    stop = Clause(what=Term(kind="regex", text="job.failed job:.*out of memory"))
    root = RuleNode(
        kind="sequence", clauses=(start, stop), window_ns=10**12, source="steward.event"
    )
    engine = RuleEngine([rule_of(root)])

    def event(t_s: float, kind: str, subject: str, text: str) -> Event:
        return Event(t_s=t_s, kind=kind, subject=subject, text=text, source="test")

    assert engine.happen([]) == []
    assert engine.happen([event(1.5, "job.started", "job:1", "")]) == []
    hits = engine.happen(
        [
            event(2, "job.failed", "job:2", "out of memory"),
            event(3, "job.failed", "job:1", "out of\nmemory; out of memory"),
        ]
    )

    assert [(hit.entity, hit.t_ns, hit.fired_ns) for hit in hits] == [
        ("job:1", 1_500_000_000, 3_000_000_000)
    ]


def test_a_line_of_ten_thousand_lines_costs_no_matcher_anything() -> None:
    engine = RuleEngine([rule(PAIR), rule(ALONE, "R-0002")])
    engine.read(block_of([(i, "x") for i in range(10_000)]))

    assert engine.read(block_of([(10_001, "x")])) == []
    assert len(list(engine._reader._streams)) == 1
    assert not next(iter(engine._reader._streams)).matchers


def test_waiting_for_times_that_have_changed_does_not_pile_up() -> None:
    engine = RuleEngine([rule(ALONE)])

    for t in range(0, 3000, 3):
        engine.read(block_of([(t, "<A>"), (t + 1, "<N>")]))

    (state,) = engine._reader._streams
    assert len(state.dues) <= 1


def test_times_may_be_as_early_and_as_late_as_numbers_go() -> None:
    engine = RuleEngine([rule(PAIR)])
    block = block_of([(-(2**61), "<A>"), (2**61, "<B>")])

    assert engine.read(block) == []
    assert engine.counts.late == 0
    assert block.t_ns.dtype == np.int64


def test_clocks_that_are_behind_are_given_the_time_they_need() -> None:
    engine = RuleEngine([rule(ALONE)])
    engine.read(block_of([(1, "<A>")], Stream(name="slow")))
    engine.read(block_of([(101, "<A>")], Stream(name="right")))

    early = engine.tick(112, behind_ns={"slow": 105})
    late = engine.tick(117, behind_ns={"slow": 105})

    assert [hit.items[0].stream for hit in early] == ["right"]
    assert [(hit.items[0].stream, hit.fired_ns) for hit in late] == [("slow", 12)]


def test_streams_that_are_expected_may_be_behind() -> None:
    inner = [node_of(SINGLE, source=each) for each in ("one", "two")]
    clauses = tuple(Clause(what=each) for each in inner)
    joined = RuleNode(kind="set", clauses=clauses, window_ns=10)
    engine = RuleEngine([rule_of(joined, "R-0002")])
    engine.expect(["a", "b"])
    engine.read(block_of([(1, "<A>")], Stream(name="a", source="one")))

    assert engine.tick(100, behind_ns={"b": 95}) == []
    assert len(engine.read(block_of([(6, "<A>")], Stream(name="b", source="two")))) == 1


def test_of_a_sifted_block_only_times_and_what_matters_are_kept() -> None:
    lines = [(t, "x" * 200) for t in range(100)] + [(200, "<A> and more"), (201, "<A><B>")]
    engine = RuleEngine([rule(PAIR)])

    prefiltered = engine.prefilter("letters")(
        block_of(lines, Stream(name="a.log", source="letters"))
    )

    assert prefiltered.texts == [b"<A> and more", b"<A><B>"]
    assert (prefiltered.found.entry.tolist(), prefiltered.place.tolist()) == (
        [100, 101, 101],
        [0, 1, 1],
    )
    assert prefiltered.read_bytes > 20_000
    assert prefiltered.held_bytes < 2_000
    assert [hit.rule for hit in engine.read_prefiltered(prefiltered)] == ["R-0001"]
