"""Sequential patterns: the same as brute force, with and without limits on time."""

from __future__ import annotations

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_baskets import baskets
from steward.errors import StewardError
from steward.learn.patterns.baskets import ABSENT
from steward.learn.patterns.episodes import find_episodes
from steward.learn.patterns.event_lists import Events, event_lists, symbol_lists
from steward.learn.patterns.motifs import find_motifs
from steward.learn.patterns.sequences import (
    Sequences,
    SequenceSearch,
    closed_sequences,
    find_sequences,
)
from steward.learn.patterns.transitions import group_transitions, state_flow

mining = settings(deadline=None, max_examples=40)
some_runs = st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=5)


def as_dict(found: Sequences) -> dict[tuple[int, ...], int]:
    return {
        tuple(step for step in row if step >= 0): int(n)
        for row, n in zip(found.steps.tolist(), found.counts, strict=True)
    }


def occurs(pattern: tuple[int, ...], run: list[int], search: SequenceSearch) -> bool:
    """Try every way to place the steps."""

    def placed(step: int, last: int, first: int) -> bool:
        if step == len(pattern):
            return True
        for at in range(last + 1, len(run)):
            gap = at - last
            fits = not step or search.min_gap_s <= gap <= search.max_gap_s
            if search.contiguous and step:
                fits = gap == 1
            begin = first if step else at
            inside = at - begin <= search.max_span_s
            if fits and inside and run[at] == pattern[step] and placed(step + 1, at, begin):
                return True
        return False

    return placed(0, -1, 0)


def brute_force(runs: list[list[int]], search: SequenceSearch) -> dict[tuple[int, ...], int]:
    found = {}
    least = -(-search.share * len(runs) // 1)
    for length in range(1, search.longest + 1):
        for pattern in product(range(3), repeat=length):
            many = sum(occurs(pattern, run, search) for run in runs)
            if many >= max(1, least):
                found[pattern] = many
    return found


limits = st.builds(
    SequenceSearch,
    share=st.sampled_from([0.25, 0.5]),
    longest=st.just(3),
    min_gap_s=st.sampled_from([0.0, 2.0]),
    max_gap_s=st.sampled_from([2.0, 3.0, inf]),
    max_span_s=st.sampled_from([3.0, 4.0, inf]),
    contiguous=st.booleans(),
).filter(lambda each: not each.contiguous or each.max_span_s == inf)


@mining
@given(some_runs, limits)
def test_what_is_found_is_what_brute_force_finds(
    runs: list[list[int]], search: SequenceSearch
) -> None:
    events = symbol_lists([np.array(run, np.int32) for run in runs], 3)

    assert as_dict(find_sequences(events, search)) == brute_force(runs, search)


@mining
@given(some_runs)
def test_closed_ones_have_no_longer_one_in_as_many_runs(runs: list[list[int]]) -> None:
    events = symbol_lists([np.array(run, np.int32) for run in runs], 3)
    every = find_sequences(events, SequenceSearch(share=0.25, longest=3))

    found = as_dict(closed_sequences(every))

    known = as_dict(every)
    search = SequenceSearch()
    assert found == {
        one: n
        for one, n in known.items()
        if not any(m == n and len(b) > len(one) and occurs(one, [*b], search)
                   for b, m in known.items())
    }  # fmt: skip


def test_the_table_of_long_runs_has_wider_numbers() -> None:
    run = np.zeros(70_000, np.int32)
    run[-1] = 1
    events = symbol_lists([run, np.array([0, 1], np.int32), np.zeros(300, np.int32)], 2)

    found = as_dict(find_sequences(events, SequenceSearch(share=0.5, longest=2)))

    assert found == {(0,): 3, (0, 0): 2, (1,): 2, (0, 1): 2}


def test_changes_are_levels_that_replace_another_one_of_their_run() -> None:
    known = baskets(
        [[0, 1], [0, ABSENT], [2, 1], [2, 0], [1, 0]], run=[0, 0, 0, 0, 1], groups=("gpu", "mem")
    )

    events = event_lists(known)

    assert [str(events.items[i]) for i in events.item] == ["gpu=high", "mem=low"]
    assert events.when_s.tolist() == [2.0, 3.0]
    assert events.moments_from.tolist() == [0, 2, 2]


def test_windows_out_of_order_are_put_in_order() -> None:
    known = baskets([[2], [0]], start_s=[5.0, 1.0])

    assert event_lists(known, Events.LEVELS).item.tolist() == [0, 2]


def test_two_things_of_one_moment_do_not_follow_each_other() -> None:
    events = event_lists(baskets([[0, 0], [2, 2]]))

    found = find_sequences(events, SequenceSearch(share=1.0))

    assert sorted(len(found.of(row)) for row in range(len(found))) == [1, 1]


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"longest": 0}, "0 steps"),
        ({"min_gap_s": 5.0, "max_gap_s": 1.0}, "no gap is between 5 and 1 s"),
        ({"max_span_s": -1.0}, "below 0"),
    ],
)
def test_limits_that_nothing_fits_are_refused(given_: dict[str, float], says: str) -> None:
    with pytest.raises(StewardError, match=says):
        SequenceSearch(**given_)  # type: ignore[arg-type]


