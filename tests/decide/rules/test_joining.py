"""Rules over several streams: intervals, order, joins, what must not happen, blame."""

from __future__ import annotations

import itertools

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.tiny_rules import block_of, rule_of, term
from steward.decide.rules.engine import TELEMETRY, EngineLimits, RuleEngine
from steward.decide.rules.joining import attributes_of
from steward.decide.rules.metric import MetricWatch, compile_metric
from steward.model.rules import (
    Clause,
    Extract,
    Hit,
    Item,
    MetricTerm,
    Mode,
    Negation,
    RuleNode,
    Stream,
    Term,
)

S = 10**9


def leaf(*letters: str, source: str, window: int = 0, **more: object) -> RuleNode:
    kind = "set" if len(letters) == 1 else "sequence"
    clauses = tuple(Clause(what=term(letter)) for letter in letters)
    return RuleNode(kind=kind, clauses=clauses, source=source, window_ns=window, **more)  # type: ignore[arg-type]


def above(
    kind: str, *nodes: RuleNode | MetricTerm | Term, window: int = 100, **more: object
) -> RuleNode:
    clauses = tuple(Clause(what=node) for node in nodes)
    return RuleNode(kind=kind, clauses=clauses, window_ns=window, **more)  # type: ignore[arg-type]


def feed(engine: RuleEngine, source: str, *lines: tuple[int, str], **more: object) -> list[Hit]:
    name = str(more.pop("name", source))
    stream = Stream(name=name, source=source, **more)  # type: ignore[arg-type]
    return engine.read(block_of(lines, stream))


def times(hits: list[Hit]) -> list[tuple[int, ...]]:
    return [tuple(item.t_ns for item in hit.items) for hit in hits]


A = leaf("A", source="one", origin=True)
B = leaf("B", source="two")


def test_a_set_over_two_sources_fires_whichever_comes_first() -> None:
    for first, second in (("one", "two"), ("two", "one")):
        engine = RuleEngine([rule_of(above("set", A, B))])
        letter = {"one": "<A>", "two": "<B>"}

        assert feed(engine, first, (5, letter[first])) == []
        (hit,) = feed(engine, second, (7, letter[second]))

        assert hit.fired_ns == 7
        assert [item.text for item in hit.items] == ["<A>", "<B>"]


def test_a_sequence_over_two_sources_asks_for_the_order_of_times_not_of_arrival() -> None:
    engine = RuleEngine([rule_of(above("sequence", A, B))])
    feed(engine, "two", (7, "<B>"))

    assert times(feed(engine, "one", (5, "<A>"))) == [(5, 7)]
    assert feed(engine, "one", (8, "<A>")) == []


def test_streams_that_were_announced_are_waited_for() -> None:
    engine = RuleEngine([rule_of(above("sequence", A, B))])
    engine.expect(["one", "two"])

    assert feed(engine, "two", (7, "<B>"), (90, "x")) == []
    assert times(feed(engine, "one", (5, "<A>"), (20, "x"))) == [(5, 7)]
    assert feed(engine, "one", (30, "<A>")) == []
    assert feed(engine, "two", (100, "<B>"), (101, "x")) == []
    assert times(engine.end("one")) == [(30, 100)]


def test_a_window_runs_from_the_earliest_first_to_the_latest_last() -> None:
    long = leaf("A", "C", source="one", window=50, origin=True)
    engine = RuleEngine([rule_of(above("set", long, B, window=20))])

    assert feed(engine, "one", (0, "<A>"), (10, "<C>")) == []
    assert feed(engine, "two", (21, "<B>")) == []
    assert feed(engine, "one", (21, "<A>"), (25, "<C>")) != []


def test_in_a_sequence_one_has_ended_before_the_next_begins() -> None:
    long = leaf("B", "C", source="two", window=50)
    engine = RuleEngine([rule_of(above("sequence", A, long))])

    feed(engine, "one", (10, "<A>"))
    assert feed(engine, "two", (8, "<B>"), (12, "<C>")) == []
    assert times(feed(engine, "two", (13, "<B>"), (14, "<C>"))) == [(10, 13, 14)]


