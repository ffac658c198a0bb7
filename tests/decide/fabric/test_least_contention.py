from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fabric_scenes import cluster, heavy, job_on, light, load_of
from steward.decide.fabric.candidates import candidates, ring_order
from steward.decide.fabric.explain_slowdown import LinkPart, explain_slowdown, sentence_of
from steward.decide.fabric.least_contention import LeastContention, fragmented_gpus
from steward.decide.fabric.moves import MovableJob, NetworkMoves
from steward.model.fabric.contention import Contention
from steward.model.fabric.placed_job import PlacedJob, TrafficProfile, contention_of, entries_of

PLACE = cluster()


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10_000), gpus=st.sampled_from([1, 3, 8, 12, 16, 24, 32, 64, 100]))
def test_candidates_hold_what_is_asked_for_and_take_nothing_that_is_not_free(
    seed: int, gpus: int
) -> None:
    free = np.random.default_rng(seed).integers(0, 9, len(PLACE))

    for each in candidates(PLACE, free, gpus):
        assert sum(each.gpus) == gpus
        assert len(set(each.nodes)) == len(each.nodes)
        assert all(taken <= free[node] for node, taken in zip(each.nodes, each.gpus, strict=True))
        assert all(taken > 0 for taken in each.gpus)


def test_a_job_that_fits_a_node_is_never_split() -> None:
    free = np.full(len(PLACE), 4)

    assert candidates(PLACE, free, 8) == ()
    assert all(len(each.nodes) == 1 for each in candidates(PLACE, free, 4))


def test_wide_jobs_get_whole_nodes_because_the_smallest_part_slows_the_ring() -> None:
    free = np.array([8, 4, 4, 8] * 4)

    assert {gpus for each in candidates(PLACE, free, 32) for gpus in each.gpus} == {8}
    assert candidates(PLACE, free, 72) == ()


def test_a_last_part_goes_to_a_node_of_its_own() -> None:
    free = np.array([8, 4, 4, 8] * 4)

    found = candidates(PLACE, free, 20)

    assert found
    assert all(sorted(each.gpus) == [4, 8, 8] for each in found)


def test_lent_gpus_are_offered_only_where_nothing_else_fits() -> None:
    free = np.zeros(len(PLACE), np.int64)
    lendable = np.full(len(PLACE), 8)

    found = candidates(PLACE, free, 16, lendable=lendable)

    assert found
    assert all(each.lent == 16 and each.kind.endswith("lent") for each in found)
    assert all(each.lent == 0 for each in candidates(PLACE, lendable, 16, lendable=lendable))


def test_nothing_is_asked_for_so_nothing_is_offered() -> None:
    assert candidates(PLACE, PLACE.gpus, 0) == ()


def test_a_ring_leaves_each_leaf_once() -> None:
    order = ring_order(PLACE, np.array([12, 0, 5, 1, 4]))

    assert order.tolist() == [0, 1, 4, 5, 12]


def test_a_job_goes_where_nobody_sends() -> None:
    busy = job_on("busy", (0, 4, 1, 5))  # half of two leaves, over the spines
    load = load_of(PLACE, busy)

    best = LeastContention().rank(load, "new", heavy(), 16)[0]

    assert len({PLACE.leaf[node] for node in best.candidate.nodes}) == 1
    assert best.mean_slowdown == pytest.approx(1.0)
    assert best.worst_hit[0] == "busy"


def test_without_any_job_the_tightest_place_wins_and_the_ideal_is_reached() -> None:
    ranked = LeastContention().rank(load_of(PLACE), "new", light(), 32)

    assert ranked[0].gained_gpus == pytest.approx(ranked[0].ideal_gpus)
    assert ranked[0].interval[0] <= ranked[0].mean_slowdown <= ranked[0].interval[1]
    assert ranked[0].worst_hit == ("", 1.0)


def test_what_does_not_fit_has_no_candidates() -> None:
    assert LeastContention().rank(load_of(PLACE), "new", light(), 1000) == ()


def test_deciding_is_pure() -> None:
    load = load_of(PLACE, job_on("a", (0, 4)), job_on("b", (8, 12)))
    before = load.free.copy()

    first = LeastContention().rank(load, "new", heavy(), 32)
    second = LeastContention().rank(load, "new", heavy(), 32)

    assert [each.candidate for each in first] == [each.candidate for each in second]
    assert (load.free == before).all()


def test_another_model_of_slowdowns_is_asked_for_every_scene_at_once() -> None:
    calls: list[int] = []

    def none_is_slowed(scenes: Sequence[Contention]) -> list[NDArray[np.float64]]:
        calls.append(len(scenes))
        return [np.ones(len(each.compute_s)) for each in scenes]

    LeastContention(model=none_is_slowed).rank(
        load_of(PLACE, job_on("a", (0, 4))), "n", heavy(), 16
    )

    assert len(calls) == 1
    assert calls[0] > 1


def test_many_flows_need_fewer_draws() -> None:
    wide = cluster(64, 8)
    jobs = [job_on(f"j{i}", tuple(range(64 * i, 64 * i + 64))) for i in range(8)]

    ranked = LeastContention().rank(load_of(wide, *jobs[:-1]), "new", heavy(), 256)

    assert ranked
    assert all(1 <= len(each.slowdown) <= 4 for each in ranked)


