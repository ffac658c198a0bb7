"""Fragmentation gradient descent and its rivals, by hand."""

from __future__ import annotations

import pytest

from decide.placement.cluster_states import chosen, guide, state, typical, want
from steward.decide.placement import NodeOccupancy, Placement, TieBreak, place
from steward.decide.placement.scores import fragment, scored_node

FGD = Placement.FGD
PAIRS = typical((1.0, 2, 1000, 1.0))  # everybody wants two whole GPUs
MIXED = typical((1.0, 2, 1000, 0.5), (1.0, 1, 500, 0.25), (4.0, 0, 0, 0.25))


def lost(nodes: NodeOccupancy, expected: object, node: int = 0) -> float:
    return fragment(scored_node(nodes, node), nodes.cpus_free[node], expected)  # type: ignore[arg-type]


def test_what_the_next_typical_job_cannot_use_is_a_fragment() -> None:
    assert lost(state([2], milli=[[1000, 1000]]), PAIRS) == 0.0
    assert lost(state([2], milli=[[1000, 400]]), PAIRS) == 1400.0
    assert lost(state([3], milli=[[1000, 400, 1000]]), PAIRS) == 400.0
    assert lost(state([2], milli=[[-1, 0]]), PAIRS) == 0.0


def test_fragments_are_weighed_by_how_often_jobs_of_a_shape_come() -> None:
    nodes = state([2], milli=[[1000, 400]], cpus=8.0)

    # pairs find no place (all 1400 lost), halves lose the 400, CPU jobs leave all GPUs idle
    assert lost(nodes, MIXED) == pytest.approx(0.5 * 1400 + 0.25 * 400 + 0.25 * 1400)


def test_gpus_without_cpus_or_of_another_type_are_fragments() -> None:
    assert lost(state([2], milli=[[1000, 1000]], cpus=0.5), PAIRS) == 2000.0
    assert lost(state([2], cpus=4.0), PAIRS._replace(type_mask=PAIRS.type_mask * 0)) == 2000.0


def test_on_mig_nodes_a_typical_fraction_needs_its_profile() -> None:
    halves = typical((1.0, 1, 500, 1.0))

    assert lost(state([2], milli=[[520, 1000]], mig=0), halves) == 0.0
    assert lost(state([2], milli=[[520, 1000]], mig=7), halves) == 520.0


def test_fgd_puts_a_single_where_a_pair_does_not_fit_anyway() -> None:
    nodes = state([2, 3], milli=[[1000, 1000, 0], [1000, 1000, 1000]])

    assert chosen(FGD, nodes, want(1), guide(PAIRS)) == [(1, 1)]


def test_fgd_completes_a_gpu_that_is_lost_already() -> None:
    nodes = state([2, 2], milli=[[1000, 1000], [400, 1000]])

    assert chosen(FGD, nodes, want(0, 300), guide(PAIRS)) == [(1, -1)]


def test_fgd_without_expectations_packs_by_free_gpus() -> None:
    nodes = state([8, 8, 8], used=[2, 5, 0])

    assert chosen(FGD, nodes, want(2), guide(ties=TieBreak.LEAST_FREE_GPUS)) == [(1, 2)]


def test_scores_are_rounded_so_that_ties_decide() -> None:
    nodes = state([1, 1], milli=[[490], [500]])
    expected = typical((1.0, 2, 1000, 0.98), (1.0, 1, 200, 0.02))

    # 300 taken from 500 leaves 200, which is of use to some: 57.3 against 57.2
    assert chosen(FGD, nodes, want(0, 300), guide(expected, unit=0.0)) == [(1, -1)]
    assert chosen(FGD, nodes, want(0, 300), guide(expected)) == [(0, -1)]


@pytest.mark.parametrize(
    ("ties", "node"),
    [
        (TieBreak.NAME, 0),
        (TieBreak.LEAST_FREE_GPUS, 1),
        (TieBreak.LEAST_FREE_CPUS, 2),
        (TieBreak.BEST_FIT, 2),
    ],
)
def test_ties_are_broken_as_the_guide_says(ties: TieBreak, node: int) -> None:
    nodes = state([4, 4, 4], used=[0, 2, 1], cpus=96.0)
    nodes.cpus_free[:] = (96.0, 90.0, 8.0)

    assert chosen(FGD, nodes, want(1), guide(ties=ties))[0][0] == node


def test_random_ties_depend_on_the_draw_alone() -> None:
    nodes = state([4] * 6)
    draws = (0.1, 0.37, 0.62, 0.93)

    first, again = (
        [chosen(FGD, nodes, want(1), guide(ties=TieBreak.RANDOM, draw=draw)) for draw in draws]
        for _ in range(2)
    )

    assert first == again
    assert len({choice[0] for choice in map(tuple, first)}) > 1


def test_best_fit_leaves_the_least_cpu_and_gpu_together() -> None:
    nodes = state([8, 8, 8], used=[4, 0, 4], cpus=128.0)
    nodes.cpus_free[:] = (128.0, 16.0, 64.0)

    assert chosen(Placement.BEST_FIT, nodes, want(2, cpus=8.0)) == [(2, 2)]


def test_dot_product_avoids_nodes_that_have_much_of_what_is_asked() -> None:
    nodes = state([8, 8], used=[0, 6], cpus=128.0)

    assert chosen(Placement.DOT_PRODUCT, nodes, want(2, cpus=8.0)) == [(1, 2)]


def test_gpu_packing_prefers_shared_gpus_then_used_nodes_then_small_empty_ones() -> None:
    nodes = state([2, 4, 2], milli=[[1000, 1000, 0, 0], [1000, 1000, 0, 0], [600, 900, 0, 0]])
    kind = Placement.GPU_PACKING

    assert chosen(kind, nodes, want(0, 500)) == [(2, -1)]
    assert chosen(kind, nodes, want(0, 950)) == [(1, -1)]
    assert chosen(kind, nodes, want(1)) == [(1, 1)]
    assert chosen(kind, state([8, 2]), want(1)) == [(1, 1)]
    assert chosen(kind, nodes, want(0, cpus=1.0)) == [(0, 0)]


def test_gpu_clustering_looks_for_company_of_the_same_size() -> None:
    nodes, kind = state([8, 8, 8, 8], sizes=18), Placement.GPU_CLUSTERING
    nodes.sizes[1, 4] = 1  # another size
    nodes.sizes[2, 4], nodes.sizes[2, 1] = 1, 1  # this size and another
    nodes.sizes[3, 1] = 2  # this size only

    assert chosen(kind, nodes, want(1)) == [(3, 1)]
    nodes.up[3] = False
    assert chosen(kind, nodes, want(1)) == [(2, 1)]
    nodes.up[2] = False
    assert chosen(kind, nodes, want(1)) == [(0, 1)]
    nodes.up[0] = False
    assert chosen(kind, nodes, want(1)) == [(1, 1)]
    assert chosen(kind, nodes, want(0, cpus=1.0)) == [(1, 0)]


def test_place_alone_serves_scored_kinds_too() -> None:
    nodes = state([8, 8], used=[0, 5])
    node, gpus = nodes.free.copy(), nodes.free.copy()

    assert place(int(FGD), nodes, want(2), node, gpus) == 1
    assert (node[0], gpus[0]) == (1, 2)
    assert place(int(Placement.PACKED), nodes, want(9), node, gpus) == 2
