"""Why something did not fit, in words."""

from __future__ import annotations

import numpy as np

from decide.placement.cluster_states import state, want
from steward.decide.placement import DESCRIPTIONS, PLACEMENTS, why_not

GIB = 2.0**30


def test_free_gpus_on_too_many_nodes() -> None:
    nodes = state([8, 8, 8, 8], used=[6, 6, 6, 6])

    assert why_not(nodes, want(4)) == "8 GPUs are free but on 4 nodes; no node has 4 free"


def test_too_few_free_gpus() -> None:
    nodes = state([8, 8], used=[8, 7])

    assert why_not(nodes, want(4)) == "4 GPUs wanted, 1 is free"
    assert why_not(state([8], used=[6]), want(4)) == "4 GPUs wanted, 2 are free"


def test_more_gpus_than_there_are() -> None:
    assert why_not(state([8, 8]), want(17)) == "17 GPUs wanted, but all nodes together have 16"


def test_types_are_named() -> None:
    nodes, types = state([8, 8], used=[0, 6], types=[0, 1]), ("T4", "V100")

    v100 = want(4, type_mask=0b10)

    assert why_not(nodes, v100, types=types) == "4 GPUs wanted, 2 are free on nodes of type V100"
    assert why_not(nodes, want(1, type_mask=0b100), types=(*types, "A10")) == (
        "there is no node of type A10"
    )
    nodes.up[1] = False
    assert why_not(nodes, v100, types=types) == "no node of type V100 is up"
    assert why_not(nodes, want(0, 500, type_mask=0b01), types=types) == (
        "no GPU of type T4 has 0.5 of itself free; the most is 0"
    )


def test_wide_gangs_wait_for_whole_nodes() -> None:
    nodes = state([8, 8, 8], used=[0, 1, 1])

    assert why_not(nodes, want(16)) == (
        "22 GPUs are free, but only 1 node is wholly free; 16 GPUs need 2 nodes of 8"
    )


def test_wide_gangs_may_lack_cpus() -> None:
    nodes = state([8, 8], cpus=8.0)

    assert why_not(nodes, want(12, cpus=48.0)) == (
        "16 GPUs are free, but with the CPUs and memory that each needs only 4"
    )


def test_gpus_without_cpus_or_memory() -> None:
    nodes = state([8, 8], used=[0, 7], cpus=64.0, memory=96 * GIB)
    nodes.cpus_free[0], nodes.memory_free[0] = 2.0, 32 * GIB

    assert why_not(nodes, want(4, cpus=8.0)) == (
        "no node with 4 free GPUs has 8 CPUs free; the most is 2"
    )
    assert why_not(nodes, want(4, memory=64 * GIB)) == (
        "no node with 4 free GPUs has 64 GiB of memory free; the most is 32"
    )


def test_cpus_on_one_node_and_memory_on_another() -> None:
    nodes = state([1, 1])
    nodes.cpus_free[:], nodes.memory_free[:] = (8.0, 2.0), (GIB, 8 * GIB)

    assert why_not(nodes, want(0, cpus=4.0, memory=4 * GIB)) == (
        "no node has both 4 CPUs and 4 GiB free"
    )


def test_a_fraction_that_does_not_fit_is_told_with_the_most_that_would() -> None:
    nodes = state([2], milli=[[300, 200]], cpus=4.0)

    assert why_not(nodes, want(0, 500)) == "no GPU has 0.5 of itself free; the most is 0.3"
    assert why_not(nodes, want(0, 250, cpus=8.0)) == (
        "no node with 0.25 of a GPU free has 8 CPUs free; the most is 4"
    )


def test_one_free_gpu_is_singular() -> None:
    nodes = state([2, 2], milli=[[500, 500], [1000, 0]])
    nodes.gpus[:] = (2, 2)

    assert why_not(nodes, want(2)) == "2 GPUs wanted, 1 is free"
    assert why_not(state([1, 1, 2], used=[0, 0, 2]), want(2)) == (
        "2 GPUs are free but on 2 nodes; no node has 2 free"
    )


def test_what_fits_is_said_to_fit() -> None:
    nodes = state([2], milli=[[1000, 1000]])

    assert {why_not(nodes, each) for each in (want(1), want(0, 10), want(0, cpus=1.0))} == {
        "it fits now"
    }
    assert nodes.free.tolist() == [2]
    assert np.isinf(nodes.cpus_free).all()


def test_every_placement_is_described_in_a_line() -> None:
    assert set(DESCRIPTIONS) == set(PLACEMENTS.values())
    assert all(0 < len(text) < 90 for text in DESCRIPTIONS.values())
