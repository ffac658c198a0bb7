"""The 40 behaviours of the field, in both modes (38 and 39 are about reading)."""

from __future__ import annotations

import pytest

from decide.rules.tiny_streams import Moments, Trial
from steward.decide.rules.matching import EngineLimits, NegationWindow
from steward.model.rules import Mode

BOTH = pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.value)
STRICT, PREQ = Mode.STRICT, Mode.PREQ


def absolute(window: int, **more: int) -> NegationWindow:
    return NegationWindow(window_ns=window, absolute=True, **more)


SEQUENCES: list[tuple[str, str, int, str, list[Moments]]] = [
    ("2: what came before the first is nothing", "A,B", 10, "x1 B2 A3 B4", [(3, 4)]),
    ("3: a repeated first fires once, with the oldest", "A,B", 10, "A1 A2 A3 B4", [(1, 4)]),
    (
        "4: oldest first, again and again",
        "A,B,C",
        20,
        "A1 A2 B3 A4 C5 B6 A7 C8 B9 C13",
        [(1, 3, 5), (2, 6, 8), (4, 9, 13)],
    ),
    (
        "4: alive until its window is over, inclusive",
        "A,B,C",
        20,
        "A1 A2 B3 A4 C5 B6 A7 C8 B9 C13 B26 C27",
        [(1, 3, 5), (2, 6, 8), (4, 9, 13), (7, 26, 27)],
    ),
    (
        "4: and dead after it",
        "A,B,C",
        20,
        "A1 A2 B3 A4 C5 B6 A7 C8 B9 C13 B26 C28",
        [(1, 3, 5), (2, 6, 8), (4, 9, 13)],
    ),
    ("5: too late", "A,B", 10, "A1 B12", []),
    ("5: too late for both", "A,B", 10, "A1 A2 B13", []),
    (
        "6: the first that is young enough",
        "A,B",
        20,
        "A1 B22 A23 B24 A25 A35 x46 B47",
        [(23, 24), (35, 47)],
    ),
    ("7: the same time is in order", "A,B,C", 10, "A1 B1 C1", [(1, 1, 1)]),
    (
        "8: leftovers before the new first are nothing",
        "A,B,C",
        50,
        "A1 B2 B3 A4 C5 C6 C7 B8 B9 A10 B11 C12",
        [(1, 2, 5), (4, 8, 12)],
    ),
    (
        "9: all repetitions are used up",
        "A,A,A,B",
        10,
        "A1 B2 A3 A4 A5 A6 B7 B8 B17",
        [(1, 3, 4, 7)],
    ),
    ("10: the window moves on", "A,A,A,B", 3, "A1 A2 A3 A4 A5 A6 A7 B8", [(5, 6, 7, 8)]),
    (
        "11: many at once",
        "A,A,A,B",
        3,
        "A1 A1 A1 A1 A1 A1 A1 B1 B2",
        [(1, 1, 1, 1), (1, 1, 1, 2)],
    ),
    (
        "12: repeated in two places",
        "D,D,X,D,D,F",
        5,
        "D1 D2 X3 D4 D5 D6 X7 D8 D9 F10",
        [(5, 6, 7, 8, 9, 10)],
    ),
    ("13: two repeated", "A,A,B,B,F", 5, "A1 A2 A3 A4 A5 B6 B7 B8 F8", [(3, 4, 6, 7, 8)]),
    ("window inclusive", "A,B", 10, "A1 B11", [(1, 11)]),
    ("one line is one thing of a sequence", "A,B", 10, "AB1", []),
    ("lines that are both", "A,B", 10, "AB1 AB2 AB3", [(1, 2), (2, 3)]),
    ("three and three", "A,B", 10, "A1 A2 A3 B4 B5 B6", [(1, 4), (2, 5), (3, 6)]),
]


@BOTH
@pytest.mark.parametrize(
    ("terms", "window", "line", "expected"),
    [each[1:] for each in SEQUENCES],
    ids=[each[0] for each in SEQUENCES],
)
def test_a_sequence_does_what_the_field_says(
    terms: str, window: int, line: str, expected: list[Moments], mode: Mode
) -> None:
    assert Trial(terms, window, mode=mode).matches(line) == expected


SETS: list[tuple[str, str, int, str, list[Moments]]] = [
    ("14: in slot order", "A,B,C", 50, "A1 C2 B3 C4 A5 C6 B7", [(1, 3, 2), (5, 7, 4)]),
    ("15: the window moves on", "A,B,C", 5, "A1 C4 B7 A8 C9", [(8, 7, 4)]),
    ("16: repeated", "A,A,B", 5, "A1 A2 A3 B4", [(1, 2, 4)]),
    (
        "17: repeated, and the window moves on",
        "A,A,B",
        5,
        "A1 B2 A7 A8 B11 B12 A13 B14 A19 A19",
        [(7, 8, 11), (19, 19, 14)],
    ),
    ("one line can fill a set alone", "A,B", 5, "AB1", [(1, 1)]),
]