def test_a_later_beginning_is_tried_when_the_first_takes_too_long() -> None:
    long = leaf("A", "C", source="one", window=50, origin=True)
    engine = RuleEngine([rule_of(above("sequence", long, B, window=20))])

    feed(engine, "one", (0, "<A>"), (14, "<A>"), (20, "<C>"), (21, "<C>"))

    assert times(feed(engine, "two", (30, "<B>"))) == [(14, 21, 30)]


def test_counts_of_nodes_are_honoured() -> None:
    twice = RuleNode(
        kind="sequence", clauses=(Clause(what=A, count=2), Clause(what=B)), window_ns=50
    )
    engine = RuleEngine([rule_of(twice)])

    feed(engine, "one", (1, "<A>"))
    assert feed(engine, "two", (2, "<B>")) == []
    feed(engine, "one", (3, "<A>"))
    assert times(feed(engine, "two", (4, "<B>"))) == [(1, 3, 4)]


def test_the_origin_gives_time_and_entity() -> None:
    blamed = leaf("B", source="two", origin=True)
    engine = RuleEngine([rule_of(above("sequence", leaf("A", source="one"), blamed))])
    feed(engine, "one", (1, "<A>"), entity="n01")

    (hit,) = feed(engine, "two", (2, "<B>"), entity="n02")

    assert (hit.t_ns, hit.entity) == (2, "n02")


def test_without_an_origin_the_first_that_is_known_takes_the_blame() -> None:
    engine = RuleEngine([rule_of(above("sequence", leaf("A", source="one"), B))])
    feed(engine, "one", (1, "<A>"))

    (hit,) = feed(engine, "two", (2, "<B>"), entity="n02")

    assert (hit.t_ns, hit.entity) == (1, "n02")


def test_nodes_may_lie_inside_one_another() -> None:
    inner = above("set", A, B, window=10)
    engine = RuleEngine([rule_of(above("sequence", inner, leaf("C", source="three"), window=50))])
    feed(engine, "two", (1, "<B>"))
    feed(engine, "one", (2, "<A>"))

    (hit,) = feed(engine, "three", (3, "<C>"))

    assert [item.t_ns for item in hit.items] == [2, 1, 3]
    assert hit.t_ns == 2


def test_conditions_are_joined_on_what_they_share() -> None:
    engine = RuleEngine([rule_of(above("sequence", A, B, correlations=("host",)))])

    feed(engine, "one", (1, "<A>"), name="a1", entity="n01")
    feed(engine, "one", (2, "<A>"), name="a2", attributes={"host": "n02"})
    feed(engine, "one", (3, "<A>"), name="a3", entity="job:5")

    (hit,) = feed(engine, "two", (4, "<B>"), name="b2", entity="n02/gpu1")
    assert hit.items[0].t_ns == 2
    assert dict(hit.joined_on) == {"host": "n02"}
    assert engine.counts.unjoined == 1


def test_a_node_of_one_source_can_be_joined_too() -> None:
    gpu = Extract(name="gpu", kind="regex", text=r"gpu (\d+)")
    root = RuleNode(
        kind="sequence",
        clauses=(
            Clause(what=term("A"), extracts=(gpu,)),
            Clause(what=term("B"), extracts=(gpu,)),
        ),
        window_ns=100,
        source="one",
        correlations=("gpu",),
    )
    lines = [(1, "<A> gpu 1"), (2, "<A> gpu 2"), (3, "<B> gpu 2"), (3, "<A> <B> gpu 3"), (4, "<B>")]
    engine = RuleEngine([rule_of(root)])

    (hit,) = feed(engine, "one", *lines, entity="n01")

    assert [item.t_ns for item in hit.items] == [2, 3]
    assert dict(hit.joined_on) == {"gpu": "n01/gpu2"}
    assert engine.counts.unjoined == 1


