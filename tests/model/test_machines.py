"""Machines as columns: which of them are one pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steward.model.machines import machines_of

FOUR = machines_of(16, gpus_per_node=4)


def test_equal_nodes_are_one_pool() -> None:
    pools = FOUR.by_pool()

    assert pools.type.tolist() == [0, 0, 0, 0]
    assert pools.types == FOUR.types


@pytest.mark.parametrize(
    "columns",
    [
        {"type": np.array([1, 0, 1, 0]), "types": ("old", "new")},
        {"cluster": np.array([1, 0, 1, 0]), "clusters": ("here", "there")},
        {"spot": np.array([True, False, True, False])},
        {"on_demand": np.array([True, False, True, False])},
    ],
)
def test_type_cluster_and_terms_part_nodes_into_pools(columns: dict[str, Any]) -> None:
    machines = replace(FOUR, **columns)

    pools = machines.by_pool()

    assert pools.type.tolist() == [1, 0, 1, 0]
    assert pools.types == tuple(machines.types[machines.type[node]] for node in (1, 0))


def test_every_mix_of_terms_is_a_pool_of_its_own() -> None:
    mixed = replace(
        FOUR, spot=np.array([False, True, False, True]), on_demand=np.array([0, 0, 1, 1], bool)
    )

    assert sorted(mixed.by_pool().type.tolist()) == [0, 1, 2, 3]


def test_racks_prices_and_sizes_do_not_part_nodes() -> None:
    varied = replace(
        FOUR,
        rack=np.arange(4),
        price_per_gpu_h=np.array([1.0, 2.0, 3.0, 4.0]),
        gpus=np.array([1, 2, 4, 8]),
    )

    assert varied.by_pool().type.tolist() == [0, 0, 0, 0]


def test_prices_and_boot_times_part_only_what_is_rented() -> None:
    terms = {"price_per_gpu_h": np.array([1.0, 1, 2, 2]), "boot_s": np.array([0.0, 60, 0, 60])}

    rented = replace(FOUR, on_demand=np.ones(4, bool), **terms).by_pool()
    own = replace(FOUR, **terms).by_pool()

    assert len(rented.types) == 4
    assert len(own.types) == 1