def test_fragments_are_counted_by_node_and_by_leaf() -> None:
    load = replace(load_of(PLACE), sizes=(8, 32), weights=(0.5, 0.5))
    free = PLACE.gpus.copy()

    assert fragmented_gpus(free, load) == 0.0
    free[0] = 4
    assert fragmented_gpus(free, load) == pytest.approx(0.5 * 4 + 0.5 * 28)


def test_the_sentence_names_links_and_neighbours_and_the_next_best_place() -> None:
    jobs = [job_on("812", (0, 4)), job_on("799", (1, 5)), job_on("new", (2, 6))]
    place = cluster(over=8.0)
    entries = [entries_of(place, each, 0) for each in jobs]
    scene = contention_of(place, jobs, entries)
    policy = LeastContention()
    load = load_of(place, *jobs[:2])
    ranked = policy.rank(load, "new", heavy(), 16)
    worst = next(each for each in reversed(ranked) if len(each.candidate.nodes) == 2)

    parts = explain_slowdown(scene, 2, [each.job for each in jobs])
    text = sentence_of([worst, ranked[0]], parts, place)

    assert parts
    assert parts[0].part > 0.0
    assert set(parts[0].neighbours) <= {"812", "799"}
    assert "of which" in text
    assert "shared with" in text
    assert "; " in text


def test_a_job_alone_has_nothing_to_explain() -> None:
    job = job_on("a", (0, 4, 8))
    scene = contention_of(PLACE, [job], [entries_of(PLACE, job, 0)])

    assert explain_slowdown(scene, 0, ["a"]) == ()
    ranked = LeastContention().rank(load_of(PLACE), "a", heavy(), 24)
    assert "3 nodes n0…n2" in sentence_of(ranked[:1], (), PLACE)


def test_a_part_without_neighbours_and_one_with_a_single_one_are_said_plainly() -> None:
    ranked = LeastContention().rank(load_of(PLACE), "a", heavy(), 8)
    parts = [
        LinkPart(link=0, part=0.2, neighbours=()),
        LinkPart(link=1, part=0.1, neighbours=("812",)),
    ]

    text = sentence_of(ranked[:1], parts, PLACE)

    assert "0.20 at n0 → leaf0, of which 0.10 at leaf0 → n0, shared with 812" in text


def test_what_computing_hides_is_no_part_of_a_slowdown() -> None:
    place = cluster(2, 8, over=4.0, spines=1)
    hidden = TrafficProfile(compute_s=10.0, node_bytes=20e9, overlap_share=1.0)
    jobs = [job_on("a", (0, 8), hidden), *(job_on(f"b{i}", (i, 8 + i)) for i in range(1, 7))]
    scene = contention_of(place, jobs, [entries_of(place, each, 0) for each in jobs])

    assert explain_slowdown(scene, 0, [each.job for each in jobs]) == ()


def test_of_many_leaves_the_tightest_and_the_roomiest_are_looked_at() -> None:
    place = cluster(8, 4)
    free = place.gpus.copy()
    free[[0, 4, 5]] = 0

    found = [each for each in candidates(place, free, 8 * 2) if each.kind == "one leaf"]

    assert 1 <= len(found) <= 4


def known(slowdown: float, left_s: float = 1e5, move_s: float = 120.0) -> MovableJob:
    return MovableJob(slowdown=slowdown, left_s=left_s, move_s=move_s)


SPLIT = (job_on("a", (0, 4, 8, 12)), job_on("b", (1, 5, 9, 13)))


def test_a_job_that_crosses_leaves_moves_into_one_that_is_free() -> None:
    load = load_of(cluster(5, 4), *SPLIT)

    move = NetworkMoves().best(load, {"a": known(2.0), "b": known(2.0)})

    assert move is not None
    assert {load.place.leaf[node] for node in move.target.nodes} == {4}
    assert move.gain_gpu_s > 0.0
    assert move.cost_gpu_s > 0.0
    assert "GPU-hours gained" in move.sentence


@pytest.mark.parametrize(
    "facts", [known(2.0, left_s=60.0), known(1.05), known(2.0, move_s=1e6), known(2.0, left_s=0.0)]
)
def test_a_move_that_does_not_pay_is_not_made(facts: MovableJob) -> None:
    load = load_of(cluster(5, 4), *SPLIT)

    assert NetworkMoves().best(load, {"a": facts}) is None


def test_jobs_of_which_nothing_is_known_or_that_have_no_better_place_stay() -> None:
    load = load_of(cluster(5, 4), *SPLIT)

    assert NetworkMoves().best(load, {}) is None
    full = load_of(cluster(1, 4), job_on("a", (0, 1)), job_on("b", (2, 3)))
    assert NetworkMoves().best(full, {"a": known(2.0)}) is None
    one = PlacedJob(job="one", profile=heavy(), nodes=(0,), gpus=(8,))
    assert NetworkMoves().best(load_of(PLACE, one), {"one": known(2.0)}) is None
