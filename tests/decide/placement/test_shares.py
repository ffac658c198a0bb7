"""Fractions of GPUs, MIG slices, and jobs without GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from decide.placement.cluster_states import arrays, chosen, guide, state, want
from steward.decide.placement import Placement, TieBreak, give, take
from steward.decide.placement.state import sliced

PACKED, SPREAD, COUNT = Placement.PACKED, Placement.SPREAD, Placement.COUNT


def gpu(index: int) -> int:
    return -index - 1


def test_packed_fills_the_fullest_gpu_that_still_holds_the_fraction() -> None:
    nodes = state([2, 2], milli=[[1000, 400], [700, 300]])

    assert chosen(PACKED, nodes, want(0, 300)) == [(1, gpu(1))]
    assert chosen(PACKED, nodes, want(0, 350)) == [(0, gpu(1))]
    assert chosen(PACKED, nodes, want(0, 800)) == [(0, gpu(0))]


def test_packed_breaks_into_the_node_with_the_fewest_free_gpus() -> None:
    nodes = state([3, 3], milli=[[1000, 1000, 1000], [0, 1000, 1000]])

    assert chosen(PACKED, nodes, want(0, 500)) == [(1, gpu(1))]


def test_spread_uses_the_emptiest_gpu_and_counting_the_first() -> None:
    nodes = state([2, 2], milli=[[200, 400], [700, 1000]])

    assert chosen(SPREAD, nodes, want(0, 100)) == [(1, gpu(1))]
    assert chosen(COUNT, nodes, want(0, 300)) == [(0, gpu(1))]


def test_no_fraction_fits_where_only_whole_gpus_are_kept() -> None:
    assert chosen(PACKED, state([8]), want(0, 500)) == []


def test_a_job_without_gpus_keeps_away_from_free_ones() -> None:
    nodes = state([8, 8], used=[2, 6], cpus=16.0)

    assert chosen(PACKED, nodes, want(0, cpus=4.0)) == [(1, 0)]
    assert chosen(COUNT, nodes, want(0, cpus=4.0)) == [(0, 0)]
    assert chosen(PACKED, nodes, want(0, cpus=17.0)) == []


def test_spread_gives_a_job_without_gpus_the_node_with_most_cpus() -> None:
    nodes = state([8, 8], cpus=16.0)
    nodes.cpus_free[0] = 3.0

    assert chosen(SPREAD, nodes, want(0, cpus=2.0)) == [(1, 0)]


@pytest.mark.parametrize(
    ("milli", "taken"),
    [
        (100, 142),
        (142, 142),
        (143, 142),
        (200, 285),
        (300, 428),
        (429, 428),
        (500, 571),
        (600, 1000),
        (1000, 1000),
    ],
)
def test_mig_rounds_a_fraction_up_to_the_next_profile_of_seven_slices(
    milli: int, taken: int
) -> None:
    assert sliced(milli, 7) == taken


def test_mig_of_four_slices_has_no_profile_of_three() -> None:
    assert [sliced(milli, 4) for milli in (250, 500, 600, 800)] == [250, 500, 1000, 1000]


def test_seven_small_slices_share_a_gpu_and_then_it_is_full() -> None:
    nodes, job = state([1], milli=[[1000]], mig=7), want(0, 143)

    for _ in range(7):
        take(nodes, job, *arrays(chosen(PACKED, nodes, job)))

    assert chosen(PACKED, nodes, job) == []
    assert nodes.free.tolist() == [0]


def test_taking_and_giving_a_fraction_and_a_gang_keeps_the_books() -> None:
    nodes = state([4], milli=[[1000, 1000, 600, 1000]], cpus=32.0, sizes=4)
    half, pair = want(0, 500, cpus=2.0), want(2, cpus=8.0)

    take(nodes, half, *arrays([(0, gpu(2))]))
    take(nodes, pair, *arrays([(0, 2)]))

    assert nodes.free.tolist() == [1]
    assert nodes.milli.tolist() == [[-1, -1, 100, 1000]]
    assert nodes.cpus_free.tolist() == [22.0]
    assert nodes.sizes.tolist() == [[1, 0, 1, 0]]

    give(nodes, pair, *arrays([(0, 2)]))
    give(nodes, half, *arrays([(0, gpu(2))]))

    assert nodes.milli.tolist() == [[1000, 1000, 600, 1000]]
    assert (nodes.free.tolist(), nodes.cpus_free.tolist()) == ([3], [32.0])
    assert not nodes.sizes.any()


def test_giving_whole_gpus_back_leaves_gpus_full_of_fractions_alone() -> None:
    nodes = state([2], milli=[[0, 1000]])
    take(nodes, want(1), *arrays([(0, 1)]))

    give(nodes, want(1), *arrays([(0, 1)]))

    assert nodes.milli.tolist() == [[0, 1000]]


def test_random_uses_every_gpu_that_holds_the_fraction_about_equally_often() -> None:
    nodes = state([2, 2], milli=[[1000, 300], [500, 100]])
    draws = np.random.default_rng(0).random(3000)

    found = [
        chosen(Placement.RANDOM, nodes, want(0, 300), guide(ties=TieBreak.NAME, draw=draw))[0]
        for draw in draws
    ]

    assert {each: found.count(each) for each in set(found)} == {
        (0, gpu(0)): pytest.approx(750, abs=120),
        (0, gpu(1)): pytest.approx(750, abs=120),
        (1, gpu(0)): pytest.approx(1500, abs=150),
    }
