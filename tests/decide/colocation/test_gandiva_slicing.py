from __future__ import annotations

from colocation_views import kind, moment
from steward.decide.scheduling.colocation.gandiva_slicing import GandivaSlicing
from steward.decide.scheduling.colocation.interface import (
    FreeSpace,
    Move,
    Pair,
    Share,
    StartAlone,
    TakeTurns,
)


def pair(one: int, other: int, speed: float, *, takes_turns: bool = False) -> Pair:
    return Pair(one=one, other=other, speed_one=speed, speed_other=speed, takes_turns=takes_turns)


def test_it_needs_to_know_nothing_about_jobs() -> None:
    policy = GandivaSlicing()

    assert policy.profiling(480, 8) is None
    assert policy.rank(10.0, 1.0) == policy.rank(99.0, 8.0)
    assert policy.score(0.1) == policy.score(1.0)


def test_whoever_came_first_gets_free_gpus() -> None:
    seen = moment(waiting={kind(1.0): [(0.0, 2, 0)], kind(2.0): [(0.0, 1, 1)]}, fits=[0, 1])

    assert GandivaSlicing().decide(seen) == (StartAlone(job=1),)


def test_without_free_gpus_it_shares_those_of_a_job_of_its_size() -> None:
    seen = moment(
        waiting={kind(2.0): [(0.0, 1, 0)]},
        alone={(1.0, 0): [(0.0, 0, 5)], (2.0, 0): [(0.0, 0, 6), (0.0, 1, 7)]},
    )

    assert GandivaSlicing().decide(seen) == (Share(job=0, partner=6),)


def test_two_that_memory_does_not_hold_at_once_take_turns() -> None:
    seen = moment(
        waiting={kind(): [(0.0, 1, 0)]},
        alone={(1.0, 0): [(0.0, 0, 4), (0.0, 1, 5), (0.0, 2, 6)]},
        may_join=lambda _, other: other != 4,
        can_share=lambda _, __: False,
    )

    assert GandivaSlicing().decide(seen) == (Share(job=0, partner=5, takes_turns=True),)


def test_a_job_that_can_go_nowhere_waits_and_others_pass() -> None:
    seen = moment(
        waiting={kind(0.5): [(0.0, 1, 0)], kind(8.0): [(0.0, 2, 1)], kind(): [(0.0, 3, 2)]},
        fits=[2],
    )

    assert GandivaSlicing().decide(seen) == (StartAlone(job=2),)
    assert GandivaSlicing().decide(moment(waiting={kind(8.0): [(0.0, 2, 1)]})) == ()


def test_pairs_that_do_not_get_more_done_together_take_turns() -> None:
    tried = (pair(1, 2, 0.4), pair(3, 4, 0.6), pair(5, 6, 0.5, takes_turns=True))

    assert GandivaSlicing().decide(moment(tried=tried)) == (TakeTurns(job=1),)


def test_free_gpus_that_nobody_waits_for_go_to_the_pair_that_gets_least_done() -> None:
    pairs = (pair(1, 2, 0.9), pair(3, 4, 0.5, takes_turns=True))

    seen = moment(pairs=pairs, free_gpus=1, fits=[2, 4])

    assert GandivaSlicing().decide(seen) == (Move(job=4),)


def test_pairs_stay_while_no_gpu_is_free_or_none_that_would_do() -> None:
    assert GandivaSlicing().decide(moment(pairs=(pair(1, 2, 0.9),), fits=[2])) == ()
    assert GandivaSlicing().decide(moment(pairs=(pair(1, 2, 0.9),), free_gpus=1)) == ()


def wanting(gpus: float, floor: FreeSpace) -> tuple[object, ...]:
    waiting = {kind(gpus): [(0.0, 1, 0)]}
    seen = moment(waiting=waiting, free_gpus=sum(floor.free), floor=floor)
    return GandivaSlicing().decide(seen)


def test_small_jobs_are_moved_together_for_a_wide_one() -> None:
    floor = FreeSpace([2, 3, 1], [0, 0, 0], {0: [(2, 7)], 1: [(1, 8), (4, 9)], 2: [(3, 6)]})

    assert wanting(4.0, floor) == (Move(job=8, node=2),)


def test_several_moves_may_be_needed_and_none_happens_in_vain() -> None:
    floor = FreeSpace([2, 1, 1], [0, 0, 0], {0: [(1, 7), (1, 8), (5, 9)]})

    assert wanting(4.0, floor) == (Move(job=7, node=1), Move(job=8, node=2))
    assert wanting(5.0, floor) == ()


def test_the_next_node_is_tried_where_the_emptiest_cannot_be_emptied() -> None:
    floor = FreeSpace([3, 2, 0], [0, 0, 0], {0: [(4, 7)], 1: [(2, 8)]})

    assert wanting(4.0, floor) == (Move(job=8, node=0),)


def test_jobs_stay_in_their_group_of_nodes() -> None:
    floor = FreeSpace([3, 1], [0, 1], {0: [(1, 7)]})

    assert wanting(4.0, floor) == ()
