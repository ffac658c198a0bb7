"""Random rules over random streams: the engine finds what slow, obvious matchers find."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.reference import FAR, Compat, Fired, Forbidden, Line, Wanted, strict
from decide.rules.tiny_rules import block_of, node_of, rule_of
from steward.decide.rules.engine import Engine
from steward.model.rules import Hit, Mode


@st.composite
def rules(draw: st.DrawFn) -> Wanted:
    ordered = draw(st.booleans())
    terms = draw(st.lists(st.sampled_from("ABC"), min_size=1 + ordered, max_size=4))
    windows = st.integers(0, 8)
    forbidden = st.builds(
        Forbidden,
        term=st.sampled_from("NA"),
        window=st.integers(-2, 8),
        slide=st.integers(-5, 5),
        anchor=st.integers(0, len(terms) - 1),
        absolute=st.booleans(),
    )
    return Wanted(
        ordered=ordered,
        terms=tuple(terms),
        window=draw(windows) if len(terms) > 1 else 0,
        forbidden=tuple(draw(st.lists(forbidden, max_size=2))),
    )


@st.composite
def streams(draw: st.DrawFn, *, late: bool, most: int) -> list[Line]:
    steps = draw(
        st.lists(
            st.tuples(
                st.integers(-3 if late else 0, 4),
                st.frozensets(st.sampled_from("ABCN"), max_size=2),
            ),
            max_size=most,
        )
    )
    t, lines = 10, []
    for number, (step, says) in enumerate(steps):
        t += step
        lines.append(Line(number, t, says))
    return lines


def found_by_engine(wanted: Wanted, lines: list[Line], mode: Mode, cuts: list[int]) -> list[Fired]:
    engine = Engine([rule_of(node_of(wanted))], mode=mode)
    edges = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    hits: list[Hit] = []
    for first, end in itertools.pairwise(edges):
        hits += engine.read(block_of(lines[first:end], first=first))
    fired = [(tuple(item.line for item in hit.items), hit.fired_ns) for hit in hits]
    rest = [tuple(item.line for item in hit.items) for hit in engine.finish()]
    return fired + [(numbers, FAR) for numbers in rest]


@settings(max_examples=400, deadline=None)
@given(
    wanted=rules(),
    lines=streams(late=True, most=24),
    cuts=st.lists(st.integers(1, 24), max_size=3),
)
def test_compat_finds_exactly_what_a_matcher_finds_that_is_told_every_line(
    wanted: Wanted, lines: list[Line], cuts: list[int]
) -> None:
    expected = Compat(wanted).run(lines)

    assert found_by_engine(wanted, lines, Mode.COMPAT, cuts) == expected


@settings(max_examples=300, deadline=None)
@given(
    wanted=rules(),
    lines=streams(late=False, most=14),
    cuts=st.lists(st.integers(1, 14), max_size=3),
)
def test_strict_finds_exactly_what_trying_all_choices_finds(
    wanted: Wanted, lines: list[Line], cuts: list[int]
) -> None:
    expected = strict(wanted, lines)

    assert found_by_engine(wanted, lines, Mode.STRICT, cuts) == expected
