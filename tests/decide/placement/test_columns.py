"""From traces and machines to arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steward.decide.placement.columns import demands_of, free_nodes, shapes_of, typical_of
from steward.decide.placement.score_cache import empty_score_cache
from steward.model.machines import Machines, machines_of
from steward.model.trace import Trace, trace_of


def two_types() -> Machines:
    plain = machines_of(12, gpus_per_node=8)
    return replace(plain, type=np.array([0, 1]), types=("T4", "V100"))


def jobs(*gpus: float, **columns: object) -> Trace:
    n = len(gpus)
    return trace_of("t", submit_s=np.arange(n), duration_s=np.ones(n), gpus=gpus, **columns)


def test_empty_nodes_have_all_gpus_free_and_unknown_limits_are_none() -> None:
    nodes = free_nodes(two_types(), sizes=True)

    assert nodes.free.tolist() == [8, 4]
    assert nodes.milli.tolist() == [[1000] * 8, [1000] * 4 + [0] * 4]
    assert np.isinf(nodes.cpus_free).all()
    assert np.isinf(nodes.memory_free).all()
    assert nodes.sizes.shape[1] > 1


def test_the_state_is_a_copy_and_may_leave_fractions_out() -> None:
    machines = two_types()
    nodes = free_nodes(machines, fractions=False)
    nodes.free[0] = 0

    assert machines.gpus.tolist() == [8, 4]
    assert (nodes.milli.shape, nodes.sizes.shape) == ((2, 0), (2, 0))


def test_wants_are_whole_gpus_or_a_fraction() -> None:
    wants = demands_of(jobs(0.25, 1.0, 4.0, 1.5, 0.0, cpus=[1.0, np.nan, 2, 3, 4]), two_types())

    assert wants.gpus.tolist() == [0, 1, 4, 2, 0]
    assert wants.milli.tolist() == [250, 0, 0, 0, 0]
    assert wants.cpus.tolist() == [1.0, 0.0, 2.0, 3.0, 4.0]
    assert wants.memory.tolist() == [0.0] * 5


def test_types_become_bits() -> None:
    trace = jobs(1, 1, 1, 1, gpu_type=["", "V100", "T4|V100", "A10"])

    assert demands_of(trace, two_types()).type_mask.tolist() == [-1, 0b10, 0b11, 0]


def test_typical_jobs_are_the_most_frequent_shapes() -> None:
    wants = demands_of(jobs(*[1.0] * 60, *[0.5] * 30, *[0.0] * 8, *[8.0] * 2), two_types())

    expected = typical_of(wants)

    assert expected.gpus.tolist() == [1, 1, 0]
    assert expected.milli.tolist() == [1000, 500, 0]
    assert expected.share == pytest.approx(np.array([60, 30, 8]) / 98)
    assert len(typical_of(wants, covered_share=1.0).share) == 4


def test_shapes_do_not_depend_on_memory() -> None:
    trace = jobs(1.0, 1.0, 2.0, memory_bytes=[1.0, 2.0, 1.0])

    shape, first = shapes_of(demands_of(trace, two_types()))

    assert shape.tolist() == [0, 0, 1]
    assert first.tolist() == [0, 2]


def test_no_jobs_have_no_typical_ones() -> None:
    assert len(typical_of(demands_of(jobs(), two_types())).share) == 0


def test_memory_begins_with_nothing_seen() -> None:
    memory = empty_score_cache(2, 3)

    assert (memory.seen.shape, memory.version.shape) == ((2, 3), (3,))
    assert not memory.seen.any()