@BOTH
@pytest.mark.parametrize(
    ("terms", "window", "line", "expected"), [each[1:] for each in SETS], ids=[e[0] for e in SETS]
)
def test_a_set_does_what_the_field_says(
    terms: str, window: int, line: str, expected: list[Moments], mode: Mode
) -> None:
    assert Trial(terms, window, mode=mode, ordered=False).matches(line) == expected


Case = tuple[str, str, int, bool, list[tuple[str, NegationWindow]], str, list[tuple[Moments, int]]]
PLAIN = [("N", NegationWindow())]
NEGATED: list[Case] = [
    (
        "18: waits for its window",
        "A",
        0,
        False,
        [("N", NegationWindow(window_ns=10))],
        "A1 x10 N12",
        [((1,), 12)],
    ),
    (
        "19: the end is part of it",
        "A",
        0,
        False,
        [("N", NegationWindow(window_ns=10))],
        "A1 N11 x99",
        [],
    ),
    ("20: same time, set", "A,B", 10, False, PLAIN, "A1 B2 N2 x9", []),
    ("20: same time, sequence", "A,B", 10, True, PLAIN, "A1 B2 N2 x9", []),
    (
        "21: strictly later",
        "A,B",
        10,
        True,
        [("N", absolute(50))],
        "A1 B11 x51 x52",
        [((1, 11), 52)],
    ),
    ("21: as a set", "A,B", 10, False, [("N", absolute(50))], "A1 B11 x51 x52", [((1, 11), 52)]),
    ("22: a jump", "A,B", 10, True, [("N", absolute(50))], "A1 B2 x10000", [((1, 2), 10000)]),
    ("23: outside its window", "A,B", 10, True, [("N", absolute(50))], "A1 B12 x9999", []),
    ("23: as a set", "A,B", 10, False, [("N", absolute(50))], "A1 B12 x9999", []),
    (
        "24: looks back",
        "A,B",
        5,
        True,
        [("N", absolute(20, slide_ns=-5))],
        "N1 A6 A7 B8 x22 x23",
        [((7, 8), 23)],
    ),
    (
        "25: looks ahead",
        "A,B",
        5,
        True,
        [("N", absolute(20, slide_ns=5))],
        "A1 A22 N23 B24 N26 x47 x48",
        [((22, 24), 48)],
    ),
    (
        "26: relative",
        "A,B,C",
        3,
        True,
        [("N", NegationWindow(window_ns=10))],
        "A1 B2 C3 x13 N13 x99",
        [],
    ),
    (
        "26: relative, set",
        "A,B,C",
        3,
        False,
        [("N", NegationWindow(window_ns=10))],
        "A1 B2 C3 x13 N13 x99",
        [],
    ),
    (
        "27: from the second",
        "A,B",
        3,
        True,
        [("N", absolute(10, anchor=1))],
        "A1 B4 x14 x15",
        [((1, 4), 15)],
    ),
    (
        "28: denial drops the anchor",
        "A,B,C",
        10,
        True,
        [("N", absolute(5, anchor=2, slide_ns=-5))],
        "A1 N2 B3 C4 C7 C8 x9",
        [((1, 3, 8), 9)],
    ),
    (
        "29: two negations",
        "A,B",
        50,
        True,
        [("N1", NegationWindow()), ("N2", NegationWindow())],
        "A1 B2 A3 N1@4 B5 B6 x7 A8 B9 A10 B11 N2@11 x99",
        [((1, 2), 3), ((8, 9), 10)],
    ),
    ("31: repeated, denied", "A,A,A,B", 10, True, [("N", absolute(20))], "A1 A2 A3 B4 N21 x99", []),
    (
        "34: anchor in order of time",
        "A,A,A,B",
        20,
        False,
        [("N", absolute(20, anchor=2))],
        "A1 B2 A11 A15 x31 x32",
        [((1, 11, 15, 2), 32)],
    ),
    (
        "35: the anchor is dropped, and others fill its place",
        "A,A,A,B",
        20,
        False,
        [("N", absolute(20, anchor=2))],
        "A1 B2 A11 A15 N31 A32 A33 B33 x53 x54",
        [((15, 32, 33, 33), 54)],
    ),
    ("a denial leaves the rest", "A,B", 10, True, PLAIN, "A1 N2 A3 B4 x5", [((3, 4), 5)]),
    ("a line that is both denies", "A", 0, False, PLAIN, "AN1 x2", []),
    (
        "40: six seconds after five",
        "A",
        0,
        False,
        [("N", NegationWindow(window_ns=5))],
        "A10 N16",
        [((10,), 16)],
    ),
    (
        "40: five seconds after five",
        "A",
        0,
        False,
        [("N", NegationWindow(window_ns=5))],
        "A10 N15 x99",
        [],
    ),
    (
        "40: 18 s around 4 s reach 22 s",
        "A,B",
        4,
        True,
        [("N", NegationWindow(window_ns=18))],
        "A1 B5 N23 x99",
        [],
    ),
    (
        "40: 17 s around 4 s do not",
        "A,B",
        4,
        True,
        [("N", NegationWindow(window_ns=17))],
        "A1 B5 N23",
        [((1, 5), 23)],
    ),
]


