"""What holds for every kind of placement, whatever came before."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.placement.cluster_states import arrays, chosen, guide, state, typical, want
from steward.decide.placement import (
    Demand,
    NodeOccupancy,
    Placement,
    TieBreak,
    give,
    locality,
    take,
)

SIZE = 4
JOBS = st.one_of(
    st.builds(want, st.integers(1, 10), cpus=st.sampled_from([0.0, 4.0, 12.0])),
    st.builds(want, st.just(0), st.integers(1, 999), cpus=st.sampled_from([0.0, 3.0])),
    st.builds(want, st.just(0), cpus=st.sampled_from([1.0, 20.0])),
)
STEPS = st.lists(st.tuples(JOBS, st.booleans()), min_size=1, max_size=25)
EXPECTED = typical((2.0, 1, 500, 0.4), (4.0, 1, 1000, 0.3), (8.0, 4, 1000, 0.3))


def cluster(mig: int = 0) -> NodeOccupancy:
    """Two racks under one switch and one under another; the last node is small."""
    gpus = [SIZE] * 5 + [2]
    return state(
        gpus,
        milli=[[1000] * n + [0] * (SIZE - n) for n in gpus],
        cpus=16.0,
        racks=[0, 0, 1, 1, 2, 2],
        switches=[0, 0, 0, 0, 1, 1],
        mig=mig,
        sizes=6,
    )


def consistent(nodes: NodeOccupancy) -> bool:
    """No GPU has less than nothing or more than itself, and the counts say the same."""
    there = np.arange(SIZE) < nodes.gpus[:, None]
    return bool(
        ((nodes.milli == 1000).sum(axis=1) == nodes.free).all()
        and (nodes.milli[~there] == 0).all()
        and ((nodes.milli >= -1) & (nodes.milli <= 1000)).all()
        and (nodes.cpus_free > -1e-6).all()
    )


def ordered(nodes: NodeOccupancy) -> list[object]:
    """Return the state with each node's GPUs in order: which is which makes no difference."""
    return [np.sort(nodes.milli, axis=1).tolist(), nodes.free.tolist(), nodes.sizes.tolist()]


@given(steps=STEPS, kind=st.sampled_from(list(Placement)), mig=st.sampled_from([0, 7]))
@settings(max_examples=60)
def test_no_gpu_is_given_twice_and_giving_all_back_restores_the_state(
    steps: list[tuple[Demand, bool]], kind: Placement, mig: int
) -> None:
    nodes = cluster(mig)
    begin, held = ordered(nodes), []
    look = guide(EXPECTED, ties=TieBreak.LEAST_FREE_GPUS)

    for i, (job, leave) in enumerate(steps):
        look.draw[0] = (i * 0.618) % 1.0
        choice = chosen(kind, nodes, job, look)
        assert sum(max(gpus, 0) for _, gpus in choice) == (job.gpus if choice else 0)
        before = ordered(nodes)
        if choice:
            take(nodes, job, *arrays(choice))
            assert consistent(nodes)
            held.append((job, choice))
            give(nodes, job, *arrays(choice))
            assert ordered(nodes) == before
            take(nodes, job, *arrays(choice))
        if leave and held:
            gone, where = held.pop(0)
            give(nodes, gone, *arrays(where))
            assert consistent(nodes)
    for job, choice in held:
        give(nodes, job, *arrays(choice))

    assert ordered(nodes) == begin
    assert np.allclose(nodes.cpus_free, 16.0)


FREE = st.lists(st.integers(0, SIZE), min_size=6, max_size=6)


@given(used=FREE, gpus=st.integers(1, 24))
@settings(max_examples=100)
def test_packed_gangs_use_no_more_nodes_than_they_must(used: list[int], gpus: int) -> None:
    nodes = state([SIZE] * 6, used=used)

    choice = chosen(Placement.PACKED, nodes, want(gpus))

    whole = used.count(0)
    rest_fits = gpus % SIZE == 0 or any(
        SIZE - held >= gpus % SIZE for held in sorted(used)[gpus // SIZE :]
    )
    assert bool(choice) == (whole >= gpus // SIZE and rest_fits)
    assert len(choice) in {0, -(-gpus // SIZE)}


@given(used=FREE, gpus=st.integers(1, 24))
@settings(max_examples=100)
def test_topology_finds_the_smallest_domain_there_is(used: list[int], gpus: int) -> None:
    racks, switches = [0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]
    nodes = state([SIZE] * 6, used=used, racks=racks, switches=switches)

    choice = chosen(Placement.TOPOLOGY, nodes, want(gpus))

    free = nodes.free
    best = next(
        (
            distance
            for distance, of in enumerate((range(6), racks, switches, [0] * 6))
            if any(free[np.array(of) == code].sum() >= gpus for code in set(of))
        ),
        None,
    )
    if best is None:
        assert choice == []
    else:
        assert locality(nodes, *arrays(choice)[::2]) <= best
        assert sum(each for _, each in choice) == gpus


@given(
    used=FREE, gpus=st.integers(1, 24), kind=st.sampled_from([Placement.COUNT, Placement.SPREAD])
)
@settings(max_examples=60)
def test_counting_and_spreading_fail_only_when_too_few_are_free(
    used: list[int], gpus: int, kind: Placement
) -> None:
    nodes = state([SIZE] * 6, used=used)

    assert bool(chosen(kind, nodes, want(gpus))) == (nodes.free.sum() >= gpus)