def test_more_sequences_than_anybody_reads_are_refused() -> None:
    events = symbol_lists([np.arange(30, dtype=np.int32)], 30)

    for max_gap_s in (inf, 29.0):
        search = SequenceSearch(share=1.0, most=100, max_gap_s=max_gap_s)
        with pytest.raises(StewardError, match="more than 100 sequences"):
            find_sequences(events, search)


def test_runs_without_events_have_no_sequences() -> None:
    assert len(find_sequences(event_lists(baskets([[0], [0]])))) == 0


def test_runs_of_three_windows_are_enough() -> None:
    known = baskets([[0], [1], [2]] * 4, run=[i // 3 for i in range(12)])

    found = find_sequences(event_lists(known), SequenceSearch(share=1.0))

    assert [str(item) for item in found.of(len(found) - 1)] == ["g0=high"]
    assert as_dict(found)[(1, 2)] == 4


def following(runs: int, *, lag: int, seed: int = 0) -> list[list[int]]:
    """Return windows in which the second group follows the first; the third goes its own way."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(runs):
        busy = np.repeat(rng.integers(0, 2, 20), 5)
        own = np.repeat(rng.integers(0, 2, 25), 4)
        rows += np.stack([busy, np.roll(busy, lag), own], axis=1).tolist()
    return rows


def test_what_follows_within_seconds_is_an_episode_and_what_does_not_is_none() -> None:
    known = baskets(following(20, lag=2), run=np.repeat(range(20), 100), groups=("a", "b", "c"))

    found = find_episodes(known, 3.0)

    names = {
        (found.items[a].group, found.items[b].group)
        for a, b in zip(found.first, found.then, strict=True)
    }
    assert ("a", "b") in names
    assert all("c" not in pair for pair in names)
    best = int(np.argmax(found.lift))
    assert found.followed[best] > 0.9 * found.times[best]


def test_episodes_of_too_few_runs_are_not_significant() -> None:
    known = baskets(following(3, lag=2), run=np.repeat(range(3), 100))

    assert len(find_episodes(known, 3.0)) == 0


def test_an_episode_within_no_time_is_refused() -> None:
    with pytest.raises(StewardError, match="within 0 s"):
        find_episodes(baskets([[0]]), 0.0)


def test_transitions_count_directly_following_windows_of_a_run() -> None:
    known = baskets([[0], [0], [2], [ABSENT], [1], [0]], run=[0, 0, 0, 0, 0, 1])

    (found,) = group_transitions(known)

    assert found.counts.tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert found.shares[0].tolist() == [0.5, 0.0, 0.5]
    assert found.stay_s[0] == 2.0
    low, high = found.bounds(0, 2)
    assert low < 0.5 < high
    assert found.bounds(1, 0) == (0.0, 1.0)


def test_a_gap_in_time_is_no_transition() -> None:
    (found,) = group_transitions(baskets([[0], [1]], start_s=[0.0, 60.0]))

    assert not found.counts.any()


def test_the_flow_of_states_counts_rare_states_together() -> None:
    known = baskets([[0], [0], [1], [0], [2], [0]])

    found = state_flow(known, most=2)

    assert [str(state[0]) for state in found.states] == ["g0=low", "g0=mid"]
    assert found.flow.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


def test_a_stretch_that_comes_back_is_a_motif() -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 3, (300, 4))
    rows[150:158] = rows[40:48]
    known = baskets(rows)

    found = find_motifs(known, 8)

    assert [(m.first, m.places, m.distances) for m in found.found] == [(40, (150,), (0,))]
    assert (found.windows, found.windows_left_out) == (300, 0)


def test_a_steady_stretch_and_one_across_two_runs_are_no_motif() -> None:
    assert find_motifs(baskets([[0]] * 50), 5).found == ()
    assert find_motifs(baskets([[0], [1]] * 2, run=[0, 1, 2, 3]), 2).found == ()
    assert find_motifs(baskets([[0]]), 5).found == ()


def test_a_motif_of_one_window_is_refused() -> None:
    with pytest.raises(StewardError, match="a motif of 1 windows"):
        find_motifs(baskets([[0]]), 1)