@BOTH
@pytest.mark.parametrize("case", NEGATED, ids=[each[0] for each in NEGATED])
def test_something_forbidden_does_what_the_field_says(case: Case, mode: Mode) -> None:
    _, terms, window, ordered, negations, line, expected = case

    assert (
        Trial(terms, window, mode=mode, ordered=ordered, negations=negations).feed(line) == expected
    )


def test_1_compat_leaves_out_what_is_late() -> None:
    assert Trial("A,B", 10, mode=PREQ).matches("A2 B1") == []


def test_1_strict_puts_what_is_late_where_its_time_belongs() -> None:
    assert Trial("A,B", 10, mode=STRICT).matches("A2 B1") == []
    assert Trial("B,A", 10, mode=STRICT).matches("B1 x5 A2") == [(1, 2)]
    assert Trial("A,B", 10, mode=STRICT, ordered=False).matches("A2 B1") == [(2, 1)]


@BOTH
def test_30_time_alone_decides_but_not_too_early(mode: Mode) -> None:
    trial = Trial("A,B", 10, mode=mode, negations=[("N", absolute(20))])
    trial.feed("A1 B2")

    assert trial.matcher.due_ns == 22
    assert trial.matcher.tick(21) in ((), [])
    assert [match.fired_ns for match in trial.matcher.tick(22)] == [22]


@BOTH
@pytest.mark.parametrize("ordered", [True, False])
def test_32_what_is_forbidden_is_not_kept_without_anything_to_deny(
    mode: Mode, *, ordered: bool
) -> None:
    trial = Trial("A,B", 10, mode=mode, ordered=ordered, negations=PLAIN)

    trial.feed("N1 N2 N3 B4" if ordered else "N1 N2 N3")

    assert trial.matcher.held <= (mode is STRICT)  # strict: one, as an A with its time may come


@pytest.mark.parametrize(("mode", "kept"), [(PREQ, 70), (STRICT, 10)])
@pytest.mark.parametrize("ordered", [True, False])
def test_33_with_look_back_it_is_kept_as_long_as_it_can_deny(
    mode: Mode, kept: int, *, ordered: bool
) -> None:
    """In compat 70 units; strict knows that nothing is held which began before."""
    negation = NegationWindow(window_ns=20, slide_ns=-10)
    trial = Trial("A,B", 50, mode=mode, ordered=ordered, negations=[("N", negation)])
    trial.feed(" ".join(f"N{t}" for t in range(1, 6)))

    trial.feed(f"N{1 + kept}")
    first = trial.matcher.held
    trial.feed(f"N{2 + kept}")

    assert (first, trial.matcher.held) == (6, 6)


@BOTH
def test_36_128_copies_of_a_term_are_one_slot(mode: Mode) -> None:
    line = " ".join(["A1"] * 128)

    assert len(Trial(",".join(["A"] * 128), 10, mode=mode).matches(line)) == 1


@BOTH
@pytest.mark.parametrize("ordered", [True, False])
def test_37_an_earlier_clock_changes_nothing(mode: Mode, *, ordered: bool) -> None:
    trial = Trial("A,B", 10, mode=mode, ordered=ordered, negations=PLAIN)
    trial.feed("A5 B6")

    assert trial.matcher.tick(3) == ()
    assert trial.matcher.due_ns == 7


def test_quirk_a_repeated_term_never_expires_in_compat_and_does_in_strict() -> None:
    assert Trial("A,A,A", 10, mode=PREQ).matches("A1 A2 A1000") == [(1, 2, 1000)]
    assert Trial("A,A,A", 10, mode=STRICT).matches("A1 A2 A1000") == []


def test_quirk_leftovers_of_four_slots_are_out_of_order_in_compat_and_not_in_strict() -> None:
    line = "A1 B2 C3 A4 C5 B6 D7 D8"

    assert Trial("A,B,C,D", 10, mode=PREQ).matches(line) == [(1, 2, 3, 7), (4, 6, 5, 8)]
    assert Trial("A,B,C,D", 10, mode=STRICT).matches(line) == [(1, 2, 3, 7)]