def test_preq_knows_no_correlations() -> None:
    root = RuleNode(
        kind="sequence",
        clauses=(Clause(what=term("A")), Clause(what=term("B"))),
        window_ns=100,
        source="one",
        correlations=("gpu",),
    )

    assert (
        len(feed(RuleEngine([rule_of(root)], mode=Mode.PREQ), "one", (1, "<A>"), (2, "<B>"))) == 1
    )
    assert feed(RuleEngine([rule_of(root)]), "one", (1, "<A>"), (2, "<B>")) == []


def test_what_must_not_happen_elsewhere_is_waited_for() -> None:
    negation = Negation(what=leaf("N", source="two"), window_ns=10)
    root = RuleNode(kind="set", clauses=(Clause(what=A),), negations=(negation,))
    engine = RuleEngine([rule_of(root)])

    feed(engine, "one", (1, "<A>"))
    assert feed(engine, "two", (11, "<N>")) == []
    assert feed(engine, "one", (20, "<A>")) == []
    (hit,) = feed(engine, "one", (40, "x"))
    assert (hit.t_ns, hit.fired_ns) == (20, 31)


def test_something_forbidden_that_takes_its_time_is_waited_for_as_well() -> None:
    slow = leaf("N", "M", source="two", window=30)
    negation = Negation(what=slow, window_ns=10)
    root = RuleNode(kind="set", clauses=(Clause(what=A),), negations=(negation,))
    engine = RuleEngine([rule_of(root)])

    feed(engine, "one", (1, "<A>"))
    assert feed(engine, "one", (35, "x")) == []  # it may have begun at 11 and end at 41
    assert feed(engine, "two", (10, "<N>"), (40, "<M>")) == []
    assert feed(engine, "one", (100, "x")) == []


def test_a_node_with_something_forbidden_reports_late_and_counts_by_its_own_time() -> None:
    quiet = leaf("A", source="one", negations=(Negation(what=term("N"), window_ns=50),))
    engine = RuleEngine([rule_of(above("sequence", quiet, B, window=20))])

    feed(engine, "one", (1, "<A>"))
    assert feed(engine, "two", (10, "<B>"), (30, "<B>")) == []
    (hit,) = feed(engine, "one", (52, "x"))
    assert times([hit]) == [(1, 10)]
    assert hit.fired_ns == 52


def test_terms_may_stand_beside_nodes() -> None:
    mixed = above("sequence", term("A"), leaf("B", source="two"), source="one")
    engine = RuleEngine([rule_of(mixed)])

    feed(engine, "one", (1, "<A>"))

    assert times(feed(engine, "two", (2, "<B>"))) == [(1, 2)]


BUSY = MetricTerm(expr="gpu_busy_share < 0.3", for_s=20.0)


