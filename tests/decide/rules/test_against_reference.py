"""Random rules over random streams: the engine finds what slow, obvious matchers find."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from decide.rules.reference import FAR, Compat, Fired, Forbidden, LetterRule, MatchedLine, strict
from decide.rules.tiny_rules import block_of, node_of, rule_of
from steward.decide.rules.engine import RuleEngine
from steward.model.rules import Hit, Mode


@st.composite
def rules(draw: st.DrawFn) -> LetterRule:
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
    return LetterRule(
        ordered=ordered,
        terms=tuple(terms),
        window=draw(windows) if len(terms) > 1 else 0,
        forbidden=tuple(draw(st.lists(forbidden, max_size=2))),
    )


@st.composite
def streams(draw: st.DrawFn, *, late: bool, most: int) -> list[MatchedLine]:
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
    for number, (step, contains) in enumerate(steps):
        t += step
        lines.append(MatchedLine(number, t, contains))
    return lines


def found_by_engine(
    wanted: Sequence[LetterRule], lines: list[MatchedLine], mode: Mode, cuts: list[int]
) -> list[list[Fired]]:
    """Return what all rules find, in one engine, over blocks that are cut somewhere."""
    names = [f"R-{number}" for number in range(len(wanted))]
    rules = [rule_of(node_of(one), name) for one, name in zip(wanted, names, strict=True)]
    engine = RuleEngine(rules, mode=mode)
    edges = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    found: dict[str, list[Fired]] = {name: [] for name in names}
    for first, end in itertools.pairwise(edges):
        for hit in engine.read(block_of(lines[first:end], first=first)):
            found[hit.rule].append((_numbers(hit), hit.fired_ns))
    for hit in engine.finish():
        found[hit.rule].append((_numbers(hit), FAR))
    return list(found.values())


def _numbers(hit: Hit) -> tuple[int, ...]:
    return tuple(item.line for item in hit.items)


@settings(max_examples=60, deadline=None)
@given(
    wanted=st.lists(rules(), min_size=1, max_size=12),
    lines=streams(late=True, most=24),
    cuts=st.lists(st.integers(1, 24), max_size=3),
)
def test_compat_finds_exactly_what_a_matcher_finds_that_is_told_every_line(
    wanted: list[LetterRule], lines: list[MatchedLine], cuts: list[int]
) -> None:
    expected = [Compat(one).run(lines) for one in wanted]

    assert found_by_engine(wanted, lines, Mode.PREQ, cuts) == expected


@settings(max_examples=50, deadline=None)
@given(
    wanted=st.lists(rules(), min_size=1, max_size=12),
    lines=streams(late=False, most=12),
    cuts=st.lists(st.integers(1, 12), max_size=3),
)
def test_strict_finds_exactly_what_trying_all_choices_finds(
    wanted: list[LetterRule], lines: list[MatchedLine], cuts: list[int]
) -> None:
    expected = [strict(one, lines) for one in wanted]

    assert found_by_engine(wanted, lines, Mode.STRICT, cuts) == expected