def test_quirk_a_set_with_count_is_not_denied_before_it_is_whole_in_compat_only() -> None:
    def hits(mode: Mode, *, ordered: bool) -> list[Moments]:
        return Trial("A,A", 10, mode=mode, ordered=ordered, negations=PLAIN).matches("A1 N2 A3")

    assert hits(PREQ, ordered=False) == [(1, 3)]
    assert hits(PREQ, ordered=True) == []
    assert hits(STRICT, ordered=False) == hits(STRICT, ordered=True) == []


@BOTH
def test_quirk_where_preq_crashes_the_slot_is_short_again(mode: Mode) -> None:
    trial = Trial("A,A,B", 5, mode=mode, ordered=False, negations=PLAIN)

    assert trial.matches("A1 A5 B7") == []


def test_quirk_forbidden_just_before_at_the_same_time_denies_in_strict_only() -> None:
    for ordered in (True, False):
        assert Trial("A,B", 9, mode=PREQ, ordered=ordered, negations=PLAIN).matches("N1 A1 B2")
        assert not Trial("A,B", 9, mode=STRICT, ordered=ordered, negations=PLAIN).matches(
            "N1 A1 B2"
        )


def test_quirk_a_slot_may_precede_a_repetition_after_a_denial_in_compat_only() -> None:
    negations = [("M", absolute(10)), ("N", absolute(0))]
    line = "A1 N1 A2 B3 A4 x12"

    assert Trial("A,A,B", 20, mode=PREQ, negations=negations).matches(line) == [(2, 4, 3)]
    assert Trial("A,A,B", 20, mode=STRICT, negations=negations).matches(line) == []


@BOTH
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("negations", [[], PLAIN])
def test_what_does_not_fit_is_forgotten_oldest_first_and_counted(
    mode: Mode, negations: list[tuple[str, NegationWindow]], *, ordered: bool
) -> None:
    limits = EngineLimits(events_per_state=4)
    trial = Trial("A,B", 10**6, mode=mode, ordered=ordered, negations=negations, limits=limits)

    trial.feed(" ".join(f"A{t}" for t in range(100)))

    assert trial.matcher.held == 4
    assert trial.counts.evicted == 96
    assert trial.matches("B100 x101") == [(96, 100)]


@BOTH
def test_what_is_forbidden_is_bounded_too(mode: Mode) -> None:
    limits = EngineLimits(events_per_state=4)
    negations = [("M", absolute(10**6)), ("N", absolute(10**6))]
    trial = Trial("A", 0, mode=mode, ordered=False, negations=negations, limits=limits)

    trial.feed("A1 " + " ".join(f"N{t}" for t in range(2, 100)))

    assert trial.matcher.held == 5
    assert trial.counts.evicted == 94


def test_compat_forgets_what_is_too_old_while_nothing_waits() -> None:
    trial = Trial("A,B,C", 5, mode=PREQ, negations=PLAIN)

    assert trial.matches("A1 B2 A9 B10 C11 x12") == [(9, 10, 11)]


def test_compat_forgets_later_slots_when_a_middle_one_is_short_after_a_denial() -> None:
    trial = Trial("A,B,C", 9, mode=PREQ, negations=PLAIN)

    assert trial.matches("A1 B2 A3 C4 N4 B5 C6 x7") == []


@BOTH
def test_a_single_thing_needs_no_time(mode: Mode) -> None:
    trial = Trial("A", 0, mode=mode, ordered=False)

    assert trial.matcher.tick(99) == ()
    assert trial.feed("x1 A5 A5") == [((5,), 5), ((5,), 5)]


@BOTH
@pytest.mark.parametrize("ordered", [True, False])
def test_time_alone_completes_nothing_that_is_only_looked_for(mode: Mode, *, ordered: bool) -> None:
    trial = Trial("A,B", 10, mode=mode, ordered=ordered)
    trial.feed("A1")

    assert trial.matcher.tick(5) == ()
    assert trial.matcher.held == 1


@pytest.mark.parametrize("ordered", [True, False])
def test_what_is_too_late_for_every_window_is_not_kept(*, ordered: bool) -> None:
    trial = Trial("A,B", 10, mode=STRICT, ordered=ordered)

    trial.feed("x100 A100 A3")

    assert trial.matcher.held == 1


@pytest.mark.parametrize("ordered", [True, False])
def test_what_is_late_goes_where_its_time_belongs(*, ordered: bool) -> None:
    trial = Trial("A,B", 10, mode=STRICT, ordered=ordered)

    assert trial.matches("A5 A6 A2 B7") == [(2, 7)]