def frame(rows: list[tuple[float, str, float]]) -> pl.DataFrame:
    schema = {"t_s": pl.Float64, "entity": pl.String, "gpu.busy_share": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def idle(entity: str, *, since: float, until: float) -> list[tuple[float, str, float]]:
    return [(float(t), entity, 0.1) for t in range(int(since), int(until) + 1, 5)]


def test_a_condition_on_series_is_a_rule_of_its_own_for_each_entity() -> None:
    engine = RuleEngine([rule_of(above("set", BUSY, window=0))])

    hits = engine.sample(frame(idle("n01/gpu0", since=0, until=30)))

    assert engine.needed_metrics == {"gpu.busy_share"}
    assert engine.joins_streams
    assert engine.sample(frame([])) == []
    assert [(hit.entity, hit.t_ns) for hit in hits] == [("n01/gpu0", 20 * S)]
    assert hits[0].items[0].since_ns == 0
    assert engine.sample(frame(idle("n01/gpu0", since=35, until=60))) == []


def test_conditions_on_series_alone_are_kept_apart_by_entity() -> None:
    low = MetricTerm(expr="gpu_busy_share < 0.3")
    lower = MetricTerm(expr="gpu_busy_share < 0.2")
    engine = RuleEngine([rule_of(above("set", low, lower, window=10 * S))])

    assert engine.sample(frame([(0, "n01/gpu0", 0.25), (1, "n01/gpu1", 0.25)])) == []
    (hit,) = engine.sample(frame([(2, "n01/gpu1", 0.15)]))
    assert hit.entity == "n01/gpu1"


def test_series_and_lines_are_joined_on_the_gpu() -> None:
    gpu = Extract(name="gpu", kind="regex", text=r"cuda:(\d+)")
    line = RuleNode(
        kind="set",
        clauses=(Clause(what=term("A"), extracts=(gpu,)),),
        source="one",
        origin=True,
    )
    rule = rule_of(above("sequence", line, BUSY, window=60 * S, correlations=("gpu",)))
    engine = RuleEngine([rule])
    engine.expect([TELEMETRY, "one"])

    feed(engine, "one", (2 * S, "<A> on cuda:1"), (100 * S, "x"), entity="n01")
    found = engine.sample(
        frame(idle("n01/gpu0", since=5, until=40) + idle("n01/gpu1", since=5, until=40))
    )

    (hit,) = found
    assert dict(hit.joined_on) == {"gpu": "n01/gpu1"}
    assert [item.t_ns for item in hit.items] == [2 * S, 25 * S]


def test_a_condition_on_series_may_forbid() -> None:
    negation = Negation(what=BUSY, window_ns=30 * S)
    root = RuleNode(
        kind="set", clauses=(Clause(what=A),), negations=(negation,), correlations=("host",)
    )
    for entity, expected in (("n01/gpu0", 0), ("n02/gpu0", 1)):
        engine = RuleEngine([rule_of(root)])
        feed(engine, "one", (10 * S, "<A>"), entity="n01")

        hits = engine.sample(frame(idle(entity, since=5, until=100)))

        assert len(hits + engine.finish()) == expected


def test_time_alone_moves_series_and_joins() -> None:
    negation = Negation(what=B, window_ns=10)
    root = RuleNode(kind="set", clauses=(Clause(what=A),), negations=(negation,))
    engine = RuleEngine([rule_of(root), rule_of(above("set", BUSY, window=0), "R-0002")])
    engine.expect(["one", "two"])
    feed(engine, "one", (1, "<A>"))

    assert engine.tick(5) == []
    assert [hit.fired_ns for hit in engine.tick(500)] == [12]


def test_silence_is_noticed_when_time_passes() -> None:
    silent = MetricTerm(expr="absent_over_time(gpu_busy_share[60s])")
    engine = RuleEngine([rule_of(above("set", silent, window=0))])
    engine.sample(frame(idle("n01/gpu0", since=0, until=30)))

    hits = engine.tick(600 * S)

    assert [hit.entity for hit in hits] == ["n01/gpu0"]


def test_values_joined_on_are_bounded_and_the_least_recent_are_forgotten() -> None:
    rule = rule_of(above("sequence", A, B, correlations=("host",)))
    engine = RuleEngine([rule], limits=EngineLimits(states_per_rule=10))

    for number in range(100):
        feed(engine, "one", (number, "<A>"), entity=f"n{number}")

    assert (engine.counts.evicted, engine.counts.evicted_states) == (90, 90)
    assert feed(engine, "two", (100, "<B>"), entity="n0") == []
    assert len(feed(engine, "two", (100, "<B>"), entity="n99")) == 1


def test_things_joined_are_bounded_together() -> None:
    rule = rule_of(above("sequence", A, B, correlations=("host",), window=10**9))
    engine = RuleEngine([rule], limits=EngineLimits(events=20))

    for t, number in itertools.product(range(10), range(5)):
        feed(engine, "one", (10 * t + number, "<A>"), entity=f"n{number}", name=f"{number}")

    assert engine.counts.evicted >= 30
    assert engine.counts.evicted_states >= 3


def test_times_to_come_back_at_are_forgotten_with_what_waits() -> None:
    host = Extract(name="host", kind="regex", text=r"on (n\d+)")
    negation = Negation(what=term("N"), window_ns=10**6)
    looked_for = Clause(what=term("A"), extracts=(host,))
    root = RuleNode(
        kind="set",
        clauses=(looked_for,),
        negations=(negation,),
        correlations=("host",),
        source="one",
    )
    engine = RuleEngine([rule_of(root)], limits=EngineLimits(states_per_rule=10))

    feed(engine, "one", *((number, f"<A> on n{number}") for number in range(3000)))

    assert engine.counts.evicted_states == 2990
    assert len(engine._queue._dues) < 1100
    assert len(engine.finish()) == 10


def test_a_stream_that_does_not_come_is_not_waited_for_without_end() -> None:
    engine = RuleEngine([rule_of(above("sequence", A, B))], limits=EngineLimits(events=10))
    engine.expect(["one", "two", "never"])

    feed(engine, "one", *((t, "<A>") for t in range(20)))

    assert engine.counts.hurried == 10
    assert len(feed(engine, "two", *((t, "<B>") for t in range(30, 50)))) > 0


@settings(max_examples=60, deadline=None)
@given(
    a=st.lists(st.integers(0, 60), max_size=8),
    b=st.lists(st.integers(0, 60), max_size=8),
    n=st.lists(st.integers(0, 60), max_size=3),
    order=st.permutations(["one", "two", "three"]),
)
def test_announced_streams_may_be_read_in_any_order(
    a: list[int], b: list[int], n: list[int], order: list[str]
) -> None:
    negation = Negation(what=leaf("N", source="three"), window_ns=3)
    root = RuleNode(
        kind="sequence",
        clauses=(Clause(what=A), Clause(what=B)),
        negations=(negation,),
        window_ns=20,
    )
    lines = {"one": (a, "<A>"), "two": (b, "<B>"), "three": (n, "<N>")}

    def run(streams: list[str]) -> list[tuple[int, ...]]:
        engine = RuleEngine([rule_of(root)])
        engine.expect(streams)
        hits: list[Hit] = []
        for source in streams:
            at, text = lines[source]
            hits += feed(engine, source, *((t, text) for t in sorted(at)))
            hits += engine.end(source)
        return times(hits + engine.finish())

    assert run(order) == run(["one", "two", "three"])


def test_a_set_of_one_node_may_last_as_long_as_that_node() -> None:
    long = leaf("A", "C", source="one", window=50, origin=True)
    wrapped = above("set", above("set", long, window=0), window=0)
    negation = Negation(what=leaf("B", source="two"), window_ns=10)
    root = RuleNode(kind="set", clauses=wrapped.clauses, negations=(negation,))
    engine = RuleEngine([rule_of(root)])

    hits = feed(engine, "one", (5, "<A>"), (45, "<C>"), (300, "x")) + engine.finish()

    assert times(hits) == [(5, 45)]


@pytest.mark.parametrize(
    ("entity", "attributes", "text", "extracted", "expected"),
    [
        ("n01", {}, "", {}, {"host": "n01"}),
        ("n01/gpu3", {}, "", {}, {"host": "n01", "gpu": "n01/gpu3"}),
        ("n01/gpu3/mig0@812", {}, "", {}, {"host": "n01", "gpu": "n01/gpu3", "job": "812"}),
        ("job:812", {}, "", {}, {"job": "812"}),
        ("", {"container": "c1", "gpu": "2"}, "", {}, {"container": "c1", "gpu": "gpu2"}),
        ("n01", {}, "[rank5]: x", {}, {"host": "n01", "rank": "5"}),
        (
            "n01",
            {},
            "",
            {"gpu": "cuda:1"},
            {
                "host": "n01",
                "gpu": "n01/gpu1",
            },
        ),
        ("n01", {}, "", {"gpu": "GPU-abc"}, {"host": "n01", "gpu": "GPU-abc"}),
        (
            "",
            {},
            "",
            {"node": "n7", "job_id": "9"},
            {"node": "n7", "job_id": "9", "host": "n7", "job": "9"},
        ),
    ],
)
def test_what_a_thing_can_be_joined_on(
    entity: str,
    attributes: dict[str, str],
    text: str,
    extracted: dict[str, str],
    expected: dict[str, str],
) -> None:
    item = Item(t_ns=0, text=text, entity=entity, extracted=extracted)

    assert attributes_of(item, Stream(name="s", attributes=attributes)) == expected


CHECKPOINT = MetricTerm(expr='steward_phase{phase="checkpoint"}')
IDLE = MetricTerm(expr="gpu_busy_share < 0.3", for_s=60.0, origin=True)


def idle_unless_checkpointing() -> RuleEngine:
    negation = Negation(what=CHECKPOINT, window_ns=60 * S, slide_ns=-60 * S)
    clauses = (Clause(what=IDLE),)
    root = RuleNode(kind="set", clauses=clauses, negations=(negation,), correlations=("host",))
    return RuleEngine([rule_of(root)])


def phase(entity: str, *, since: int, until: int, ends: bool = True) -> pl.DataFrame:
    times = [float(t) for t in range(since, until, 30)]
    values = [1.0] * len(times)
    if ends:
        times, values = [*times, float(until)], [*values, float("nan")]
    columns = {"t_s": times, "entity": [entity] * len(times), "phase:checkpoint": values}
    return pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("since", "until", "ends", "found"),
    [
        (100, 2000, True, 0),  # began long before, ends long after
        (100, 1000, False, 0),  # began long before, and still goes on
        (100, 600, True, 1),  # over before the GPU was idle
        (1010, 1030, True, 0),  # somewhere within
        (1100, 1200, True, 1),  # began after it was found
    ],
)
@pytest.mark.parametrize("piece_s", [10, 10_000])
def test_what_is_forbidden_denies_for_as_long_as_it_lasts(
    since: int, until: int, *, ends: bool, found: int, piece_s: int
) -> None:
    engine = idle_unless_checkpointing()
    rows = pl.concat(
        [
            frame(idle("n01/gpu0", since=1000, until=1100)),
            phase("n01", since=since, until=until, ends=ends),
        ],
        how="diagonal",
    ).sort("t_s")

    hits: list[Hit] = []
    for _, part in rows.group_by(pl.col("t_s") // piece_s, maintain_order=True):
        hits += engine.sample(part)
    hits += engine.finish()

    assert len(hits) == found


def test_what_is_forbidden_is_not_believed_for_ever_when_it_falls_silent() -> None:
    negation = Negation(what=BUSY, window_ns=10 * S)
    root = RuleNode(
        kind="set", clauses=(Clause(what=A),), negations=(negation,), correlations=("host",)
    )
    engine = RuleEngine([rule_of(root)])
    engine.sample(frame(idle("n01/gpu0", since=0, until=100)))

    feed(engine, "one", (200 * S, "<A>"), entity="n01")
    assert engine.tick(250 * S) == []  # it may well hold still
    engine.tick(1000 * S)
    feed(engine, "one", (1000 * S, "<A>"), entity="n01")
    hits = engine.sample(frame([(1100.0, "n02/gpu0", 0.9)]))

    assert [hit.t_ns for hit in hits] == [1000 * S]


def test_what_is_forbidden_and_had_to_be_forgotten_is_over() -> None:
    def few(term: MetricTerm) -> MetricWatch:
        return compile_metric(term, most_series=2)

    negation = Negation(what=BUSY, window_ns=10 * S)
    root = RuleNode(
        kind="set", clauses=(Clause(what=A),), negations=(negation,), correlations=("host",)
    )
    engine = RuleEngine([rule_of(root)], compile_metric=few)
    engine.sample(frame(idle("n01/gpu0", since=0, until=100)))
    assert engine.metric_counts[0][1].evicted == 0
    others = [row for n in range(2, 6) for row in idle(f"n0{n}/gpu0", since=110, until=150)]
    engine.sample(frame(others))
    engine.sample(frame(idle("n02/gpu0", since=160, until=160)))

    feed(engine, "one", (200 * S, "<A>"), entity="n01")

    assert len(engine.tick(300 * S)) == 1
    assert engine.metric_counts[0][1].evicted == 4


def test_one_condition_may_be_looked_for_by_one_rule_and_forbidden_by_another() -> None:
    negation = Negation(what=BUSY, window_ns=10 * S)
    quiet = RuleNode(
        kind="set", clauses=(Clause(what=A),), negations=(negation,), correlations=("host",)
    )
    rules = [rule_of(quiet), rule_of(above("set", BUSY, window=0), "R-0002")]
    engine = RuleEngine(rules).fresh()
    feed(engine, "one", (10 * S, "<A>"), entity="n01")

    hits = engine.sample(frame([*idle("n01/gpu0", since=5, until=50), (55.0, "n01/gpu0", 0.9)]))
    feed(engine, "one", (100 * S, "<A>"), entity="n01")
    hits += engine.finish()

    assert sorted((hit.rule, hit.t_ns // S) for hit in hits) == [("R-0001", 100), ("R-0002", 25)]


def named(letter: str, **more: object) -> Clause:
    """Return a term that reads `node` and `pid` from lines such as `A node=gpu17 pid=3`."""
    extracts = tuple(
        Extract(name=name, kind="regex", text=rf"{name}=(\S+)") for name in ("node", "pid")
    )
    return Clause(what=term(letter), extracts=extracts, **more)  # type: ignore[arg-type]


def per_node(
    *clauses: Clause, kind: str = "sequence", limits: EngineLimits | None = None
) -> RuleEngine:
    root = RuleNode(
        kind=kind,  # type: ignore[arg-type]
        clauses=clauses,
        source="one",
        window_ns=100,
        correlations=("node",),
    )
    return RuleEngine([rule_of(root)], limits=limits)


def test_a_list_of_hosts_is_joined_host_by_host() -> None:
    engine = per_node(named("A"), named("B"))

    hits = feed(
        engine, "one", (1, "<A> node=gpu[17-19,4]"), (2, "<B> node=gpu18"), (3, "<B> node=gpu9")
    )

    assert [dict(hit.joined_on) for hit in hits] == [{"node": "gpu18"}]


def test_a_list_that_names_more_hosts_than_any_site_has_is_a_name() -> None:
    engine = per_node(named("A"), named("B"))
    many = "n[0-999999]"

    assert len(feed(engine, "one", (1, f"<A> node={many}"), (2, f"<B> node={many}"))) == 1


def test_the_node_that_a_line_names_takes_the_blame_not_the_one_that_wrote_it() -> None:
    engine = per_node(named("A"), named("B"))
    alone = RuleNode(kind="set", clauses=(named("A"),), source="one")

    (joined,) = feed(engine, "one", (1, "<A> node=gpu[1-2]"), (2, "<B> node=gpu2"), entity="ctl01")
    (single,) = feed(RuleEngine([rule_of(alone)]), "one", (1, "<A> node=gpu7"), entity="ctl01")
    (own,) = feed(RuleEngine([rule_of(alone)]), "one", (1, "<A> node=gpu7"), entity="gpu7/gpu3")

    assert (joined.entity, single.entity, own.entity) == ("gpu2", "gpu7", "gpu7/gpu3")


def test_repetitions_count_only_with_another_value_within_the_window() -> None:
    def found(*pids: tuple[int, int]) -> int:
        engine = per_node(named("A", count=3, distinct="pid"), kind="set")
        return len(feed(engine, "one", *((at, f"<A> node=n1 pid={pid}") for at, pid in pids)))

    assert found((1, 7), (2, 7), (3, 7), (4, 8)) == 0
    assert found((1, 7), (2, 7), (3, 8), (4, 9)) == 1
    assert found((1, 7), (150, 8), (160, 7), (170, 9)) == 1  # the first is out of the window


def test_values_that_were_counted_are_remembered_in_bounded_number() -> None:
    engine = per_node(
        named("A", count=3, distinct="pid"), kind="set", limits=EngineLimits(events=2)
    )
    pids = (7, 8, 9, 7)

    hits = feed(engine, "one", *((at, f"<A> node=n1 pid={pid}") for at, pid in enumerate(pids, 1)))

    assert len(hits) <= 1  # the first is forgotten, so that it counts again
